"""Names of environments: short ones for the command line, Gymnasium ids, and references to a user's own class."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Unpack

import gymnasium as gym

from matrixrl.checks import choice, fail, flag, shown
from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.references import is_reference, load_reference, refuse_untrusted

if TYPE_CHECKING:
    from matrixrl.problems import MDPEnv, Problem, ProblemOptions

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
    """One environment of ours: its short name, the name of its class, and the module of it in `matrixrl.envs`."""

    name: str
    class_name: str
    module: str

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
        return {name: one.default for name, one in inspect.signature(self.env_class).parameters.items()}

    def defaults(self) -> dict[str, Any]:
        """The settings with the values that they have when nothing is given."""
        if self.parameters["horizon"] is not None:
            return self.parameters
        made = self.env_class()  # the number of steps depends on the other settings
        return {k: made.horizon if k == "horizon" else v for k, v in self.parameters.items()}


ENVIRONMENTS: dict[str, EnvEntry] = {
    name: EnvEntry(name, class_name, module)
    for name, class_name, module in (
        ("river-swim", "RiverSwim", "classic"),
        ("deep-sea", "DeepSea", "classic"),
        ("combination-lock", "CombinationLock", "classic"),
        ("four-rooms", "FourRooms", "grids"),
        ("linear-mdp", "LinearMDP", "classic"),
        ("emission-river", "EmissionRiver", "embedded"),
        ("linear-lock", "LinearLock", "embedded"),
        ("hypercube", "Hypercube", "embedded"),
        ("factors", "Factors", "embedded"),
        ("soft-grid", "SoftGrid", "grids"),
        ("grid-world", "GridWorld", "grids"),
        ("double-integrator", "DoubleIntegrator", "grids"),
        ("lost-sales", "LostSales", "inventory"),
        ("queue-admission", "QueueAdmission", "queue_admission"),
        ("perishable-stock", "PerishableStock", "inventory"),
        ("icu-sepsis", "ICUSepsis", "icu_sepsis"),
        ("dynamic-pricing", "DynamicPricing", "dynamic_pricing"),
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
        env_id = name.removeprefix("gym:")
        return _declared(_make_gym(env_id, settings, trust_code=trust_code), env_id, settings)
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
    env: Any,
    env_settings: dict[str, Any] | None = None,
    *,
    trust_code: bool = False,
    known_reward: bool | None = None,
    **options: Unpack[ProblemOptions],
) -> Problem:
    """Return the problem behind an environment or its name, to be given to any agent; `matrixrl.Problem`.

    Args:
        env: A name of an environment, a Gymnasium environment, a `FiniteMDP`, a `Task` or a `FunctionalTask`.
        env_settings: Settings of an environment given by name.
        trust_code: Whether a name may import code.
        known_reward: Whether agents are given the rewards; by default they learn them where they are not known.
        options: phi, psi, reward, reward_range, horizon, allowed, discount, start and others, see
            `matrixrl.problems.ProblemOptions`.

    >>> import matrixrl
    >>> lake = matrixrl.Problem("gym:FrozenLake-v1", horizon=20, discount=0.99)
    >>> matrixrl.MatrixRL(lake, seed=0).learn(n_episodes=3).n_episodes
    3
    """
    from matrixrl.problems import problem_of
    from matrixrl.problems.reader import ReadOptions

    given = env
    settings, chosen = checked_settings("env_settings", env_settings), ReadOptions(known_reward, options)
    if "trust_code" in settings:
        rule = "must not be among the settings of an environment, which a file may hold"
        fail("trust_code", rule, shown(settings["trust_code"]), "Pass it as an argument, or --trust-code.")
    if not isinstance(given, str):
        if env_settings:
            rule = "must be empty for an environment that is already made"
            fail("env_settings", rule, env_settings, "Make it with them.")
        return problem_of(given, chosen)
    if not given.startswith("gym:") or given.startswith("gym:matrixrl/"):
        return problem_of(make(given, trust_code=trust_code, **settings), chosen, given)
    env_id = given.removeprefix("gym:")
    env = _make_gym(env_id, settings, trust_code=trust_code)
    # An environment with a table takes all options that the table depends on, another one only those that `make` takes.
    names = _GYM_SETTINGS if _shows_table(env) else ("horizon", "reward_range")
    taken = chosen.given(names)
    env = _declared(env, env_id, settings | taken)
    if isinstance(chosen.allowed, str):  # "all" also says that reported masks are ignored
        taken.pop("allowed", None)
    return problem_of(env, chosen.without(taken), given)


def checked_settings(argument: str, settings: Any) -> dict[str, Any]:
    """Return settings by name as a dictionary of their own; None means none."""
    if settings is None:
        return {}
    if not isinstance(settings, Mapping) or not all(isinstance(name, str) for name in settings):
        fail(argument, "must be a dictionary with names as keys", shown(settings), "Such as {'n_states': 4}.")
    return dict(settings)


def refuse_env_settings(env: Any, settings: Mapping[str, Any], known: Container[str]) -> None:
    """Refuse settings of an environment among those of an agent, whose names are known; say where they belong."""
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


def _declared(env: gym.Env[Any, Any], env_id: str, settings: Mapping[str, Any]) -> gym.Env[Any, Any]:
    """Return an environment of Gymnasium's with what the settings declare about it, as `make` explains."""
    from matrixrl.envs.control import DeclaredRewards
    from matrixrl.problems import MDPEnv, from_gymnasium

    declared = {name: settings[name] for name in _GYM_SETTINGS if settings.get(name) is not None}
    if _shows_table(env):
        return MDPEnv(from_gymnasium(env, **declared))
    for name in _TIMING:
        if name in declared:
            rule = f"is not a setting of gym:{env_id}, which has no transition table"
            fail(name, rule, shown(declared[name]), f"Pass it to the agent: MatrixRL(env, {name}=…).")
    if "horizon" in declared:
        env.close()
        env = _make_gym(env_id, {**settings, "max_episode_steps": declared["horizon"]}, trust_code=True)
    return DeclaredRewards(env, declared["reward_range"]) if "reward_range" in declared else env


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


def _make_gym(env_id: str, settings: Mapping[str, Any], *, trust_code: bool) -> gym.Env[Any, Any]:
    """Return an environment of Gymnasium's, or say in one line why it cannot be made."""
    _check_trusted(env_id, settings, trust_code)
    try:
        env: gym.Env[Any, Any] = gym.make(env_id, **{k: v for k, v in settings.items() if k not in _GYM_SETTINGS})
    except gym.error.UnregisteredEnv as error:
        names = sorted(i for i in gym.registry if not i.startswith("matrixrl/"))
        choice("environment", env_id, names)
        raise UnknownName(f"environment {env_id!r} is not known to Gymnasium ({error}).") from error
    except Exception as error:  # whatever the class of the environment raises
        raise InvalidInput(f"environment gym:{env_id} cannot be made: {type(error).__name__}: {error}") from error
    return env
