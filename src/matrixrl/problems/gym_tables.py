"""Gymnasium environments: their wrappers, and the known MDPs of those with a transition table `env.unwrapped.P`."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces, wrappers
from numpy.typing import ArrayLike
from scipy import sparse

from matrixrl.checks import choice, fail, integer, real_numbers, shaped, shown, within
from matrixrl.errors import InvalidInput
from matrixrl.features import Features
from matrixrl.problems.action_masks import as_mask, read_masks
from matrixrl.problems.finite import FiniteMDP, checked_range
from matrixrl.problems.reward_bounds import overall_range, range_tables
from matrixrl.problems.stages import Stages
from matrixrl.problems.task import checked_discount, read_start, sure_start
from matrixrl.records import FloatArray
from matrixrl.spaces import Codec, codec_of

__all__ = [
    "check_time_limit",
    "current_mask",
    "declared_mask",
    "declares_start",
    "from_gymnasium",
    "horizon_of",
    "known_mdp",
    "mask_of_state",
    "may_change_rewards",
    "time_limit",
    "why_table_is_unknown",
    "wrapper_chain",
]

_HARMLESS = {
    wrappers.AddWhiteNoise,  # of pictures only, as the next three
    wrappers.HumanRendering,
    wrappers.ObstructView,
    wrappers.RenderCollection,
    wrappers.Autoreset,  # an agent resets after every episode itself
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.TimeLimit,  # the horizon is checked against it
}
_LIBRARIES = ("gymnasium.", "matrixrl.")
_MASKS = ("action_mask", "action_masks")
"""Names of the methods with which environments report the actions that are allowed."""


def wrapper_chain(env: gym.Env[Any, Any]) -> Iterator[gym.Env[Any, Any]]:
    """Yield the wrappers of an environment from the outermost one to the environment itself."""
    yield env
    while isinstance(env, gym.Wrapper):
        env = env.env
        yield env


def time_limit(env: gym.Env[Any, Any]) -> int | None:
    """Return the number of steps after which an episode is truncated, or None if the environment declares none."""
    limits = [] if env.spec is None or env.spec.max_episode_steps is None else [int(env.spec.max_episode_steps)]
    for layer in wrapper_chain(env):
        if isinstance(layer, wrappers.TimeLimit):
            limits.append(int(layer._max_episode_steps))
    return min(limits, default=None)


def check_time_limit(env: gym.Env[Any, Any], horizon: int, *, is_endless: bool = False) -> None:
    """Refuse an environment that truncates episodes before the horizon; that of an endless task is the discount's."""
    limit, remedy = time_limit(env), "Make the environment with max_episode_steps=…, or give a smaller horizon."
    if limit is not None and limit < horizon and is_endless:
        rule = f"must not need more steps than the time limit of the environment, {limit}"
        fail("discount", rule, f"{horizon} steps", f"{remedy[:-1]}, or a larger accuracy.")
    if limit is not None and limit < horizon:
        fail("horizon", f"must not exceed the time limit of the environment, {limit} steps", horizon, remedy)


def why_table_is_unknown(env: gym.Env[Any, Any], *, allowed: type[Any] | None = None) -> str | None:
    """Return what may change the transition table of an environment, or None if the table is that of the environment.

    Wrappers of Gymnasium that change neither states nor actions, rewards or transitions are known; `allowed` is one
    more class of the library's. A wrapper of a user, or a subclass with its own `step`, declares it with the class
    attribute ``keeps_table = True``, which is not inherited. A method that was replaced on an object is never known.
    """
    for layer in wrapper_chain(env):
        kind = type(layer)
        replaced = _replaced_method(layer)
        if replaced is not None:
            return f"the method {replaced} that was replaced on {kind.__name__}"
        keeps = kind in _HARMLESS or (kind is allowed and _is_library(kind)) or _declares_table(kind)
        if isinstance(layer, gym.Wrapper) and not keeps:
            return f"the wrapper {kind.__name__}"
    return _overriding_class(env.unwrapped)


def mask_of_state(env: gym.Env[Any, Any]) -> Callable[[int], Any] | None:
    """Return the method `action_mask` or `action_masks` of an environment if it takes a state, else None.

    A method below a wrapper that may change the numbers of states or actions is not used.
    """
    for layer in wrapper_chain(env):
        for name in _MASKS:
            if callable(getattr(type(layer), name, None)) and _takes(getattr(layer, name), 1):
                found: Callable[[int], Any] = getattr(layer, name)
                return found
        kind = type(layer)
        if isinstance(layer, gym.Wrapper) and kind not in _HARMLESS and not _declares_table(kind):
            return None
    return None


def current_mask(env: gym.Env[Any, Any]) -> Callable[[], Any] | None:
    """Return the method `action_mask` or `action_masks` of an environment or a wrapper if it takes no argument."""
    for name in _MASKS:
        found = env.get_wrapper_attr(name) if env.has_wrapper_attr(name) else None
        if callable(found) and _takes(found, 0):
            called: Callable[[], Any] = found
            return called
    return None


def may_change_rewards(env: gym.Env[Any, Any]) -> bool:
    """Say whether a wrapper of rewards, or a user's class, may have changed the rewards of an environment."""
    for layer in wrapper_chain(env):
        if isinstance(layer, gym.RewardWrapper):
            return True
        owners = [kind for kind in type(layer).__mro__ if not _is_library(kind)]
        if any(name in vars(kind) for kind in owners for name in ("step", "reward")) or "step" in vars(layer):
            return True
    return False


def _takes(method: Callable[..., Any], count: int) -> bool:
    """Say whether a method can be called with so many positional arguments."""
    try:
        inspect.signature(method).bind(*(None for _ in range(count)))
    except (TypeError, ValueError):
        return False
    return True


def _replaced_method(layer: gym.Env[Any, Any]) -> str | None:
    """Return the name of a method that an object has in place of that of its class, as after ``env.step = …``."""
    methods = ("step", "reset", "observation") if isinstance(layer, gym.ObservationWrapper) else ("step", "reset")
    return next((name for name in methods if name in vars(layer)), None)


def _is_library(kind: type[Any]) -> bool:
    return kind.__module__.startswith(_LIBRARIES)


def _declares_table(kind: type[Any]) -> bool:
    return vars(kind).get("keeps_table") is True


def _overriding_class(env: gym.Env[Any, Any]) -> str | None:
    """Return a user's subclass that has its own `step` or `reset` in place of those of a library's environment."""
    if _declares_table(type(env)):
        return None
    for method in ("step", "reset"):
        owners = [kind for kind in type(env).__mro__ if method in vars(kind) and kind is not gym.Env]
        is_library = [_is_library(kind) for kind in owners]
        if any(is_library) and not is_library[0]:
            return f"the method {method} of {owners[0].__name__}"
    return None


_OWN_MDP = "Build a matrixrl.FiniteMDP from your own P and R instead."
_RESETS = 8  # seeded resets that must agree on the first state where an environment does not declare one


def known_mdp(env: gym.Env[Any, Any], *, allowed: type[Any] | None = None) -> FiniteMDP | None:
    """Return the MDP of a matrixrl environment; None for another one, and where a wrapper may change the MDP."""
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
    reward_range: tuple[ArrayLike, ArrayLike] | None = None,
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
        remedy = "Build a FiniteMDP from the P and R of the wrapped environment, or pass it to an agent as it is."
        fail("env", "must not have wrappers that may change its transition table", changed_by, remedy)
    own_mdp = known_mdp(env)
    if own_mdp is not None:
        given: dict[str, Any] = {"horizon": horizon, "reward_range": reward_range, "features": features}
        given |= {"stage_dependent": stage_dependent, "discount": None if discount == 1.0 else discount, "start": start}
        for name, value in given.items():
            if value is not None:
                fail(name, "cannot be changed on an environment of matrixrl", value, "Create it with that value.")
        return own_mdp.restricted(allowed)
    table = getattr(env.unwrapped, "P", None)
    observations, actions = env.observation_space, env.action_space
    if table is None or not isinstance(observations, spaces.Discrete):
        received = f"{type(env.unwrapped).__name__} with {observations}"
        fail("env", "must have discrete states and a transition table env.unwrapped.P", received, _OWN_MDP)
    if not isinstance(actions, spaces.Discrete):
        fail("env", "must have discrete actions", str(actions), _OWN_MDP)
    n, n_actions, end = int(observations.n), int(actions.n), int(observations.n)
    first_state, first_action = int(observations.start), int(actions.start)
    if (first_state, first_action) != (0, 0) and not _is_numbered_from(table, first_state, first_action, n, n_actions):
        rule = "must be dictionaries with the numbers of observation_space and action_space as keys"
        fail("env.unwrapped.P", rule, f"other keys with {observations} and {actions}", _OWN_MDP)
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
            f"state and action; got {type(error).__name__} ({error}). {_OWN_MDP}"
        ) from error
    if min(cols) < 0 or max(cols) > n:
        fail("env.unwrapped.P", f"must lead to states 0 … {n - 1}", f"{min(cols)} … {max(cols)}", "Correct the table.")
    if reward_range is not None:
        tables = range_tables(reward_range)
        low, high = checked_range(reward_range if tables is None else overall_range(tables))
        within("reward", np.array(earned), low, high, remedy="Declare a reward_range that covers every reward.")
    for a in range(n_actions):
        rows.append(end * n_actions + a)
        cols.append(end)
        probabilities.append(1.0)
    shape = ((n + 1) * n_actions, n + 1)
    matrix = sparse.csr_array(sparse.coo_array((probabilities, (rows, cols)), shape=shape))
    first, is_declared = _start_of(env, start, codec_of("observation", observations))
    steps = None if horizon is None and checked_discount(discount) < 1.0 else horizon_of(env, horizon)
    mask = declared_mask(env, allowed, codec_of("observation", observations), codec_of("action", actions))
    if mask is None and allowed is None:
        _refuse_masks_on_the_way(env)
    mdp = FiniteMDP(
        transitions=matrix,
        reward=reward,
        horizon=steps,
        reward_range=_smallest_range(earned) if reward_range is None else reward_range,
        start=np.append(first, 0.0),
        end_state=end,
        features=features,
        allowed=mask,
        stage_dependent=stage_dependent,
        discount=discount,
        accuracy=accuracy,
    )
    mdp.task.end_is_added = True
    mdp.task.start_is_declared = is_declared
    return mdp


def declared_mask(env: gym.Env[Any, Any], allowed: Any, states: Codec, actions: Codec) -> Any:
    """Return the allowed actions of an environment, those given or what its ``action_mask(state)`` declares.

    They are a table (S, A) with the end state, which comes after the observations and may be left out of what is given;
    a table for each stage as it was given; or None for all actions.
    """
    if isinstance(allowed, str):
        choice("allowed", allowed, ["all"])
        return None
    if allowed is None:
        method = mask_of_state(env)
        if method is None:
            return None
        allowed = lambda state: as_mask(f"action_mask({state})", method(state), actions.size)  # noqa: E731
    if not callable(allowed):
        table = real_numbers(allowed)
        if table.ndim > 1 and table.shape[1:] != (actions.size,):
            return table
    end, one = states.size, Stages.one(1, actions.size)
    return read_masks(allowed, end + 1, one, end_state=end, states=states, actions=actions)


def _refuse_masks_on_the_way(env: gym.Env[Any, Any]) -> None:
    """Refuse an environment with a transition table that reports masks only while it is played."""
    reported = current_mask(env) is not None
    if not reported:
        answer: Any = env.reset()
        reported = isinstance(answer, tuple) and isinstance(answer[-1], dict) and "action_mask" in answer[-1]
    if reported:
        rule = "must be given for an environment with a transition table that reports masks of its current state only"
        fail("allowed", rule, None, "Pass allowed=table (S, A), or allowed='all' to allow every action.")


def declares_start(env: gym.Env[Any, Any]) -> bool:
    """Say whether an environment with a transition table declares its distribution of first states."""
    return getattr(env.unwrapped, "initial_state_distrib", None) is not None


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
    return sure_start(found[0], states.size), False


def _is_numbered_from(table: Any, first_state: int, first_action: int, n_states: int, n_actions: int) -> bool:
    """Say whether the keys of a table are the numbers of spaces that do not begin at 0."""
    states, actions = (set(range(k, k + n)) for k, n in ((first_state, n_states), (first_action, n_actions)))
    rows = table.values() if isinstance(table, dict) and set(table) == states else [None]
    return all(isinstance(row, dict) and set(row) == actions for row in rows)


def _smallest_range(earned: list[float]) -> tuple[float, float]:
    low, high = min(earned), max(earned)
    return (low, high) if low < high else (0.0, 1.0)
