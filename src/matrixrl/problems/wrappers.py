"""Wrappers of Gymnasium: which ones leave states, actions, rewards and transitions of an environment as they are."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
from gymnasium import wrappers

__all__ = ["current_mask", "mask_of_state", "may_change_rewards", "time_limit", "why_table_is_unknown", "wrapper_chain"]

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


def why_table_is_unknown(env: gym.Env[Any, Any], *, allowed: type[Any] | None = None) -> str | None:
    """Return what may change the transition table of an environment, or None if the table is that of the environment.

    Wrappers of Gymnasium that change neither states nor actions, rewards or transitions are known. A wrapper of a user,
    or a subclass with its own `step`, declares it with the class attribute ``keeps_table = True``, which is not
    inherited. A method that was replaced on an object is never known.

    Args:
        env: Environment, wrapped or not.
        allowed: One more class of wrappers that the caller accounts for; a class of a user is not accepted.
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
