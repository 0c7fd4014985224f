"""Code of a user's own that specs refer to as "own_code:Name": an agent, a set, a radius and two environments."""

from __future__ import annotations

import gymnasium as gym
import numpy as np

from matrixrl import FiniteMDP, MDPEnv
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.baselines import PSRL
from matrixrl.core import Radius
from matrixrl.core.sets import Reach, SingleSet, Split


class Counter(FiniteAlgorithm):
    """Value iteration on counts of transitions, with a bonus for rare pairs."""

    name = "counter"
    learned_names = ("counts",)

    def __init__(self, bonus=1.0):
        self.bonus = float(bonus)

    def begin(self):
        super().begin()
        sizes = self.task.n_actions, self.task.n_states, self.task.n_states
        self.counts = np.zeros((self.n_replicas, *sizes))

    def make_plan(self):
        visits = self.counts.sum(axis=3)
        model = self.counts / np.maximum(visits, 1.0)[..., None]
        bonus = self.bonus / np.sqrt(np.maximum(visits, 1.0))
        return self.induct(lambda _, v: self.unit_reward + bonus + np.einsum("bast,bt->bas", model, v))

    def learn(self, steps):
        replica = np.broadcast_to(np.arange(self.n_replicas)[:, None], steps.actions.shape)
        np.add.at(self.counts, (replica, steps.actions, steps.states, steps.next_states), steps.weights)


class Wide(Counter):
    """The same, with a base class that was initialised, as most users write it."""

    name = "wide"

    def __init__(self, bonus=1.0):
        super().__init__(bonus)
        FiniteAlgorithm.__init__(self)


class Cooler(PSRL):
    """A baseline with a constructor of its own: other arguments, and one that has another meaning than a setting."""

    name = "cooler"

    def __init__(self, heat=1.0, prior=4.0):
        super().__init__(preset="tuned", prior=prior / 2)
        self.heat = heat


class Warmer(PSRL):
    """A baseline with a constructor that passes all other settings on, and changes one."""

    name = "warmer"

    def __init__(self, heat=1.0, **settings):
        super().__init__(**{**settings, "prior": 2.0 * settings.get("prior", 1.0)})
        self.heat = heat


class Ball(SingleSet):
    """The Frobenius ball, with a representation that is not a reference."""

    name = "ball"

    def __repr__(self):
        return "Ball()"

    def reach(self, design, radius, alarm_radius, slack):
        return Reach(radius * np.sqrt(design.width_sq))

    def split(self, v):
        return Split(np.zeros(len(v)), v, np.sqrt((v * v).sum(axis=1)))

    def contains(self, error, radius):
        return np.sqrt((error * error).sum(axis=(1, 2))) <= radius


class Slow(Radius):
    """A radius that grows with the logarithm of the episode."""

    name = "slow"

    def __call__(self, inputs):
        return np.full((inputs.n_replicas, 1), 0.1 * np.sqrt(1.0 + np.log(inputs.episode)))


slow = Slow()


class Ring(MDPEnv):
    """States on a ring; stay, or move on with probability 0.8; the last state pays."""

    def __init__(self, n_states=4, horizon=6):
        table = np.zeros((n_states, 2, n_states))
        reward = np.zeros((n_states, 2))
        for s in range(n_states):
            table[s, 0, s] = 1.0
            table[s, 1, [s, (s + 1) % n_states]] = 0.2, 0.8
        reward[-1, 0] = 1.0
        super().__init__(FiniteMDP(table, reward, horizon))


class Walk(gym.Env):
    """A walk on a line without a transition table."""

    observation_space = gym.spaces.Discrete(5)
    action_space = gym.spaces.Discrete(2)
    horizon = 8

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = int(self.np_random.integers(5))
        return self.state, {}

    def step(self, action):
        move = (1 if action else -1) if self.np_random.random() < 0.9 else 0
        self.state = int(np.clip(self.state + move, 0, 4))
        return self.state, float(self.state == 4), False, False, {}


def neighbours(task):
    """Features that two states share: φ of shape (S, A, d)."""
    group = np.arange(task.n_states) // 2
    return np.einsum("sg,ab->sagb", np.eye(group[-1] + 1)[group], np.eye(task.n_actions)).reshape(
        task.n_states, task.n_actions, -1
    )


def make_ring(n_states=4):
    return Ring(n_states)
