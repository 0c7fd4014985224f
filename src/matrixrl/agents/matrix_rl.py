"""MatrixRL (UC-MatrixRL, YW19 Algorithm 1) as an agent: ask and tell, learn, predict, save, load."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Literal, Self

import gymnasium as gym
import numpy as np

from matrixrl.agents.interaction import play_episodes
from matrixrl.agents.running import RunningEpisode
from matrixrl.agents.snapshot import read_snapshot, write_snapshot
from matrixrl.algorithms.engines import make_engine
from matrixrl.algorithms.matrix_rl.sampled import ColumnEngine, ColumnPlan
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.checks import fail, index, integer, number
from matrixrl.errors import ProtocolError
from matrixrl.features import Phi, Psi
from matrixrl.interrupts import uninterrupted
from matrixrl.problems import FiniteMDP, FunctionalTask, RegretEvaluator, Task
from matrixrl.problems.reading import Problem, read_problem
from matrixrl.records import Certificate, Episode, FloatArray, History, HistoryLog, IntArray, Plan
from matrixrl.seeding import fresh_seed

__all__ = ["MatrixRL"]

_REWARD_SLACK = 1e-9  # rounding of rewards that environments compute


class MatrixRL:
    """Learns a finite episodic problem with optimism over a matrix confidence set.

    The agent knows the rewards and the features, never the transitions. It can drive a Gymnasium environment
    itself (`learn`), or advise somebody who acts in the real world::

        agent.begin_episode()
        action = agent.act(obs)                                   # ask
        agent.observe(obs, action, reward, next_obs, terminated)  # tell, up to `horizon` times
        agent.end_episode()

    Args:
        problem: a Gymnasium environment (ours, or one with a transition table, or any discrete one together
            with `reward`), a `FiniteMDP`, a `Task` for ask and tell only, or a `FunctionalTask` (functions of states).
        phi: φ as a feature map or an (S, A, d) array; the problem's own, else one-hot.
        psi: ψ as a feature map or an (S, d_psi) array; the problem's own, else one-hot.
        psi_pinv: accept linearly dependent columns of ψ and work on their span.
        reward: (S, A) known rewards, for an environment without a transition table; not needed with
            `known_reward=False`.
        horizon: steps in an episode, where the environment does not say.
        reward_range: declared range of rewards, for Gymnasium environments that are not ours.
        measure_regret: compute the exact regret of every episode where the MDP is known; a sweep over all states, worth
            switching off where there are very many.
        seed: of everything random; drawn and kept in `agent.seed` if None.
        compiled: plan by compiled loops (the extra `fast`) wherever there are some, or nowhere; by default once the
            episodes that were played or announced (`n_episodes`) are worth loading them.
        settings: see `MatrixRLSettings` (preset, set, radius, exploration, delta, n_episodes, …).

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL(matrixrl.make("river-swim", n_states=4), seed=0, preset="practical")
    >>> history = agent.learn(n_episodes=30)
    >>> history.n_episodes, bool(history.cumulative_regret[-1] < 30 * 8.3)
    (30, True)
    """

    name = "matrix-rl"

    def __init__(
        self,
        problem: gym.Env[Any, Any] | FiniteMDP | Task | FunctionalTask,
        *,
        phi: Phi | FloatArray | None = None,
        psi: Psi | FloatArray | None = None,
        psi_pinv: bool = False,
        reward: FloatArray | None = None,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        measure_regret: bool = True,
        seed: int | None = None,
        compiled: bool | None = None,
        **settings: Any,
    ) -> None:
        resolved = MatrixRLSettings.resolve(settings)
        known = read_problem(
            problem,
            phi=phi,
            psi=psi,
            psi_pinv=psi_pinv,
            reward=reward,
            horizon=horizon,
            reward_range=reward_range,
            known_reward=resolved.known_reward,
            measure_regret=measure_regret,
        )
        chosen = fresh_seed() if seed is None else integer("seed", seed, low=0, remedy="Such as 0.")
        self._setup(known, resolved, chosen, compiled)

    def _setup(self, problem: Problem, settings: MatrixRLSettings, seed: int, compiled: bool | None = None) -> None:
        self.problem = problem
        self.task = problem.task
        self.settings = settings
        self.seed = seed
        self.engine = make_engine(
            problem.task, problem.features, settings, [seed], pseudo=problem.pseudo, compiled=compiled
        )
        self.log = HistoryLog()
        self.running: RunningEpisode | None = None
        self.env_is_seeded = False
        self._judge = None if problem.mdp is None or not problem.measures_regret else RegretEvaluator(problem.mdp)
        self.first_state: Any = None
        self._advice: Plan | ColumnPlan | None = None  # for `predict`, dropped when data come in

    @property
    def n_episodes(self) -> int:
        """How many episodes were learned from."""
        return self.engine.episode

    @property
    def history(self) -> History:
        """The agent's life so far."""
        return self.log.freeze()

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven for this agent so far, else why not."""
        if any(self.log.alarms):
            first = self.log.alarms.index(True)
            words = f"misspecification alarm in episode {first + 1}"
            if isinstance(self.engine, ColumnEngine) and not self.engine.is_exact:
                return f"{self.engine.guarantee}; {words}, which sampling may have caused"
            return f"{words}: the features cannot represent P (or a δ event)"
        return self.engine.guarantee

    def begin_episode(self) -> None:
        """Plan the next episode (Algorithm 1, line 6)."""
        if self.running is not None:
            raise ProtocolError(
                "begin_episode was called inside an episode; call end_episode (or abandon_episode) first"
            )
        self.running = RunningEpisode(self.engine.next_plan())

    def act(self, obs: Any) -> int:
        """Return the action to play now (line 9)."""
        episode = self._unfinished("act")
        return episode.planned_action(self._state("obs", obs))

    def observe(self, obs: Any, action: Any, reward: float, next_obs: Any, terminated: bool = False) -> None:
        """Tell what happened; the action need not be the one that was advised."""
        episode = self._unfinished("observe")
        state = self._state("obs", obs)
        chosen = index("action", action, size=self.task.n_actions, remedy="Choose from action_space.")
        low, high = self.task.reward_range
        slack = _REWARD_SLACK * (high - low)
        earned = number(
            "reward",
            reward,
            low=low - slack,
            high=high + slack,
            remedy="Declare the reward_range of the problem.",
        )
        following = self._state("next_obs", next_obs)
        if terminated:
            if self.task.end_state is None:
                fail(
                    "terminated",
                    "must be False for a problem without an end state",
                    True,
                    "Build the Task or FiniteMDP with end_state=….",
                )
            following = self.task.end_state
        episode.add(state, chosen, earned, following, bool(terminated))

    def end_episode(self) -> Episode:
        """Learn from the episode (lines 11 and 12) and return its record."""
        running = self._running("end_episode")
        if running.stage == 0:
            raise ProtocolError("end_episode was called before any observe; use abandon_episode")
        plan = running.plan
        self.first_state = running.steps[0][0]
        regret: float | None = None
        if self._judge is not None and not running.off_plan:
            regret = float(self._judge.regret(plan.policy)[0])
        episode = Episode(
            index=self.n_episodes,
            episode_return=float(sum(running.rewards)),
            length=running.stage,
            regret=regret,
            upper=self._upper(plan),
            alarm=bool(plan.empty[0]),
            certificate=running.certificate,
        )
        states, actions, following = running.columns()
        with uninterrupted():
            self.engine.update(states, actions, following, np.ones(actions.shape), np.array([running.rewards]))
            self.log.append(episode)
            self.running = self._advice = None
        return episode

    def _certify_from(self, obs: Any) -> None:
        """Certify the running episode before its first step."""
        self.first_state = self._state("obs", obs)
        self._running("certify").certificate = self.certificate()

    def abandon_episode(self) -> None:
        """Forget the running episode, if any: nothing is learned from it."""
        self.running = None

    def predict(self, obs: Any, stage: int = 0) -> int:
        """Return the action that current knowledge advises; it changes nothing, not even a random stream."""
        h = index("stage", stage, size=self.task.horizon, remedy="Stages count from 0.")
        return self.advice.action(h, self._state("obs", obs))

    @property
    def policy(self) -> IntArray:
        """(H, S) the actions that `predict` gives."""
        policy: IntArray = self.advice.policy[0]
        return policy

    @property
    def advice(self) -> Plan | ColumnPlan:
        """The plan from all finished episodes, ties to the lowest action; cached."""
        if self._advice is None:
            self._advice = self.engine.plan(break_ties_at_random=False)
        return self._advice

    def certificate(self) -> Certificate:
        """Return how far from optimal the policy being played can still be (design 4.2).

        The policy is that of the running episode, or else the one `predict` gives. The bounds are at the tightest
        proven radius, whatever the agent explores with, so they hold for tuned agents too.
        """
        plan: Any = self.advice if self.running is None else self.running.plan
        upper, lower, empty = self.engine.certify(plan, self._start())
        words = self.engine.certificate_guarantee(bool(empty[0]) or any(self.log.alarms))
        return Certificate(float(upper[0]), float(lower[0]), self.settings.delta, words)

    def learn(
        self,
        n_episodes: int,
        *,
        until_gap: float | None = None,
        certify: bool = False,
        callback: Callable[[Episode], bool | None] | None = None,
        progress: bool = False,
        blas_threads: int | None = 1,
    ) -> History:
        """Play and learn `n_episodes` more episodes; `learn(a)` then `learn(b)` is `learn(a + b)`.

        Args:
            n_episodes: how many more, at most.
            until_gap: stop once the policy is certified to be within this of optimal.
            certify: put a certificate into every `Episode` and the history (`until_gap` does too).
            callback: called with each finished `Episode`; returning False stops.
            progress: draw a live bar.
            blas_threads: threads of the linear algebra; None leaves them alone.

        Returns:
            The history of the agent's whole life.
        """
        if self.problem.env is None:
            raise ProtocolError("learn needs an environment; this agent was made for ask and tell")
        if self.running is not None:
            raise ProtocolError("learn was called inside an episode; call end_episode first")
        count = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
        if until_gap is not None:
            number("until_gap", until_gap, low=0.0, remedy="Give a gap in the environment's unit.")
        prepare = self._certify_from if certify or until_gap is not None else None
        play_episodes(
            self, self.problem.env, count, callback, progress, blas_threads, prepare=prepare, until_gap=until_gap
        )
        return self.history

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; also in the middle of an episode."""
        write_snapshot(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: gym.Env[Any, Any] | FiniteMDP | FunctionalTask | None = None,
        *,
        phi: Phi | None = None,
        compiled: bool | None = None,
    ) -> Self:
        """Return the agent that `save` wrote, ready to go on as if it had never stopped.

        Args:
            path: the file.
            env: where `learn` shall go on; its random stream is put back where it was. Not needed to ask
                and tell, or to predict; but a `FunctionalTask`, whose functions no file can hold, is needed always.
            phi: the `FunctionPhi` that the agent was made with, if the environment does not offer it.
            compiled: in place of what the agent was made with.
        """
        snapshot = read_snapshot(path, cls.name, env, phi)
        agent = cls.__new__(cls)
        chosen = snapshot.compiled if compiled is None else compiled
        agent._setup(snapshot.problem, snapshot.settings, snapshot.seed, chosen)
        snapshot.fill(agent)
        return agent

    def _upper(self, plan: Any) -> float:
        return float(self.engine.upper(plan, self._start())[0])

    def _start(self) -> Any:
        """Return where episodes start: known with the MDP, else the first state that was seen last."""
        return self.engine.start_at(None if self.problem.mdp is not None else self.first_state)

    def _running(self, call: str) -> RunningEpisode:
        if self.running is None:
            raise ProtocolError(f"{call} was called outside an episode; call begin_episode first")
        return self.running

    def _unfinished(self, call: str) -> RunningEpisode:
        episode = self._running(call)
        if episode.terminated or episode.stage >= self.task.horizon:
            raise ProtocolError(f"{call} was called after the last step of the episode; call end_episode")
        return episode

    def _state(self, name: str, obs: Any) -> Any:
        return self.problem.state(name, obs)
