"""Stores of results: one SQLite file for each experiment."""

from matrixrl.lab.store.schema import COLUMNS
from matrixrl.lab.store.store import RunRow, Store

__all__ = ["COLUMNS", "RunRow", "Store"]
