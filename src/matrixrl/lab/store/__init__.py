"""Results on disk."""

from matrixrl.lab.store.schema import COLUMNS
from matrixrl.lab.store.store import RunRow, Store

__all__ = ["COLUMNS", "RunRow", "Store"]
