"""The engine: one algorithm plays, measures and learns episodes in one world. An agent is an engine with one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from matrixrl.algorithms import Algorithm
from matrixrl.measurement import is_measured
from matrixrl.play.results import Chunk
from matrixrl.play.rollout import EnvWorld, TableWorld
from matrixrl.problems import RegretEvaluator
from matrixrl.records import Steps

__all__ = ["Engine", "Finished"]

R = TypeVar("R")


class Finished(NamedTuple):
    """An episode that was played, to be learned from."""

    plan: Any  # at its end: some algorithms revise plans
    steps: Steps  # (B, k)
    off_plan: bool = False  # whether an action was not that of the plan
    is_certifying: bool = False  # whether it explored for a certificate: its plan need not be greedy
    is_drawn: bool = False  # whether the agent's own MDP drew the first state
    certificate: Any = None  # what the engine was given to certify the plan with, if anything
    first_plan: Any = None  # at its begin


class Engine:
    """Plays episodes: plan, certify, play, learn; an episode that is interrupted leaves no trace.

    Args:
        algorithm: The algorithm, started.
        world: Where episodes are played; None for episodes that others play.
        evaluator: Measures exact regret; None where it is not measured.
        every: Regret is measured in the episodes 0, k, 2k, …; 0 measures none.
    """

    def __init__(
        self, algorithm: Algorithm, world: TableWorld | EnvWorld | None, evaluator: RegretEvaluator | None, every: int
    ) -> None:
        task, is_finite = algorithm.problem.task, algorithm.problem.kind == "finite"
        self.algorithm, self.world, self._evaluator, self._every = algorithm, world, evaluator, every
        self._values_first_state = not isinstance(world, TableWorld) and not task.start_is_declared
        # Where first states are numbered, their distribution is estimated if it is not declared.
        self.certifies_first_state = not is_finite and not task.start_is_declared

    def play(self, learn: Callable[[Finished], R], certify: Callable[[Any, Any], Any] | None = None) -> R:
        """Play one episode and return what `learn` returns for it.

        Args:
            learn: Function that learns from the episode.
            certify: Function of a plan and a first state that certifies the plan; the state is None where the start is
                declared or estimated, and the plan is certified before it is played.
        """
        return self.undone_unless_learned(lambda: learn(self._play(certify)))

    def _play(self, certify: Callable[[Any, Any], Any] | None) -> Finished:
        algorithm, world, certificate = self.algorithm, self.world, None
        assert world is not None
        plan = algorithm.plan()
        if certify is not None and not self.certifies_first_state:
            certificate = certify(plan, None)
        steps, last_plan, off_plan = world.play(algorithm, plan)
        if certify is not None and self.certifies_first_state:
            certificate = certify(plan, steps.states[0, 0])
        is_certifying = algorithm.certifier.purpose == "certificate"
        return Finished(last_plan, steps, off_plan, is_certifying, world.draws_starts, certificate, plan)

    def undone_unless_learned(self, play: Callable[[], R]) -> R:
        """Call a function that plays; put the random streams back if it fails before anything was learned."""
        algorithm, world = self.algorithm, self.world
        assert world is not None
        n, streams, undo_plan = algorithm.episode, world.mark(), algorithm.mark()
        try:
            return play()
        except BaseException:
            if algorithm.episode == n:
                undo_plan()
                world.rewind(streams)
            raise

    def measure(self, number: int, played: Finished) -> Chunk:
        """Return the numbers of an episode of every replica, before it is learned from, without certificates.

        Args:
            number: Number of the episode, counted from 0.
            played: The episode.
        """
        algorithm, plan, steps = self.algorithm, played.plan, played.steps
        shape = (len(steps.rewards), 1)
        regret = np.full(shape, np.nan)
        if self._evaluator is not None and is_measured(number, self._every) and not played.off_plan:
            regret = self._evaluator.regret(algorithm.policy_table(plan))[:, None]
        return Chunk(
            states=steps.states[:, None],
            actions=steps.actions[:, None],
            regret=regret,
            returns=algorithm.problem.task.returns(steps.rewards)[:, None],
            lengths=steps.taken.sum(axis=1)[:, None],
            upper=algorithm.upper(plan, steps.states[:, 0] if self._values_first_state else None)[:, None],
            alarms=(plan.empty > 0)[:, None],
            certified=np.full((*shape, 2), np.nan),
        )
