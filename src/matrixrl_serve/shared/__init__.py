"""A service that several processes run together, on one PostgreSQL database."""

from matrixrl_serve.shared.service import SharedLearner, SharedService

__all__ = ["SharedLearner", "SharedService"]
