"""A service over HTTP."""

from matrixrl.service.http.app import make_app

__all__ = ["make_app"]
