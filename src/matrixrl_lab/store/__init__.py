"""Stores of results: one SQLite file for each experiment."""

from matrixrl_lab.store.schema import COLUMNS
from matrixrl_lab.store.store import RunRow, Store

__all__ = ["COLUMNS", "RunRow", "Store"]
