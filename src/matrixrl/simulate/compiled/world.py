"""The MDP that compiled episodes are played in: draws of episodes, rewards and exact regret, and room for results."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.compiling.jit import compiled, inlined, lean

__all__ = ["Played", "World", "is_measured", "play_one", "regret_of", "reward_of"]


class World(NamedTuple):
    """The MDP, known to the simulation.

    Attributes:
        lists: (P + 1,) position of the first successor of each pair, whose number is s·A + a here alone; unsigned.
        following: (E,) the successors, unsigned.
        chance: (E,) their probabilities.
        cdf: (E,) their running sums, which uniform numbers are compared with.
        start: (S,) the distribution of first states.
        start_cdf: (S,) its running sums.
        reward: (P,) expected rewards in the environment's unit.
        pays: (P,) the probability of the high end of the range, where rewards are noisy.
        low: Low end of the range.
        high: High end of the range.
        noisy: Whether rewards are drawn.
        end_state: Absorbing state, or -1.
        end_values: (H,) Its unit value at every stage.
        discount: Factor of each step.
        choices: (H, 2) First action of each stage, and the one after its last.
        optimal_value: V*(s0), less what steps that are cut off from an endless episode are worth at least.
        every: Regret is measured in every so many episodes; 0 measures none.
        ones: (S,) u = Ψᵀ1 of one-hot ψ.
    """

    lists: Any
    following: Any
    chance: Any
    cdf: Any
    start: Any
    start_cdf: Any
    reward: Any
    pays: Any
    low: float
    high: float
    noisy: bool
    end_state: int
    end_values: Any
    discount: float
    choices: Any
    optimal_value: float
    every: int
    ones: Any


class Played(NamedTuple):
    """The results of n episodes.

    Attributes:
        states: (B, n, H + 1) states.
        actions: (B, n, H) actions.
        regret: (B, n) regret, in the environment's unit; unchanged where it is not measured.
        returns: (B, n) returns, likewise.
        lengths: (B, n) number of steps taken.
        upper: (B, n) the optimistic value of the start, in unit reward.
        certified: (B, n, 2) lower and upper bound of each episode's certificate, likewise.
    """

    states: Any
    actions: Any
    regret: Any
    returns: Any
    lengths: Any
    upper: Any
    certified: Any


# The loops take plain tuples, as core.compiled.backup explains; fields are found by their place.
(LISTS, FOLLOWING, CHANCE, CDF, START, START_CDF, REWARD, PAYS, LOW, HIGH, NOISY) = range(11)
(END_STATE, END_VALUES, DISCOUNT, CHOICES, OPTIMAL_VALUE, EVERY, ONES) = range(11, 18)
(STATES, ACTIONS, REGRET, RETURNS, LENGTHS, UPPER, CERTIFIED) = range(7)


@inlined
def reward_of(world: Any, pair: int, coin: float) -> float:
    """Return what a step pays in the environment's unit; a coin decides where rewards are noisy."""
    paid: float = world[REWARD][pair]
    if world[NOISY]:
        paid = world[HIGH] if coin < world[PAYS][pair] else world[LOW]
    return paid


@lean
def _invert(cdf: Any, first: int, last: int, uniform: float) -> int:
    """Return the first place from `first` to before `last` whose running sum exceeds the uniform; the last sum is 1."""
    low, high = first, last - 1
    while low < high:
        middle = (low + high) // 2
        if cdf[middle] <= uniform:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def play_one(world: Any, policy: Any, uniforms: Any, states: Any, actions: Any) -> None:
    """Draw one episode: states (H + 1,) and actions (H,)."""
    horizon, n_states = policy.shape
    n_actions = len(world[REWARD]) // n_states
    states[0] = _invert(world[START_CDF], 0, n_states, uniforms[0])
    for h in range(horizon):
        actions[h] = policy[h, states[h]]
        pair = states[h] * n_actions + actions[h]
        first, last = np.int64(world[LISTS][pair]), np.int64(world[LISTS][pair + 1])
        states[h + 1] = world[FOLLOWING][_invert(world[CDF], first, last, uniforms[h + 1])]


@compiled
def regret_of(world: Any, policy: Any, values: Any) -> float:
    """Return V*(s0) − V^π(s0) in the environment's unit; `values` (H + 1, S) is overwritten."""
    horizon, n_states = policy.shape
    n_actions = len(world[REWARD]) // n_states
    lists, following, chance = world[LISTS], world[FOLLOWING], world[CHANCE]
    for h in range(horizon - 1, -1, -1):
        v = world[DISCOUNT] * values[h + 1]
        for s in range(n_states):
            pair = s * n_actions + policy[h, s]
            worth = world[REWARD][policy[h, s] * n_states + s]
            for e in range(lists[pair], lists[pair + 1]):
                worth += chance[e] * v[following[e]]
            values[h, s] = worth
    return float(max(world[OPTIMAL_VALUE] - np.dot(values[0], world[START]), 0.0))


@inlined
def is_measured(world: Any, episode: int) -> bool:
    """Return whether the regret of an episode, counted from 0, is measured."""
    return bool(world[EVERY] > 0 and episode % max(world[EVERY], 1) == 0)
