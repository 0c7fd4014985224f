"""What is imported when it is first used: names of our packages, and optional packages, named by their extra."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from matrixrl.errors import MissingExtra

__all__ = ["later_names", "missing_packages", "naming_the_extra", "require_packages"]


def later_names(
    package: str, modules: Mapping[str, str], importing: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, which imports the module of a name when it is first used.

    Args:
        package: Name of the package.
        modules: Modules by the names that they define.
        importing: Function that returns the context of an import, such as one that names a missing extra.
    """

    def find(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        with importing():
            return getattr(import_module(f"{package}.{modules[name]}"), name)

    return find


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
