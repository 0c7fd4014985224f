"""Small problems and data that many tests share."""

from __future__ import annotations

from contextlib import contextmanager

import gymnasium as gym
import numpy as np
import pytest
from scipy.linalg import sqrtm

from matrixrl.agents import MatrixRLEngine, MatrixRLSettings
from matrixrl.core import SetContext, form_belief
from matrixrl.core.backup import next_value_bound
from matrixrl.problems import EmbeddedMDP
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


def engine_with_data(
    world: EmbeddedMDP, rng: np.random.Generator, *, episodes: int, n_replicas: int = 1, **settings: object
) -> tuple[MatrixRLEngine, list[Batch]]:
    engine = MatrixRLEngine(world.mdp.task, world.features, MatrixRLSettings.resolve(settings), range(n_replicas))
    seen = []
    for _ in range(episodes):
        batch = random_batch(world, rng, n_replicas, world.mdp.horizon)
        learn(engine, world, batch)
        seen.append(batch)
    return engine, seen


def learn(engine: MatrixRLEngine, world: EmbeddedMDP, batch: Batch) -> None:
    rewards = world.mdp.task.reward[batch.states, batch.actions]
    engine.update(batch.states, batch.actions, batch.following, batch.ones, rewards)


def set_context(world: EmbeddedMDP) -> SetContext:
    psi = world.features.psi
    return SetContext(psi.total, world.features.phi.d, world.mdp.horizon, psi.c_psi, psi.c_psi_max_norm)


def set_bounds(world, engine, v, radius, *, kind, sign=1.0, alarm_radius=None):
    """Return our bounds on φᵀMv for all pairs (before any clip), and the belief they come from."""
    size = np.array([[radius]])
    belief = form_belief(
        world.features.phi,
        world.features.psi,
        kind(set_context(world)),
        engine.design,
        engine.core(),
        size,
        size if alarm_radius is None else np.array([[alarm_radius]]),
    )
    parts = [
        next_value_bound(world.features.phi, world.features.psi, belief.core, member.split(v), reach, sign=sign).ravel()
        for member, reach in zip(belief.confidence_set.members, belief.reaches, strict=True)
    ]
    return (np.minimum if sign > 0 else np.maximum).reduce(parts), belief


def ball_setting(name, rng, episodes=6):
    """Return a world with data: engine, φ rows, A_n^{1/2} from the data themselves, v = ΨᵀV, a radius."""
    world = WORLDS[name](11)
    engine, seen = engine_with_data(world, rng, episodes=episodes)
    rows = phi_rows(world)
    used = np.concatenate([rows[engine.features.phi.pairs(b.states[0], b.actions[0])] for b in seen])
    root = np.real(sqrtm(np.eye(rows.shape[1]) + used.T @ used))
    values = rng.random((1, world.mdp.n_states)) * 4
    v = world.features.psi.project(values)
    return world, engine, rows, root, v, 0.7


@contextmanager
def interrupted_at(agent, call):
    """Raise KeyboardInterrupt at the given call of `act`, and expect it to come through."""
    act, calls = agent.act, []

    def acting(obs):
        calls.append(obs)
        if len(calls) == call:
            raise KeyboardInterrupt
        return act(obs)

    agent.act = acting
    with pytest.raises(KeyboardInterrupt):
        yield
    agent.act = act
