"""References to a user's own code, ``package.module:Name``: imported only where the caller trusts it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from matrixrl.errors import InvalidInput, UntrustedCode

__all__ = [
    "SAFE_PATH",
    "code_of",
    "describe",
    "is_reference",
    "load_reference",
    "reference_of",
    "refuse_untrusted",
    "safe_path",
    "same_code",
    "same_description",
    "show_description",
]

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


def is_reference(value: object) -> bool:
    """Say whether a value has the form ``package.module:Name``.

    >>> is_reference("package.module:Name"), is_reference("river-swim"), is_reference("gym:CartPole-v1")
    (True, False, False)
    """
    return isinstance(value, str) and _REFERENCE.fullmatch(value) is not None and not value.startswith("gym:")


SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Environment of interpreters that are started: they do not import modules from the current directory."""
_starting = threading.Lock()


@contextmanager
def safe_path() -> Iterator[None]:
    """Start Python processes in the block without the current directory on their import path.

    ``python -m`` and ``python -c``, by which worker processes are started, put the current directory first, so a file
    ``signal.py`` there would run. Workers still receive the import path of this process once they run.

    >>> with safe_path():
    ...     os.environ["PYTHONSAFEPATH"]
    '1'
    """
    with _starting:
        before = {name: os.environ.get(name) for name in SAFE_PATH}
        os.environ.update(SAFE_PATH)
        try:
            yield
        finally:
            for name, value in before.items():
                if value is None:
                    del os.environ[name]
                else:
                    os.environ[name] = value


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


def code_of(value: object) -> str:
    """Return ``package.module:Name`` of a class, a function or the class of an object, also of code in a script.

    >>> code_of(3), code_of(is_reference)
    ('builtins:int', 'matrixrl.references:is_reference')
    """
    owner: Any = value if hasattr(value, "__qualname__") else type(value)
    return f"{getattr(owner, '__module__', None)}:{owner.__qualname__}"


def same_code(one: object, other: object) -> bool:
    """Say whether two results of `code_of` name the same code; a script may import what another script defined.

    >>> same_code("package.module:Name", "__main__:Name"), same_code("package.module:Name", "package.other:Name")
    (True, False)
    """
    if one == other:
        return True
    if not isinstance(one, str) or not isinstance(other, str):
        return False
    (module, _, name), (other_module, _, other_name) = one.partition(":"), other.partition(":")
    return name == other_name and "__main__" in (module, other_module)


_DEEPEST = 6  # objects inside objects that are described
_LONGEST = 2000  # characters of a description, after which its digest stands for it


def describe(value: object) -> Any:
    """Return plain data that tell an object from others of its class: its code and its attributes.

    Equal objects have equal descriptions in every process. A function is described by its code alone.

    >>> describe(0.5), describe(np.zeros(3))
    (0.5, 'array float64 (3,) 9d908ecfb6b256de')
    """
    found = _described(value, 0)
    text = json.dumps(found, sort_keys=True)
    return json.loads(text) if len(text) <= _LONGEST else f"{code_of(value)} {_digest(text.encode())}"


def same_description(one: Any, other: Any) -> bool:
    """Say whether two descriptions are of equal objects, by `same_code`."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same_description(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(same_description(*pair) for pair in zip(one, other, strict=True))
    return (one == other and isinstance(one, bool) == isinstance(other, bool)) or same_code(one, other)


def show_description(described: Any) -> str:
    """Return a description as text.

    >>> show_description({"code": "package.module:Name", "attributes": {"beta": 2}})
    'package.module:Name(beta=2)'
    """
    if not isinstance(described, dict) or "code" not in described:
        return repr(described) if isinstance(described, (dict, list)) else str(described)
    made = described.get("attributes") or described.get("parameters") or {}
    inside = ", ".join(f"{name}={show_description(value)}" for name, value in made.items())
    return f"{described['code']}({inside})"


def _described(value: Any, depth: int) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if not isinstance(value, float) or np.isfinite(value) else repr(value)
    if depth > _DEEPEST:
        return code_of(value)
    if isinstance(value, np.ndarray):
        kind = f"array {value.dtype} {value.shape}"
        return kind if value.dtype.hasobject else f"{kind} {_digest(np.ascontiguousarray(value).tobytes())}"
    if isinstance(value, np.generic):
        return _described(value.item(), depth)
    if isinstance(value, (list, tuple)):
        return [_described(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_described(item, depth + 1) for item in value), key=str)
    if isinstance(value, Mapping):
        return {str(key): _described(item, depth + 1) for key, item in value.items()}
    if isinstance(value, type) or hasattr(value, "__qualname__"):
        return code_of(value)
    return {"code": code_of(value), **_described(_attributes(value), depth)}


def _attributes(value: Any) -> dict[str, Any]:
    """Return what an object was made with: the parameters of a scikit-learn object, else its attributes."""
    parameters = getattr(value, "get_params", None)
    if callable(parameters):
        return {"parameters": parameters()}
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    slots = {name: getattr(value, name) for name in names if isinstance(name, str) and hasattr(value, name)}
    return {"attributes": {**slots, **getattr(value, "__dict__", {})}}


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
