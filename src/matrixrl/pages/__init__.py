"""HTML pages from Jinja2 templates with automatic escaping."""

from __future__ import annotations

import re
from functools import cached_property
from importlib import resources
from typing import TYPE_CHECKING, Any

from matrixrl.colours import LOOKS
from matrixrl.extras import naming_the_extra

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["PageFolder"]

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

    def served(self, name: str, *, folder: str, **values: Any) -> dict[str, tuple[str, str]]:
        """Return media type and text of a page over ``served.html.j2`` and of its files, by their addresses.

        Plotly adds inline style sheets for maps, which the content policy forbids, unless elements with their ids
        exist. The page has no maps, so it reserves these ids.

        Args:
            name: Name of the template, the style and the script.
            folder: Folder of the files below the address of the page; empty, or with a slash at its end.
            values: Plain data for the template.
        """
        plotly = self.plotly_script()
        ids = sorted(set(_SHEET_ID.findall(plotly)))
        return {
            "/": ("text/html", self.render(f"{name}.html.j2", reserved_ids=ids, files=folder, **values)),
            f"/{folder}page.css": ("text/css", self.stylesheet("panels", name)),
            f"/{folder}page.js": ("text/javascript", self.script("page", "charts", name)),
            f"/{folder}plotly.js": ("text/javascript", plotly),
        }

    def stylesheet(self, *names: str) -> str:
        """Return the style of a page: the shared rules, then those of the files."""
        return "".join([self.render("shared.css.j2"), *(self.read(f"{name}.css") for name in names)])

    def script(self, *names: str) -> str:
        """Return the scripts of the files as one."""
        return "\n".join(self.read(f"{name}.js") for name in names)

    def read(self, name: str) -> str:
        """Return the text of a script or style, without rendering it."""
        own = resources.files(self._package) / name
        return (own if own.is_file() else resources.files(_SHARED) / name).read_text(encoding="utf-8")

    def plotly_script(self) -> str:
        """Return the JavaScript of Plotly, with the line ends that a browser sees."""
        with naming_the_extra(self._extra, "a chart"):
            from plotly.offline import get_plotlyjs  # slow to import, and optional
        return str(get_plotlyjs()).replace("\r\n", "\n")

    @cached_property
    def _environment(self) -> Environment:
        with naming_the_extra(self._extra, "an HTML page"):
            from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
        environment = Environment(
            loader=ChoiceLoader([PackageLoader(self._package, "."), PackageLoader(_SHARED, ".")]),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        environment.globals["LOOKS"] = LOOKS
        environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
        return environment
