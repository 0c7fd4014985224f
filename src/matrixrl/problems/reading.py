"""From what a user hands over (environment, MDP, task) to what an agent needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import fail, index, shaped
from matrixrl.features import Features, Phi, Psi
from matrixrl.features.bundle import as_phi, as_psi, check_sizes
from matrixrl.problems import FiniteMDP, FunctionalTask, MDPEnv, Task, from_gymnasium, horizon_of, known_mdp
from matrixrl.records import FloatArray
from matrixrl.seeding import generator

__all__ = ["Problem", "fingerprint", "read_problem", "reattach"]


@dataclass(frozen=True)
class Problem:
    """A problem as the agent sees it, and the world behind it.

    Attributes:
        task: what the agent may know.
        features: φ and ψ.
        env: where `learn` plays, or None for ask and tell.
        mdp: the known MDP, only ever used to measure regret, or None.
        n_observed: how many states can be observed (the end state of a converted environment cannot).
        pseudo: whether ψ may have linearly dependent columns.
        measures_regret: whether the known MDP is used to measure regret.
    """

    task: Task | FunctionalTask
    features: Features | None
    env: gym.Env[Any, Any] | None
    mdp: FiniteMDP | None
    n_observed: int
    pseudo: bool = False
    measures_regret: bool = True

    def state(self, name: str, obs: Any) -> Any:
        """Return an observation as a state, or refuse it."""
        if isinstance(self.task, FunctionalTask):
            return self.task.state(name, obs)
        return index(name, obs, size=self.n_observed, remedy="Give a state of observation_space.")

    def inner_state(self, name: str, value: Any) -> Any:
        """Return a state that may also be the end state."""
        if isinstance(self.task, FunctionalTask):
            return self.task.state(name, value)
        return index(name, value, size=self.task.n_states, remedy="Give a state.")

    @property
    def dimensions(self) -> tuple[int, int]:
        """Return d and d_psi."""
        if isinstance(self.task, FunctionalTask):
            return self.task.d, self.task.d_psi
        assert self.features is not None
        return self.features.phi.d, self.features.psi.d_psi


def read_problem(
    given: object,
    *,
    phi: Phi | FloatArray | None = None,
    psi: Psi | FloatArray | None = None,
    psi_pinv: bool = False,
    reward: FloatArray | None = None,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
    known_reward: bool = True,
    measure_regret: bool = True,
) -> Problem:
    """Return the problem behind a Gymnasium environment, a `FiniteMDP`, a `Task` or a `FunctionalTask`."""
    if not isinstance(measure_regret, bool):
        fail("measure_regret", "must be true or false", repr(measure_regret), "Say which.")
    env: gym.Env[Any, Any] | None = None
    mdp: FiniteMDP | None = None
    overrides = {"reward": reward, "horizon": horizon, "reward_range": reward_range}
    if isinstance(given, FunctionalTask):
        _refuse_overrides({**overrides, "phi": phi, "psi": psi}, "a FunctionalTask")
        if known_reward and not given.knows_reward:
            fail("reward", "must be given to an agent that knows rewards", None, "Pass it to FunctionalTask.")
        return Problem(given, None, given.env, None, 0, psi_pinv)
    if isinstance(given, FiniteMDP):
        env, mdp, task = MDPEnv(given), given, given.task
        _refuse_overrides(overrides, "a FiniteMDP")
    elif isinstance(given, Task):
        task = given
        _refuse_overrides(overrides, "a Task")
    elif isinstance(given, gym.Env):
        env, mdp = given, known_mdp(given)
        if mdp is not None:
            task = mdp.task
            _refuse_overrides(overrides, "an environment of matrixrl")
        elif hasattr(given.unwrapped, "P") and reward is None:
            mdp = from_gymnasium(given, horizon=horizon, reward_range=reward_range)
            task = mdp.task
        else:
            task = _task_without_table(given, reward, horizon, reward_range, known_reward)
    else:
        fail(
            "problem",
            "must be a Gymnasium environment, a FiniteMDP, a Task or a FunctionalTask",
            type(given).__name__,
            "Build one with gymnasium.make, matrixrl.make or matrixrl.FiniteMDP.",
        )
    default = task.features
    chosen_phi, chosen_psi = as_phi(phi, default.phi), as_psi(psi, default.psi, pseudo=psi_pinv)
    check_sizes(chosen_phi, chosen_psi, task.n_states, task.n_actions)
    features = Features(chosen_phi, chosen_psi)
    if env is not None:
        _check_time_limit(env, task.horizon)
    observed = task.n_states
    if env is not None and isinstance(env.observation_space, spaces.Discrete):
        observed = int(env.observation_space.n)
    return Problem(task, features, env, mdp, observed, chosen_psi.pseudo, measure_regret)


def reattach(
    saved: Problem,
    has_table: bool,
    print_of_world: FloatArray,
    env: gym.Env[Any, Any] | FiniteMDP,
) -> Problem:
    """Return the saved problem with a world to play in, refusing a world that is another problem.

    Args:
        saved: task and features of the checkpoint.
        has_table: whether the saved agent's world had a known MDP.
        print_of_world: its `fingerprint`.
        env: the world.
    """
    task = saved.task
    assert isinstance(task, Task)
    if isinstance(env, FiniteMDP) or known_mdp(env) is not None:
        found = read_problem(env)
    else:
        reward = None if has_table else task.reward[: saved.n_observed]
        found = read_problem(env, reward=reward, horizon=task.horizon, reward_range=task.reward_range)
    assert isinstance(found.task, Task)
    same = (
        found.task.horizon == task.horizon
        and found.task.end_state == task.end_state
        and found.task.reward_range == task.reward_range
        and np.array_equal(found.task.reward, task.reward)
        and (not has_table or np.allclose(fingerprint(found.mdp), print_of_world, rtol=1e-9, atol=1e-12))
    )
    if not same:
        fail(
            "env",
            "must be the problem that the checkpoint was saved from",
            "other states, actions, horizon, rewards or transitions",
            "Make the environment with the same settings.",
        )
    return replace(
        found, task=task, features=saved.features, pseudo=saved.pseudo, measures_regret=saved.measures_regret
    )


def _check_time_limit(env: gym.Env[Any, Any], horizon: int) -> None:
    limit = None if env.spec is None else env.spec.max_episode_steps
    if limit is not None and limit < horizon:
        fail(
            "horizon",
            f"must not exceed the time limit of the environment, {limit} steps",
            horizon,
            "Make the environment with max_episode_steps=…, or give a smaller horizon.",
        )


def fingerprint(mdp: FiniteMDP | None) -> FloatArray:
    """Return a few numbers that differ for different transitions and starts; zeros where nothing is known."""
    if mdp is None:
        return np.zeros(4)
    values = generator(0, "problem").random((3, mdp.n_states))
    weights = generator(1, "problem").random(mdp.n_states * mdp.n_actions)
    expected = mdp.transitions.expect(values).reshape(3, -1) @ weights
    return np.append(expected, mdp.task.start @ values[0])


def _refuse_overrides(overrides: Mapping[str, object], what: str) -> None:
    for name, value in overrides.items():
        if value is not None:
            fail(
                name,
                f"cannot be changed on {what}, which has its own",
                value,
                "Build it with that value.",
            )


def _task_without_table(
    env: gym.Env[Any, Any],
    reward: FloatArray | None,
    horizon: int | None,
    reward_range: tuple[float, float] | None,
    known_reward: bool,
) -> Task:
    """Return the task of an environment that hides its transitions: one more state stands for the end."""
    states, actions = env.observation_space, env.action_space
    if not isinstance(states, spaces.Discrete) or not isinstance(actions, spaces.Discrete):
        fail(
            "env",
            "must have discrete states and actions",
            f"{states} and {actions}",
            "Discretise it, or build a FiniteMDP.",
        )
    shape = (int(states.n), int(actions.n))
    if reward is None and not known_reward:
        reward = np.zeros(shape)  # a placeholder: an agent that learns rewards never looks at it
    if reward is None:
        fail(
            "reward",
            "must be given for an environment without a transition table",
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
