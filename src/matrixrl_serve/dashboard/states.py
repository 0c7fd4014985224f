"""A page of the table of states: recommended actions, visits, and bounds of all actions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.records import FloatArray, IntArray
from matrixrl.spaces import Codec
from matrixrl_serve.dashboard.event_text import label
from matrixrl_serve.learner import Publication
from matrixrl_serve.problem import ServedProblem

__all__ = ["ROWS", "SORTS", "Query", "StateTable"]

ROWS = 50
"""States of a page."""
SORTS = ("state", "visits", "lower", "upper", "width")
"""Columns by which states can be sorted."""
_COLUMNS = 24  # actions that are shown beside each other


@dataclass(frozen=True)
class Query:
    """Which states to show, and in which order.

    Attributes:
        stage: Stage h, counted from 0; the last one if there are fewer.
        search: Part of the names of the states; empty for all.
        sort: One of `SORTS`.
        descending: Whether the largest come first.
        page: Number of the page, counted from 0; the last one if there are fewer.
    """

    stage: int = 0
    search: str = ""
    sort: str = "state"
    descending: bool = False
    page: int = 0


class StateTable:
    """Pages of the states of a problem."""

    def __init__(self, problem: ServedProblem) -> None:
        self._problem = problem
        self._labels: list[str] | None = None  # in small letters, made at the first search

    def page(self, query: Query, plan: Publication, visits: IntArray) -> dict[str, Any]:
        """Return a page as plain data; cells of actions that are not allowed are None.

        Args:
            query: Which page.
            plan: The plan that is shown.
            visits: (S, A) Visits of all pairs.
        """
        problem, n_states = self._problem, self._problem.states.size
        stage = min(query.stage, problem.horizon - 1)
        action = plan.recommended[stage, :n_states]
        lower, upper = plan.lower[stage, :n_states], plan.upper[stage, :n_states]
        own = (np.arange(n_states), action)
        columns = {
            "state": np.arange(n_states),
            "visits": visits.sum(axis=1),
            "lower": lower[own],
            "upper": upper[own],
            "width": upper[own] - lower[own],
        }
        found = self._matching(query.search)
        column = columns[query.sort][found]
        found = found[np.argsort(-column if query.descending else column, kind="stable")]
        number = min(query.page, max(0, (len(found) - 1) // ROWS))
        rows = found[number * ROWS : (number + 1) * ROWS]
        shown = _most_visited(visits[rows], action[rows])
        grid = np.ix_(rows, shown)
        return {
            "plan": plan.version,
            "stage": stage,
            "page": number,
            "n_pages": max(1, -(-len(found) // ROWS)),
            "n_states": n_states,
            "n_found": len(found),
            "n_actions": problem.actions.size,
            "states": [
                {
                    "state": label(problem.states.decode(int(s))),
                    "visits": int(columns["visits"][s]),
                    "action": label(problem.actions.decode(int(action[s]))),
                    "incumbent": None if problem.incumbent is None else self._incumbent(stage, int(s)),
                    "lower": float(lower[s, action[s]]),
                    "upper": float(upper[s, action[s]]),
                    "chosen": int(np.flatnonzero(shown == action[s])[0]),
                }
                for s in rows.tolist()
            ],
            "actions": [label(problem.actions.decode(int(a))) for a in shown],
            "visits": [
                [None if forbidden else n for n, forbidden in zip(*pair, strict=True)]
                for pair in zip(visits[grid].tolist(), np.isnan(lower[grid]).tolist(), strict=True)
            ],
            "widths": _plain(upper[grid] - lower[grid]),
        }

    def _incumbent(self, stage: int, state: int) -> str:
        assert self._problem.incumbent is not None
        return label(self._problem.actions.decode(int(self._problem.incumbent[stage, state])))

    def _matching(self, search: str) -> IntArray:
        """Return the numbers of the states whose name contains some text, in any case of its letters."""
        words = search.strip().casefold()
        if not words:
            return np.arange(self._problem.states.size)
        if self._labels is None:
            self._labels = _labels(self._problem.states)
        return np.array([s for s, name in enumerate(self._labels) if words in name], dtype=np.int64)


def _labels(states: Codec) -> list[str]:
    return [label(states.decode(number)).casefold() for number in range(states.size)]


def _most_visited(visits: IntArray, chosen: IntArray) -> IntArray:
    """Return the numbers of the actions to show, in order: those that are recommended, then the most visited ones."""
    n_actions = visits.shape[1]
    if n_actions <= _COLUMNS:
        return np.arange(n_actions)
    weight = visits.sum(axis=0).astype(float)
    recommended = np.unique(chosen)
    weight[recommended] = np.inf
    kept = np.argsort(-weight, kind="stable")[: max(_COLUMNS, len(recommended))]
    return np.sort(kept)


def _plain(table: FloatArray) -> list[list[float | None]]:
    """Return a table for JSON, which has no NaN."""
    return [[None if cell != cell else cell for cell in row] for row in table.tolist()]
