"""The first states of an agent's episodes: what certificates are about, and whether a declared start is true."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import fail, shown
from matrixrl.core.start import START_SHARE, Start, estimated_start, log_start_ratio
from matrixrl.errors import InvalidInput
from matrixrl.printable import printable
from matrixrl.problems import Problem
from matrixrl.records import IntArray

__all__ = ["FirstStates"]

_COUNTS = "counts"


class FirstStates:
    """Counts of first states, where certificates or a test need them (docs/proofs.md, section 6.1).

    If the problem declares no start, all first states are counted, and certificates are about the distribution that
    they come from. If it declares a random one, those are counted that the agent's own MDP did not draw, and compared
    with it.

    Args:
        problem: The problem.
        delta: Probability δ of the agent, of which the estimate and the test use the share `START_SHARE`.
    """

    def __init__(self, problem: Problem, delta: float) -> None:
        self._problem, self._delta = problem, START_SHARE * delta
        self._counts: IntArray = np.zeros(problem.n_observed, dtype=np.int64)
        self._estimate: Start | None = None
        self.doubt: str | None = None
        """Why first states do not come from one distribution, or not from the declared one; else None."""

    @property
    def is_estimated(self) -> bool:
        """Whether the start of certificates is estimated from first states."""
        return self._problem.kind == "finite" and not self._problem.start_is_declared

    @property
    def n_counted(self) -> int:
        """Number of first states that were counted."""
        return int(self._counts.sum())

    def start(self) -> tuple[Start | None, str]:
        """Return what certificates are about, None for the start that the problem declares, and its words.

        Raises:
            InvalidInput: No start is declared, and states are not numbered.
        """
        problem = self._problem
        if self.is_estimated:
            if self._estimate is None:
                self._estimate = estimated_start(self._counts, self._delta)
            return self._estimate, self._estimate.words
        if not problem.start_is_declared:
            remedy = "Make the FunctionalTask with start=…, or name a state: certificate(start=…)."
            fail("start", "must be known to bound the value of an episode", None, remedy)
        return None, problem.start_words

    def named(self, state: Any) -> tuple[Start, str]:
        """Return the start in a state that a user names, as it is observed, and its words."""
        problem = self._problem
        own = problem.state("start", state)
        words = f"state {problem.shown_state(own) if problem.kind == 'finite' else np.asarray(own).tolist()}"
        return Start.at(own, words), words

    def check(self, state: Any) -> None:
        """Refuse a first state in which no episode of the problem begins."""
        problem = self._problem
        if problem.kind != "finite" or (problem.mdp is None and not problem.start_is_declared):
            return
        start = problem.finite_task.start
        if start[state] > 0.0:
            return
        possible = np.flatnonzero(start)
        what = problem.shown_state(possible[0]) if len(possible) == 1 else f"one of {len(possible):,} states"
        source = "the declared start" if problem.start_is_declared else "the first state of resets of the environment"
        remedy = "Declare the start of this episode, start=…, or learn from its steps with learn_from."
        fail("obs", f"must be {what} at the first step ({source})", problem.shown_state(state), remedy)

    def observe(self, state: Any, *, is_drawn: bool) -> None:
        """Take note of the first state of an episode that was played.

        Args:
            state: The state.
            is_drawn: Whether the agent's own MDP drew it from the declared start.
        """
        if self.is_estimated:
            self._add(np.array([int(state)]))
        elif self._problem.has_random_start and not is_drawn:
            self._add(np.array([int(state)]))
            start = self._problem.finite_task.start[: len(self._counts)]
            possible = start > 0.0
            ratio = log_start_ratio(self._counts[possible], start[possible])
            if self._delta > 0.0 and ratio > math.log(1.0 / self._delta):
                self.note_doubt("first states contradict the declared start: it is false (or a δ event)")

    def observe_logged(self, states: NDArray[Any]) -> None:
        """Take note of the first states (m,) of logged episodes."""
        if self.is_estimated:
            self._add(states.astype(np.int64))

    def note_doubt(self, words: str) -> None:
        """Withdraw for good what depends on how first states are drawn; the first reason is kept."""
        self.doubt = self.doubt or words

    def _add(self, states: IntArray) -> None:
        self._counts = self._counts + np.bincount(states, minlength=len(self._counts))
        self._estimate = None

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the counts, for saving."""
        return {_COUNTS: self._counts}

    def restore(self, doubt: Any, arrays: Mapping[str, NDArray[Any]], n_episodes: int) -> None:
        """Take back `doubt` and what `arrays` returned.

        Args:
            doubt: The words, or None.
            arrays: The counts.
            n_episodes: Number of episodes that were played or logged.

        Raises:
            InvalidInput: They cannot be those of the problem after so many episodes.
        """
        if not isinstance(doubt, (str, type(None))):
            raise InvalidInput(f"the doubt about first states must be words; got {shown(doubt)}")
        counts = arrays.get(_COUNTS)
        if set(arrays) != {_COUNTS} or counts is None or counts.shape != self._counts.shape or counts.dtype != np.int64:
            raise InvalidInput("first states must have one count for each state")
        if (counts < 0).any() or (counts > n_episodes).any() or int(counts.sum()) > n_episodes:
            raise InvalidInput(f"first states must be those of at most {n_episodes} episodes")
        if not self.is_estimated and self._problem.kind == "finite":
            possible = self._problem.finite_task.start[: len(counts)] > 0.0
            if counts[~possible].any() or (counts.any() and not self._problem.has_random_start):
                raise InvalidInput("first states must be those of a declared random start, or of one that is estimated")
        self._counts, self._estimate = counts.copy(), None
        self.doubt = None if doubt is None else printable(doubt)
