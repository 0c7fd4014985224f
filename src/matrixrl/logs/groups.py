"""Groups of pairs with the same transition probabilities, found in the first half of a log (docs/proofs.md, 14.1)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln

from matrixrl.checks import fail, fits_memory
from matrixrl.display import Described
from matrixrl.features import TablePhi
from matrixrl.logs.reader import read_log
from matrixrl.logs.step_log import StepLog
from matrixrl.logs.writer import log_columns
from matrixrl.problems import Problem, read_problem
from matrixrl.records import FloatArray, IntArray

__all__ = ["FoundGroups", "groups_from_log"]

_LOG_EVIDENCE = math.log(100.0)  # by which the data must favour one law over two before pairs are put together
_REWARD_LEVELS = 8  # of rewards that are learned, which pairs of a group share as well
_HALF_LOG_PI = float(gammaln(0.5))


@dataclass(frozen=True, eq=False, repr=False)
class FoundGroups(Described):
    """Groups of pairs that a part of a log suggests, and the rest of the log, which was not looked at.

    Attributes:
        table: (S, A) Group of each pair; a pair of which too little was seen is a group of its own.
        rest: Later episodes, as columns that `learn_from` takes. What is proven from them holds if the pairs of a group
            share their transition probabilities, which was chosen without them.
        n_episodes: Number of episodes that the groups were found in.
        n_rest: Number of the other ones.
        n_seen: Number of pairs that were seen in these.
    """

    table: IntArray
    rest: dict[str, NDArray[Any]]
    n_episodes: int
    n_rest: int
    n_seen: int

    @property
    def n_groups(self) -> int:
        """Number of groups K."""
        return int(self.table.max()) + 1

    @property
    def phi(self) -> TablePhi:
        """Indicator features of the groups, for ``MatrixRL(…, phi=found.phi)``."""
        return TablePhi(np.eye(self.n_groups)[self.table])

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.n_groups:,} groups of {self.table.size:,} pairs"

    def _facts(self) -> dict[str, object]:
        sizes = np.bincount(self.table.ravel())
        return {
            "found in": f"the first {self.n_episodes:,} episodes, which have {self.n_seen:,} of the pairs",
            "together": f"{sizes[sizes > 1].sum():,} pairs in {np.count_nonzero(sizes > 1):,} groups",
            "rest": f"{self.n_rest:,} later episodes, to learn from",
        }


def groups_from_log(log: Any, problem: Any, **reading: Any) -> FoundGroups:
    """Group pairs of a state and an action whose next states look alike in the first half of a log.

    Pairs are put together if the data favour one law for both over two laws by a factor of 100, which takes hundreds of
    visits where few next states are possible, and fewer where many are. An agent with these groups learns from the
    second half, so that what it proves does not depend on how the groups were found: its certificates assume that the
    pairs of a group share their transition probabilities (and mean rewards, if they are learned), and data that
    contradict this raise the alarm. Next states are compared as they are: if pairs share how the state *changes*,
    declare `KnownDynamics`.

    Args:
        log: Log of episodes, as for `Agent.learn_from`, in the order in which they were begun.
        problem: Task, environment or MDP with numbered states, as for an agent.
        reading: Options of `Agent.learn_from` about the form of the log: columns, first_step, missing, separator and
            decimal.

    Raises:
        InvalidInput: The log cannot be read or has fewer than two episodes, rows had to be left out for what was
            observed in them, or states are not numbered.

    >>> from matrixrl import MatrixRL, Task
    >>> rng, task = np.random.default_rng(0), Task(reward=np.zeros((6, 2)), horizon=1, start=0)
    >>> log = {"episode": range(600), "state": [0] * 600, "action": rng.integers(0, 2, 600), "reward": [0.0] * 600}
    >>> found = groups_from_log(log | {"next_state": rng.integers(0, 6, 600)}, task)
    >>> found
    <FoundGroups: 11 groups of 12 pairs>
    >>> agent = MatrixRL(task, phi=found.phi)
    >>> learned = agent.learn_from(found.rest, verbose=False)
    >>> agent.n_logged_steps
    300
    """
    known = read_problem(problem)
    if known.kind != "finite" or known.task.dynamics is not None:
        known.refuse("must have numbered states and unknown dynamics", "Give a Task, or declare laws=… there.")
    checked = read_log(log, known, **reading)
    steps = checked.steps
    if checked.plan.selection is not None:
        rule = "must be complete to prove anything from its second half"
        fail("log", rule, checked.plan.selection, "Give a log without empty cells, with a column of next states.")
    if steps.n_episodes < 2:
        fail("log", "must have an episode to find groups in and another one to learn from", "one", "Give more.")
    half = steps.n_episodes // 2
    at = int(steps.offsets[half])
    first, rest = (_episodes(steps, *part) for part in ((0, half, 0, at), (half, None, at, None)))
    table, n_seen = _table(first, known)
    columns = log_columns(rest, known)
    return FoundGroups(table, columns, first.n_episodes, rest.n_episodes, n_seen)


def _episodes(steps: StepLog, first: int, last: int | None, begin: int, end: int | None) -> StepLog:
    """Return some episodes of a log."""
    of_episodes = {"firsts", "lengths"}
    parts = {name: slice(first, last) if name in of_episodes else slice(begin, end) for name in steps.names}
    return StepLog(**{name: getattr(steps, name)[part] for name, part in parts.items()})


def _table(log: StepLog, problem: Problem) -> tuple[IntArray, int]:
    """Return the group of each pair (S, A), and how many pairs were seen."""
    task = problem.finite_task
    actions = task.stages.inner(log.actions, log.stages)
    pairs, outcomes = log.states.astype(np.int64) * task.n_actions + actions, log.next_states.astype(np.int64)
    bounds = None if task.knows_reward else task.reward_bounds
    if not task.knows_reward:
        unit = np.clip((log.rewards - task.reward_range[0]) / task.unit, 0.0, 1.0)
        if bounds is not None:  # what pairs of a group share is the learned part
            unit = bounds.parts(log.rewards, log.states, actions)
        outcomes = outcomes * (_REWARD_LEVELS + 1) + np.round(unit * _REWARD_LEVELS).astype(np.int64)
    seen, rows = np.unique(pairs, return_inverse=True)
    different, columns = np.unique(outcomes, return_inverse=True)
    words = f"{len(seen):,} pairs and {len(different):,} next states"
    fits_memory("log", 2.0 * len(seen) * len(different), words, remedy="Give fewer episodes.")
    counts = np.zeros((len(seen), len(different)))
    np.add.at(counts, (rows, columns), 1.0)
    size = task.n_states * task.n_actions
    codes = size + np.arange(size)  # of pairs of which nothing is known
    widths = np.zeros(len(seen))  # of ranges of rewards, equal for the pairs of a group
    if bounds is not None:
        widths = (bounds.high - bounds.low).ravel()[seen].round(9)
    for width in np.unique(widths):
        of_width = np.flatnonzero(widths == width)
        codes[seen[of_width]] = seen[of_width[0]] + 2 * size + _clusters(counts[of_width]) * size
    places = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(places[1]))  # numbered as they first appear
    return order[places[2]].reshape(task.n_states, task.n_actions), len(seen)


def _clusters(counts: FloatArray) -> IntArray:
    """Return the group of each row of counts (n, W): each joins the best group so far, or begins one.

    Rows come by their visits, the largest first.
    """
    found, sums, n_groups = np.zeros(len(counts), dtype=np.int64), np.zeros_like(counts), 0
    for row in np.argsort(-counts.sum(axis=1), kind="stable").tolist():
        evidence = _evidence(sums[:n_groups], counts[row])
        best = int(evidence.argmax()) if n_groups else 0
        if not n_groups or evidence[best] < _LOG_EVIDENCE:
            best, n_groups = n_groups, n_groups + 1
        found[row] = best
        sums[best] += counts[row]
    return found


def _evidence(groups: FloatArray, counts: FloatArray) -> FloatArray:
    """Return ln of the Bayes factor of one law for a group and a row against two laws: (G, W), (W,) → (G,).

    Laws are Dirichlet(½) over the outcomes that either has, and one more.
    """
    k = np.count_nonzero(groups + counts, axis=1) + 1.0
    places = np.flatnonzero(counts)
    of_groups, of_row = groups[:, places], counts[places]
    together = gammaln(of_groups + of_row + 0.5) - gammaln(of_groups + 0.5) - gammaln(of_row + 0.5) + _HALF_LOG_PI
    n, m = groups.sum(axis=1), counts.sum()
    sizes = gammaln(n + 0.5 * k) + gammaln(m + 0.5 * k) - gammaln(n + m + 0.5 * k) - gammaln(0.5 * k)
    evidence: FloatArray = together.sum(axis=1) + sizes
    return evidence
