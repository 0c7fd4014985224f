"""Continuous problems that many tests share."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from matrixrl import FunctionalTask

CENTRES = np.linspace(0.0, 1.0, 5)


def hats(x):
    """Five functions on [0, 1] that sum to one: (k,) → (k, 5)."""
    return np.maximum(0.0, 1.0 - 4.0 * np.abs(x[..., None] - CENTRES))


class Line(gym.Env):
    """A point on [0, 1] that aims left or right and lands around the centres near its aim; the right end pays."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)
    horizon = 8

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = np.zeros(1)
        return self.place, {}

    def step(self, action):
        aim = float(np.clip(self.place[0] + (0.2 if action == 1 else -0.2), 0.0, 1.0))
        shares = hats(np.array([aim]))[0]
        centre = CENTRES[self.np_random.choice(5, p=shares)]
        offset = self.np_random.triangular(-0.25, 0.0, 0.25)
        self.place = np.array([abs(1.0 - abs(1.0 - abs(centre + offset)))])  # reflected at both ends
        return self.place, float(shares[-1]), False, False, {}


def aims(states):
    right = np.clip(states[:, 0] + 0.2, 0.0, 1.0)
    left = np.clip(states[:, 0] - 0.2, 0.0, 1.0)
    return np.stack([hats(left), hats(right)], axis=1)


def line(**changes):
    settings = {
        "phi": aims,
        "psi": lambda states: hats(states[:, 0]),
        "sampler": lambda rng, m: (rng.random((m, 1)), np.full(m, 1.0 / m)),
        "n_actions": 2,
        "horizon": 8,
        "reward": lambda states: aims(states)[:, :, -1],
        "start": [0.0],
        "env": Line(),
    }
    return FunctionalTask(**{**settings, **changes})


class Shifted(Line):
    """`Line` with the rewards 5r − 3."""

    def step(self, action):
        place, reward, *rest = super().step(action)
        return place, 5.0 * reward - 3.0, *rest


class Buffer(gym.Env):
    """Walks on [0, 1] and returns the same float64 array every time."""

    observation_space = gym.spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.buffer = np.array([0.5])
        return self.buffer, {}

    def step(self, action):
        self.buffer[0] = np.clip(self.buffer[0] + (0.1 if action else -0.1), 0.0, 1.0)
        return self.buffer, float(self.buffer[0]), False, False, {}
