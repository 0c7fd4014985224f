"""Optional packages: which of them are missing, and one error that names the extra to install."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from matrixrl.errors import MissingExtra

__all__ = ["missing_packages", "naming_the_extra", "require_packages"]


def missing_packages(names: Iterable[str]) -> list[str]:
    """Return the packages that are not installed.

    >>> missing_packages(["numpy", "a_package_that_nobody_wrote"])
    ['a_package_that_nobody_wrote']
    """
    return [name for name in names if not _is_installed(name)]


def require_packages(names: Iterable[str], *, extra: str, purpose: str) -> None:
    """Raise an error that names the extra to install if a package is missing.

    Args:
        names: Packages, by the names that are imported.
        extra: Extra of this distribution that installs them.
        purpose: What needs them, such as "the lab".

    Raises:
        MissingExtra: A package is not installed.
    """
    if missing := missing_packages(names):
        raise _missing(", ".join(missing), extra, purpose)


@contextmanager
def naming_the_extra(extra: str, purpose: str) -> Iterator[None]:
    """Raise `MissingExtra` if a package of others cannot be imported in the block."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0].startswith("matrixrl"):
            raise
        raise _missing(error.name, extra, purpose) from error


def _missing(packages: str, extra: str, purpose: str) -> MissingExtra:
    return MissingExtra(f"{purpose} needs {packages}; pip install 'matrixrl[{extra}]'")


def _is_installed(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # an import hook may say so at once
        return False
