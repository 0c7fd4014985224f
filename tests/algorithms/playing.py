"""Play algorithms on finite MDPs, with no more of the library than problems and algorithms."""

from __future__ import annotations

import numpy as np
from gymnasium.utils import seeding as gym_seeding

from matrixrl.algorithms.baselines import BASELINES
from matrixrl.problems import Problem, draw_start
from matrixrl.random_streams import stream_seed
from matrixrl.records import Steps


def started(name, problem, seeds=(0,), **settings):
    """Return a baseline that is ready to play a problem, a task or an MDP."""
    chosen = problem if isinstance(problem, Problem) else Problem.of(problem)
    return BASELINES[name](**settings).start(chosen, list(seeds))


class Player:
    """Episodes of B replicas; the random numbers of a replica depend on its seed alone.

    Attributes:
        streams: one generator for each replica; the environment of that seed draws the same numbers.
    """

    def __init__(self, algorithm, mdp=None):
        self.algorithm = algorithm
        self.mdp = algorithm.problem.mdp if mdp is None else mdp
        self.streams = environment_streams(algorithm.seeds)

    def episodes(self, count):
        """Play some episodes and return their plans."""
        return [self.episode()[0] for _ in range(count)]

    def episode(self, plan=None):
        """Play one episode, of a new plan by default, learn from it, and return plan and steps."""
        plan = self.algorithm.plan() if plan is None else plan
        steps = self.steps(plan)
        self.algorithm.update(steps)
        return plan, steps

    def steps(self, plan):
        """Play one episode without learning."""
        mdp, n = self.mdp, self.algorithm.n_replicas
        uniforms = np.stack([stream.random(mdp.draws_per_episode) for stream in self.streams])
        first, following, coins = mdp.episode_draws(uniforms)
        states = np.empty((n, mdp.horizon + 1), dtype=np.int64)
        actions = np.empty((n, mdp.horizon), dtype=np.int64)
        rewards = np.empty((n, mdp.horizon))
        states[:, 0] = draw_start(mdp.task.start, first)
        for h in range(mdp.horizon):
            actions[:, h] = self.algorithm.act(plan, h, states[:, h])
            rewards[:, h] = mdp.earn(states[:, h], actions[:, h], coins[:, h])
            states[:, h + 1] = mdp.transitions.sample(states[:, h], actions[:, h], following[:, h])
        before, after = states[:, :-1], states[:, 1:]
        taken = np.ones(before.shape, dtype=bool)
        ended = np.zeros(before.shape, dtype=bool)
        if mdp.task.end_state is not None:
            taken = before != mdp.task.end_state
            ended = taken & (after == mdp.task.end_state)
        return Steps.of(before, actions, rewards * taken, after, ended, taken)


def environment_streams(seeds):
    return [gym_seeding.np_random(stream_seed(seed, "env"))[0] for seed in seeds]
