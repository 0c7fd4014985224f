"""The one reader of problems: from what a user passes (environment, MDP, task) to a `Problem`."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike

from matrixrl.checks import (
    choice,
    fail,
    fits_memory,
    flag,
    optional_flag,
    real_numbers,
    shaped,
    shown,
    users_stacklevel,
)
from matrixrl.errors import InvalidInput, MatrixRLWarning
from matrixrl.features import Features, Phi, Psi
from matrixrl.features.bundle import as_phi, as_psi
from matrixrl.measurement import spacing
from matrixrl.problems.continuous import FunctionalTask, declared_range, read_continuous
from matrixrl.problems.dynamics import KnownDynamics
from matrixrl.problems.finite import FiniteMDP, MDPEnv, Task
from matrixrl.problems.gym_tables import (
    check_time_limit,
    declared_mask,
    declares_start,
    from_gymnasium,
    horizon_of,
    known_mdp,
    why_table_is_unknown,
    wrapper_chain,
)
from matrixrl.problems.problem import REWARD_OUTSIDE, Problem
from matrixrl.problems.reward_bounds import range_tables
from matrixrl.problems.task import checked_discount, read_start
from matrixrl.records import FloatArray
from matrixrl.spaces import Codec, DiscreteCodec, codec_of, control_codec

__all__ = ["OPTION_DEFAULTS", "ProblemOptions", "ReadOptions", "options_like", "problem_of", "read_problem"]

_ONE_HOT_NUMBERS = 60.0  # numbers of 8 bytes that agents with one-hot features were measured to keep for each pair


class ProblemOptions(TypedDict, total=False):
    """What a user may say about a problem beside the environment, MDP or task itself; declared here and nowhere else.

    Attributes:
        phi: φ in place of the problem's own: a feature map, an array (S, A, d), or a class or function that makes one
            from the task.
        psi: ψ in place of the problem's own, likewise; an array is (S, d_psi).
        psi_pinv: Accept linearly dependent columns of ψ and work on their span.
        reward: (S, A) known rewards, for an environment without a transition table.
        horizon: Steps in an episode, where the environment does not declare them.
        reward_range: Declared range of rewards, for environments that are not ours; of numbered states also one for
            each pair, as in `Task`.
        measure_regret: Measure exact regret where the MDP is known, which sweeps over all states; a number k measures
            it in episodes 1, k + 1, ….
        reward_outside: What is done about a reward outside the declared range: "error" refuses it; "clip" learns from
            the nearest reward inside, and bounds then hold for the clipped rewards: `guarantee` says so from then on.
            Returns are always those earned.
        allowed: Allowed actions of numbered states: a table (S, A) of booleans, or a function of the state that returns
            the numbers of its allowed actions or A booleans; "all" allows all, whatever the environment says. By
            default those of the MDP or task; of an environment those that it declares with a method
            ``action_mask(state)``, or reports while it is played: with ``info["action_mask"]`` or a method
            ``action_masks()``.
        stage_dependent: Whether laws and rewards of numbered states differ between stages, so that data are not shared:
            True for all stages, or the class of each stage, such as weekdays and weekends.
        discount: Factor γ of each step for an environment without a transition table: an episode is worth Σ γ^h r_h.
            Without a horizon it goes on forever and is cut after as many steps as `accuracy` asks for.
        accuracy: Share of the largest possible value that may be cut off; 0.01 by default.
        start: First state of an environment that does not declare it, or one probability for each state. Certificates
            are about it; by default they estimate the distribution of first states from the episodes.
        deterministic: Declare that the next state and the reward of each pair of numbered states are always the same,
            as in `Task`.
        successors: Declare the possible next states of each pair, as in `Task`.
    """

    phi: Any
    psi: Any
    psi_pinv: bool
    reward: FloatArray | None
    horizon: int | None
    reward_range: tuple[ArrayLike, ArrayLike] | None
    measure_regret: bool | int
    reward_outside: str
    allowed: Any
    stage_dependent: Any
    discount: float | None
    accuracy: float | None
    start: Any
    deterministic: bool | None
    successors: Any


OPTION_DEFAULTS: ProblemOptions = {
    **dict.fromkeys(ProblemOptions.__annotations__),  # type: ignore[typeddict-item]
    "psi_pinv": False,
    "measure_regret": True,
    "reward_outside": "error",
}
"""Every option of a problem with its default."""


class ReadOptions:
    """Options of a problem, checked, with defaults for those that were not given.

    Args:
        known_reward: Whether the agent is given the rewards; None if it learns them where they are not known.
        given: Options that were given.
    """

    def __init__(self, known_reward: bool | None, given: Mapping[str, Any]) -> None:
        for name in given:
            choice("option of a problem", name, OPTION_DEFAULTS)
        vars(self).update(OPTION_DEFAULTS, **given)
        self.known_reward = optional_flag("known_reward", known_reward)
        choice("reward_outside", self.reward_outside, REWARD_OUTSIDE)
        flag("psi_pinv", self.psi_pinv)
        self.deterministic: bool | None = optional_flag("deterministic", given.get("deterministic")) or None
        spacing("measure_regret", self.measure_regret)
        if isinstance(self.allowed, str):
            choice("allowed", self.allowed, ["all"])

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    def without(self, names: Iterable[str]) -> ReadOptions:
        """Return the options with the defaults of some."""
        kept = {name: value for name, value in vars(self).items() if name in OPTION_DEFAULTS and name not in names}
        return ReadOptions(self.known_reward, kept)

    def given(self, names: Iterable[str]) -> dict[str, Any]:
        """Return those of some options that are not None."""
        return {name: getattr(self, name) for name in names if getattr(self, name) is not None}

    def refuse(self, names: Iterable[str], what: str, remedy: str = "Build it with that value.") -> None:
        """Refuse options that cannot be changed on something that has its own."""
        for name, value in self.given(names).items():
            fail(name, f"cannot be changed on {what}, which has its own", shown(value), remedy)

    def refuse_numbered(self, what: str) -> None:
        """Refuse what only numbered states can have: stages, discounts, declared structure, tables of actions."""
        rule = f"must be left out for {what}, whose states are not numbered"
        remedies = dict.fromkeys(_TIME, "Give a horizon, over which all rewards count alike.")
        remedies["stage_dependent"] = "Make the stage a part of the observation."
        remedies |= dict.fromkeys(_STRUCTURE, "Leave it out.")
        for name, value in self.given((*_TIME, *_STRUCTURE)).items():
            if value is not False:
                fail(name, rule, shown(value), remedies[name])
        if self.allowed is not None and not isinstance(self.allowed, str):
            fail("allowed", rule, shown(self.allowed), "Say what is allowed just now: episode.act(obs, allowed=…).")

    @property
    def time(self) -> dict[str, Any]:
        """The given options of stages and discounts; an accuracy that nothing depends on is refused."""
        found = self.given(_TIME)
        if "accuracy" in found and not self.is_endless:
            rule = "must be left out unless a discount below 1 chooses the horizon"
            fail("accuracy", rule, shown(self.accuracy), "Give a discount and no horizon, or leave it out.")
        return found

    @property
    def is_endless(self) -> bool:
        """Whether the discount chooses the horizon."""
        return self.horizon is None and self.discount is not None and checked_discount(self.discount) < 1.0

    @property
    def of_problem(self) -> dict[str, Any]:
        """The fields of `Problem` that every kind of problem has and that only these options decide."""
        return {"reward_outside": self.reward_outside, "ignores_masks": isinstance(self.allowed, str)}


_TIME = ("discount", "accuracy", "stage_dependent")
_STRUCTURE = ("deterministic", "successors")
_WORLD = ("reward", "horizon", "reward_range", "start")


def read_problem(
    given: object, *, name: str | None = None, known_reward: bool | None = None, **options: Unpack[ProblemOptions]
) -> Problem:
    """Return the problem behind a Gymnasium environment, a `FiniteMDP`, a `Task` or a `FunctionalTask`.

    Args:
        given: What the user handed over; a `Problem` is returned as it is.
        name: Name in results; derived from the problem by default.
        known_reward: Whether the agent is given the rewards; by default it learns them where they are not known.
        options: See `ProblemOptions`.
    """
    return problem_of(given, ReadOptions(known_reward, options), name)


def problem_of(given: object, options: ReadOptions, name: str | None = None) -> Problem:
    """Return the problem behind something, as `read_problem` does."""
    if isinstance(given, Problem):
        for option, default in OPTION_DEFAULTS.items():
            if (value := getattr(options, option)) is not default:
                fail(option, "must be left out for a Problem that was read before", shown(value), "Read it with that.")
        if options.known_reward and isinstance(given.task, (Task, FunctionalTask)) and not given.task.knows_reward:
            given.refuse("must have rewards for an agent that is given them", "Pass known_reward=False, or reward=….")
        return given
    name = name or _name_of(given)
    if isinstance(given, FunctionalTask):
        options.refuse([*_WORLD, "phi", "psi"], "a FunctionalTask")
        options.refuse_numbered("a FunctionalTask")
        pseudo = options.psi_pinv
        return Problem(given, env=given.env, name=name, pseudo=pseudo, actions=given.actions, **options.of_problem)
    if isinstance(given, KnownDynamics):
        return _read_dynamics(given, options, name)
    env: gym.Env[Any, Any] | None = None
    known: FiniteMDP | Task
    if isinstance(given, (FiniteMDP, Task)):
        known = given.staged(options.stage_dependent).restricted(options.allowed)
        known = known.declared(options.deterministic, options.successors)
        env = MDPEnv(known) if isinstance(known, FiniteMDP) else None
        options.refuse([*_WORLD, "discount", "accuracy"], f"a {type(given).__name__}")
    elif isinstance(given, gym.Env):
        if isinstance(given.observation_space, spaces.Box):
            return _read_vectors(given, options, name)
        env, known = given, _read_numbered(given, options).declared(options.deterministic, options.successors)
    else:
        remedy = "Such as 'river-swim' (matrixrl list envs), or what gymnasium.make or matrixrl.FiniteMDP returns."
        if isinstance(given, gym.vector.VectorEnv):
            remedy = "Give one of its sub-environments here, and the vector environment to learn(n_episodes, env=…)."
        fail(
            "problem",
            "must be the name of an environment, a Gymnasium environment, a FiniteMDP, a KnownDynamics, a Task or a "
            "FunctionalTask",
            shown(given) if isinstance(given, (str, int, float, type, type(None))) else type(given).__name__,
            remedy,
        )
    mdp = known if isinstance(known, FiniteMDP) else None
    task = known.task if isinstance(known, FiniteMDP) else known
    chosen = task.covering(
        Features(
            as_phi(_made("phi", options.phi, task), task.features.phi),
            as_psi(_made("psi", options.psi, task), task.features.psi, pseudo=options.psi_pinv),
        )
    )
    states: Codec = task.states or DiscreteCodec(task.n_observed)
    actions: Codec = task.actions or DiscreteCodec(task.n_own_actions)
    points, of_env = None, None
    if env is not None:
        check_time_limit(env, task.horizon, is_endless=task.is_endless)
        found = codec_of("observation", env.observation_space), codec_of("action", env.action_space)
        if found[0].size not in (task.n_observed, task.n_states) or found[1].size != task.n_own_actions:
            received = f"{found[0]}, with {found[0].size} elements, and {found[1]}, with {found[1].size}"
            rule = f"must have spaces of {task.n_states} states and {task.n_own_actions} actions, as its table"
            fail("env", rule, received, "Correct the spaces.")
        states, actions = task.states or found[0], task.actions or found[1]
        of_env = None if task.states is task.actions is None else found
        if why_table_is_unknown(env) is None:
            own = getattr(env.unwrapped, "points", None)
            points = None if own is None else np.asarray(own, dtype=np.float64)
    return Problem(
        task,
        chosen,
        env=env,
        mdp=mdp,
        name=name,
        points=points,
        pseudo=chosen.psi.pseudo,
        regret_every=spacing("measure_regret", options.measure_regret),
        states=states,
        actions=actions,
        env_codecs=of_env,
        **options.of_problem,
    )


def _read_dynamics(given: KnownDynamics, options: ReadOptions, name: str) -> Problem:
    """Return the problem of known dynamics, which is played in its environment, or simulated if its law is given."""
    options.refuse([*_WORLD, *_STRUCTURE, "discount", "accuracy", "phi", "psi", "stage_dependent"], "a KnownDynamics")
    if not isinstance(options.allowed, str):
        options.refuse(["allowed"], "a KnownDynamics")
    given.restricted(options.allowed)  # refuse "all" where it has allowed actions of its own
    env, of_env = given.env if given.mdp is None else given.make_env(), None
    if env is not None:
        check_time_limit(env, given.horizon, is_endless=given.is_endless)
        codecs = codec_of("observation", env.observation_space), codec_of("action", env.action_space)
        wanted = codec_of("observation", given.gym_spaces[0]), codec_of("action", given.gym_spaces[1])
        if codecs != wanted:
            received = f"{codecs[0]} and {codecs[1]}"
            fail("env", f"must have the spaces {wanted[0]} and {wanted[1]}", received, "Correct the spaces.")
        of_env = None if wanted == (given.states, given.actions) else codecs
    return Problem(
        given,
        given.features,
        env=env,
        mdp=given.mdp,
        name=name,
        regret_every=spacing("measure_regret", options.measure_regret),
        states=given.states,
        actions=given.actions,
        env_codecs=of_env,
        **options.of_problem,
    )


def _read_numbered(env: gym.Env[Any, Any], options: ReadOptions) -> FiniteMDP | Task:
    """Return the MDP of an environment with numbered states if its transition table is known, else its task."""
    changed_by = why_table_is_unknown(env) if _has_table(env) else None
    if changed_by is not None:
        task = _task_without_table(env, options, changed_by)
        warn_about_table(env, changed_by)
        return task
    mdp = known_mdp(env)
    if mdp is not None:
        mdp = mdp.staged(options.stage_dependent).restricted(options.allowed)
        what = "an environment of matrixrl"
        options.refuse(["discount", "accuracy"], what, "Build a FiniteMDP with that value.")
        remedy = "Make it with matrixrl.make(name, horizon=…), or pass its name and env_settings={'horizon': …}."
        options.refuse(["horizon"], what, remedy)
        options.refuse(["reward", "reward_range", "start"], what, "Leave it out.")
        return mdp
    if not _has_table(env):
        return _task_without_table(env, options, None)
    given = options.given(["horizon", "reward_range", "allowed", "start"])
    mdp = from_gymnasium(env, **given, **options.time)
    if options.reward is not None:
        _compare_rewards(options.reward, mdp.task)
    return mdp


def options_like(task: Task, given: Any, *, ignores_masks: bool, n_observed: int) -> dict[str, Any]:
    """Return the options with which `read_problem` reads an environment or MDP of the same world as a task was read."""
    mdp = given if isinstance(given, FiniteMDP) else known_mdp(given)
    options = {**task.timing, "reward_range": task.reward_range, "allowed": "all" if ignores_masks else task.allowed}
    if mdp is None:
        has_own = not task.start_is_declared or declares_start(given)
        return options | {"start": None if has_own else task.start[:n_observed]}
    kept = ("allowed",) if mdp.stages.n_classes > 1 or mdp.horizon != task.horizon else ("allowed", "stage_dependent")
    return {name: options[name] for name in kept if name in options}


def warn_about_table(env: gym.Env[Any, Any], changed_by: str) -> None:
    """Say that the transition table of an environment is not used."""
    warnings.warn(
        f"the transition table of {_name_of(env)} is not used, because {changed_by} may change it: regret is not "
        "measured, rewards are given or learned, and features and coordinates of states are not those of the table. A "
        "class of your own that changes nothing says so with the class attribute keeps_table = True.",
        MatrixRLWarning,
        stacklevel=users_stacklevel(),
    )


def _has_table(env: gym.Env[Any, Any]) -> bool:
    """Say whether an environment has a table of transitions between numbers; other attributes P are its own matter."""
    own = env.unwrapped
    numbered = all(isinstance(space, spaces.Discrete) for space in (own.observation_space, own.action_space))
    return isinstance(getattr(own, "mdp", None), FiniteMDP) or (numbered and hasattr(own, "P"))


def _made(name: str, value: Any, task: Task) -> Any:
    """Return a feature map or an array; a class or function is called with the task."""
    if not callable(value) or isinstance(value, (Phi, Psi)):
        return value
    try:
        return value(task)
    except TypeError as error:
        words = f"{name} must be made from the task alone; got {shown(value)} ({error})."
        raise InvalidInput(f"{words} Give a function of one argument, or an object.") from error


def _read_vectors(env: gym.Env[Any, Any], options: ReadOptions, name: str) -> Problem:
    """Return the problem of an environment with vectors as observations."""
    what = "an environment with vectors as observations"
    remedy = "Pass kernel=… or transformer=… to KernelMatrixRL, or build a FunctionalTask."
    options.refuse(["reward", "phi", "psi"], what, remedy)
    if options.start is not None:
        rule = f"must be left out for {what}"
        fail("start", rule, shown(options.start), "Nothing is proven there that would need it.")
    options.refuse_numbered(what)
    task = read_continuous(env, horizon=options.horizon, reward_range=options.reward_range)
    layer: Any = next((one for one in wrapper_chain(env) if hasattr(one, "observation_points")), None)
    changed_by = None if layer is None else why_table_is_unknown(env, allowed=type(layer))
    if changed_by is not None:
        warn_about_table(env, changed_by)
    is_known = layer is not None and changed_by is None
    return Problem(
        task,
        env=env,
        mdp=known_mdp(env, allowed=type(layer)) if is_known else None,
        name=name,
        points=layer.observation_points if is_known else None,
        regret_every=spacing("measure_regret", options.measure_regret),
        actions=control_codec(env.action_space),
        **options.of_problem,
    )


def _name_of(given: object) -> str:
    if isinstance(given, gym.Env):
        return given.spec.id if given.spec is not None else type(given.unwrapped).__name__
    return type(given).__name__


def _compare_rewards(reward: Any, task: Task) -> None:
    """Refuse rewards other than the expected ones of the transition table, which is there to be compared with."""
    given = shaped("reward", reward, (None, None), remedy="Leave it out: the environment has a table.")
    known = task.reward[: len(given), : task.n_own_actions]  # the table may have an end state more, and equal classes
    if given.shape != known.shape or not np.allclose(given, known):
        rule = "must be the expected rewards of the environment's transition table"
        fail("reward", rule, f"an array of shape {given.shape} that differs", "Leave it out.")


def _range_of_numbered(env: gym.Env[Any, Any], options: ReadOptions) -> Any:
    """Return the range of rewards of an environment with numbered states, which may be one for each pair."""
    if range_tables(options.reward_range) is not None:
        return options.reward_range
    return declared_range(env, options.reward_range) or (0.0, 1.0)


def _task_without_table(env: gym.Env[Any, Any], options: ReadOptions, changed_by: str | None) -> Task:
    """Return the task of an environment that hides its transitions: one more state stands for the end."""
    states, actions = codec_of("observation", env.observation_space), codec_of("action", env.action_space)
    n_states, n_actions = states.size, actions.size
    fits_memory(
        "env",
        (_ONE_HOT_NUMBERS if options.phi is None else 3.0) * n_states * n_actions,
        f"{n_states:,} states and {n_actions:,} actions",
        remedy="Give features phi, leave out or coarsen parts of the spaces, or use a FunctionalTask.",
    )
    reward = options.reward
    if reward is None and options.known_reward:
        why = "" if changed_by is None else f" (that of the environment is not used, as {changed_by} may change it)"
        rule = f"must be given for an environment without a transition table{why} to an agent with known_reward=True"
        remedy = f"Pass reward=array of shape ({n_states}, {n_actions}), or known_reward=False to learn them."
        fail("reward", rule, None, remedy)
    if reward is not None:
        shape = real_numbers(reward).shape
        if shape[-2:] != (n_states, n_actions) or len(shape) > 3:
            remedy = "Give reward[s, a] for each state and action, without the end state."
            fail("reward", f"must have shape {(n_states, n_actions)}", f"shape {shape}", remedy)
    allowed = declared_mask(env, options.allowed, states, actions)
    if allowed is not None and allowed.shape[-2] == n_states + 1:  # the task adds the end state itself
        allowed = allowed[..., :-1, :]
    return Task(
        reward,
        n_states=n_states,
        n_actions=n_actions,
        horizon=None if options.is_endless else horizon_of(env, options.horizon),
        reward_range=_range_of_numbered(env, options),
        start=None if options.start is None else read_start(options.start, states),
        may_terminate=True,
        allowed=allowed,
        **options.time,
    )
