"""Names of environments: short ones for the command line, Gymnasium ids for everybody."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from gymnasium import spaces

from matrixrl.checks import choice, fail
from matrixrl.envs.combination_lock import CombinationLock
from matrixrl.envs.control import CONTROL, make_control
from matrixrl.envs.deep_sea import DeepSea
from matrixrl.envs.double_integrator import DoubleIntegrator
from matrixrl.envs.four_rooms import FourRooms
from matrixrl.envs.grid_world import GridWorld
from matrixrl.envs.linear_mdp import LinearMDP
from matrixrl.envs.river_swim import RiverSwim
from matrixrl.envs.soft_grid import SoftGrid
from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.problems import MDPEnv, from_gymnasium

__all__ = ["ENVIRONMENTS", "EnvEntry", "is_control", "make", "make_continuous", "make_gym", "register_all"]


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """One environment of ours: short name, Gymnasium id, class."""

    name: str
    id: str
    env_class: Callable[..., MDPEnv]

    @property
    def summary(self) -> str:
        """The first line of the class's documentation."""
        return (inspect.getdoc(self.env_class) or "").partition("\n")[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings and their defaults."""
        signature = inspect.signature(self.env_class)
        return {k: p.default for k, p in signature.parameters.items() if k != "render_mode"}

    def defaults(self) -> dict[str, Any]:
        """The settings with the values that they have when nothing is given."""
        made = self.env_class()
        return {k: made.horizon if k == "horizon" else v for k, v in self.parameters.items()}


ENVIRONMENTS: dict[str, EnvEntry] = {
    name: EnvEntry(name, f"matrixrl/{env_class.__name__}-v0", env_class)
    for name, env_class in (
        ("river-swim", RiverSwim),
        ("deep-sea", DeepSea),
        ("combination-lock", CombinationLock),
        ("four-rooms", FourRooms),
        ("linear-mdp", LinearMDP),
        ("soft-grid", SoftGrid),
        ("grid-world", GridWorld),
        ("double-integrator", DoubleIntegrator),
    )
}
"""Our environments by short name."""


def register_all() -> None:
    """Register the environments with Gymnasium; calling it again changes nothing."""
    for entry in ENVIRONMENTS.values():
        if entry.id not in gym.registry:
            gym.register(id=entry.id, entry_point=entry.env_class)


def make(name: str, **settings: Any) -> gym.Env[Any, Any]:
    """Return an environment by short name, by registered id, or as ``gym:ID`` from Gymnasium.

    For ``gym:`` environments `horizon` is the time limit and `reward_range` the declared range; their
    transition table is turned into an `MDPEnv` with an absorbing end state.

    >>> make("river-swim", n_states=4, horizon=20).unwrapped.mdp.horizon
    20
    >>> make("gym:FrozenLake-v1", horizon=15).unwrapped.mdp.n_states
    17
    """
    if not isinstance(name, str):
        fail("environment", "must be a name", repr(name), "See matrixrl list envs.")
    name = name.replace("gym:matrixrl/", "matrixrl/")
    if name.startswith("gym:"):
        return _from_gym(name.removeprefix("gym:"), settings)
    if name in CONTROL:
        for key in settings:
            choice(f"{name} setting", key, ("sparse", "noise", "horizon", "torques", "render_mode"))
        return make_control(name, **settings)
    by_id = {entry.id: entry for entry in ENVIRONMENTS.values()}
    entry = (
        by_id.get(name)
        or ENVIRONMENTS[choice("environment", name, [*ENVIRONMENTS, *CONTROL, *by_id, *_gym_hint(name)])]
    )
    for key in settings:
        choice(f"{entry.name} setting", key, entry.parameters)
    register_all()
    return gym.make(entry.id, disable_env_checker=True, **settings)


def _gym_hint(name: str) -> list[str]:
    """Let a bare Gymnasium id be answered with the prefix that it needs."""
    if name in gym.registry:
        raise UnknownName(f"environment must be one of ours; got {name!r}. Did you mean 'gym:{name}'?")
    return []


def make_gym(env_id: str, **settings: Any) -> gym.Env[Any, Any]:
    """Return an environment of Gymnasium's, or say in one line why it cannot be made."""
    try:
        env: gym.Env[Any, Any] = gym.make(env_id, **settings)
    except gym.error.UnregisteredEnv as error:
        names = sorted(i for i in gym.registry if not i.startswith("matrixrl/"))
        choice("environment", env_id, names)
        raise UnknownName(f"environment {env_id!r} is not known to Gymnasium ({error}).") from error
    except (gym.error.Error, ImportError, TypeError, ValueError, KeyError, IndexError, AssertionError) as error:
        raise InvalidInput(f"environment gym:{env_id} cannot be made: {type(error).__name__}: {error}") from error
    return env


def make_continuous(name: str, **settings: Any) -> gym.Env[Any, Any]:
    """Return a task with continuous states, by short name or as ``gym:ID``."""
    if not name.startswith("gym:"):
        return make(name, **settings)
    return make_gym(name.removeprefix("gym:"), **settings)


def is_control(env: str) -> bool:
    """Say whether a name is a task with continuous states.

    >>> is_control("cart-pole"), is_control("river-swim")
    (True, False)
    """
    if env in CONTROL:
        return True
    if not env.startswith("gym:") or env.removeprefix("gym:") not in gym.registry:
        return False
    made = make_gym(env.removeprefix("gym:"))
    found = isinstance(made.observation_space, spaces.Box)
    made.close()
    return found


def _from_gym(env_id: str, settings: dict[str, Any]) -> gym.Env[Any, Any]:
    own = dict(settings)
    horizon, reward_range = own.pop("horizon", None), own.pop("reward_range", None)
    env = make_gym(env_id, **own)
    return MDPEnv(from_gymnasium(env, horizon=horizon, reward_range=reward_range))
