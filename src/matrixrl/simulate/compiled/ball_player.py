"""Compiled episodes of MatrixRL with balls around M_n: the same algorithm and random streams, no Python in between."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.algorithms import UCMatrixRL
from matrixrl.algorithms.matrix_rl import Visits
from matrixrl.core import HalfWidthTable, Level
from matrixrl.core.compiled.arguments import split_forms
from matrixrl.problems import FiniteMDP
from matrixrl.records import FloatArray
from matrixrl.simulate.compiled.player import CompiledPlayer

__all__ = ["BallPlayer", "why_not_balls"]

_LARGEST = 1 << 30  # bytes of a table
_FEW = 64  # states; beyond them a dense P is faster as one matrix product
_SPARSE = 8
_LEVELS: tuple[Level, ...] = ("agent", "ties", "proven")


def why_not_balls(algorithm: UCMatrixRL, mdp: FiniteMDP, n_episodes: int) -> str | None:
    """Return why the loops do not fit an algorithm, or None if they do."""
    reason = algorithm.why_not_by_visits()
    if reason is not None:
        return reason
    if n_episodes * mdp.horizon * (len(algorithm.confidence.set.members) + 1) * 8 > _LARGEST:
        return "the table of half-widths by visits could become larger than 1 GB"
    width = mdp.transitions.most_successors() or 0
    if mdp.n_states > _FEW and width * _SPARSE > mdp.n_states:
        return f"P is dense ({width} of {mdp.n_states} states can follow a pair): a matrix product is faster"
    if algorithm.n_replicas * width * mdp.n_states * mdp.n_actions * 12 > _LARGEST:
        return "the table of successors would be larger than 1 GB"
    return None


class BallPlayer(CompiledPlayer):
    """Plays MatrixRL with balls around M_n on one-hot features, whose bounds follow from the visits of a pair."""

    def __init__(
        self, mdp: FiniteMDP, algorithm: UCMatrixRL, regret: tuple[float, int] | None, *, certify: bool = False
    ) -> None:
        super().__init__(mdp, algorithm, regret, certify=certify)
        self._algorithm = algorithm
        self._bounds: dict[Level, Any] = {}
        self._known: Any = None
        self._revision = -1

    @property
    def _episodes(self) -> Any:
        """The compiled module; importing it takes half a second, compiling it the first time ten."""
        from matrixrl.simulate.compiled import episodes

        return episodes

    def certify_advice(self) -> tuple[FloatArray, FloatArray]:
        """Return, for each replica, upper and lower bound of the policy that all data advise: each (B,)."""
        bounds = super().certify_advice()
        if not self._certify:  # it would not be kept up to date
            del self._bounds["proven"]
        return bounds

    def _play_in_loops(
        self, tie_break: FloatArray, uniforms: FloatArray, weight: float, *, certifies: bool, learns: bool, played: Any
    ) -> None:
        count = tie_break.shape[1]
        with self._algorithm.editing_visits(count if learns else 0) as visits:
            self._follow(visits, count, certifies)
            # Bounds that are not needed are never read: the agent's own stand in their place.
            agent, tied, proven = (tuple(self._bounds.get(level, self._bounds["agent"])) for level in _LEVELS)
            world, known = tuple(self._world), tuple(self._known)
            self._episodes.play_episodes(
                world,
                agent,
                tied,
                proven,
                known,
                tie_break,
                uniforms,
                weight,
                certifies,
                learns,
                self._algorithm.episode,
                tuple(played),
            )
        self._revision = self._algorithm.revision

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
                self._episodes.refresh_all(tuple(self._bounds[level]), tuple(self._known))
                self.forbid(self._bounds[level].most)

    def _make_bounds(self, table: HalfWidthTable) -> Any:
        algorithm = self._algorithm
        n_replicas, n_pairs = algorithm.n_replicas, algorithm.features.phi.d
        members = algorithm.confidence.set.members
        centre, norm, constant = split_forms(members)
        reward = np.tile(algorithm.task.unit_reward.T.ravel(), (n_replicas, 1))
        return self._episodes.Bounds(
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
        n_replicas, width = algorithm.n_replicas, self._successors.most
        successors = np.zeros((n_replicas, width, n_pairs), dtype=np.uint32)
        times = np.zeros((n_replicas, width, n_pairs))
        counted = np.zeros((n_replicas, n_pairs), dtype=np.int64)
        for b, moment in enumerate(visits.transitions):
            pairs, following = np.nonzero(moment)
            self.refuse_impossible(pairs, following)
            counted[b] = np.bincount(pairs, minlength=n_pairs)
            place = np.arange(len(pairs)) - (np.cumsum(counted[b]) - counted[b])[pairs]
            successors[b, place, pairs] = following
            times[b, place, pairs] = moment[pairs, following]
        shrink = 1.0 / (algorithm.ridge + visits.counts)
        return self._episodes.Learned(
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
