"""KernelMatrixRL on continuous states as an agent: ask and tell, learn, predict, save, load."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Self

import gymnasium as gym
import numpy as np

from matrixrl.agents.interaction import play_episodes
from matrixrl.agents.kernel_finite import FiniteKernelMatrixRL
from matrixrl.algorithms.continuous.algorithm import ContinuousEngine
from matrixrl.algorithms.continuous.model import ContinuousPlan, Transitions
from matrixrl.algorithms.continuous.settings import ContinuousSettings
from matrixrl.archive import read_checkpoint, refusing, write_checkpoint
from matrixrl.checks import fail, index, integer, number, shaped
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.problems import FiniteMDP, RegretEvaluator, Task, known_mdp
from matrixrl.problems.continuous import ContinuousTask, read_continuous
from matrixrl.records import Episode, FloatArray, History, HistoryLog
from matrixrl.seeding import fresh_seed, restore, state_of

__all__ = ["KernelMatrixRL"]

_HISTORY = ("returns", "lengths", "upper", "regret")


@dataclass
class _Running:
    plan: ContinuousPlan
    steps: list[tuple[FloatArray, int, float, FloatArray, bool]] = field(default_factory=list)
    advised: int | None = None
    off_plan: bool = False

    @property
    def is_over(self) -> bool:
        return bool(self.steps) and self.steps[-1][4]


class KernelMatrixRL:
    """Learns control tasks with continuous states in a handful of episodes: kernels and an optimistic centre.

    What is unknown is worth the most that can still be earned, and every episode is planned by backward induction on
    all transitions seen so far, through a kernel of state-action pairs (YW19 Algorithm 2; the centre is ours). One
    configuration serves every task. Given a finite problem it returns a `FiniteKernelMatrixRL`, with the paper's sets,
    radii and certificates.

    Args:
        env: a Gymnasium environment with vectors as observations and discrete actions.
        kernel: k of states, in scaled units: a scikit-learn kernel, a function (n, p), (m, p) → (n, m), or a name; the
            RBF kernel of `length_scale` by default.
        transformer: a scikit-learn transformer (or a `StateMap`) to use in place of a kernel.
        horizon: steps in an episode; the environment's time limit by default.
        reward_range: smallest and largest reward of a step; of our environments and Gymnasium's classic ones it is
            known, of others it is [0, 1] and all that was seen.
        seed: of everything random; drawn and kept in `agent.seed` if None.
        settings: see `ContinuousSettings`.

    >>> import gymnasium
    >>> agent = KernelMatrixRL(gymnasium.make("CartPole-v1"), horizon=50, seed=0)
    >>> agent.learn(n_episodes=3).n_episodes
    3
    """

    name = "kernel-matrix-rl"

    def __new__(cls, env: Any = None, **settings: Any) -> Any:
        """Return the agent for the kind of states that the environment has."""
        if isinstance(env, (FiniteMDP, Task)) or (
            isinstance(env, gym.Env) and isinstance(env.observation_space, gym.spaces.Discrete)
        ):
            return FiniteKernelMatrixRL(env, **settings)
        return super().__new__(cls)

    guarantee = "continuous states: the kernel is approximated and exploration is tuned, so nothing is proven"

    def __init__(
        self,
        env: gym.Env[Any, Any],
        *,
        kernel: Any = None,
        transformer: Any = None,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        seed: int | None = None,
        **settings: Any,
    ) -> None:
        problem = read_continuous(env, horizon=horizon, reward_range=reward_range)
        given = {"max_return": problem.max_return, **settings}
        chosen = fresh_seed() if seed is None else integer("seed", seed, low=0, remedy="Such as 0.")
        self._setup(env, problem, ContinuousSettings.resolve(given), chosen, kernel, transformer)

    def _setup(
        self,
        env: gym.Env[Any, Any],
        problem: ContinuousTask,
        settings: ContinuousSettings,
        seed: int,
        kernel: Any,
        transformer: Any,
    ) -> None:
        self.env, self.task, self.settings, self.seed = env, problem, settings, seed
        self.engine = ContinuousEngine(problem, settings, seed, kernel=kernel, features=transformer)
        self.log = HistoryLog()
        self.running: _Running | None = None
        self.env_is_seeded = False
        self._is_default = kernel is None and transformer is None
        self._advice: ContinuousPlan | None = None
        mdp = known_mdp(env)
        self._places: FloatArray | None = (
            env.get_wrapper_attr("observation_points") if env.has_wrapper_attr("observation_points") else None
        )
        self._judge = RegretEvaluator(mdp) if mdp is not None and self._places is not None else None

    @property
    def n_episodes(self) -> int:
        """How many episodes were learned from."""
        return self.engine.episode

    @property
    def history(self) -> History:
        """The agent's life so far."""
        return self.log.freeze()

    def begin_episode(self) -> None:
        """Plan the next episode."""
        if self.running is not None:
            raise ProtocolError("begin_episode was called inside an episode; call end_episode first")
        self.running = _Running(self.engine.plan())

    def act(self, obs: Any) -> int:
        """Return the action to play now."""
        running = self._unfinished("act")
        running.advised = self.engine.act(running.plan, len(running.steps), self._vector("obs", obs))
        return running.advised + self.task.first_action

    def observe(self, obs: Any, action: Any, reward: float, next_obs: Any, terminated: bool = False) -> None:
        """Tell what happened; the action need not be the one that was advised."""
        running = self._unfinished("observe")
        first, remedy = self.task.first_action, "Choose from action_space."
        chosen = index("action", action, size=first + self.task.n_actions, remedy=remedy) - first
        if chosen < 0:
            fail("action", f"must be at least {first}", action, remedy)
        low, high = self.task.reward_range or (-1e12, 1e12)
        slack = 1e-6 * (high - low) if self.task.reward_range else 0.0
        earned = number(
            "reward", reward, low=low - slack, high=high + slack, remedy="Declare the reward_range of the problem."
        )
        step = (self._vector("obs", obs), chosen, earned, self._vector("next_obs", next_obs), bool(terminated))
        running.steps.append(step)
        running.off_plan |= chosen != running.advised
        running.advised = None

    def end_episode(self) -> Episode:
        """Learn from the episode and return its record."""
        running = self._running_episode("end_episode")
        if not running.steps:
            raise ProtocolError("end_episode was called before any observe; use abandon_episode")
        obs, actions, rewards, following, terminated = zip(*running.steps, strict=True)
        upper = float(self.engine.q(running.plan, 0, obs[0][None]).max().clip(max=running.plan.top[0]))
        steps = Transitions(
            np.array(obs),
            np.array(actions, dtype=np.int64),
            np.array(rewards),
            np.array(following),
            np.array(terminated),
        )
        episode = Episode(
            index=self.n_episodes,
            episode_return=float(sum(rewards)),
            length=len(rewards),
            regret=self._regret(running),
            upper=upper,
            alarm=False,
        )
        with uninterrupted():
            self.engine.update(steps)
            self.log.append(episode)
            self.running = self._advice = None
        return episode

    def _regret(self, running: _Running) -> float | None:
        """Return the exact regret of the plan, where the MDP behind the observations is known."""
        if self._judge is None or self._places is None or running.off_plan:
            return None
        described = self.engine.model.describe(self._places)
        policy = [running.plan.q(h, *described).argmax(axis=1) for h in range(self.task.horizon)]
        return float(self._judge.regret(np.stack(policy)[None])[0])

    def abandon_episode(self) -> None:
        """Forget the running episode, if any: nothing is learned from it."""
        self.running = None

    def predict(self, obs: Any, stage: int = 0) -> int:
        """Return the action that current knowledge advises; it changes nothing, not even a random stream."""
        h = index("stage", stage, size=self.task.horizon, remedy="Stages count from 0.")
        vector = self._vector("obs", obs)
        return self.engine.act(self.advice, h, vector, break_ties_at_random=False) + self.task.first_action

    def value(self, obs: Any, stage: int = 0) -> tuple[FloatArray, FloatArray]:
        """Return optimistic values and widths of observations (n, p), for pictures: (n,) and (n,)."""
        h = index("stage", stage, size=self.task.horizon, remedy="Stages count from 0.")
        points = shaped("obs", np.atleast_2d(obs), (None, self.task.n_coordinates), remedy="Give rows of observations.")
        z, residual = self.engine.model.describe(points)
        best = np.minimum(self.advice.q(h, z, residual).max(axis=1), self.advice.top[h])
        return best, self.advice.widths(z, residual).min(axis=1)

    @property
    def advice(self) -> ContinuousPlan:
        """The plan from all finished episodes; cached."""
        if self._advice is None:
            streams = self.engine.planning_state()
            self._advice = self.engine.plan()
            self.engine.restore_planning(streams)
        return self._advice

    def learn(
        self,
        n_episodes: int,
        *,
        callback: Callable[[Episode], bool | None] | None = None,
        progress: bool = False,
        blas_threads: int | None = 1,
    ) -> History:
        """Play and learn `n_episodes` more episodes; returning False from the callback stops.

        Args:
            n_episodes: how many more.
            callback: called with each finished `Episode`.
            progress: draw a live bar.
            blas_threads: threads of the linear algebra; None leaves them alone.

        Returns:
            The history of the agent's whole life.
        """
        if self.running is not None:
            raise ProtocolError("learn was called inside an episode; call end_episode first")
        count = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
        play_episodes(self, self.env, count, callback, progress, blas_threads)
        return self.history

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically, between two episodes."""
        if self.running is not None:
            raise ProtocolError("save was called inside an episode; call end_episode (or abandon_episode) first")
        streams = self.engine.planning_state()
        header = {
            "library": version("matrixrl"),
            "agent": self.name,
            "settings": self.settings.as_dict(),
            "seed": self.seed,
            "episode": self.n_episodes,
            "horizon": self.task.horizon,
            "reward_range": self.task.reward_range,
            "max_return": self.task.max_return,
            "is_default": self._is_default,
            "streams": list(streams),
            "env": state_of(self.env.unwrapped.np_random) if self.env_is_seeded else None,
        }
        arrays = {f"learned_{k}": v for k, v in self.engine.arrays().items()}
        arrays |= {f"history_{k}": np.array(getattr(self.log, k), dtype=np.float64) for k in _HISTORY}
        write_checkpoint(path, header, arrays)

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], env: gym.Env[Any, Any], *, kernel: Any = None, transformer: Any = None
    ) -> Self:
        """Return the agent that `save` wrote, ready to go on as if it had never stopped.

        Args:
            path: the file.
            env: the environment that it was saved from; its random stream is put back where it was.
            kernel: the same kernel, if one was given: no file holds functions.
            transformer: the same transformer, likewise.
        """
        header, arrays = read_checkpoint(path)
        if header.get("agent") == FiniteKernelMatrixRL.name:
            return FiniteKernelMatrixRL.load(path, env)  # type: ignore[return-value]
        with refusing(os.fspath(path)):
            if header["agent"] != cls.name:
                raise InvalidInput(f"it holds a {header['agent']!r} agent, not {cls.name!r}")
            horizon = integer("horizon", header["horizon"], low=1, remedy="It is damaged.")
            settings = ContinuousSettings(**header["settings"])
            seed = integer("seed", header["seed"], low=0, remedy="It is damaged.")
            is_default = header["is_default"] is True
            saved_range, saved_most = header["reward_range"], header["max_return"]
        if is_default != (kernel is None and transformer is None):
            what = "none was used" if is_default else "the agent was made with one"
            fail("kernel", f"must be given exactly if the agent was made with one ({what})", kernel, "Pass the same.")
        agent: Self = object.__new__(cls)
        own = read_continuous(env, horizon=horizon)
        problem = read_continuous(env, horizon=horizon, reward_range=saved_range)
        if (own.reward_range is not None and own.is_declared and own.reward_range != problem.reward_range) or (
            own.max_return != saved_most
        ):
            received = f"rewards in {own.reward_range}, at most {own.max_return} an episode"
            fail(
                "env", "must be the problem that the checkpoint was saved from", received, "Make it with its settings."
            )
        agent._setup(env, problem, settings, seed, kernel, transformer)
        with refusing(os.fspath(path)):
            agent._fill(header, arrays)
        return agent

    def _fill(self, header: dict[str, Any], arrays: dict[str, Any]) -> None:
        for name, array in arrays.items():
            if name != "history_regret" and not np.isfinite(array).all():
                raise InvalidInput(f"{name} holds NaN or infinity")
        self.engine.restore_arrays({k.removeprefix("learned_"): v for k, v in arrays.items() if "learned_" in k})
        self.engine.episode = integer("episode", header["episode"], low=0, remedy="It is damaged.")
        self.engine.restore_planning(tuple(header["streams"]))
        columns = [arrays[f"history_{name}"] for name in _HISTORY]
        if any(column.shape != (self.n_episodes,) for column in columns):
            raise InvalidInput(f"the history must have {self.n_episodes} episodes")
        for earned, length, upper, regret in zip(*columns, strict=True):
            lost = None if np.isnan(regret) else float(regret)
            self.log.append(Episode(len(self.log.returns), float(earned), int(length), lost, float(upper), False))
        if header["env"] is not None:
            rng = np.random.Generator(np.random.PCG64())
            restore(rng, header["env"])
            self.env.unwrapped.np_random = rng
            self.env_is_seeded = True

    def _running_episode(self, call: str) -> _Running:
        if self.running is None:
            raise ProtocolError(f"{call} was called outside an episode; call begin_episode first")
        return self.running

    def _unfinished(self, call: str) -> _Running:
        running = self._running_episode(call)
        if running.is_over or len(running.steps) >= self.task.horizon:
            raise ProtocolError(f"{call} was called after the last step of the episode; call end_episode")
        return running

    def _vector(self, name: str, obs: Any) -> FloatArray:
        try:
            vector = np.array(obs, dtype=np.float64)  # a copy: environments may change it in place
        except (TypeError, ValueError):
            vector = np.full(1, np.nan)
        if vector.shape != (self.task.n_coordinates,) or not np.isfinite(vector).all():
            rule = f"must be a vector of {self.task.n_coordinates} finite numbers"
            fail(name, rule, repr(obs), "Give an observation of the environment.")
        return vector
