"""References to a user's own code, ``package.module:Name``: imported only where the caller trusts it."""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from matrixrl.errors import InvalidInput, UntrustedCode

__all__ = ["is_reference", "load_reference", "reference_of", "refuse_untrusted"]

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_reference(value: object) -> bool:
    """Say whether a value has the form ``package.module:Name``.

    >>> is_reference("package.module:Name"), is_reference("river-swim"), is_reference("gym:CartPole-v1")
    (True, False, False)
    """
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None and not value.startswith("gym:")


def refuse_untrusted(what: str, value: str, *, trust_code: bool) -> None:
    """Raise unless the caller allowed text to import code.

    Raises:
        UntrustedCode: `trust_code` is False.
    """
    if not trust_code:
        raise UntrustedCode(
            f"{what} {value!r} would import and run code, which is not allowed by default. Pass --trust-code "
            "(trust_code=True in Python) if you trust its source."
        )


def load_reference(what: str, value: str, *, trust_code: bool) -> Any:
    """Import the object that a reference names.

    Args:
        what: What it is used as, for messages.
        value: ``package.module:Name``; the name may have dots.
        trust_code: Whether importing code because a text says so is allowed.

    Raises:
        UntrustedCode: It is not allowed.
        InvalidInput: The module or the name does not exist, or its import raised an error, which is the cause.
    """
    refuse_untrusted(what, value, trust_code=trust_code)
    module, _, path = value.partition(":")
    try:
        found: Any = import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"{what} must name something that can be imported; got {value!r} ({error}). Check the spelling, and that "
            "the package is installed or on PYTHONPATH."
        ) from error
    except (Exception, SystemExit) as error:  # a user's module may raise anything while it is imported
        raise InvalidInput(
            f"{what} must name something that can be imported; got {value!r} ({type(error).__name__}: {error}). "
            "Correct the module, which failed while it was imported."
        ) from error
    return found


def reference_of(value: object) -> str | None:
    """Return ``package.module:Name`` of a class, a function or the class of an object; None if it has no such name.

    >>> reference_of(is_reference)
    'matrixrl.references:is_reference'
    """
    owner: Any = value if hasattr(value, "__qualname__") else type(value)
    module, name = getattr(owner, "__module__", None), getattr(owner, "__qualname__", "")
    if module in (None, "builtins", "__main__") or "<" in name:
        return None
    return f"{module}:{name}"
