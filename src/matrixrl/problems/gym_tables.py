"""Known MDPs behind Gymnasium environments: our own, and any with a transition table `env.unwrapped.P`."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy import sparse

from matrixrl.checks import fail, integer, within
from matrixrl.errors import InvalidInput
from matrixrl.features import Features
from matrixrl.problems.finite import FiniteMDP

__all__ = ["from_gymnasium", "horizon_of", "known_mdp"]


def known_mdp(env: gym.Env[Any, Any]) -> FiniteMDP | None:
    """Return the MDP that an environment of ours carries, or None."""
    mdp = getattr(env.unwrapped, "mdp", None)
    return mdp if isinstance(mdp, FiniteMDP) else None


def horizon_of(env: gym.Env[Any, Any], horizon: int | None = None) -> int:
    """Return the episode length: as given, the environment's own, or its time limit."""
    if horizon is None:
        horizon = getattr(env.unwrapped, "horizon", None)
    if horizon is None and env.spec is not None:
        horizon = env.spec.max_episode_steps
    if horizon is None:
        name = env.spec.id if env.spec is not None else type(env.unwrapped).__name__
        fail("horizon", f"must be given for {name}, which has no time limit", None, "Pass horizon=….")
    return integer("horizon", horizon, low=1, remedy="Give the number of steps in an episode.")


def from_gymnasium(
    env: gym.Env[Any, Any],
    *,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
    features: Features | None = None,
) -> FiniteMDP:
    """Return the finite MDP of a toy-text environment (FrozenLake, Taxi, CliffWalking, …).

    One absorbing end state, earning 0, is added after the environment's own states: every transition that
    the table marks as terminated leads there. The reward of a pair is its expected reward.

    Args:
        env: the environment; one of ours gives back the MDP it carries.
        horizon: steps in an episode; the environment's time limit by default.
        reward_range: declared range of rewards; by default the smallest range with 0 that holds them all.
        features: for n_states + 1 states; one-hot by default.

    >>> mdp = from_gymnasium(gym.make("FrozenLake-v1"), horizon=20)
    >>> mdp.n_states, mdp.task.end_state
    (17, 16)
    """
    if not isinstance(env, gym.Env):
        fail("env", "must be a Gymnasium environment", type(env).__name__, "Make one with gymnasium.make.")
    carried = known_mdp(env)
    if carried is not None:
        for name, value in (("horizon", horizon), ("reward_range", reward_range), ("features", features)):
            if value is not None:
                fail(name, "cannot be changed on an environment of matrixrl", value, "Make it with that value.")
        return carried
    table = getattr(env.unwrapped, "P", None)
    observations, actions = env.observation_space, env.action_space
    if table is None or not isinstance(observations, spaces.Discrete):
        fail(
            "env",
            "must have discrete states and a transition table env.unwrapped.P",
            f"{type(env.unwrapped).__name__} with {observations}",
            "Build a matrixrl.FiniteMDP from your own P and R instead.",
        )
    if not isinstance(actions, spaces.Discrete):
        fail("env", "must have discrete actions", str(actions), "Offer a finite set of actions.")
    n, n_actions, end = int(observations.n), int(actions.n), int(observations.n)
    if observations.start != 0 or actions.start != 0:
        fail("env", "must number states and actions from 0", f"{observations} and {actions}", "Wrap it to shift them.")
    rows, cols, probabilities = [], [], []
    reward = np.zeros((n + 1, n_actions))
    earned = [0.0]
    try:
        for s in range(n):
            for a in range(n_actions):
                for probability, next_state, r, terminated in table[s][a]:
                    rows.append(s * n_actions + a)
                    cols.append(end if terminated else int(next_state))
                    probabilities.append(float(probability))
                    reward[s, a] += float(probability) * float(r)
                    earned.append(float(r))
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInput(
            "env.unwrapped.P must hold lists of (probability, next state, reward, terminated) at P[s][a] for every "
            f"state and action; got {type(error).__name__} ({error}). Build a matrixrl.FiniteMDP instead."
        ) from error
    if min(cols) < 0 or max(cols) > n:
        fail("env.unwrapped.P", f"must lead to states 0 … {n - 1}", f"{min(cols)} … {max(cols)}", "Correct the table.")
    if reward_range is not None:
        low, high = min(reward_range), max(reward_range)
        within("reward", np.array(earned), low, high, remedy="Declare a reward_range that covers every reward.")
    for a in range(n_actions):
        rows.append(end * n_actions + a)
        cols.append(end)
        probabilities.append(1.0)
    shape = ((n + 1) * n_actions, n + 1)
    matrix = sparse.csr_array(sparse.coo_array((probabilities, (rows, cols)), shape=shape))
    start = np.zeros(n + 1)
    start[:n] = getattr(env.unwrapped, "initial_state_distrib", np.eye(n)[0])
    return FiniteMDP(
        transitions=matrix,
        reward=reward,
        horizon=horizon_of(env, horizon),
        reward_range=_smallest_range(earned) if reward_range is None else reward_range,
        start=start,
        end_state=end,
        features=features,
    )


def _smallest_range(earned: list[float]) -> tuple[float, float]:
    low, high = min(earned), max(earned)
    return (low, high) if low < high else (0.0, 1.0)
