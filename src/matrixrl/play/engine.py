"""The engine: one algorithm plays, measures and learns episodes in one world. An agent is an engine with one seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from matrixrl.algorithms import Algorithm
from matrixrl.measurement import is_measured
from matrixrl.play.results import Chunk
from matrixrl.play.rollout import EnvWorld, Finished, GivenPlan, TableWorld
from matrixrl.problems import RegretEvaluator
from matrixrl.records import IntArray

__all__ = ["Engine"]

R = TypeVar("R")


class Engine:
    """Plays episodes: plan, certify, play, learn; an episode that is interrupted leaves no trace.

    Args:
        algorithm: The algorithm, started.
        world: Where episodes are played; None for episodes that others play.

    Attributes:
        evaluator: Measures exact regret; None where P is not known.
        regret_every: Regret is measured in the episodes 0, k, 2k, …; 0 if it is not measured.
        certifies_first_state: Whether certificates are about the first state of each episode, because no start is
            declared and states are not numbered; of numbered first states the distribution is estimated.
    """

    def __init__(self, algorithm: Algorithm, world: TableWorld | EnvWorld | None) -> None:
        problem = algorithm.problem
        self.algorithm, self.world = algorithm, world
        self.evaluator = None if problem.mdp is None else RegretEvaluator(problem.mdp)
        measures = self.evaluator is not None and algorithm.has_policy_table
        self.regret_every = problem.regret_every if measures else 0
        has_start = problem.task.start_is_declared
        self._values_first_state = not isinstance(world, TableWorld) and not has_start
        self.certifies_first_state = problem.kind != "finite" and not has_start

    def play(
        self,
        learn: Callable[[Finished], R],
        certify: Callable[[Any, Any], Any] | None = None,
        policy: IntArray | None = None,
    ) -> R:
        """Play one episode and return what `learn` returns for it.

        Args:
            learn: Function that learns from the episode.
            certify: Function of a plan and a first state that certifies the plan; the state is None where the start is
                declared or estimated, and the plan is certified before it is played.
            policy: (H, S) Actions to play in place of those of the plan.
        """
        algorithm, world, certificate = self.algorithm, self.world, None
        assert world is not None
        mark = self.mark()
        try:
            plan = algorithm.plan()
            if policy is None:
                plan = algorithm.begun(plan)
            else:
                plan = GivenPlan(policy[None].astype(plan.policy.dtype), plan.values, plan.empty)
            if certify is not None and not self.certifies_first_state:
                certificate = certify(plan, None)
            played = world.play(algorithm, plan)
            if certify is not None and self.certifies_first_state:
                certificate = certify(plan, played.steps.states[0, 0])
            every_gap = policy is not None or algorithm.certifier.purpose == "certificate"
            return learn(played._replace(every_gap=every_gap, certificate=certificate, first_plan=plan, given=policy))
        except BaseException:
            self.rewind(mark)
            raise

    def mark(self) -> tuple[int, Any, Any]:
        """Return the number of episodes and the random streams, to go back to."""
        assert self.world is not None
        return self.algorithm.episode, self.world.mark(), self.algorithm.mark()

    def rewind(self, mark: tuple[int, Any, Any]) -> None:
        """Go back to what `mark` returned, unless an episode was learned from since."""
        n, streams, undo_plan = mark
        if self.algorithm.episode == n and self.world is not None:
            undo_plan()
            self.world.rewind(streams)

    def measure(self, number: int, played: Finished) -> Chunk:
        """Return the numbers of an episode of every replica, counted from 0, before it is learned from."""
        algorithm, plan, steps = self.algorithm, played.plan, played.steps
        shape = (len(steps.rewards), 1)
        regret = np.full(shape, np.nan)
        if self.evaluator is not None and is_measured(number, self.regret_every) and not played.off_plan:
            regret = self.evaluator.regret(algorithm.policy_table(plan))[:, None]
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
