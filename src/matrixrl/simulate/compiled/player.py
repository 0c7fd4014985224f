"""Stretches of episodes through compiled loops: the same algorithm, the same random streams, no Python in between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matrixrl.algorithms import Algorithm, UCMatrixRL
from matrixrl.algorithms.matrix_rl import Visits
from matrixrl.checks import fail
from matrixrl.core import HalfWidthTable, Level
from matrixrl.core.compiled.arguments import split_forms
from matrixrl.core.greedy import tie_weights
from matrixrl.problems import FiniteMDP
from matrixrl.records import FloatArray, IntArray
from matrixrl.simulate.stretch import Stretch
from matrixrl.tolerances import TIE

__all__ = ["CompiledPlayer", "why_not_compiled"]

_FEW = 64  # states; beyond them a dense P is faster as one matrix product
_SPARSE = 8
_LARGEST = 1 << 30  # bytes of a table
_LEVELS: tuple[Level, ...] = ("agent", "ties", "proven")


def why_not_compiled(mdp: FiniteMDP | None, algorithm: Algorithm, n_episodes: int) -> str | None:
    """Return why whole episodes are not compiled, or None if they are."""
    if not isinstance(algorithm, UCMatrixRL):
        return "only matrix-rl with all its columns has compiled episodes"
    if mdp is None:
        return "P is not known"
    reason = algorithm.why_not_by_visits()
    if reason is not None:
        return reason
    width = mdp.transitions.most_successors()
    if width is None:
        return "P is not given as a table"
    if mdp.n_states > _FEW and width * _SPARSE > mdp.n_states:
        return f"P is dense ({width} of {mdp.n_states} states can follow a pair): a matrix product is faster"
    if algorithm.n_replicas * width * algorithm.features.phi.d * 12 > _LARGEST:
        return "the table of successors would be larger than 1 GB"
    if n_episodes * mdp.horizon * (len(algorithm.confidence.set.members) + 1) * 8 > _LARGEST:
        return "the table of half-widths by visits could become larger than 1 GB"
    return None


class CompiledPlayer:
    """Plays the replicas of an algorithm; what they learn is in the algorithm's own arrays after each stretch.

    Args:
        mdp: The MDP that is played.
        algorithm: An algorithm for which `why_not_compiled` returns None.
        optimal_value: V*(s0), for regret; None to measure none.
        certify: Whether to certify every episode.
    """

    def __init__(
        self, mdp: FiniteMDP, algorithm: UCMatrixRL, optimal_value: float | None, *, certify: bool = False
    ) -> None:
        self._mdp, self._algorithm = mdp, algorithm
        successors = mdp.transitions.successors()
        assert successors is not None
        self._successors = successors
        self._world = self._make_world(optimal_value)
        self._certify, self._prefers = certify, algorithm.settings.ties == "estimate"
        self._bounds: dict[Level, Any] = {}
        self._known: Any = None
        self._revision = -1

    @property
    def _loops(self) -> Any:
        """The compiled module; importing it takes half a second, compiling it the first time ten."""
        from matrixrl.simulate.compiled import episodes

        return episodes

    def prepare(self) -> None:
        """Load the loops, or compile them if they are not cached, by playing no episode at all."""
        self._run(
            np.zeros((self._algorithm.n_replicas, 0, self._mdp.n_actions), dtype=np.int64),
            np.zeros((self._algorithm.n_replicas, 0, self._mdp.draws_per_episode)),
            certifies=self._certify,
        )

    def play(self, streams: Sequence[np.random.Generator], count: int) -> Stretch:
        """Play and learn `count` episodes in every replica.

        Args:
            streams: Random streams of the MDP.
            count: Number of episodes n.
        """
        task = self._mdp.task
        ranking = np.tile(np.arange(task.n_actions), (count, 1))
        ranks = np.stack([rng.permuted(ranking, axis=1) for rng in self._algorithm.streams["ties"]])
        uniforms = np.stack([rng.random((count, self._mdp.draws_per_episode)) for rng in streams])
        played = self._run(ranks, uniforms, certifies=self._certify)
        return Stretch(
            states=played.states[:, :, :-1],
            actions=played.actions,
            regret=played.regret,
            returns=played.returns,
            lengths=played.lengths,
            upper=task.to_own_unit(played.upper),
            alarms=np.zeros(played.upper.shape, dtype=np.bool_),
            certified=task.to_own_unit(played.certified),
        )

    def certify_advice(self) -> tuple[FloatArray, FloatArray]:
        """Return, for each replica, upper and lower bound of the policy that all data advise: each (B,)."""
        n_replicas, n_actions = self._algorithm.n_replicas, self._mdp.n_actions
        lowest_first = np.tile(np.arange(n_actions)[::-1], (n_replicas, 1, 1))
        played = self._run(lowest_first, np.zeros((n_replicas, 1, 0)), certifies=True, learns=False)
        if not self._certify:  # it would not be kept up to date
            del self._bounds["proven"]
        own = self._mdp.task.to_own_unit(played.certified[:, 0])
        return own[:, 1], own[:, 0]

    def _run(self, ranks: IntArray, uniforms: FloatArray, *, certifies: bool, learns: bool = True) -> Any:
        """Run the loops for ranks (B, n, A) of actions and uniforms (B, n, D)."""
        task, (n_replicas, count, n_actions) = self._mdp.task, ranks.shape
        shape = (n_replicas, count)
        played = self._loops.Played(
            states=np.zeros((*shape, task.horizon + 1), dtype=np.int64),
            actions=np.zeros((*shape, task.horizon), dtype=np.int64),
            regret=np.full(shape, np.nan),
            returns=np.zeros(shape),
            lengths=np.zeros(shape, dtype=np.int64),
            upper=np.zeros(shape),
            certified=np.full((*shape, 2), np.nan),
        )
        tie_break = tie_weights(ranks / n_actions, task.horizon, has_preference=self._prefers)
        weight = TIE if self._prefers else 0.0
        with self._algorithm.editing_visits(count if learns else 0) as visits:
            self._follow(visits, count, certifies)
            # Bounds that are not needed are never read: the agent's own stand in their place.
            agent, tied, proven = (tuple(self._bounds.get(level, self._bounds["agent"])) for level in _LEVELS)
            world, known = tuple(self._world), tuple(self._known)
            self._loops.play_episodes(
                world, agent, tied, proven, known, tie_break, uniforms, weight, certifies, learns, tuple(played)
            )
        self._revision = self._algorithm.revision
        return played

    def _make_world(self, optimal_value: float | None) -> Any:
        mdp, task, successors = self._mdp, self._mdp.task, self._successors
        low, high = task.reward_range
        start_cdf = np.cumsum(task.start)
        return self._loops.World(
            following=successors.states.astype(np.uint32),
            chance=successors.chance,
            cdf=successors.cdf,
            start=task.start,
            start_cdf=start_cdf / start_cdf[-1],
            reward=np.ascontiguousarray(task.reward.T).ravel(),
            pays=np.ascontiguousarray(task.unit_reward.T).ravel(),
            low=float(low),
            high=float(high),
            noisy=mdp.noisy_rewards,
            end_state=-1 if task.end_state is None else int(task.end_state),
            end_reward=float(self._algorithm.frame.end_reward),
            optimal_value=optimal_value or 0.0,
            measures=optimal_value is not None,
            ones=np.ones(mdp.n_states),
        )

    def _follow(self, visits: Visits, count: int, certifies: bool) -> None:
        """Take over what the algorithm has learned elsewhere, and extend the tables to last for `count` episodes."""
        algorithm = self._algorithm
        if self._known is None or self._revision != algorithm.revision:
            self._known = self._index(visits)
            self._bounds.clear()
        wanted = {"agent": True, "ties": self._prefers, "proven": certifies}
        most = int(self._known.visits.max()) + count * self._mdp.horizon
        for level in _LEVELS:
            lasts = level in self._bounds and most < self._bounds[level].by_visits.shape[1]
            if wanted[level] and not lasts:
                # A quarter more than needed: growing is rare, and long runs do not need twice the memory.
                size = most + most // 4 + 1
                table = HalfWidthTable.of(
                    algorithm.confidence, size, ridge=algorithm.ridge, clock=algorithm.clock, level=level
                )
                self._bounds[level] = self._make_bounds(table)
                self._loops.refresh_all(tuple(self._bounds[level]), tuple(self._known))

    def _make_bounds(self, table: HalfWidthTable) -> Any:
        algorithm = self._algorithm
        n_replicas, n_pairs = algorithm.n_replicas, algorithm.features.phi.d
        members = algorithm.confidence.set.members
        centre, norm, constant = split_forms(members)
        reward = np.tile(algorithm.task.unit_reward.T.ravel(), (n_replicas, 1))
        return self._loops.Bounds(
            centre=centre,
            norm=norm,
            constant=constant,
            is_normalised=algorithm.confidence.set.is_normalised,
            by_visits=table.half_width,
            learns_reward=not algorithm.settings.known_reward,
            reward_by_visits=table.reward_half_width,
            half_width=np.zeros((n_replicas, len(members), n_pairs)),
            most=reward,
            least=reward.copy(),
        )

    def _index(self, visits: Visits) -> Any:
        """Return what was learned, with the successors of each pair as lists."""
        algorithm, n_pairs = self._algorithm, self._algorithm.features.phi.d
        n_replicas, width = algorithm.n_replicas, self._successors.states.shape[1]
        successors = np.zeros((n_replicas, width, n_pairs), dtype=np.uint32)
        times = np.zeros((n_replicas, width, n_pairs))
        counted = np.zeros((n_replicas, n_pairs), dtype=np.int64)
        for b, moment in enumerate(visits.transitions):
            pairs, following = np.nonzero(moment)
            self._refuse_impossible(pairs, following)
            counted[b] = np.bincount(pairs, minlength=n_pairs)
            place = np.arange(len(pairs)) - (np.cumsum(counted[b]) - counted[b])[pairs]
            successors[b, place, pairs] = following
            times[b, place, pairs] = moment[pairs, following]
        shrink = 1.0 / (algorithm.ridge + visits.counts)
        return self._loops.Learned(
            ridge=algorithm.ridge,
            visits=visits.counts.astype(np.int64),
            n_successors=counted,
            widest=counted.max(axis=1),
            successors=successors,
            times=times,
            shares=times * shrink[:, None, :],
            counts=visits.counts,
            moment=visits.transitions,
            reward_moment=visits.rewards,
            shrink=shrink,
            slack=algorithm.ridge * shrink,
        )

    def _refuse_impossible(self, pairs: IntArray, following: IntArray) -> None:
        """Refuse data that this P could not have produced: the loops have no room for them."""
        listed = (self._successors.states[pairs] == following[:, None]) & (self._successors.chance[pairs] != 0.0)
        wrong = np.flatnonzero(~listed.any(axis=1))
        if len(wrong):
            action, state = divmod(int(pairs[wrong[0]]), self._mdp.n_states)
            step = f"state {state}, action {action}, next state {int(following[wrong[0]])}"
            fail("what was learned", "must come from this MDP", step, "Go on in the MDP that it was learned in.")
