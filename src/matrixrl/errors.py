"""One family of errors: every failure a user can cause is a `MatrixRLError`."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "InvalidInput",
    "MatrixRLError",
    "MissingExtra",
    "OutputExists",
    "ProtocolError",
    "SpecError",
    "StoreError",
    "UnknownName",
    "UntrustedCode",
]


class MatrixRLError(Exception):
    """The root of every error that this library raises on purpose."""


class InvalidInput(MatrixRLError, ValueError):
    """An argument breaks a stated rule; nothing was changed."""


class UnknownName(InvalidInput):
    """A name (environment, agent, setting) is not one that exists."""


class UntrustedCode(InvalidInput):
    """A text (a spec, a store, a name) asks to import code, and the caller did not allow it."""


class ProtocolError(MatrixRLError, RuntimeError):
    """The calls of the agent protocol came in an order that has no meaning."""


class CheckpointError(MatrixRLError):
    """A saved file is truncated, foreign, newer than this library, or inconsistent."""


class MissingExtra(MatrixRLError, ImportError):
    """A feature needs an optional package that is not installed."""


class OutputExists(MatrixRLError):
    """The output directory already holds a run, and overwriting was not asked for."""


class SpecError(InvalidInput):
    """A file that describes an experiment breaks a rule; the message names file, line and key."""


class StoreError(MatrixRLError):
    """A store of results is damaged, newer than this library, of another experiment, in use, or cannot be written."""
