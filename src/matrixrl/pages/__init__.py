"""HTML pages from Jinja2 templates with automatic escaping, and the colours of pages and charts."""

from __future__ import annotations

import re
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from matrixrl.errors import MissingExtra

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["COLOURS", "DARK_PAGE", "LIGHT_PAGE", "ON_DARK", "PageFolder"]

# The colours of Okabe and Ito, which colour-blind readers can tell apart, without yellow, which is faint on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
ON_DARK = ("#3D9BE0", "#F0803C", "#1FBF94", "#DD94BC", "#E69F00", "#8CCBF2", "#F2F2F2")
"""The same colours on a dark ground."""

LIGHT_PAGE = {
    "ground": "#ffffff",
    "raised": "#f4f5f7",
    "ink": "#1b1f24",
    "soft": "#565d66",
    "line": "#cfd4da",
    "accent": "#005a8f",
    "good": "#0b6b4b",
    "good-ground": "#e1f3ec",
    "warn": "#7a4a00",
    "warn-ground": "#fbeed3",
    "bad": "#9b1c1c",
    "bad-ground": "#fbe6e6",
    "fill": COLOURS[0],
    "fill-bad": COLOURS[1],
}
"""CSS colours of a page on a light ground, by the name of the custom property."""

DARK_PAGE = {
    "ground": "#14171b",
    "raised": "#1f242a",
    "ink": "#e6e9ed",
    "soft": "#a8b0ba",
    "line": "#3b434c",
    "accent": "#7cc0f0",
    "good": "#6fdcb4",
    "good-ground": "#12352a",
    "warn": "#f2c46d",
    "warn-ground": "#3a2c10",
    "bad": "#ff9c9c",
    "bad-ground": "#421b1b",
    "fill": ON_DARK[0],
    "fill-bad": ON_DARK[1],
}
"""The same properties on a dark ground."""

_SHARED = "matrixrl.pages"
_SHEET_ID = re.compile(r'getElementById\("([0-9a-f]{64})"\)')


class PageFolder:
    """Templates, styles and scripts in the folder of a package; what is not there is taken from `matrixrl.pages`.

    The extra installs what the pages need, and is named in error messages.
    """

    def __init__(self, package: str, *, extra: str) -> None:
        self._package, self._extra = package, extra

    def render(self, template: str, **values: Any) -> str:
        """Render a template file with plain data, which are escaped unless the template marks them as safe."""
        return self._environment.get_template(template).render(values)

    def render_served(self, template: str, plotly: str, *, files: str, **values: Any) -> str:
        """Render a template over ``served.html.j2``, whose files are served beside it.

        Plotly adds inline style sheets for maps, which the content policy forbids, unless elements with their ids
        exist. The page has no maps, so it reserves these ids, which are in the script `plotly`.
        """
        return self.render(template, reserved_ids=sorted(set(_SHEET_ID.findall(plotly))), files=files, **values)

    def stylesheet(self, *names: str) -> str:
        """Return the style of a page: the shared rules with the colours of the palette, then those of the files."""
        own = [self.read(f"{name}.css") for name in names]
        return "".join([self.render("shared.css.j2", light=LIGHT_PAGE, dark=DARK_PAGE), *own])

    def script(self, *names: str) -> str:
        """Return the scripts of the files as one."""
        return "\n".join(self.read(f"{name}.js") for name in names)

    def read(self, name: str) -> str:
        """Return the text of a script or style, without rendering it."""
        own = resources.files(self._package) / name
        return (own if own.is_file() else resources.files(_SHARED) / name).read_text(encoding="utf-8")

    def plotly_script(self) -> str:
        """Return the JavaScript of Plotly, with the line ends that a browser sees."""
        try:
            from plotly.offline import get_plotlyjs  # slow to import, and optional
        except ImportError as error:
            raise self._missing("charts need plotly") from error
        return str(get_plotlyjs()).replace("\r\n", "\n")

    @cached_property
    def _environment(self) -> Environment:
        try:
            from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
        except ImportError as error:
            raise self._missing("HTML pages need jinja2") from error
        environment = Environment(
            loader=ChoiceLoader([PackageLoader(self._package, "."), PackageLoader(_SHARED, ".")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
        return environment

    def _missing(self, words: str) -> MissingExtra:
        return MissingExtra(f"{words}, which is not installed; pip install 'matrixrl[{self._extra}]'")
