"""What a policy would have earned on the recorded outcomes of episodes that others decided (docs/proofs.md, 11.8).

Where the laws of the outcomes of an episode follow from its first state, whatever is done, its outcomes would have been
the same under every policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from matrixrl.agents.ask_and_tell import read_tables
from matrixrl.checks import integer
from matrixrl.core.returns import Returns
from matrixrl.errors import ProtocolError
from matrixrl.records import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent
    from matrixrl.problems import Task

__all__ = ["Replay", "Seen", "checked_task", "counted", "replay", "run_begin", "seen_outcomes", "why_not"]

_AT_ONCE = 1 << 20  # numbers of a table; also pairs of states times outcomes of a stage
_SIDES = (np.min, np.max)
_NEED = "returns on the same outcomes need"


class Seen(NamedTuple):
    """First states and outcomes of n episodes.

    Attributes:
        first: (n,) First states.
        outcomes: (n, H) Outcomes, −1 where one is not known.
        is_whole: (n,) Whether the first step is in the record.
        is_logged: (n,) Whether the episode was logged, not played.
    """

    first: IntArray
    outcomes: IntArray
    is_whole: BoolArray
    is_logged: BoolArray

    def take(self, which: Any) -> Seen:
        """Return some of the episodes."""
        return Seen(*(array[which] for array in self))


def replay(self: Agent, policy: Any, *, since: int = 0) -> FloatArray:
    """Return what a policy would have earned in every episode, on the outcomes that were recorded in it: (n,).

    It needs known dynamics in which no action changes which law an outcome has, such as a demand that depends on the
    weekday: then every policy would have met the same outcomes. Nothing is estimated. For a policy that was fixed
    before these episodes the numbers are independent draws of its return; for one that was chosen with their data they
    are not, and tend to be larger than what it will earn. `certify` and `compare` with ``since=`` make bounds of them,
    and `earnings` compares them with what was received.

    Args:
        policy: As in `compare`; for random actions, their mean return on these outcomes.
        since: Number of the first episode, counted from 0 over all episodes that were learned from, in their order,
            logged ones too.

    Returns:
        One return for each episode; NaN where an outcome was not recorded, or an episode ended before its last step.

    Raises:
        ProtocolError: The dynamics are not known, an action can change the law of an outcome or end the episode, or the
            steps were not kept.
        InvalidInput: It is no policy of this problem.

    >>> from matrixrl import MatrixRL
    >>> from matrixrl.envs.shop import shop, usual_orders
    >>> agent = MatrixRL(shop(), seed=0)
    >>> received = agent.learn(n_episodes=3, policy=usual_orders()).returns
    >>> bool(abs(received - agent.replay(usual_orders())).max() < 1e-9)
    True
    >>> agent.replay(3 + 0 * usual_orders()).round()  # three boxes on every day
    array([2492., 2070., 2108.])
    """
    task = checked_task(self)
    [table] = read_tables(self, "replay", policy=policy)
    seen = seen_outcomes(self, since)
    low, high = Replay(task, table).returns(seen)
    found: FloatArray = np.where((low == high) & seen.is_whole, low, np.nan)
    return found


def checked_task(self: Agent) -> Task:
    """Return the task; refuse one whose outcomes depend on actions."""
    words = why_not(self)
    if words is not None:
        raise ProtocolError(words)
    return self.problem.finite_task


def why_not(self: Agent) -> str | None:
    """Return why other policies may have met other outcomes, or why those are not known; None if they are."""
    task = self.problem.task
    dynamics = task.dynamics
    if dynamics is None:
        return f"{_NEED} known dynamics; see KnownDynamics"
    if dynamics.is_censored:
        return f"{_NEED} outcomes that are seen, and those of these dynamics are censored"
    if self._seen is None:
        return f"{_NEED} the steps of all episodes; make the agent with keep_log=True"
    task = self.problem.finite_task
    if task.end_state is not None:
        return f"{_NEED} episodes that last all {task.horizon} steps: what another policy meets later is not known"
    states = np.flatnonzero(task.start > 0.0) if task.start_is_declared else np.unique(seen_outcomes(self).first)
    depends = stage_laws(task, states) < 0
    if depends.any():
        row, h = np.argwhere(depends)[0].tolist()
        first = self.problem.shown_state(int(states[row]))
        return (
            f"{_NEED} laws that no action changes; from first state {first}, step {h} (counted from 0) can have "
            "outcomes of different laws"
        )
    return None


def stage_laws(task: Task, states: IntArray) -> IntArray:
    """Return the law that every reachable pair has at each stage from some first states (F,); −1 if they differ.

    Returns:
        (F, H)
    """
    dynamics, n = task.dynamics, task.n_states
    assert dynamics is not None
    allowed = np.ones((n, task.n_actions), dtype=np.bool_) if task.allowed is None else task.allowed
    actions, sources = np.nonzero(allowed.T)
    laws = dynamics.laws[actions, sources]
    least, most = np.full(n, dynamics.laws.size), np.full(n, -1)
    np.minimum.at(least, sources, laws)
    np.maximum.at(most, sources, laws)
    targets = dynamics.next_states[actions, sources]
    rows = np.repeat(sources, dynamics.n_outcomes)
    follows = sparse.csr_array((np.ones(rows.size, dtype=np.float32), (rows, targets.ravel())), shape=(n, n))
    follows.sum_duplicates()
    found = np.empty((len(states), task.horizon), dtype=np.int64)
    together = max(1, _AT_ONCE // n)
    for first in range(0, len(states), together):
        some = states[first : first + together]
        reached = np.zeros((len(some), n), dtype=np.bool_)
        reached[np.arange(len(some)), some] = True
        for h in range(task.horizon):
            low = np.where(reached, least, dynamics.laws.size).min(axis=1)
            high = np.where(reached, most, -1).max(axis=1)
            found[first : first + together, h] = np.where(low == high, low, -1)
            reached = (reached.astype(np.float32) @ follows) > 0.0
    return found


def seen_outcomes(self: Agent, since: int = 0) -> Seen:
    """Return the outcomes of all episodes from one on.

    An outcome of another law than that of its stage, in an episode whose steps do not follow each other, is not known.
    """
    task, record = self.problem.finite_task, self._seen
    assert task.dynamics is not None
    assert record is not None
    remedy = "Episodes count from 0, logged ones too."
    start = integer("since", since, low=0, high=record.n_episodes, remedy=remedy)
    if start == record.n_episodes:
        nothing = np.zeros(0, dtype=np.bool_)
        return Seen(np.zeros(0, dtype=np.int64), np.zeros((0, task.horizon), dtype=np.int64), nothing, nothing)
    log, is_logged = record.all()
    assert log.outcomes is not None
    first = log.states[log.offsets[:-1]].astype(np.int64)
    outcomes = np.full((log.n_episodes, task.horizon), -1)
    different, places = np.unique(first, return_inverse=True)
    laws = stage_laws(task, different)[places]
    fits = task.dynamics.laws[log.actions, log.states] == laws[log.episodes, log.stages]
    outcomes[log.episodes, log.stages] = np.where(fits, log.outcomes, -1)
    return Seen(first, outcomes, log.firsts == 0, is_logged).take(slice(start, None))


def run_begin(self: Agent) -> int:
    """Return the number of episodes before the last restart after a change; 0 if there was none."""
    passed = len(self._passed)  # begun before the restart, and learned from first after it
    begin: int = self._run_start + self._run_logged
    return begin + passed * (begin > 0)


def counted(self: Agent, seen: Seen) -> BoolArray:
    """Return which episodes began as those do that certificates are about: (n,).

    First states of logs are not compared with a declared distribution, so logged episodes do not count if it is random.
    """
    task = self.problem.finite_task
    if not task.start_is_declared:
        return seen.is_whole
    begins: BoolArray = task.start[seen.first] > 0.0
    return seen.is_whole & begins & ~(seen.is_logged & self.problem.has_random_start)


class Replay:
    """A policy on known dynamics: its return for given outcomes, and what it can earn from each stage and state on.

    Args:
        task: The task, whose outcomes do not depend on actions.
        table: (H, S) Actions, or (H, A, S) their probabilities.
    """

    def __init__(self, task: Task, table: IntArray | FloatArray) -> None:
        assert task.dynamics is not None
        self._task, self._table, self._dynamics = task, table, task.dynamics
        self.ranges = np.zeros((task.horizon + 1, 2, task.n_states))
        """Least and most that is earned from a stage and state on, whatever the outcomes: (H+1, 2, S)."""
        for h in range(task.horizon)[::-1]:
            for side, extreme in enumerate(_SIDES):
                self.ranges[h, side] = extreme(self._backed_up(h, self.ranges[h + 1, side], slice(None)), axis=-1)

    def _backed_up(self, h: int, values: FloatArray, outcomes: Any) -> FloatArray:
        """Return what is earned from a stage on with some outcomes (n,) of it and values (S,) after it: (S, n)."""
        known, gamma = self._dynamics, self._task.discount
        if self._table.ndim == 2:
            pairs = self._table[h], np.arange(self._task.n_states)
            found = known.rewards[*pairs][:, outcomes] + gamma * values[known.next_states[*pairs][:, outcomes]]
            return np.asarray(found)
        sums = (
            p[:, None] * (known.rewards[a][:, outcomes] + gamma * values[known.next_states[a][:, outcomes]])
            for a, p in enumerate(self._table[h])
        )
        return np.asarray(sum(sums))

    def returns(self, seen: Seen) -> tuple[FloatArray, FloatArray]:
        """Return numbers that the returns of episodes are between, twice (n,); they are equal where all is known.

        From the first outcome that is not known on, anything may be earned that is possible.
        """
        if self._table.ndim == 3:
            found = np.array([self._mean_return(s, row) for s, row in zip(seen.first, seen.outcomes, strict=True)])
            return found.reshape(-1, 2)[:, 0], found.reshape(-1, 2)[:, 1]
        known, n = self._dynamics, len(seen.first)
        states, earned, weight = seen.first.astype(np.int64), np.zeros((2, n)), 1.0
        is_known = np.ones(n, dtype=np.bool_)
        for h in range(self._task.horizon):
            outcomes = seen.outcomes[:, h]
            is_lost = is_known & (outcomes < 0)
            earned[:, is_lost] += weight * self.ranges[h][:, states[is_lost]]
            is_known &= ~is_lost
            actions = self._table[h, states]
            earned += np.where(is_known, weight * known.rewards[actions, states, outcomes], 0.0)
            states = known.next_states[actions, states, outcomes].astype(np.int64)
            weight *= self._task.discount
        return earned[0], earned[1]

    def _mean_return(self, first: int, outcomes: IntArray) -> tuple[float, float]:
        """Return what `returns` does for the mean over random actions in one episode of outcomes (H,)."""
        lost = np.flatnonzero(outcomes < 0)
        last = int(lost[0]) if len(lost) else self._task.horizon
        values = self.ranges[last]
        for h in range(last)[::-1]:
            values = np.stack([self._backed_up(h, side, outcomes[h : h + 1])[:, 0] for side in values])
        return float(values[0, first]), float(values[1, first])

    def starts(self) -> IntArray:
        """Return all first states that are possible."""
        task = self._task
        return np.flatnonzero(task.start > 0.0) if task.start_is_declared else np.arange(task.n_states)

    def levels(self, seen: Seen) -> Returns:
        """Return the returns of episodes as levels of their range, which is known before the data."""
        task, own = self._task, self.ranges[0][:, self.starts()]
        rest = task.tail * np.array(task.reward_range)
        low, high = self.returns(seen)
        return Returns.of(low + rest[0], high + rest[1], own[0].min() + rest[0], own[1].max() + rest[1])

    def difference(self, other: Replay, seen: Seen) -> Returns:
        """Return by how much the returns of episodes exceed those of another policy, as levels of their range."""
        task, starts = self._task, self.starts()
        rest = task.tail * (task.reward_range[1] - task.reward_range[0])
        (low, high), (least, most) = self.returns(seen), other.returns(seen)
        bounds = self._apart(other, starts)
        return Returns.of(low - most - rest, high - least + rest, bounds[0] - rest, bounds[1] + rest)

    def _apart(self, other: Replay, starts: IntArray) -> tuple[float, float]:
        """Return the least and the most that is earned more than by another policy, from some first states.

        Both have the same outcomes; if too many pairs of states are reached, or actions are random, any outcomes.
        """
        task, known = self._task, self._dynamics
        (low, high), (least, most) = (one.ranges[0][:, starts] for one in (self, other))
        separate = float((low - most).min()), float((high - least).max())
        if self._table.ndim == 3 or other._table.ndim == 3:
            return separate
        codes, reached = starts * (task.n_states + 1), []  # numbers x·S + y of pairs of states
        for h in range(task.horizon):
            if len(codes) * known.n_outcomes > _AT_ONCE:
                return separate
            x, y = np.divmod(codes, task.n_states)
            mine, theirs = (self._table[h, x], x), (other._table[h, y], y)
            following = known.next_states[mine].astype(np.int64) * task.n_states + known.next_states[theirs]
            codes, places = np.unique(following, return_inverse=True)
            reached.append((places.reshape(following.shape), known.rewards[mine] - known.rewards[theirs]))
        ahead = np.zeros((2, len(codes)))
        for places, paid in reversed(reached):
            sides = (
                extreme(paid + task.discount * one[places], axis=1) for extreme, one in zip(_SIDES, ahead, strict=True)
            )
            ahead = np.stack(list(sides))
        return float(ahead[0].min()), float(ahead[1].max())
