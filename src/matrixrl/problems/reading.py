"""The one reader of problems: from what a user hands over (environment, MDP, task) to a `Problem`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import choice, fail, flag, shaped, shown, users_stacklevel
from matrixrl.errors import InvalidInput, MatrixRLWarning
from matrixrl.features import Features, Phi, Psi
from matrixrl.features.bundle import as_phi, as_psi, check_sizes
from matrixrl.measuring import spacing
from matrixrl.problems.continuous import read_continuous
from matrixrl.problems.env import MDPEnv
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.problems.gym_tables import from_gymnasium, horizon_of, known_mdp
from matrixrl.problems.problem import REWARD_OUTSIDE, Problem
from matrixrl.problems.wrappers import space_remedy, time_limit, why_table_is_unknown, wrapper_chain
from matrixrl.records import FloatArray

__all__ = ["read_problem"]


def read_problem(
    given: object,
    *,
    phi: Any = None,
    psi: Any = None,
    psi_pinv: bool = False,
    reward: FloatArray | None = None,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
    known_reward: bool = True,
    measure_regret: bool | int = True,
    reward_outside: str = "error",
    name: str | None = None,
) -> Problem:
    """Return the problem behind a Gymnasium environment, a `FiniteMDP`, a `Task` or a `FunctionalTask`.

    Args:
        given: What the user handed over.
        phi: φ in place of the problem's own: a feature map, an array, or a class or function that makes one from the
            task.
        psi: ψ in place of the problem's own, likewise.
        psi_pinv: Accept linearly dependent columns of ψ and work on their span.
        reward: (S, A) known rewards, for an environment without a transition table.
        horizon: Steps in an episode, where the environment does not declare them.
        reward_range: Declared range of rewards, for environments that are not ours.
        known_reward: Whether the agent is given the rewards.
        measure_regret: Measure exact regret where the MDP is known; a number k measures it in episodes 1, k + 1, ….
        reward_outside: What is done about a reward outside the declared range: "error", "clip" or "widen", see
            `Problem`.
        name: Name in results; derived from the problem by default.
    """
    choice("reward_outside", reward_outside, REWARD_OUTSIDE)
    for argument, value in (("psi_pinv", psi_pinv), ("known_reward", known_reward)):
        flag(argument, value)
    regret_every = spacing("measure_regret", measure_regret)
    overrides = {"reward": reward, "horizon": horizon, "reward_range": reward_range}
    maps = {"phi": phi, "psi": psi}
    if isinstance(given, FunctionalTask):
        _refuse_overrides({**overrides, **maps}, "a FunctionalTask")
        if known_reward and not given.knows_reward:
            fail("reward", "must be given to an agent that knows rewards", None, "Pass it to FunctionalTask.")
        return Problem(
            given,
            env=given.env,
            name=name or "FunctionalTask",
            pseudo=psi_pinv,
            first_action=given.first_action,
            reward_outside=reward_outside,
        )
    env: gym.Env[Any, Any] | None = None
    mdp: FiniteMDP | None = None
    if isinstance(given, FiniteMDP):
        env, mdp, task = MDPEnv(given), given, given.task
        _refuse_overrides(overrides, "a FiniteMDP")
    elif isinstance(given, Task):
        task = given
        _refuse_overrides(overrides, "a Task")
    elif isinstance(given, gym.Env):
        if isinstance(given.observation_space, spaces.Box):
            remedy = "Pass kernel=… or transformer=… to KernelMatrixRL, or build a FunctionalTask."
            _refuse_overrides({"reward": reward, **maps}, "an environment with vectors as observations", remedy)
            read = _read_vectors(given, horizon, reward_range, regret_every, name)
            return replace(read, reward_outside=reward_outside)
        env, mdp = given, known_mdp(given)
        changed_by = why_table_is_unknown(given) if _has_table(given) else None
        if changed_by is not None:
            task = _task_without_table(given, reward, horizon, reward_range, known_reward, changed_by)
            warn_about_table(given, changed_by)
        elif mdp is not None:
            task = mdp.task
            what = "an environment of matrixrl"
            remedy = "Make it with matrixrl.make(name, horizon=…), or pass its name and env_settings={'horizon': …}."
            _refuse_overrides({"horizon": horizon}, what, remedy)
            _refuse_overrides({"reward": reward, "reward_range": reward_range}, what, "Leave it out.")
        elif hasattr(given.unwrapped, "P"):
            mdp = from_gymnasium(given, horizon=horizon, reward_range=reward_range)
            task = mdp.task
            _compare_rewards(reward, task)
        else:
            task = _task_without_table(given, reward, horizon, reward_range, known_reward)
    else:
        fail(
            "problem",
            "must be the name of an environment, a Gymnasium environment, a FiniteMDP, a Task or a FunctionalTask",
            shown(given) if isinstance(given, (str, int, float, type, type(None))) else type(given).__name__,
            "Such as 'river-swim' (matrixrl list envs), or what gymnasium.make or matrixrl.FiniteMDP returns.",
        )
    chosen_phi = as_phi(_made("phi", phi, task), task.features.phi)
    chosen_psi = as_psi(_made("psi", psi, task), task.features.psi, pseudo=psi_pinv)
    check_sizes(chosen_phi, chosen_psi, task.n_states, task.n_actions)
    n_observed, first_state, first_action = task.n_states, 0, 0
    if env is not None:
        _check_time_limit(env, task.horizon)
        states, actions = env.observation_space, env.action_space
        if isinstance(states, spaces.Discrete):
            n_observed, first_state = int(states.n), int(states.start)
        first_action = int(getattr(actions, "start", 0))
    return Problem(
        task,
        Features(chosen_phi, chosen_psi),
        env=env,
        mdp=mdp,
        name=name or _name_of(given),
        points=None if env is None or why_table_is_unknown(env) is not None else _points(env),
        n_observed=n_observed,
        pseudo=chosen_psi.pseudo,
        regret_every=regret_every,
        first_state=first_state,
        first_action=first_action,
        reward_outside=reward_outside,
    )


def warn_about_table(env: gym.Env[Any, Any], changed_by: str) -> None:
    """Say that the transition table of an environment is not used."""
    warnings.warn(
        f"the transition table of {_name_of(env)} is not used, because {changed_by} may change it: regret is not "
        "measured, and features and coordinates of states are not those of the table. A class of your own that changes "
        "nothing says so with the class attribute keeps_table = True.",
        MatrixRLWarning,
        stacklevel=users_stacklevel(),
    )


def _has_table(env: gym.Env[Any, Any]) -> bool:
    return isinstance(getattr(env.unwrapped, "mdp", None), FiniteMDP) or hasattr(env.unwrapped, "P")


def _made(name: str, value: Any, task: Task) -> Any:
    """Return a feature map or an array; a class or function is called with the task."""
    if not callable(value) or isinstance(value, (Phi, Psi)):
        return value
    try:
        return value(task)
    except TypeError as error:
        words = f"{name} must be made from the task alone; got {shown(value)} ({error})."
        raise InvalidInput(f"{words} Give a function of one argument, or an object.") from error


def _read_vectors(
    env: gym.Env[Any, Any],
    horizon: int | None,
    reward_range: tuple[float, float] | None,
    regret_every: int,
    name: str | None,
) -> Problem:
    """Return the problem of an environment with vectors as observations."""
    task = read_continuous(env, horizon=horizon, reward_range=reward_range)
    layer = next((one for one in wrapper_chain(env) if hasattr(one, "observation_points")), None)
    changed_by = None if layer is None else why_table_is_unknown(env, allowed=type(layer))
    if layer is None or changed_by is not None:
        seen, mdp = None, None
    else:
        seen, mdp = layer.observation_points, known_mdp(env, allowed=type(layer))
    if changed_by is not None:
        warn_about_table(env, changed_by)
    assert isinstance(env.action_space, spaces.Discrete)
    return Problem(
        task,
        env=env,
        mdp=mdp,
        name=name or _name_of(env),
        points=seen,
        regret_every=regret_every,
        first_action=int(env.action_space.start),
    )


def _name_of(given: object) -> str:
    if isinstance(given, gym.Env):
        return given.spec.id if given.spec is not None else type(given.unwrapped).__name__
    return type(given).__name__


def _points(env: gym.Env[Any, Any]) -> FloatArray | None:
    """Return where states lie, as the environment says (`points`)."""
    own = getattr(env.unwrapped, "points", None)
    return None if own is None else np.asarray(own, dtype=np.float64)


def _check_time_limit(env: gym.Env[Any, Any], horizon: int) -> None:
    limit = time_limit(env)
    if limit is not None and limit < horizon:
        fail(
            "horizon",
            f"must not exceed the time limit of the environment, {limit} steps",
            horizon,
            "Make the environment with max_episode_steps=…, or give a smaller horizon.",
        )


def _compare_rewards(reward: Any, task: Task) -> None:
    """Refuse rewards other than the expected ones of the transition table, which is there to be compared with."""
    if reward is None:
        return
    given = shaped("reward", reward, (None, None), remedy="Leave it out: the environment has a table.")
    known = task.reward[: len(given)]  # the table may have an end state more
    if given.shape != known.shape or not np.allclose(given, known):
        rule = "must be the expected rewards of the environment's transition table"
        fail("reward", rule, f"an array of shape {given.shape} that differs", "Leave it out.")


def _refuse_overrides(overrides: Mapping[str, object], what: str, remedy: str = "Build it with that value.") -> None:
    for name, value in overrides.items():
        if value is not None:
            fail(name, f"cannot be changed on {what}, which has its own", shown(value), remedy)


def _task_without_table(
    env: gym.Env[Any, Any],
    reward: FloatArray | None,
    horizon: int | None,
    reward_range: tuple[float, float] | None,
    known_reward: bool,
    changed_by: str | None = None,
) -> Task:
    """Return the task of an environment that hides its transitions: one more state stands for the end."""
    states, actions = env.observation_space, env.action_space
    if not isinstance(states, spaces.Discrete) or not isinstance(actions, spaces.Discrete):
        other = ("action", actions) if isinstance(states, spaces.Discrete) else ("observation", states)
        fail("env", "must have discrete states and actions", f"{states} and {actions}", space_remedy(*other))
    shape = (int(states.n), int(actions.n))
    if reward is None and not known_reward:
        reward = np.zeros(shape)  # a placeholder: an agent that learns rewards never looks at it
    if reward is None:
        why = "" if changed_by is None else f" (that of the environment is not used, as {changed_by} may change it)"
        fail(
            "reward",
            f"must be given for an environment without a transition table{why}",
            None,
            f"Pass reward=array of shape ({states.n}, {actions.n}), or known_reward=False to learn them.",
        )
    known = shaped("reward", reward, shape, remedy="Give reward[s, a] for each state and action.")
    return Task(
        reward=np.vstack([known, np.zeros((1, shape[1]))]),
        horizon=horizon_of(env, horizon),
        reward_range=(0.0, 1.0) if reward_range is None else reward_range,
        start=0,
        end_state=shape[0],
    )
