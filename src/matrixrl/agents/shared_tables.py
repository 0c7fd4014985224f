"""Tables of plans, held once however many open episodes have them."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from matrixrl.records import Plan

__all__ = ["SharedTables"]


class SharedTables:
    """Replaces the tables of a plan by equal ones of another plan that is still in use.

    Plans that are made while no data come in often differ in how they break ties only, or not at all. Tables are never
    changed in place, so episodes can share them.
    """

    def __init__(self) -> None:
        self._known: WeakValueDictionary[tuple[Any, ...], NDArray[Any]] = WeakValueDictionary()

    def share(self, plan: Any) -> Any:
        """Return a plan of numbered states with shared tables; another one as it is."""
        if type(plan) is not Plan:
            return plan
        own = (plan.policy, plan.values, plan.empty)
        shared = tuple(self._shared(table) for table in own)
        return plan if all(one is other for one, other in zip(own, shared, strict=True)) else Plan(*shared)

    def _shared(self, table: NDArray[Any]) -> NDArray[Any]:
        key = (table.shape, table.dtype.str, hash(table.tobytes()))
        known = self._known.get(key)
        if known is not None and (known is table or np.array_equal(known, table)):
            return known
        self._known[key] = table
        return table
