"""Exceptions of the library. All of them are subclasses of `MatrixRLError`."""

from __future__ import annotations

__all__ = [
    "CheckpointError",
    "CheckpointMismatch",
    "ExperimentFailed",
    "InvalidInput",
    "MatrixRLError",
    "MatrixRLWarning",
    "MissingExtra",
    "OutputExists",
    "ProtocolError",
    "SpecError",
    "StoreError",
    "UnknownName",
    "UntrustedCode",
]


class MatrixRLError(Exception):
    """Base class of all exceptions that the library raises."""


class MatrixRLWarning(UserWarning):
    """Something that was given is used in a weaker form than the user may expect; the message says which."""


class InvalidInput(MatrixRLError, ValueError):
    """An argument is invalid; no state was changed.

    Attributes:
        argument: Name of the argument, where it is known.
    """

    argument: str | None = None


class UnknownName(InvalidInput):
    """A name (of an environment, an agent or a setting) does not exist."""


class UntrustedCode(InvalidInput):
    """A spec, a store or a name requires code to be imported, and the caller did not allow it."""


class ProtocolError(MatrixRLError, RuntimeError):
    """Methods were called in an invalid order, such as `act` outside an episode."""


class CheckpointError(MatrixRLError):
    """A saved file is truncated, inconsistent, of another format or of another format version, or cannot be written."""


class CheckpointMismatch(CheckpointError, InvalidInput):
    """A saved file and the arguments of `load` do not belong together."""


class MissingExtra(MatrixRLError, ImportError):
    """A feature needs an optional package that is not installed."""


class OutputExists(MatrixRLError):
    """The output directory already holds a run, and overwriting was not requested."""


class SpecError(InvalidInput):
    """A file that describes an experiment is invalid; the message names the file, the line and the key."""


class StoreError(MatrixRLError):
    """A store of results is damaged, of a newer format, of another experiment, in use, or cannot be written."""


class ExperimentFailed(MatrixRLError):
    """Some cells of an experiment failed; the others are stored."""
