"""The one reader of problems: from what a user passes (environment, MDP, task) to a `Problem`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import choice, fail, fits_memory, flag, optional_flag, shaped, shown, users_stacklevel
from matrixrl.coding import Codec, DiscreteCodec
from matrixrl.errors import InvalidInput, MatrixRLWarning
from matrixrl.features import Features, Phi, Psi
from matrixrl.features.bundle import as_phi, as_psi
from matrixrl.measuring import spacing
from matrixrl.problems.continuous import control_codec, declared_range, read_continuous
from matrixrl.problems.declared_masks import declared_mask, restricted
from matrixrl.problems.discounting import checked_discount
from matrixrl.problems.env import MDPEnv
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.functional import FunctionalTask
from matrixrl.problems.gym_tables import from_gymnasium, horizon_of, known_mdp, read_start
from matrixrl.problems.masks import filled_rewards
from matrixrl.problems.problem import REWARD_OUTSIDE, Problem
from matrixrl.problems.spaces import codec_of
from matrixrl.problems.stages import read_stages
from matrixrl.problems.task import chosen_horizon, spread_rewards, stages_of
from matrixrl.problems.wrappers import time_limit, why_table_is_unknown, wrapper_chain
from matrixrl.records import FloatArray

__all__ = ["read_problem"]

M = TypeVar("M", FiniteMDP, Task)
_ONE_HOT_NUMBERS = 60.0  # numbers of 8 bytes that agents with one-hot features were measured to keep for each pair


def read_problem(
    given: object,
    *,
    phi: Any = None,
    psi: Any = None,
    psi_pinv: bool = False,
    reward: FloatArray | None = None,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
    known_reward: bool | None = None,
    measure_regret: bool | int = True,
    reward_outside: str = "error",
    allowed: Any = None,
    stage_dependent: Any = None,
    discount: float | None = None,
    accuracy: float | None = None,
    start: Any = None,
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
        known_reward: Whether the agent is given the rewards; by default it learns them where they are not known.
        measure_regret: Measure exact regret where the MDP is known; a number k measures it in episodes 1, k + 1, ….
        reward_outside: What is done about a reward outside the declared range: "error", "clip" or "widen", see
            `Problem`.
        allowed: Allowed actions of numbered states, as a table (S, A) or a function of the state, as in `Task`; "all"
            allows all, whatever the environment says. By default those of the MDP or task; of an environment those that
            it declares with a method ``action_mask(state)``, or reports while it is played: with
            ``info["action_mask"]`` or a method ``action_masks()``.
        stage_dependent: Whether laws and rewards of numbered states differ between stages, as in `Task`.
        discount: Factor γ of each step for an environment without a transition table, as in `Task`; without a horizon
            it chooses one.
        accuracy: Accuracy of a horizon that the discount chooses, as in `Task`.
        start: First state, or the distribution of first states, of an environment that does not declare it.
        name: Name in results; derived from the problem by default.
    """
    choice("reward_outside", reward_outside, REWARD_OUTSIDE)
    flag("psi_pinv", psi_pinv)
    known_reward = optional_flag("known_reward", known_reward)
    regret_every = spacing("measure_regret", measure_regret)
    overrides = {"reward": reward, "horizon": horizon, "reward_range": reward_range, "start": start}
    maps = {"phi": phi, "psi": psi}
    discounts = {"discount": discount, "accuracy": accuracy}
    of_time = {**discounts, "stage_dependent": stage_dependent}
    ignores_masks = isinstance(allowed, str) and choice("allowed", allowed, ["all"]) == "all"
    if isinstance(given, FunctionalTask):
        _refuse_overrides({**overrides, **maps}, "a FunctionalTask")
        _refuse_timing(of_time, "a FunctionalTask")
        _refuse_mask(allowed, "a FunctionalTask")
        return Problem(
            given,
            env=given.env,
            name=name or "FunctionalTask",
            pseudo=psi_pinv,
            actions=given.actions,
            reward_outside=reward_outside,
            ignores_masks=ignores_masks,
        )
    env: gym.Env[Any, Any] | None = None
    mdp: FiniteMDP | None = None
    if isinstance(given, FiniteMDP):
        mdp = restricted(_staged(given, stage_dependent), allowed)
        env, task = MDPEnv(mdp), mdp.task
        _refuse_overrides({**overrides, **discounts}, "a FiniteMDP")
    elif isinstance(given, Task):
        task = restricted(_staged(given, stage_dependent), allowed)
        _refuse_overrides({**overrides, **discounts}, "a Task")
    elif isinstance(given, gym.Env):
        if isinstance(given.observation_space, spaces.Box):
            remedy = "Pass kernel=… or transformer=… to KernelMatrixRL, or build a FunctionalTask."
            _refuse_overrides({"reward": reward, **maps}, "an environment with vectors as observations", remedy)
            _refuse_start(start)
            _refuse_timing(of_time, "an environment with vectors as observations")
            _refuse_mask(allowed, "an environment with vectors as observations")
            read = _read_vectors(given, horizon, reward_range, regret_every, name)
            return replace(read, reward_outside=reward_outside, ignores_masks=ignores_masks)
        env, mdp, shared = given, known_mdp(given), (horizon, reward_range, known_reward, start)
        changed_by = why_table_is_unknown(given) if _has_table(given) else None
        if changed_by is not None:
            task = _task_without_table(given, reward, *shared, allowed, changed_by, of_time, has_phi=phi is not None)
            warn_about_table(given, changed_by)
        elif mdp is not None:
            mdp = restricted(_staged(mdp, stage_dependent), allowed)
            task = mdp.task
            what = "an environment of matrixrl"
            _refuse_overrides(discounts, what, "Build a FiniteMDP with that value.")
            remedy = "Make it with matrixrl.make(name, horizon=…), or pass its name and env_settings={'horizon': …}."
            _refuse_overrides({"horizon": horizon}, what, remedy)
            _refuse_overrides({"reward": reward, "reward_range": reward_range, "start": start}, what, "Leave it out.")
        elif _has_table(given):
            given_time = _given_time(of_time, horizon)
            given_time |= {"horizon": horizon, "start": start}
            mdp = from_gymnasium(given, reward_range=reward_range, allowed=allowed, **given_time)
            task = mdp.task
            _compare_rewards(reward, task)
        else:
            task = _task_without_table(given, reward, *shared, allowed, None, of_time, has_phi=phi is not None)
    else:
        remedy = "Such as 'river-swim' (matrixrl list envs), or what gymnasium.make or matrixrl.FiniteMDP returns."
        if isinstance(given, gym.vector.VectorEnv):
            remedy = "Give one of its sub-environments here, and the vector environment to learn(n_episodes, env=…)."
        fail(
            "problem",
            "must be the name of an environment, a Gymnasium environment, a FiniteMDP, a Task or a FunctionalTask",
            shown(given) if isinstance(given, (str, int, float, type, type(None))) else type(given).__name__,
            remedy,
        )
    chosen = task.spread_features(
        Features(
            as_phi(_made("phi", phi, task), task.features.phi),
            as_psi(_made("psi", psi, task), task.features.psi, pseudo=psi_pinv),
            same_states=False,
        )
    ).cover(task.n_states, task.n_actions, task.end_state, task.end_words)
    states: Codec = DiscreteCodec(task.n_observed)
    actions: Codec = DiscreteCodec(task.n_own_actions)
    if env is not None:
        _check_time_limit(env, task)
        states, actions = codec_of("observation", env.observation_space), codec_of("action", env.action_space)
        if states.size not in (task.n_observed, task.n_states) or actions.size != task.n_own_actions:
            received = f"{states}, with {states.size} elements, and {actions}, with {actions.size}"
            rule = f"must have spaces of {task.n_states} states and {task.n_own_actions} actions, as its table"
            fail("env", rule, received, "Correct the spaces.")
    return Problem(
        task,
        Features(chosen.phi, chosen.psi),
        env=env,
        mdp=mdp,
        name=name or _name_of(given),
        points=None if env is None or why_table_is_unknown(env) is not None else _points(env),
        pseudo=chosen.psi.pseudo,
        regret_every=regret_every,
        states=states,
        actions=actions,
        reward_outside=reward_outside,
        ignores_masks=ignores_masks,
    )


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


def _staged(known: M, stage_dependent: Any) -> M:
    """Return an MDP or a task whose laws depend on the stage as it is asked for; it may have said so itself."""
    task = known.task if isinstance(known, FiniteMDP) else known
    if stage_dependent is None:
        return known
    wanted = read_stages(stage_dependent, task.horizon, task.n_own_actions)
    if task.stages is None:
        return known if wanted is None else known.staged(wanted)
    if not task.stages.same(wanted):
        rule = "cannot be changed on a problem that has its own"
        fail("stage_dependent", rule, shown(stage_dependent), "Build it with that value.")
    return known


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
    return Problem(
        task,
        env=env,
        mdp=mdp,
        name=name or _name_of(env),
        points=seen,
        regret_every=regret_every,
        actions=control_codec(env.action_space),
    )


def _name_of(given: object) -> str:
    if isinstance(given, gym.Env):
        return given.spec.id if given.spec is not None else type(given.unwrapped).__name__
    return type(given).__name__


def _points(env: gym.Env[Any, Any]) -> FloatArray | None:
    """Return where states lie, as the environment says (`points`)."""
    own = getattr(env.unwrapped, "points", None)
    return None if own is None else np.asarray(own, dtype=np.float64)


def _check_time_limit(env: gym.Env[Any, Any], task: Task) -> None:
    limit, horizon = time_limit(env), task.horizon
    if limit is None or limit >= horizon:
        return
    longer = "Make the environment with max_episode_steps=…"
    if task.is_endless:
        rule = f"must not need more steps than the time limit of the environment, {limit}"
        fail("discount", rule, f"{horizon} steps", f"{longer}, or give a horizon or a larger accuracy.")
    rule = f"must not exceed the time limit of the environment, {limit} steps"
    fail("horizon", rule, horizon, f"{longer}, or give a smaller horizon.")


def _compare_rewards(reward: Any, task: Task) -> None:
    """Refuse rewards other than the expected ones of the transition table, which is there to be compared with."""
    if reward is None:
        return
    given = shaped("reward", reward, (None, None), remedy="Leave it out: the environment has a table.")
    known = task.reward[: len(given), : task.n_own_actions]  # the table may have an end state more, and equal classes
    if given.shape != known.shape or not np.allclose(given, known):
        rule = "must be the expected rewards of the environment's transition table"
        fail("reward", rule, f"an array of shape {given.shape} that differs", "Leave it out.")


def _refuse_overrides(overrides: Mapping[str, object], what: str, remedy: str = "Build it with that value.") -> None:
    for name, value in overrides.items():
        if value is not None:
            fail(name, f"cannot be changed on {what}, which has its own", shown(value), remedy)


def _refuse_start(start: object) -> None:
    """Refuse a start where states are not numbered."""
    if start is not None:
        rule = "must be left out for an environment with vectors as observations"
        fail("start", rule, shown(start), "Nothing is proven there that would need it.")


def _refuse_timing(of_time: Mapping[str, object], what: str) -> None:
    """Refuse classes of stages and discounts where states are not numbered."""
    for name, value in of_time.items():
        if value is not None and value is not False:
            rule = f"must be left out for {what}, whose states are not numbered"
            by_stage = "Make the stage a part of the observation."
            remedy = by_stage if name == "stage_dependent" else "Give a horizon, over which all rewards count alike."
            fail(name, rule, shown(value), remedy)


def _given_time(of_time: Mapping[str, Any], horizon: int | None) -> dict[str, Any]:
    """Return the options of stages and discounts that were given; refuse an accuracy that nothing depends on."""
    given = {name: value for name, value in of_time.items() if value is not None}
    if "accuracy" in given and not _is_endless(given, horizon):
        rule = "must be left out unless a discount below 1 chooses the horizon"
        fail("accuracy", rule, shown(given["accuracy"]), "Give a discount and no horizon, or leave it out.")
    return given


def _is_endless(given: Mapping[str, Any], horizon: int | None) -> bool:
    """Return whether the discount chooses the horizon."""
    return horizon is None and checked_discount(given.get("discount", 1.0)) < 1.0


def _refuse_mask(allowed: Any, what: str) -> None:
    """Refuse a table or function of allowed actions where states are not numbered."""
    if allowed is not None and not isinstance(allowed, str):
        rule = f"must be left out for {what}, whose states are not numbered"
        fail("allowed", rule, shown(allowed), "Say what is allowed just now: episode.act(obs, allowed=…).")


def _task_without_table(
    env: gym.Env[Any, Any],
    reward: FloatArray | None,
    horizon: int | None,
    reward_range: tuple[float, float] | None,
    known_reward: bool | None,
    start: Any,
    allowed: Any,
    changed_by: str | None,
    of_time: Mapping[str, Any],
    *,
    has_phi: bool = False,
) -> Task:
    """Return the task of an environment that hides its transitions: one more state stands for the end."""
    states, actions = codec_of("observation", env.observation_space), codec_of("action", env.action_space)
    n_states, n_actions = states.size, actions.size
    fits_memory(
        "env",
        (3.0 if has_phi else _ONE_HOT_NUMBERS) * n_states * n_actions,
        f"{n_states:,} states and {n_actions:,} actions",
        remedy="Give features phi, leave out or coarsen parts of the spaces, or use a FunctionalTask.",
    )
    if reward is None and known_reward:
        why = "" if changed_by is None else f" (that of the environment is not used, as {changed_by} may change it)"
        fail(
            "reward",
            f"must be given for an environment without a transition table{why} to an agent with known_reward=True",
            None,
            f"Pass reward=array of shape ({n_states}, {n_actions}), or known_reward=False to learn them.",
        )
    given_time = _given_time(of_time, horizon)
    classes = given_time.pop("stage_dependent", None)
    steps = None if _is_endless(given_time, horizon) else horizon_of(env, horizon)
    table = np.zeros((n_states, n_actions)) if reward is None else reward
    n_stages = chosen_horizon(steps, given_time.get("discount", 1.0), given_time.get("accuracy", 0.01))
    stages = stages_of(classes, table, n_stages)
    mask = declared_mask(env, allowed, states, actions, end_state=n_states, stages=stages)
    width = n_actions if stages is None else stages.n_inner
    if reward is not None:
        remedy = "Give reward[s, a] for each state and action, without the end state."
        wide, _ = spread_rewards(reward, None, stages, n_stages, None)
        given = wide if mask is None else filled_rewards(wide, mask[:-1], 0.0, None)
        reward = shaped("reward", given, (n_states, width), remedy=remedy)
    return Task(
        reward,
        n_states=n_states,
        n_actions=width,
        horizon=steps,
        reward_range=declared_range(env, reward_range) or (0.0, 1.0),
        start=None if start is None else read_start(start, states),
        may_terminate=True,
        allowed=None if mask is None else mask[:-1],
        stage_dependent=False if stages is None else stages,
        **given_time,
    )
