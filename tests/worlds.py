"""Small problems and data that many tests share."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
from scipy.linalg import sqrtm

from matrixrl.algorithms import UCMatrixRL
from matrixrl.core import Level, MatrixBounds, SetContext
from matrixrl.envs import policy_value
from matrixrl.problems import EmbeddedMDP, FiniteMDP, Problem, solve
from matrixrl.records import Steps
from small_worlds import WORLDS, Batch, phi_rows, random_batch


class Hidden(gym.Env):
    """Three states in a row, a reward for reaching the last one, and no transition table."""

    observation_space = gym.spaces.Discrete(3)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 0
        return 0, {}

    def step(self, action):
        self.state = min(self.state + 1, 2) if action == 1 else 0
        done = self.state == 2
        return self.state, float(done), done, False, {}


def algorithm_with_data(
    world: EmbeddedMDP, rng: np.random.Generator, *, episodes: int, n_replicas: int = 1, **settings: object
) -> tuple[UCMatrixRL, list[Batch]]:
    """Return UC-MatrixRL with a ball (the normalised one by default) and optimistic plans after random transitions."""
    algorithm = UCMatrixRL(**{"preset": "optimistic", "set": "normalised", **settings}).start(
        Problem.of(world.mdp, world.features), range(n_replicas)
    )
    seen = []
    for _ in range(episodes):
        batch = random_batch(world, rng, n_replicas, world.mdp.horizon)
        learn(algorithm, world, batch)
        seen.append(batch)
    return algorithm, seen


def learn(algorithm: UCMatrixRL, world: EmbeddedMDP, batch: Batch) -> None:
    algorithm.update(batch.steps(world.mdp.task.reward[batch.states, batch.actions]))


def random_steps(mdp: FiniteMDP, rng: np.random.Generator, n_replicas: int) -> Steps:
    """Return an episode of states, actions, next states and rewards that are all drawn at random."""
    shape = (n_replicas, mdp.horizon)
    states, actions, following = (rng.integers(0, n, shape) for n in (mdp.n_states, mdp.n_actions, mdp.n_states))
    return Steps.of(states, actions, rng.random(shape), following)


def model_radii(algorithm: UCMatrixRL, level: Level = "agent") -> np.ndarray:
    """Return √β of the set for the next episode: (B, 1) or (B, P)."""
    return algorithm.model.confidence.radii(algorithm.model.design, algorithm.clock, level=level).models


def set_context(world: EmbeddedMDP) -> SetContext:
    psi = world.features.psi
    return SetContext(
        psi.total, world.features.phi.d, world.mdp.horizon, psi.constants.c_psi, psi.constants.c_psi_max_norm
    )


class UnclippedBounds(MatrixBounds):
    """Bounds that are not clipped to the range of the values, as functions of v = ΨᵀV."""

    def __post_init__(self):
        super().__post_init__()
        object.__setattr__(self, "is_normalised", False)


def set_bounds(world, algorithm, v, radius, *, kind, sign=1.0, alarm_radius=None):
    """Return our bounds on φᵀMv for all pairs (before any clip), and the object that they come from."""
    size = np.array([[radius]])
    bounds = MatrixBounds.of(
        world.features.phi,
        world.features.psi,
        kind().bind(set_context(world)),
        algorithm.model.design,
        algorithm.model.core_matrix(),
        (size, size if alarm_radius is None else np.array([[alarm_radius]])),
        (algorithm.unit_reward, algorithm.unit_reward),
    )
    given = SimpleNamespace(project=lambda v: v)
    fields = bounds.core_matrix, bounds.confidence_set, bounds.reaches, bounds.slack, bounds.most, bounds.least
    return UnclippedBounds(bounds.phi, given, *fields).bound(v, sign=sign).ravel(), bounds


def ball_setting(name, rng, episodes=6):
    """Return a world with data: algorithm, φ rows, A_n^{1/2} from the data themselves, v = ΨᵀV, a radius."""
    world = WORLDS[name](11)
    algorithm, seen = algorithm_with_data(world, rng, episodes=episodes)
    rows = phi_rows(world)
    used = np.concatenate([rows[world.features.phi.pairs(b.states[0], b.actions[0])] for b in seen])
    root = np.real(sqrtm(np.eye(rows.shape[1]) + used.T @ used))
    values = rng.random((1, world.mdp.n_states)) * 4
    v = world.features.psi.project(values)
    return world, algorithm, rows, root, v, 0.7


@contextmanager
def interrupted_at(agent, call):
    """Raise KeyboardInterrupt at the given call of the algorithm's `act`, and expect it to come through."""
    algorithm, calls = agent.algorithm, []
    act = algorithm.act

    def acting(*arguments, **options):
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return act(*arguments, **options)

    algorithm.act = acting
    try:
        with pytest.raises(KeyboardInterrupt):
            yield
    finally:
        del algorithm.act


def myopic_loss(mdp: FiniteMDP) -> float:
    """Return what is lost by always taking the largest expected reward of the step, as a share of V*."""
    reward = mdp.task.reward
    greedy = (reward == reward.max(axis=1, keepdims=True)).astype(float)
    return 1.0 - policy_value(mdp, greedy / greedy.sum(axis=1, keepdims=True)) / solve(mdp).start_value
