"""A service over HTTP."""

from matrixrl_serve.http.app import make_app

__all__ = ["make_app"]
