"""What players of compiled episodes share: random numbers, results and the table of the MDP."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from matrixrl.algorithms.matrix_rl import FiniteMatrixRL
from matrixrl.checks import fail
from matrixrl.core.greedy import tie_weights
from matrixrl.problems import FiniteMDP
from matrixrl.records import FloatArray, IntArray
from matrixrl.simulate.stretch import Stretch
from matrixrl.tolerances import TIE

__all__ = ["CompiledPlayer"]


class CompiledPlayer(ABC):
    """Plays the replicas of an algorithm; what they learn is in the algorithm's own arrays after each stretch.

    Args:
        mdp: The MDP that is played.
        algorithm: The algorithm, started on the MDP.
        regret: V*(s0), and the number of episodes from one in which regret is measured to the next; None to measure
            none.
        certify: Whether to certify every episode.
    """

    def __init__(
        self, mdp: FiniteMDP, algorithm: FiniteMatrixRL, regret: tuple[float, int] | None, *, certify: bool = False
    ) -> None:
        self._mdp, self._finite = mdp, algorithm
        successors = mdp.transitions.successors()
        assert successors is not None
        self._successors = successors
        self._world = self._make_world(*(regret or (0.0, 0)))
        self._certify, self._prefers = certify, algorithm.settings.ties == "estimate"

    @property
    def _in_world(self) -> Any:
        """The module of the world's loops; importing numba takes half a second."""
        from matrixrl.simulate.compiled import world

        return world

    @abstractmethod
    def _play_in_loops(
        self, tie_break: FloatArray, uniforms: FloatArray, weight: float, *, certifies: bool, learns: bool, played: Any
    ) -> None:
        """Fill in the results of n episodes.

        Args:
            tie_break: (B, n, A) Numbers that break ties.
            uniforms: (B, n, D) Random numbers of the MDP.
            weight: Factor of the preference that breaks ties first; 0 if it is not used.
            certifies: Whether every episode is certified.
            learns: False leaves everything that was learned unchanged.
            played: Arrays to fill in.
        """

    def _rankings_used(self, count: int) -> IntArray:
        """Return how many of `count` rankings of actions each replica took: (B,)."""
        return np.full(self._finite.n_replicas, count)

    def prepare(self) -> None:
        """Load the loops, or compile them if they are not cached, by playing no episode at all."""
        self._run(
            np.zeros((self._finite.n_replicas, 0, self._mdp.n_actions), dtype=np.int64),
            np.zeros((self._finite.n_replicas, 0, self._mdp.draws_per_episode)),
            certifies=self._certify,
        )

    def play(self, streams: Sequence[np.random.Generator], count: int) -> Stretch:
        """Play and learn `count` episodes in every replica.

        Args:
            streams: Random streams of the MDP.
            count: Number of episodes n.
        """
        task = self._mdp.task
        ranking, ties = np.tile(np.arange(task.n_actions), (count, 1)), self._finite.streams["ties"]
        before = [rng.bit_generator.state for rng in ties]
        ranks = np.stack([rng.permuted(ranking, axis=1) for rng in ties])
        uniforms = np.stack([rng.random((count, self._mdp.draws_per_episode)) for rng in streams])
        played = self._run(ranks, uniforms, certifies=self._certify)
        for rng, state, used in zip(ties, before, self._rankings_used(count), strict=True):
            if used < count:  # rankings are drawn for plans only
                rng.bit_generator.state = state
                rng.permuted(ranking[:used], axis=1)
        return Stretch(
            states=played.states[:, :, :-1],
            actions=played.actions,
            regret=played.regret,
            returns=played.returns,
            lengths=played.lengths,
            upper=task.to_own_unit(played.upper + task.tail),
            alarms=np.zeros(played.upper.shape, dtype=np.bool_),
            certified=self._certified(played),
        )

    def certify_advice(self) -> tuple[FloatArray, FloatArray]:
        """Return, for each replica, upper and lower bound of the policy that all data advise: each (B,)."""
        n_replicas, n_actions = self._finite.n_replicas, self._mdp.n_actions
        lowest_first = np.tile(np.arange(n_actions)[::-1], (n_replicas, 1, 1))
        played = self._run(lowest_first, np.zeros((n_replicas, 1, 0)), certifies=True, learns=False)
        own = self._certified(played)[:, 0]
        return own[:, 1], own[:, 0]

    def _certified(self, played: Any) -> FloatArray:
        """Return certificates (B, n, 2) in the environment's unit; steps that are cut off may earn all or nothing."""
        task = self._mdp.task
        return task.to_own_unit(played.certified + np.array([0.0, task.tail]))

    def _run(self, ranks: IntArray, uniforms: FloatArray, *, certifies: bool, learns: bool = True) -> Any:
        """Run the loops for ranks (B, n, A) of actions and uniforms (B, n, D)."""
        task, (n_replicas, count, n_actions) = self._mdp.task, ranks.shape
        shape = (n_replicas, count)
        played = self._in_world.Played(
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
        self._play_in_loops(tie_break, uniforms, weight, certifies=certifies, learns=learns, played=played)
        return played

    def _make_world(self, optimal_value: float, every: int) -> Any:
        mdp, task, successors = self._mdp, self._mdp.task, self._successors
        low, high = task.reward_range
        start_cdf = np.cumsum(task.start)
        return self._in_world.World(
            lists=successors.firsts.astype(np.uint64),
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
            end_values=self._finite.frame.end_values(),
            discount=task.discount,
            choices=self._finite.frame.choices,
            optimal_value=optimal_value - task.tail * task.reward_range[0],
            every=every,
            ones=np.ones(mdp.n_states),
        )

    def forbid(self, most: FloatArray) -> None:
        """Set the largest believed rewards (…, P) of pairs that are not allowed to −∞, so that no plan has them.

        Their visits stay 0, so the loops leave them as they are.
        """
        if self._finite.allowed is not None:
            most[..., ~self._finite.allowed.ravel()] = -np.inf

    def refuse_impossible(self, pairs: IntArray, following: IntArray) -> None:
        """Refuse data that this P could not have produced: they come from another MDP."""
        actions, states = np.divmod(pairs, self._mdp.n_states)
        wrong = np.flatnonzero(~self._successors.contain(states * self._mdp.n_actions + actions, following))
        if len(wrong):
            state, action = int(states[wrong[0]]), int(actions[wrong[0]])
            step = f"state {state}, action {action}, next state {int(following[wrong[0]])}"
            fail("what was learned", "must come from this MDP", step, "Go on in the MDP that it was learned in.")
