"""Stretches of episodes through the compiled loops: the same agent, the same streams, no Python in between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.agents import HalfWidthTable, MatrixRLEngine, why_not_by_visits
from matrixrl.algorithms.matrix_rl.finite import TIE_EXPLORATION
from matrixrl.checks import fail
from matrixrl.core.backup import rank_weight
from matrixrl.problems import FiniteMDP
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import TIE

__all__ = ["CompiledPlay", "Stretch", "why_not_compiled"]

_FEW = 64  # states; beyond them a dense P is faster as one matrix product
_SPARSE = 8
_LARGEST = 1 << 30  # bytes of a table
_VIEWS: dict[str, dict[str, Any]] = {"agent": {}, "lean": {"share": TIE_EXPLORATION}, "proven": {"proven": True}}


@dataclass(frozen=True)
class Stretch:
    """Some episodes that were played; all (B, n), in the environment's unit.

    Attributes:
        states: (B, n, H).
        actions: (B, n, H).
        regret: exact; NaN where it is not measured.
        returns: realised.
        upper: the optimistic value of the start.
        certified: (B, n, 2) lower and upper bound of each episode's certificate; NaN where there is none.
    """

    states: IntArray
    actions: IntArray
    regret: FloatArray
    returns: FloatArray
    upper: FloatArray
    certified: FloatArray


def why_not_compiled(mdp: FiniteMDP, engine: object, n_episodes: int) -> str | None:
    """Return why whole episodes of this are not compiled, or None if they are."""
    reason = why_not_by_visits(engine)
    if reason is not None:
        return reason
    assert isinstance(engine, MatrixRLEngine)
    width = mdp.transitions.most_successors()
    if width is None:
        return "P is not given as a table"
    if mdp.n_states > _FEW and width * _SPARSE > mdp.n_states:
        return f"P is dense ({width} of {mdp.n_states} states can follow a pair): a matrix product is faster"
    if engine.n_replicas * width * engine.features.phi.d * 12 > _LARGEST:
        return "the table of successors would be larger than 1 GB"
    if n_episodes * mdp.horizon * (len(engine.set.members) + 1) * 8 > _LARGEST:
        return "the table of half-widths by visits could become larger than 1 GB"
    return None


class CompiledPlay:
    """Plays the replicas of an engine; what they learn is in the engine's own arrays after each stretch.

    Args:
        mdp: the world.
        engine: plans by visits alone (`why_not_compiled`).
        optimal_value: V*(s0), for regret; None to measure none.
        certify: whether to certify every episode.
    """

    def __init__(
        self, mdp: FiniteMDP, engine: MatrixRLEngine, optimal_value: float | None, *, certify: bool = False
    ) -> None:
        self._mdp, self._engine = mdp, engine
        successors = mdp.transitions.successors()
        assert successors is not None
        self._successors = successors
        self._world = self._make_world(optimal_value)
        self._certify, self._prefers = certify, engine.settings.ties == "estimate"
        self._views: dict[str, Any] = {}
        """What is made of the data at the agent's radius, at the lean one that breaks ties, at the proven one."""
        self._known: Any = None
        self._in_step_with: tuple[int, int] = (-1, -1)

    @property
    def _code(self) -> Any:
        """The loops; importing them takes half a second, compiling them the first time ten."""
        from matrixrl.simulate import tabular

        return tabular

    def prepare(self) -> None:
        """Load the loops, or compile them where nobody has yet: by playing no episode at all."""
        self._run(
            np.zeros((self._engine.n_replicas, 0, self._mdp.n_actions), dtype=np.int64),
            np.zeros((self._engine.n_replicas, 0, self._mdp.draws_per_episode)),
            certifies=self._certify,
        )

    def play(self, ties: Sequence[np.random.Generator], streams: Sequence[np.random.Generator], count: int) -> Stretch:
        """Play and learn `count` episodes in every replica.

        Args:
            ties: the streams that break ties.
            streams: the streams of the world.
            count: n.
        """
        engine, task = self._engine, self._mdp.task
        ranking = np.tile(np.arange(task.n_actions), (count, 1))
        ranks = np.stack([rng.permuted(ranking, axis=1) for rng in ties])
        uniforms = np.stack([rng.random((count, self._mdp.draws_per_episode)) for rng in streams])
        played = self._run(ranks, uniforms, certifies=self._certify)
        engine.design.restore({"counts": self._known.counts})
        engine.episode += count
        engine.plans += count
        self._in_step_with = self._version()
        return Stretch(
            states=played.states[:, :, :-1],
            actions=played.actions,
            regret=played.regret,
            returns=played.returns,
            upper=task.to_own_unit(played.upper),
            certified=task.to_own_unit(played.certified),
        )

    def certify_advice(self) -> tuple[FloatArray, FloatArray]:
        """Return, for each replica, upper and lower bound of the policy that all data advise: each (B,)."""
        n_replicas, n_actions = self._engine.n_replicas, self._mdp.n_actions
        lowest_first = np.tile(np.arange(n_actions)[::-1], (n_replicas, 1, 1))
        played = self._run(lowest_first, np.zeros((n_replicas, 1, 0)), certifies=True, learns=False)
        if not self._certify:  # it would not be kept up to date
            del self._views["proven"]
        own = self._mdp.task.to_own_unit(played.certified[:, 0])
        return own[:, 1], own[:, 0]

    def _run(self, ranks: IntArray, uniforms: FloatArray, *, certifies: bool, learns: bool = True) -> Any:
        """Run the loops for ranks (B, n, A) of actions and uniforms (B, n, D)."""
        task, (n_replicas, count, n_actions) = self._mdp.task, ranks.shape
        self._get_in_step(count, certifies)
        shape = (n_replicas, count)
        played = self._code.Played(
            states=np.zeros((*shape, task.horizon + 1), dtype=np.int64),
            actions=np.zeros((*shape, task.horizon), dtype=np.int64),
            regret=np.full(shape, np.nan),
            returns=np.zeros(shape),
            upper=np.zeros(shape),
            certified=np.full((*shape, 2), np.nan),
        )
        tie_break = rank_weight(task.horizon, prefers=self._prefers) * (ranks / n_actions)
        # A view that is not asked for is never read: the agent's own stands in its place.
        agent, lean, proven = (tuple(self._views.get(name, self._views["agent"])) for name in _VIEWS)
        weight = TIE if self._prefers else 0.0
        world, known = tuple(self._world), tuple(self._known)
        self._code.play_episodes(
            world, agent, lean, proven, known, tie_break, uniforms, weight, certifies, learns, tuple(played)
        )
        return played

    def _make_world(self, optimal_value: float | None) -> Any:
        mdp, task, successors = self._mdp, self._mdp.task, self._successors
        low, high = task.reward_range
        start_cdf = np.cumsum(task.start)
        return self._code.World(
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
            optimal_value=optimal_value or 0.0,
            judged=optimal_value is not None,
        )

    def _version(self) -> tuple[int, int]:
        """Return what changes when somebody else has changed what the engine has learned."""
        return self._engine.episode, id(self._engine.cross_moment)

    def _get_in_step(self, count: int, certifies: bool) -> None:
        """Take over what the engine has learned elsewhere, and see that the tables last for `count` episodes."""
        if self._known is None or self._in_step_with != self._version():
            self._known = self._index()
            self._views.clear()
            self._in_step_with = self._version()
        wanted = {"agent": True, "lean": self._prefers, "proven": certifies}
        most = int(self._known.visits.max()) + count * self._engine.task.horizon
        for name, how in _VIEWS.items():
            lasts = name in self._views and most < self._views[name].by_visits.shape[1]
            if wanted[name] and not lasts:
                # A quarter in hand: growing is rare, and long runs are not asked for twice the memory.
                rules = HalfWidthTable.of(self._engine, most + most // 4 + 1, **how)
                self._views[name] = self._view(rules)
                self._code.look_at_all(tuple(self._views[name]), tuple(self._known))

    def _view(self, rules: HalfWidthTable) -> Any:
        engine = self._engine
        n_replicas, n_pairs = engine.n_replicas, engine.features.phi.d
        reward = np.tile(engine.task.unit_reward.T.ravel(), (n_replicas, 1))
        return self._code.View(
            ridge=engine.ridge,
            centre=rules.centre,
            norm=rules.norm,
            constant=rules.constant,
            is_normalised=engine.set.is_normalised,
            by_visits=rules.half_width,
            learns_reward=not engine.settings.known_reward,
            reward_by_visits=rules.reward_half_width,
            end_reward=float((0.0 - engine.task.reward_range[0]) / engine.task.unit),
            half_width=np.zeros((n_replicas, len(rules.centre), n_pairs)),
            most=reward,
            least=reward.copy(),
        )

    def _index(self) -> Any:
        """Return what was learned with the successors of each pair listed, those of the engine's dense counts."""
        engine, n_pairs = self._engine, self._engine.features.phi.d
        n_replicas, width = engine.n_replicas, self._successors.states.shape[1]
        successors = np.zeros((n_replicas, width, n_pairs), dtype=np.uint32)
        times = np.zeros((n_replicas, width, n_pairs))
        counted = np.zeros((n_replicas, n_pairs), dtype=np.int64)
        for b, moment in enumerate(engine.cross_moment):
            pairs, following = np.nonzero(moment)
            self._refuse_impossible(pairs, following)
            counted[b] = np.bincount(pairs, minlength=n_pairs)
            place = np.arange(len(pairs)) - (np.cumsum(counted[b]) - counted[b])[pairs]
            successors[b, place, pairs] = following
            times[b, place, pairs] = moment[pairs, following]
        counts = engine.design.arrays()["counts"]
        return self._code.Learned(
            visits=counts.astype(np.int64),
            n_successors=counted,
            widest=counted.max(axis=1),
            successors=successors,
            times=times,
            counts=counts,
            moment=engine.cross_moment,
            reward_moment=engine.reward_moment,
            shrink=1.0 / (engine.ridge + counts),
        )

    def _refuse_impossible(self, pairs: IntArray, following: IntArray) -> None:
        """Refuse data that this P could not have made: the loops have no room for them."""
        listed = (self._successors.states[pairs] == following[:, None]) & (self._successors.chance[pairs] != 0.0)
        wrong = np.flatnonzero(~listed.any(axis=1))
        if len(wrong):
            action, state = divmod(int(pairs[wrong[0]]), self._mdp.n_states)
            step = f"state {state}, action {action}, next state {int(following[wrong[0]])}"
            fail("what was learned", "must come from this MDP", step, "Go on in the MDP that it was learned in.")
