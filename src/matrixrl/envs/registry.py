"""Names of environments: short ones for the command line, Gymnasium ids, and references to a user's own class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from matrixrl.checks import choice, fail, flag, shown
from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.references import is_reference, load_reference, refuse_untrusted

if TYPE_CHECKING:
    from matrixrl.problems import MDPEnv, Problem

__all__ = [
    "ENVIRONMENTS",
    "EnvEntry",
    "checked_settings",
    "make",
    "open_problem",
    "refuse_env_settings",
    "register_all",
]


@dataclass(frozen=True, slots=True)
class EnvEntry:
    """One environment of ours.

    Attributes:
        name: Short name.
        module: Module of its class, inside `matrixrl.envs`.
        class_name: Name of its class.
    """

    name: str
    module: str
    class_name: str

    @property
    def id(self) -> str:
        """Id in Gymnasium."""
        return f"matrixrl/{self.class_name}-v0"

    @property
    def entry_point(self) -> str:
        """Reference from which Gymnasium imports the class."""
        return f"matrixrl.envs.{self.module}:{self.class_name}"

    @property
    def env_class(self) -> Callable[..., MDPEnv]:
        """The class."""
        found: Callable[..., MDPEnv] = getattr(import_module(f"matrixrl.envs.{self.module}"), self.class_name)
        return found

    @property
    def summary(self) -> str:
        """The first line of the documentation of the class."""
        return (inspect.getdoc(self.env_class) or "").partition("\n")[0]

    @property
    def parameters(self) -> dict[str, Any]:
        """The settings and their defaults."""
        signature = inspect.signature(self.env_class)
        return {k: p.default for k, p in signature.parameters.items() if k != "render_mode"}

    def defaults(self) -> dict[str, Any]:
        """The settings with the values that they have when nothing is given."""
        if self.parameters["horizon"] is not None:
            return self.parameters
        made = self.env_class()  # the number of steps depends on the other settings
        return {k: made.horizon if k == "horizon" else v for k, v in self.parameters.items()}


ENVIRONMENTS: dict[str, EnvEntry] = {
    name: EnvEntry(name, name.replace("-", "_"), class_name)
    for name, class_name in (
        ("river-swim", "RiverSwim"),
        ("deep-sea", "DeepSea"),
        ("combination-lock", "CombinationLock"),
        ("four-rooms", "FourRooms"),
        ("linear-mdp", "LinearMDP"),
        ("soft-grid", "SoftGrid"),
        ("grid-world", "GridWorld"),
        ("double-integrator", "DoubleIntegrator"),
        ("lost-sales", "LostSales"),
        ("queue-admission", "QueueAdmission"),
        ("perishable-stock", "PerishableStock"),
        ("icu-sepsis", "ICUSepsis"),
        ("dynamic-pricing", "DynamicPricing"),
    )
}
"""Our environments by short name."""

_SWING_UP = "CartPoleSwingUp"
_TIMING = ("stage_dependent", "discount", "accuracy", "start")
_GYM_SETTINGS = ("horizon", "reward_range", "allowed", *_TIMING)
_CONTROL_SETTINGS = ("sparse", "noise", "horizon", "torques", "render_mode")


def register_all() -> None:
    """Register the environments with Gymnasium, by reference: nothing is imported. A second call changes nothing."""
    for entry in ENVIRONMENTS.values():
        if entry.id not in gym.registry:
            gym.register(id=entry.id, entry_point=entry.entry_point)
    swing_up = f"matrixrl/{_SWING_UP}-v0"
    if swing_up not in gym.registry:
        gym.register(id=swing_up, entry_point=f"matrixrl.envs.swing_up:{_SWING_UP}")


def make(name: str, *, trust_code: bool = False, **settings: Any) -> gym.Env[Any, Any]:
    """Return an environment by short name, by registered id, as ``gym:ID``, or as ``package.module:Name``.

    For ``gym:`` environments `horizon` is the time limit and `reward_range` the declared range; an environment with a
    transition table becomes an `MDPEnv` with an absorbing end state, which is added as its last state. Its allowed
    actions are those of the environment's ``action_mask(state)``, or `allowed` ("all" for all of them);
    `stage_dependent`, `discount`, `accuracy` and `start` are as in `matrixrl.from_gymnasium`.

    Args:
        name: The name.
        trust_code: Whether the name may import code, as ``package.module:Name`` and ``gym:module:ID`` do.
        settings: Settings of the environment.

    >>> make("river-swim", n_states=4, horizon=20).unwrapped.mdp.horizon
    20
    >>> make("gym:FrozenLake-v1", horizon=15).unwrapped.mdp.n_states
    17
    """
    from matrixrl.envs.control import CONTROL, make_control

    if not isinstance(name, str):
        fail("environment", "must be a name", shown(name), "See matrixrl list envs.")
    flag("trust_code", trust_code)
    name = name.replace("gym:matrixrl/", "matrixrl/")
    if name.startswith("matrixrl/"):
        name = next((task.name for task in CONTROL.values() if task.id == name), name)
    if name.startswith("gym:"):
        return _from_gym(name.removeprefix("gym:"), settings, trust_code=trust_code)
    if is_reference(name):
        return _from_reference(name, settings, trust_code=trust_code)
    if name in CONTROL:
        for key in settings:
            choice(f"{name} setting", key, _CONTROL_SETTINGS)
        return make_control(name, **settings)
    by_id = {entry.id: entry for entry in ENVIRONMENTS.values()}
    entry = (
        by_id.get(name)
        or ENVIRONMENTS[choice("environment", name, [*ENVIRONMENTS, *CONTROL, *by_id, *_gym_hint(name)])]
    )
    for key in settings:
        choice(f"{entry.name} setting", key, entry.parameters)
    register_all()
    try:
        return gym.make(entry.id, disable_env_checker=True, **settings)
    except (MemoryError, OverflowError) as error:
        fail(f"{entry.name} settings", "must fit in memory", settings, f"Make it smaller ({error}).")


def open_problem(
    given: Any, env_settings: dict[str, Any] | None = None, *, trust_code: bool = False, **options: Any
) -> Problem:
    """Return the problem behind a name or anything else that `read_problem` reads.

    Args:
        given: A name of an environment, or an environment, MDP or task.
        env_settings: Settings of an environment given by name.
        trust_code: Whether a name may import code.
        options: As in `matrixrl.problems.read_problem`.
    """
    from matrixrl.problems import read_problem

    settings = checked_settings("env_settings", env_settings)
    if "trust_code" in settings:
        rule = "must not be among the settings of an environment, which a file may hold"
        fail("trust_code", rule, shown(settings["trust_code"]), "Pass it as an argument, or --trust-code.")
    if isinstance(given, str):
        if given.startswith("gym:"):  # settings of such an environment, as `make` explains
            timing = _TIMING if any(options.get(k) is not None for k in _TIMING) else ()
            own = ("horizon", "reward_range", *(timing if timing and _has_table(given, settings, trust_code) else ()))
            settings |= {k: options.pop(k) for k in own if options.get(k) is not None}
            settings |= {"allowed": options["allowed"]} if options.get("allowed") is not None else {}
        made = make(given, trust_code=trust_code, **settings)
        if given.startswith("gym:") and hasattr(made.unwrapped, "mdp") and not isinstance(options.get("allowed"), str):
            options.pop("allowed", None)  # its table has them already
        return read_problem(made, name=given, **options)
    if env_settings:
        rule = "must be empty for an environment that is already made"
        fail("env_settings", rule, env_settings, "Make it with them.")
    return read_problem(given, **options)


def checked_settings(argument: str, settings: Any) -> dict[str, Any]:
    """Return settings by name as a dictionary of their own; None means none."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        fail(argument, "must be a dictionary with names as keys", shown(settings), "Such as {'n_states': 4}.")
    return dict(settings)


def refuse_env_settings(env: Any, settings: Mapping[str, Any], known: Container[str]) -> None:
    """Refuse settings of an environment among those of an agent, and say where they belong.

    Args:
        env: What was given as environment.
        settings: What was given as settings of the agent.
        known: Names of settings of the agent.
    """
    from matrixrl.envs.control import CONTROL

    if not isinstance(env, str):
        return
    own: Container[str] = _CONTROL_SETTINGS if env in CONTROL else ()
    entry = {**ENVIRONMENTS, **{entry.id: entry for entry in ENVIRONMENTS.values()}}.get(env)
    own = entry.parameters if entry is not None else own
    for name, value in settings.items():
        if name not in known and (name in own or env.startswith("gym:")):
            rule = f"is not an agent setting{'' if env.startswith('gym:') else f', but one of {env}'}"
            where = f"env_settings={{'{name}': {shown(value)}}} (--set on the command line)"
            fail(name, rule, shown(value), f"Pass settings of {env} as {where}.")


def _gym_hint(name: str) -> list[str]:
    """Answer a bare Gymnasium id with the prefix that it needs."""
    if name in gym.registry:
        raise UnknownName(f"environment must be one of ours; got {name!r}. Did you mean 'gym:{name}'?")
    return []


def _from_reference(name: str, settings: dict[str, Any], *, trust_code: bool) -> gym.Env[Any, Any]:
    made = load_reference("environment", name, trust_code=trust_code)
    if isinstance(made, type) and not issubclass(made, gym.Env):
        fail("environment", "must name a Gymnasium environment", f"{name}, a class", "Subclass gymnasium.Env.")
    try:
        env = made(**settings)
    except TypeError as error:
        raise InvalidInput(f"environment {name} cannot be made with settings {sorted(settings)} ({error})") from error
    if not isinstance(env, gym.Env):
        rule = "must make a Gymnasium environment"
        fail("environment", rule, f"{name}, which made a {type(env).__name__}", "Subclass gymnasium.Env.")
    return env


def _from_gym(env_id: str, settings: dict[str, Any], *, trust_code: bool) -> gym.Env[Any, Any]:
    from matrixrl.envs.control import DeclaredRewards
    from matrixrl.problems import MDPEnv, from_gymnasium

    _check_trusted(env_id, settings, trust_code)
    own = {name: value for name, value in settings.items() if name not in _GYM_SETTINGS}
    horizon, reward_range, allowed = (settings.get(name) for name in ("horizon", "reward_range", "allowed"))
    timing = {name: settings[name] for name in _TIMING if settings.get(name) is not None}
    env = _make_gym(env_id, own)
    if _shows_table(env):
        return MDPEnv(from_gymnasium(env, horizon=horizon, reward_range=reward_range, allowed=allowed, **timing))
    for name, value in timing.items():
        rule = f"is not a setting of gym:{env_id}, which has no transition table"
        fail(name, rule, shown(value), f"Pass it to the agent: MatrixRL(env, {name}=…).")
    if horizon is not None:
        env.close()
        env = _make_gym(env_id, {**own, "max_episode_steps": horizon})
    return env if reward_range is None else DeclaredRewards(env, reward_range)


def _shows_table(env: gym.Env[Any, Any]) -> bool:
    """Say whether an environment of Gymnasium's has a transition table."""
    return not isinstance(env.observation_space, gym.spaces.Box) and hasattr(env.unwrapped, "P")


def _check_trusted(env_id: str, settings: Mapping[str, Any], trust_code: bool) -> None:
    """Refuse names that make Gymnasium import code, unless that is allowed.

    ``gym:module:ID`` does, and so does a setting of an environment that makes another one, such as
    ``env_id="module:ID"`` of the environments that Shimmy registers.
    """
    if ":" in env_id:
        refuse_untrusted("environment", f"gym:{env_id}", trust_code=trust_code)
    for name, value in settings.items():
        for text in _texts(value):
            if ":" in text:
                refuse_untrusted(f"the setting {name} of gym:{env_id},", text, trust_code=trust_code)


def _texts(value: Any) -> Iterator[str]:
    """Yield all text in nested plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, (list, tuple, set, frozenset)):
        for item in value:
            yield from _texts(item)


def _has_table(name: str, settings: Mapping[str, Any], trust_code: bool) -> bool:
    """Say whether the environment of a name ``gym:ID`` has a transition table."""
    env_id = name.removeprefix("gym:")
    _check_trusted(env_id, settings, trust_code)
    env = _make_gym(env_id, {k: v for k, v in settings.items() if k not in _GYM_SETTINGS})
    found = _shows_table(env)
    env.close()
    return found


def _make_gym(env_id: str, settings: dict[str, Any]) -> gym.Env[Any, Any]:
    """Return an environment of Gymnasium's, or say in one line why it cannot be made."""
    try:
        env: gym.Env[Any, Any] = gym.make(env_id, **settings)
    except gym.error.UnregisteredEnv as error:
        names = sorted(i for i in gym.registry if not i.startswith("matrixrl/"))
        choice("environment", env_id, names)
        raise UnknownName(f"environment {env_id!r} is not known to Gymnasium ({error}).") from error
    except Exception as error:  # whatever the class of the environment raises
        raise InvalidInput(f"environment gym:{env_id} cannot be made: {type(error).__name__}: {error}") from error
    return env
