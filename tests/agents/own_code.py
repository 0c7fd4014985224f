"""A user's own classes, in a module that can be imported by name."""

from __future__ import annotations

import numpy as np

from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.baselines import PSRL
from matrixrl.core import Radius
from matrixrl.core.sets.balls import FrobeniusBall


class Unnamed(FiniteAlgorithm):
    """An algorithm without a name of its own, whose constructor takes something that is no setting."""

    learned_names = ("total",)

    def __init__(self, bonus=1.0):
        self.bonus = bonus

    def begin(self):
        super().begin()
        self.total = np.zeros(self.n_replicas)

    def make_plan(self):
        return self.induct(lambda _, values: self.unit_reward + self.bonus * values.mean(axis=1)[:, None, None])

    def learn(self, steps):
        self.total += steps.rewards.sum(axis=1)


class AlsoUnnamed(Unnamed):
    """Another one."""


class Posterior(PSRL):
    """A subclass that has the name of the library's."""


class OwnBall(FrobeniusBall):
    """A set with a parameter."""

    def __init__(self, factor=1.0):
        self.factor = factor


class Shrinking(Radius):
    """A radius with a parameter."""

    def __init__(self, power=1.0):
        self.power = power

    def __call__(self, inputs):
        return np.full((inputs.n_replicas, 1), inputs.episode**-self.power)
