"""HTML pages from Jinja2 templates with automatic escaping; the templates, styles and scripts are in this folder."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from matrixrl.errors import MissingExtra
from matrixrl.lab.palette import DARK_PAGE, LIGHT_PAGE

if TYPE_CHECKING:
    from jinja2 import Environment

__all__ = ["plotly_script", "read_file", "render", "stylesheet"]


def render(template: str, **values: Any) -> str:
    """Render a template of this folder; all values are escaped unless the template marks them as safe.

    Args:
        template: Name of the template file.
        values: Plain data of the template; a name that the template uses must not be missing.

    Raises:
        MissingExtra: jinja2 is not installed.
    """
    return _environment().get_template(template).render(values)


def stylesheet(page: str) -> str:
    """Return the style of a page: the shared rules with the colours of the palette, then those of `page`.css."""
    return render("shared.css.j2", light=LIGHT_PAGE, dark=DARK_PAGE) + read_file(f"{page}.css")


def read_file(name: str) -> str:
    """Return the text of a script or style of this folder, without rendering it."""
    return (resources.files(__name__) / name).read_text(encoding="utf-8")


def plotly_script() -> str:
    """Return the JavaScript of Plotly, with the line ends that a browser sees.

    Raises:
        MissingExtra: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs  # slow to import, and optional
    except ImportError as error:
        raise MissingExtra("charts need plotly, which is not installed; pip install 'matrixrl[lab]'") from error
    return str(get_plotlyjs()).replace("\r\n", "\n")


@cache
def _environment() -> Environment:
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtra("HTML pages need jinja2, which is not installed; pip install 'matrixrl[lab]'") from error
    environment = Environment(
        loader=PackageLoader(__name__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment
