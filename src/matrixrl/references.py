"""References to a user's own code, ``package.module:Name``: imported only where the caller trusts it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
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
]

_DEEPEST = 6  # objects inside objects that are described
_SCRIPTS = ("__main__", "__mp_main__")  # modules of code that was run, not imported
_NOWHERE = (None, "builtins", *_SCRIPTS)
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
def safe_path(**more: str) -> Iterator[None]:
    """Start Python processes in the block without the current directory on their import path.

    ``python -m`` and ``python -c``, by which worker processes are started, put the current directory first, so a file
    ``signal.py`` there would run. Workers still receive the import path of this process once they run.
    `more` are other variables of their environment.

    >>> with safe_path():
    ...     os.environ["PYTHONSAFEPATH"]
    '1'
    """
    with _starting:
        changed = {**SAFE_PATH, **more}
        before = {name: os.environ[name] for name in changed if name in os.environ}
        os.environ.update(changed)
        try:
            yield
        finally:
            for name in changed:
                del os.environ[name]
            os.environ.update(before)


def refuse_untrusted(what: str, value: str, *, trust_code: bool) -> None:
    """Raise `UntrustedCode` unless the caller allowed text to import code."""
    if not trust_code:
        raise UntrustedCode(
            f"{what} {value!r} would import and run code, which is not allowed by default. Pass --trust-code "
            "(trust_code=True in Python) if you trust its source."
        )


def load_reference(what: str, value: str, *, trust_code: bool) -> Any:
    """Import the object that a reference names, which is used as `what`; the name may have dots.

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
    except (Exception, SystemExit) as error:  # a user's module may raise anything while it is imported
        raise InvalidInput(
            f"{what} must name something that can be imported; got {value!r} ({type(error).__name__}: {error}). Check "
            "the spelling, that the package is installed or on PYTHONPATH, and that the module imports without errors."
        ) from error
    return found


def code_of(value: object) -> str:
    """Return ``package.module:Name`` of a class, a function or the class of an object.

    Code of a script has the name of its file, as another script that imports it knows it.

    >>> code_of(3), code_of(is_reference)
    ('builtins:int', 'matrixrl.references:is_reference')
    """
    owner: Any = value if hasattr(value, "__qualname__") else type(value)
    module = getattr(owner, "__module__", None)
    if module in _SCRIPTS:
        module = Path(getattr(sys.modules["__main__"], "__file__", None) or "__main__").stem
    return f"{module}:{owner.__qualname__}"


def reference_of(value: object) -> str | None:
    """Return ``package.module:Name`` of a class, a function or the class of an object; None if it cannot be imported.

    >>> reference_of(is_reference)
    'matrixrl.references:is_reference'
    """
    owner: Any = value if hasattr(value, "__qualname__") else type(value)
    code = code_of(owner)
    return code if is_reference(code) and getattr(owner, "__module__", None) not in _NOWHERE else None


def describe(value: object) -> Any:
    """Return plain data that tell an object from others: its code and a digest of its attributes.

    Equal objects have equal descriptions in every process. A function is described by its code alone, and what is plain
    data by itself.

    >>> describe(0.5), describe(np.zeros(3))
    (0.5, 'numpy:ndarray 117048dd978f8fc3')
    """
    if value is None or isinstance(value, (bool, int, float, str)) or hasattr(value, "__qualname__"):
        return _plain(value, 0)
    text = json.dumps(_plain(value, 0), sort_keys=True)
    return f"{code_of(value)} {_digest(text.encode())}"


def _plain(value: Any, depth: int) -> Any:
    """Return JSON data that say what a value is made of."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value if not isinstance(value, float) or np.isfinite(value) else repr(value)
    if depth > _DEEPEST or isinstance(value, type) or hasattr(value, "__qualname__"):
        return code_of(value)
    if isinstance(value, np.ndarray):
        numbers = "" if value.dtype.hasobject else _digest(np.ascontiguousarray(value).tobytes())
        return f"array {value.dtype} {value.shape} {numbers}"
    if isinstance(value, np.generic):
        return _plain(value.item(), depth)
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, depth + 1) for item in value), key=str)
    if isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    parameters = getattr(value, "get_params", None)  # of scikit-learn
    if callable(parameters):
        return [code_of(value), _plain(parameters(), depth)]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    attributes = {name: getattr(value, name) for name in slots if isinstance(name, str) and hasattr(value, name)}
    return [code_of(value), _plain({**attributes, **getattr(value, "__dict__", {})}, depth)]


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]
