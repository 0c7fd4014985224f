"""Check of the optional packages that the lab needs."""

from __future__ import annotations

from importlib.util import find_spec

from matrixrl.errors import MissingExtra

__all__ = ["require_lab"]

_NEEDED = ("pydantic", "yaml", "loky", "plotly", "matplotlib", "fastapi", "jinja2", "uvicorn")


def require_lab() -> None:
    """Raise an error that names the extra to install if an optional package is missing."""
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"the lab needs {', '.join(missing)}; pip install 'matrixrl[lab]'")
