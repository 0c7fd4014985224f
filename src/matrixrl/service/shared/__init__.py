"""A service that several processes run together, on one PostgreSQL database."""

from matrixrl.service.shared.runner import SharedLearner, SharedService

__all__ = ["SharedLearner", "SharedService"]
