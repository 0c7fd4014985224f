"""What of an agent goes into a checkpoint, and how it comes back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.checkpoint import read_checkpoint, write_checkpoint
from matrixrl.agents.problem import Problem, fingerprint, reattach
from matrixrl.agents.running import RunningEpisode
from matrixrl.agents.settings import MatrixRLSettings
from matrixrl.checks import index, integer
from matrixrl.errors import CheckpointError, InvalidInput
from matrixrl.features import Features, OneHotPhi, OneHotPsi, Phi, Psi, TablePhi, TablePsi
from matrixrl.mdp import FiniteMDP, Task
from matrixrl.records import Plan
from matrixrl.seeding import restore, state_of

if TYPE_CHECKING:
    from matrixrl.agents.matrix_rl import MatrixRL

__all__ = ["Snapshot", "read_snapshot", "write_snapshot"]

_HISTORY = ("returns", "lengths", "upper", "alarms", "regret", "certified_lower", "certified_upper")
_MAY_BE_NAN = {"history_regret", "history_certified_lower", "history_certified_upper"}


def write_snapshot(agent: MatrixRL, path: str | os.PathLike[str]) -> None:
    """Write the agent: task, features, what was learned, streams, history, the running episode."""
    task, features, running = agent.task, agent.engine.features, agent.running
    env = agent.problem.env
    header: dict[str, Any] = {
        "library": version("matrixrl"),
        "agent": agent.name,
        "settings": agent.settings.as_dict(),
        "seed": agent.seed,
        "first_state": agent.first_state,
        "episode": agent.n_episodes,
        "horizon": task.horizon,
        "reward_range": list(task.reward_range),
        "end_state": task.end_state,
        "n_observed": agent.problem.n_observed,
        "has_table": agent.problem.mdp is not None,
        "phi": "one-hot" if isinstance(features.phi, OneHotPhi) else "table",
        "psi": "one-hot" if isinstance(features.psi, OneHotPsi) else "table",
        "psi_pinv": isinstance(features.psi, TablePsi) and features.psi.pseudo,
        "ties": agent.engine.random_states(),
        "env": state_of(env.unwrapped.np_random) if env is not None and agent.env_is_seeded else None,
        "terminated": running is not None and running.terminated,
        "off_plan": running is not None and running.off_plan,
    }
    arrays: dict[str, NDArray[Any]] = {
        "reward": task.reward,
        "start": task.start,
        "fingerprint": fingerprint(agent.problem.mdp),
    }
    if header["phi"] == "table":
        arrays["phi"] = np.ascontiguousarray(features.phi.table)
    if header["psi"] == "table":
        arrays["psi"] = features.psi.table
    arrays |= {f"learned_{k}": v for k, v in agent.engine.arrays().items()}
    arrays |= {f"history_{k}": np.array(getattr(agent.log, k), dtype=np.float64) for k in _HISTORY}
    if running is not None:
        plan = running.plan
        arrays |= {"plan_policy": plan.policy, "plan_values": plan.values, "plan_empty": plan.empty}
        arrays["steps"] = np.array(running.steps, dtype=np.int64).reshape(-1, 3)
        arrays["rewards"] = np.array(running.rewards, dtype=np.float64)
    write_checkpoint(path, header, arrays)


def read_snapshot(path: str | os.PathLike[str], agent_name: str) -> Snapshot:
    """Return the parts of a checkpoint, each checked; anything that does not fit is refused."""
    source = os.fspath(path)
    header, arrays = read_checkpoint(path)
    with _refusing(source):
        if header["agent"] != agent_name:
            raise InvalidInput(f"it holds a {header['agent']!r} agent, not {agent_name!r}")
        for name, array in arrays.items():
            if name not in _MAY_BE_NAN and not np.isfinite(array).all():
                raise InvalidInput(f"{name} holds NaN or infinity")
        task = _task(header, arrays)
        wanted = (1, task.features.phi.d, task.features.psi.d_psi)
        if arrays["learned_cross_moment"].shape != wanted:  # before anything of that size is allocated
            raise InvalidInput(f"cross_moment must have shape {wanted}")
        if header["phi"] != "one-hot" and arrays["learned_design"].shape != (1, wanted[1], wanted[1]):
            raise InvalidInput(f"design must have shape {(1, wanted[1], wanted[1])}")
        return Snapshot(
            source=source,
            header=header,
            arrays=arrays,
            task=task,
            settings=MatrixRLSettings.from_dict(header["settings"]),
            seed=integer("seed", header["seed"], low=0, remedy="It is damaged."),
        )


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint that was read and whose parts fit together."""

    source: str
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    task: Task
    settings: MatrixRLSettings
    seed: int

    def problem(self, env: gym.Env[Any, Any] | FiniteMDP | None) -> Problem:
        """Return the saved problem, attached to `env` if there is one."""
        with _refusing(self.source):
            n_observed = integer("n_observed", self.header["n_observed"], low=1, remedy="It is damaged.")
            if n_observed > self.task.n_states:
                raise InvalidInput("it observes more states than it has")
            saved = Problem(self.task, self.task.features, None, None, n_observed)
            known, world = self.header["has_table"] is True, self.arrays["fingerprint"]
        return saved if env is None else reattach(saved, known, world, env)

    def fill(self, agent: MatrixRL) -> None:
        """Put everything that was learned into a new agent."""
        with _refusing(self.source):
            self._fill_learned(agent)
            self._fill_history(agent)
            if "plan_policy" in self.arrays:
                agent.running = self._running()
            env = agent.problem.env
            if env is not None and self.header["env"] is not None:
                rng = np.random.Generator(np.random.PCG64())
                restore(rng, self.header["env"])
                env.unwrapped.np_random = rng
                agent.env_is_seeded = True

    def _fill_learned(self, agent: MatrixRL) -> None:
        expected = agent.engine.arrays()
        learned = {name: self.arrays[f"learned_{name}"] for name in expected}
        for name, array in expected.items():
            if learned[name].shape != array.shape or learned[name].dtype != array.dtype:
                raise InvalidInput(f"{name} must have shape {array.shape} and type {array.dtype}")
        episode = integer("episode", self.header["episode"], low=0, remedy="It is damaged.")
        features = agent.engine.features
        steps = episode * self.task.horizon
        largest = (
            steps
            * np.sqrt(features.phi.max_norm_sq)
            * (1.0 if isinstance(features.psi, OneHotPsi) else np.abs(features.psi.table).max())
        )
        if np.abs(learned["cross_moment"]).max() > largest * (1 + 1e-9) + 1e-9:
            raise InvalidInput(f"cross_moment is larger than {steps} steps can make it")
        agent.engine.restore_arrays(learned)
        agent.engine.episode = episode
        agent.engine.restore_random_states(self.header["ties"])
        first = self.header["first_state"]
        agent.first_state = (
            None if first is None else index("first_state", first, size=self.task.n_states, remedy="It is damaged.")
        )

    def _fill_history(self, agent: MatrixRL) -> None:
        columns = [self.arrays[f"history_{name}"] for name in _HISTORY]
        if any(column.shape != (agent.n_episodes,) for column in columns):
            raise InvalidInput(f"the history must have {agent.n_episodes} episodes")
        for name, column in zip(_HISTORY, columns, strict=True):
            kind = {"lengths": int, "alarms": bool}.get(name, float)
            getattr(agent.log, name).extend(kind(value) for value in column.tolist())

    def _running(self) -> RunningEpisode:
        task, arrays = self.task, self.arrays
        plan = Plan(arrays["plan_policy"], arrays["plan_values"], arrays["plan_empty"])
        steps, rewards = arrays["steps"], arrays["rewards"]
        fits = (
            plan.policy.shape == (1, task.horizon, task.n_states)
            and plan.policy.dtype.kind in "iu"
            and plan.values.shape == (1, task.horizon + 1, task.n_states)
            and plan.empty.shape == (1,)
            and 0 <= plan.policy.min() <= plan.policy.max() < task.n_actions
            and rewards.ndim == 1
            and len(rewards) <= task.horizon
            and steps.shape == (len(rewards), 3)
            and steps.dtype.kind == "i"
            and bool((steps >= 0).all())
            and bool((steps < [task.n_states, task.n_actions, task.n_states]).all())
        )
        if not fits:
            raise InvalidInput("the running episode does not fit the task")
        return RunningEpisode(
            plan,
            steps=[(int(s), int(a), int(f)) for s, a, f in steps],
            rewards=[float(r) for r in rewards],
            terminated=self.header["terminated"] is True,
            off_plan=self.header["off_plan"] is True,
        )


def _task(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> Task:
    n_states, n_actions = arrays["reward"].shape
    phi: Phi = OneHotPhi(n_states, n_actions)
    if header["phi"] != "one-hot":
        phi = TablePhi(arrays["phi"])
    psi: Psi = OneHotPsi(n_states)
    if header["psi"] != "one-hot":
        psi = TablePsi(arrays["psi"], pseudo=header["psi_pinv"] is True)
    low, high = header["reward_range"]
    return Task(
        reward=arrays["reward"],
        horizon=header["horizon"],
        reward_range=(low, high),
        start=arrays["start"],
        end_state=header["end_state"],
        features=Features(phi, psi),
    )


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    """Turn whatever a damaged header or array provokes into one clear refusal."""
    try:
        yield
    except (InvalidInput, KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        reason = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise CheckpointError(f"{source} cannot be restored: {reason}") from error
