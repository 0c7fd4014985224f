"""Errors of a service, each with the status of an HTTP answer."""

from __future__ import annotations

from matrixrl.errors import InvalidInput, MatrixRLError, MissingExtra, StoreError

__all__ = ["Conflict", "Denied", "Deposed", "NotFound", "ServiceError", "TooMany", "WentBack", "status_of", "went_back"]


class ServiceError(MatrixRLError):
    """A request that a service refused; nothing was changed.

    Attributes:
        status: Status of the HTTP answer.
    """

    status = 400


class NotFound(ServiceError):
    """There is no such episode, or nothing at this address."""

    status = 404


class Conflict(ServiceError):
    """The request contradicts what is in the log, or the episode is over."""

    status = 409


class Denied(ServiceError):
    """The token is missing, wrong or revoked, or its scopes do not cover the request."""

    status = 401

    def __init__(self, message: str, *, status: int = 401) -> None:
        super().__init__(message)
        self.status = status


class TooMany(ServiceError):
    """More dashboards are open, or more exports under way, than the service allows."""

    status = 429


class Deposed(StoreError):
    """Another process may be the learner: this one has lost the lock, or another plan was published."""


class WentBack(StoreError):
    """The log does not have any more what a process has read in it."""


def went_back(place: str, seq: int) -> WentBack:
    """Return the refusal of a log whose past changed.

    Args:
        place: Place of the log for messages.
        seq: Number of an event that was there.
    """
    words = f"the log in {place} went back: event {seq}, which was there, is gone or differs"
    return WentBack(f"{words}; the database was replaced by an older copy. Start the service again to accept that")


def status_of(error: MatrixRLError) -> int:
    """Return the status of the HTTP answer to a request that failed with an error."""
    if isinstance(error, ServiceError):
        return error.status
    if isinstance(error, InvalidInput):
        return 422
    if isinstance(error, StoreError):
        return 503
    return 501 if isinstance(error, MissingExtra) else 409
