"""Known MDPs of Gymnasium environments: those of matrixrl, and those with a transition table `env.unwrapped.P`."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from scipy import sparse

from matrixrl.checks import distributions, fail, integer, shaped, shown, within
from matrixrl.coding import Codec
from matrixrl.errors import InvalidInput
from matrixrl.features import Features
from matrixrl.problems.declared_masks import declared_mask, refuse_masks_on_the_way, restricted
from matrixrl.problems.discounting import checked_discount
from matrixrl.problems.finite import FiniteMDP, checked_range
from matrixrl.problems.spaces import codec_of
from matrixrl.problems.task import chosen_horizon, stages_of
from matrixrl.problems.wrappers import time_limit, why_table_is_unknown
from matrixrl.records import FloatArray

__all__ = ["declares_start", "from_gymnasium", "horizon_of", "known_mdp", "read_start"]

_RESETS = 8  # seeded resets that must agree on the first state where an environment does not declare one


def known_mdp(env: gym.Env[Any, Any], *, allowed: type[Any] | None = None) -> FiniteMDP | None:
    """Return the MDP of a matrixrl environment; None for another one, and where a wrapper may change the MDP.

    Args:
        env: Environment, wrapped or not.
        allowed: One more class of wrappers that the caller accounts for.
    """
    mdp = getattr(env.unwrapped, "mdp", None)
    return mdp if isinstance(mdp, FiniteMDP) and why_table_is_unknown(env, allowed=allowed) is None else None


def horizon_of(env: gym.Env[Any, Any], horizon: int | None = None) -> int:
    """Return the number of steps of an episode: `horizon` if given, else the environment's horizon or time limit."""
    if horizon is None:
        horizon = getattr(env.unwrapped, "horizon", None)
    if horizon is None:
        horizon = time_limit(env)
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
    allowed: Any = None,
    stage_dependent: Any = None,
    discount: float = 1.0,
    accuracy: float = 0.01,
    start: Any = None,
) -> FiniteMDP:
    """Return the finite MDP of a toy-text environment (FrozenLake, Taxi, CliffWalking, …).

    An absorbing end state with reward 0 is added after the states of the environment; every entry of the table that is
    marked as terminated leads to it. The reward of a pair is its expected reward.

    Args:
        env: Gymnasium environment. For a matrixrl environment its own MDP is returned.
        horizon: Number of steps H of an episode; the environment's time limit by default.
        reward_range: Lower and upper bound (low, high) of the rewards; by default the smallest interval that contains 0
            and all rewards of the table.
        features: Features of the states of the environment, or also of the end state; one-hot by default.
        allowed: Allowed actions as a table (S, A) or a function of the state, as in `Task`, or "all". By default those
            that the environment declares with a method ``action_mask(state)`` (Taxi has one), else all.
        stage_dependent: Whether agents do not share data between stages, as in `Task`.
        discount: Factor γ of each step, as in `Task`; below 1 and without a horizon, it chooses the horizon.
        accuracy: Accuracy of such a horizon, as in `Task`.
        start: First state, or the distribution of first states, of an environment without an attribute
            `initial_state_distrib`. If it is left out there, a copy of the environment is reset with eight seeds. The
            state that all of them begin in is the first state for exact values and regret; certificates of agents do
            not rely on it (``task.start_is_declared`` is False). If they differ, `start` must be given.

    Raises:
        InvalidInput: The environment has no transition table, its spaces are not discrete, a wrapper may change the
            table, or the table is invalid.

    >>> mdp = from_gymnasium(gym.make("FrozenLake-v1"), horizon=20)
    >>> mdp.n_states, mdp.task.end_state
    (17, 16)
    """
    if not isinstance(env, gym.Env):
        fail("env", "must be a Gymnasium environment", type(env).__name__, "Create one with gymnasium.make.")
    changed_by = why_table_is_unknown(env)
    if changed_by is not None:
        fail(
            "env",
            "must not have wrappers that may change its transition table",
            changed_by,
            "Build a matrixrl.FiniteMDP from the P and R of the wrapped environment, or pass it to an agent as it is.",
        )
    own_mdp = known_mdp(env)
    if own_mdp is not None:
        given: dict[str, Any] = {"horizon": horizon, "reward_range": reward_range, "features": features}
        given |= {"stage_dependent": stage_dependent, "discount": None if discount == 1.0 else discount, "start": start}
        for name, value in given.items():
            if value is not None:
                fail(name, "cannot be changed on an environment of matrixrl", value, "Create it with that value.")
        return restricted(own_mdp, allowed)
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
        fail("env", "must have discrete actions", str(actions), "Use an environment with a finite set of actions.")
    n, n_actions, end = int(observations.n), int(actions.n), int(observations.n)
    first_state, first_action = int(observations.start), int(actions.start)
    if (first_state, first_action) != (0, 0) and not _is_numbered_from(table, first_state, first_action, n, n_actions):
        fail(
            "env.unwrapped.P",
            "must be dictionaries with the numbers of observation_space and action_space as keys",
            f"other keys with {observations} and {actions}",
            "Build a matrixrl.FiniteMDP instead.",
        )
    rows, cols, probabilities = [], [], []
    reward = np.zeros((n + 1, n_actions))
    earned = [0.0]
    try:
        for s in range(n):
            for a in range(n_actions):
                for probability, next_state, r, terminated in table[first_state + s][first_action + a]:
                    rows.append(s * n_actions + a)
                    cols.append(end if terminated else int(next_state) - first_state)
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
        low, high = checked_range(reward_range)
        within("reward", np.array(earned), low, high, remedy="Declare a reward_range that covers every reward.")
    for a in range(n_actions):
        rows.append(end * n_actions + a)
        cols.append(end)
        probabilities.append(1.0)
    shape = ((n + 1) * n_actions, n + 1)
    matrix = sparse.csr_array(sparse.coo_array((probabilities, (rows, cols)), shape=shape))
    first, is_declared = _start_of(env, start, codec_of("observation", observations))
    steps = None if horizon is None and checked_discount(discount) < 1.0 else horizon_of(env, horizon)
    stages = stages_of(stage_dependent, reward, chosen_horizon(steps, checked_discount(discount), accuracy))
    codecs = codec_of("observation", observations), codec_of("action", actions)
    mask = declared_mask(env, allowed, *codecs, end_state=end, stages=stages)
    if mask is None and allowed is None:
        refuse_masks_on_the_way(env)
    mdp = FiniteMDP(
        transitions=matrix,
        reward=reward,
        horizon=steps,
        reward_range=_smallest_range(earned) if reward_range is None else reward_range,
        start=np.append(first, 0.0),
        end_state=end,
        features=features,
        allowed=mask,
        stage_dependent=None if stages is None else stages.classes,
        discount=discount,
        accuracy=accuracy,
    )
    mdp.task.end_is_added = True
    mdp.task.start_is_declared = is_declared
    return mdp


def declares_start(env: gym.Env[Any, Any]) -> bool:
    """Say whether an environment with a transition table declares its distribution of first states."""
    return getattr(env.unwrapped, "initial_state_distrib", None) is not None


def read_start(start: Any, states: Codec) -> FloatArray:
    """Return the distribution of first states (S,) of a state, as it is observed, or of S probabilities."""
    n = states.size
    if isinstance(start, (list, tuple, np.ndarray)) and np.shape(start) == (n,) and n > 1:
        given = shaped("start", start, (n,), remedy="Give a state or one probability for each state.")
        return distributions("start", given)
    remedy = "Give a state of observation_space, or one probability for each state."
    one: FloatArray = np.eye(n)[int(states.encode("start", start, remedy))]
    return one


def _start_of(env: gym.Env[Any, Any], given: Any, states: Codec) -> tuple[FloatArray, bool]:
    """Return the distribution of first states (S,) of an environment, and whether it or the user declares it."""
    if declares_start(env):
        if given is not None:
            rule = "cannot be changed on an environment that declares initial_state_distrib"
            fail("start", rule, shown(given), "Leave it out.")
        own = env.unwrapped.initial_state_distrib  # type: ignore[attr-defined]
        remedy = "Give one probability per state."
        return shaped("env.unwrapped.initial_state_distrib", own, (states.size,), remedy=remedy), True
    if given is not None:
        return read_start(given, states), True
    name, remedy = type(env.unwrapped).__name__, "Give start=…, a state or one probability for each state."
    try:
        twin = copy.deepcopy(env.unwrapped)  # resets of the environment itself would move its random stream
        firsts = [twin.reset(seed=seed)[0] for seed in range(_RESETS)]
    except Exception as error:
        rule = f"must be given for {name}, which declares no first states and could not be copied and reset to see them"
        raise InvalidInput(f"start {rule}; got {type(error).__name__} ({error}). {remedy}") from error
    found = sorted({int(states.encode("the observation of env.reset", first, "Correct reset.")) for first in firsts})
    if len(found) > 1:
        shown_states = ", ".join(shown(states.decode(state)) for state in found)
        rule = f"must be given for {name}, which declares no first states and whose resets begin in different ones"
        fail("start", rule, shown_states, remedy)
    return np.eye(states.size)[found[0]], False


def _is_numbered_from(table: Any, first_state: int, first_action: int, n_states: int, n_actions: int) -> bool:
    """Say whether the keys of a table are the numbers of spaces that do not begin at 0."""
    states, actions = (
        set(range(first_state, first_state + n_states)),
        set(range(first_action, first_action + n_actions)),
    )
    return (
        isinstance(table, dict)
        and set(table) == states
        and all(isinstance(row, dict) and set(row) == actions for row in table.values())
    )


def _smallest_range(earned: list[float]) -> tuple[float, float]:
    low, high = min(earned), max(earned)
    return (low, high) if low < high else (0.0, 1.0)
