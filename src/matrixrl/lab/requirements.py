"""Check of the optional packages that the lab needs."""

from __future__ import annotations

from importlib.util import find_spec

from matrixrl.errors import MissingExtra

__all__ = ["require_lab"]

_NEEDED = ("pydantic", "yaml", "loky", "plotly", "matplotlib", "fastapi", "jinja2", "uvicorn")


def require_lab(*names: str) -> None:
    """Raise an error that names the extra to install if an optional package is missing.

    Args:
        names: Packages to look for; all that the lab needs by default.
    """
    missing = [name for name in names or _NEEDED if not _is_there(name)]
    if missing:
        raise MissingExtra(f"the lab needs {', '.join(missing)}; pip install 'matrixrl[lab]'")


def _is_there(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # an import hook may say so at once
        return False
