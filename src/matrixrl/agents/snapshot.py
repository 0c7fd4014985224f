"""What of an agent goes into a checkpoint, and how it comes back."""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from matrixrl.agents.running import RunningEpisode
from matrixrl.algorithms.matrix_rl.finite import MatrixRLEngine
from matrixrl.algorithms.matrix_rl.sampled import ColumnEngine, ColumnPlan
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.archive import read_checkpoint, refusing, write_checkpoint
from matrixrl.checks import index, integer
from matrixrl.errors import InvalidInput
from matrixrl.features import FunctionPhi, Phi
from matrixrl.problems import FiniteMDP, FunctionalTask, Task
from matrixrl.problems.reading import Problem
from matrixrl.problems.saving import attach_world, pack_problem, unpack_problem
from matrixrl.records import Plan
from matrixrl.seeding import restore, state_of

if TYPE_CHECKING:
    from matrixrl.agents.matrix_rl import MatrixRL

__all__ = ["Snapshot", "read_snapshot", "write_snapshot"]

_HISTORY = ("returns", "lengths", "upper", "alarms", "regret", "certified_lower", "certified_upper")
_MAY_BE_NAN = {"history_regret", "history_certified_lower", "history_certified_upper"}


def write_snapshot(agent: MatrixRL, path: str | os.PathLike[str]) -> None:
    """Write the agent: problem, what was learned, streams, history, the running episode."""
    running, env = agent.running, agent.problem.env
    header, arrays = pack_problem(agent.problem)
    first = agent.first_state
    header |= {
        "library": version("matrixrl"),
        "agent": agent.name,
        "settings": agent.settings.as_dict(),
        "seed": agent.seed,
        "compiled": agent.engine.compiled if isinstance(agent.engine, MatrixRLEngine) else None,
        "first_state": None if first is None else np.asarray(first).tolist(),
        "episode": agent.n_episodes,
        "streams": agent.engine.random_states(),
        "env": state_of(env.unwrapped.np_random) if env is not None and agent.env_is_seeded else None,
        "terminated": running is not None and running.terminated,
        "off_plan": running is not None and running.off_plan,
    }
    arrays |= {f"learned_{k}": v for k, v in agent.engine.arrays().items()}
    arrays |= {f"history_{k}": np.array(getattr(agent.log, k), dtype=np.float64) for k in _HISTORY}
    if running is not None:
        arrays["rewards"] = np.array(running.rewards, dtype=np.float64)
        if running.steps:
            states, actions, following = running.columns()
            arrays |= {"step_states": states[0], "step_actions": actions[0], "step_following": following[0]}
        plan = running.plan
        if isinstance(plan, Plan):  # a lazy plan is a function of what was learned
            arrays |= {"plan_policy": plan.policy, "plan_values": plan.values, "plan_empty": plan.empty}
    write_checkpoint(path, header, arrays)


def read_snapshot(
    path: str | os.PathLike[str],
    agent_name: str,
    world: gym.Env[Any, Any] | FiniteMDP | FunctionalTask | None,
    phi: Phi | None = None,
) -> Snapshot:
    """Return the parts of a checkpoint, each checked; anything that does not fit is refused."""
    source = os.fspath(path)
    header, arrays = read_checkpoint(path)
    with refusing(source):
        if header["agent"] != agent_name:
            raise InvalidInput(f"it holds a {header['agent']!r} agent, not {agent_name!r}")
        for name, array in arrays.items():
            if name not in _MAY_BE_NAN and not np.isfinite(array).all():
                raise InvalidInput(f"{name} holds NaN or infinity")
        saved = unpack_problem(header, arrays)
    problem = attach_world(saved, header, arrays, world, phi)
    with refusing(source):
        d, d_psi = problem.dimensions
        if arrays["learned_cross_moment"].shape != (1, d, d_psi):  # before anything of that size is allocated
            raise InvalidInput(f"cross_moment must have shape {(1, d, d_psi)}")
        if header.get("compiled") not in (None, True, False):
            raise InvalidInput("compiled must be true, false or None")
        if header.get("phi") != "one-hot" and arrays["learned_design"].shape != (1, d, d):
            raise InvalidInput(f"design must have shape {(1, d, d)}")
        return Snapshot(
            source=source,
            header=header,
            arrays=arrays,
            problem=problem,
            settings=MatrixRLSettings.from_dict(header["settings"]),
            seed=integer("seed", header["seed"], low=0, remedy="It is damaged."),
        )


@dataclass(frozen=True)
class Snapshot:
    """A checkpoint that was read and whose parts fit together."""

    source: str
    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    problem: Problem
    settings: MatrixRLSettings
    seed: int

    @property
    def compiled(self) -> bool | None:
        """What the agent was told of compiled loops."""
        said: bool | None = self.header.get("compiled")
        return said

    def fill(self, agent: MatrixRL) -> None:
        """Put everything that was learned into a new agent."""
        with refusing(self.source):
            self._fill_learned(agent)
            self._fill_history(agent)
            if "rewards" in self.arrays:
                agent.running = self._running(agent)
            env = agent.problem.env
            if env is not None and self.header["env"] is not None:
                rng = np.random.Generator(np.random.PCG64())
                restore(rng, self.header["env"])
                env.unwrapped.np_random = rng
                agent.env_is_seeded = True

    def _fill_learned(self, agent: MatrixRL) -> None:
        prefix = "learned_"
        learned = {k.removeprefix(prefix): v for k, v in self.arrays.items() if k.startswith(prefix)}
        agent.engine.check_arrays(learned)
        episode = integer("episode", self.header["episode"], low=0, remedy="It is damaged.")
        if agent.problem.features is not None:
            phi, psi = agent.problem.features.phi, agent.problem.features.psi
            steps = episode * agent.task.horizon
            if not isinstance(phi, FunctionPhi):
                largest = steps * np.sqrt(phi.max_norm_sq * psi.norms_sq().max())
                if np.abs(learned["cross_moment"]).max() > largest * (1 + 1e-9) + 1e-9:
                    raise InvalidInput(f"cross_moment is larger than {steps} steps can make it")
        agent.engine.episode = episode
        agent.engine.restore_arrays(learned)
        agent.engine.restore_random_states(self.header["streams"])
        first = self.header["first_state"]
        agent.first_state = None if first is None else agent.problem.state("first_state", first)

    def _fill_history(self, agent: MatrixRL) -> None:
        columns = [self.arrays[f"history_{name}"] for name in _HISTORY]
        if any(column.shape != (agent.n_episodes,) for column in columns):
            raise InvalidInput(f"the history must have {agent.n_episodes} episodes")
        for name, column in zip(_HISTORY, columns, strict=True):
            kind = {"lengths": int, "alarms": bool}.get(name, float)
            getattr(agent.log, name).extend(kind(value) for value in column.tolist())

    def _running(self, agent: MatrixRL) -> RunningEpisode:
        problem, arrays, horizon = agent.problem, self.arrays, agent.task.horizon
        rewards = arrays["rewards"]
        if rewards.ndim != 1 or len(rewards) > horizon:
            raise InvalidInput("the running episode does not fit the task")
        steps = []
        if len(rewards):
            columns = [arrays[f"step_{name}"] for name in ("states", "actions", "following")]
            if any(len(column) != len(rewards) for column in columns):
                raise InvalidInput("the running episode does not fit the task")
            for state, action, following in zip(*columns, strict=True):
                chosen = index("action", action, size=agent.task.n_actions, remedy="It is damaged.")
                steps.append((problem.inner_state("state", state), chosen, problem.inner_state("state", following)))
        return RunningEpisode(
            self._plan(agent),
            steps=steps,
            rewards=[float(r) for r in rewards],
            terminated=self.header["terminated"] is True,
            off_plan=self.header["off_plan"] is True,
        )

    def _plan(self, agent: MatrixRL) -> Plan | ColumnPlan:
        if isinstance(agent.engine, ColumnEngine):
            return agent.engine.current_plan()
        arrays, task = self.arrays, agent.task
        assert isinstance(task, Task)
        plan = Plan(arrays["plan_policy"], arrays["plan_values"], arrays["plan_empty"])
        fits = (
            plan.policy.shape == (1, task.horizon, task.n_states)
            and plan.policy.dtype.kind in "iu"
            and plan.values.shape == (1, task.horizon + 1, task.n_states)
            and plan.empty.shape == (1,)
            and 0 <= plan.policy.min() <= plan.policy.max() < task.n_actions
        )
        if not fits:
            raise InvalidInput("the running episode does not fit the task")
        return plan
