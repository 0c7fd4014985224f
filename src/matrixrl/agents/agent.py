"""The one agent shell over any algorithm: episodes, learn, predict, certificate, save, load."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from matrixrl.agents.certified import CertifiedSoFar
from matrixrl.agents.checkpoint import load_agent, save_agent
from matrixrl.agents.deploying import Deploying
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.agents.first_states import FirstStates
from matrixrl.agents.logged import Logged
from matrixrl.agents.order import LATE_EPISODES, EpisodeOrder
from matrixrl.agents.playing import play_episodes
from matrixrl.agents.shared_tables import SharedTables
from matrixrl.agents.vector import check_vector_env, play_vector
from matrixrl.algorithms import Algorithm, Startable, make_algorithm
from matrixrl.algorithms.registry import OBJECT_SETTINGS, setting_names
from matrixrl.checks import (
    choice,
    fail,
    file_path,
    fits_memory,
    flag,
    function,
    index,
    integer,
    number,
    optional_flag,
    shown,
)
from matrixrl.envs import open_problem, refuse_env_settings
from matrixrl.errors import ProtocolError
from matrixrl.features import Phi, Psi
from matrixrl.html_tables import html_table, in_digits
from matrixrl.logs import SeenLog
from matrixrl.problems import RegretEvaluator
from matrixrl.records import Episode, FloatArray, History, HistoryLog
from matrixrl.seeding import fresh_seed

__all__ = ["Agent"]

_NUMBERS_PER_EPISODE = 30  # of the history, in numbers of 8 bytes


class Agent(Logged, Deploying):
    """One learner on one problem.

    It can drive a Gymnasium environment itself (`learn`), or advise a process in the real world::

        episode = agent.begin_episode()
        action = episode.act(obs)                                   # ask
        episode.observe(obs, action, reward, next_obs, terminated)  # tell, up to `horizon` times
        episode.end()

    Many episodes may be open at once over one model. While there is one, `agent.act`, `agent.observe`,
    `agent.end_episode` and `agent.abandon_episode` are short for the methods of that episode.

    Args:
        problem: Name of an environment, a Gymnasium environment, a `FiniteMDP`, a `Task` for ask and tell only, or a
            `FunctionalTask`.
        algorithm: What learns: ``PSRL(preset="tuned")``, not started, or the name of an algorithm.
        phi: φ as a feature map or an (S, A, d) array; the problem's own by default, else one-hot.
        psi: ψ as a feature map or an (S, d_psi) array; the problem's own by default, else one-hot.
        psi_pinv: Accept linearly dependent columns of ψ and work on their span.
        reward: (S, A) known rewards, for an environment without a transition table; not needed if they are learned.
        horizon: Steps in an episode, where the environment does not declare them.
        reward_range: Declared range of rewards, for environments that are not ours.
        env_settings: Settings of an environment given by name.
        measure_regret: Compute the exact regret of every episode where the MDP is known; it sweeps over all states. A
            number k measures the episodes 1, k + 1, 2k + 1, … only.
        reward_outside: What is done about a reward outside the declared range: "error" refuses it; "clip" learns from
            the nearest reward inside, and bounds then hold for the clipped rewards; "widen" widens the range, re-scales
            what was learned, and bounds start again: `guarantee` says so from then on. Returns are always those earned.
        allowed: Allowed actions of numbered states: a table (S, A) of booleans, or a function of the state that returns
            the numbers of its allowed actions or A booleans. By default those that the problem declares or the
            environment reports (``action_mask(state)``, ``action_masks()``, ``info["action_mask"]``); "all" ignores
            what an environment reports.
        stage_dependent: Whether laws and rewards of numbered states differ between stages, so that data are not shared:
            True for all stages, or the class of each stage, such as weekdays and weekends; as the problem says by
            default.
        discount: Factor γ of each step, for an environment without a transition table of matrixrl: an episode is worth
            Σ γ^h r_h. Without a horizon it goes on forever and is cut after as many steps as `accuracy` asks for.
        accuracy: Share of the largest possible value that may be cut off; 0.01 by default.
        start: First state of an environment that does not declare it, or one probability for each state. Certificates
            are about it; by default they estimate the distribution of first states from the episodes.
        late_episodes: What happens to an episode that is ended before one that was begun earlier: "wait" learns from it
            once all earlier ones are closed, in the order of their begin, which keeps the proof; "learn" learns from it
            at once, and `guarantee` says from then on that nothing is proven.
        seed: Seed of all random streams; drawn and stored in `agent.seed` if None.
        keep_log: Keep all steps that are seen, so that `export` can write them; at least 14 bytes a step, in files too.
        trust_code: Whether the name of an environment may import code (``package.module:Name``).
        compiled: Plan with compiled loops (the extra `fast`), or not; by default once the episodes that were played or
            announced (`n_episodes`) pay for loading them.
        settings: Settings of an algorithm given by name.

    >>> from matrixrl.algorithms.baselines import PSRL
    >>> agent = Agent("river-swim", PSRL(preset="tuned"), seed=0)
    >>> agent.learn(n_episodes=5).n_episodes
    5
    """

    name: str = "agent"
    """Name of the algorithm."""

    def __init__(
        self,
        problem: Any,
        algorithm: Any,
        *,
        phi: Phi | FloatArray | None = None,
        psi: Psi | FloatArray | None = None,
        psi_pinv: bool = False,
        reward: FloatArray | None = None,
        horizon: int | None = None,
        reward_range: tuple[float, float] | None = None,
        env_settings: dict[str, Any] | None = None,
        measure_regret: bool | int = True,
        reward_outside: str = "error",
        allowed: Any = None,
        stage_dependent: Any = None,
        discount: float | None = None,
        accuracy: float | None = None,
        start: Any = None,
        late_episodes: str = "wait",
        seed: int | None = None,
        compiled: bool | None = None,
        keep_log: bool = True,
        trust_code: bool = False,
        **settings: Any,
    ) -> None:
        flag("trust_code", trust_code)
        flag("keep_log", keep_log)
        choice("late_episodes", late_episodes, LATE_EPISODES)
        compiled = optional_flag("compiled", compiled)
        refuse_env_settings(problem, settings, setting_names(algorithm))
        unstarted = make_algorithm(algorithm, settings, trust_code=trust_code)
        known = open_problem(
            problem,
            env_settings,
            trust_code=trust_code,
            phi=phi,
            psi=psi,
            psi_pinv=psi_pinv,
            reward=reward,
            horizon=horizon,
            reward_range=reward_range,
            known_reward=unstarted.known_reward,
            measure_regret=measure_regret,
            reward_outside=reward_outside,
            allowed=allowed,
            stage_dependent=stage_dependent,
            discount=discount,
            accuracy=accuracy,
            start=start,
        )
        chosen = fresh_seed() if seed is None else integer("seed", seed, low=0, remedy="Such as 0.")
        self._setup(unstarted.start(known, [chosen]), compiled, keep_log)
        self._late = late_episodes

    @classmethod
    def around(cls, algorithm: Algorithm) -> Self:
        """Return an agent around an algorithm that was started with one replica; both share what is learned.

        It keeps no log of the steps that it sees.
        """
        agent = cls.__new__(cls)
        agent._setup(algorithm, algorithm.compiled, False)
        return agent

    def _setup(self, algorithm: Algorithm, compiled: bool | None, keep_log: bool) -> None:
        """Prepare the shell around an algorithm with one replica that is started but has not played."""
        algorithm.use_compiled(compiled)
        problem = algorithm.problem
        measures = problem.regret_every > 0 and algorithm.has_policy_table
        self._algorithm = algorithm
        self.name = algorithm.name
        self._evaluator = RegretEvaluator(problem.mdp) if measures and problem.mdp is not None else None
        self._log = HistoryLog(regret_every=max(problem.regret_every, 1))
        self._order = EpisodeOrder()
        self._late = LATE_EPISODES[0]
        self._tables = SharedTables()
        self._delay = self._time_outs = 0
        self._env_is_seeded = False
        self._first = FirstStates(problem, algorithm.delta)
        self._certified = CertifiedSoFar(problem, algorithm.returns_delta)
        self._gaps = 0.0
        """Σ of the gaps of what was played, in the environment's unit (docs/proofs.md, 7.1)."""
        self._overridden = 0
        """Number of episodes with other actions than those advised whose gaps are not known."""
        self._selection: str | None = None
        self._advice: Any = None  # for `predict`; dropped when data come in
        self._known_masks: object | None = None
        self._seen = SeenLog(problem) if keep_log else None
        self._digests, self._exported = [], []

    def __repr__(self) -> str:
        rewards = ", rewards learned" if self._algorithm.known_reward is False else ""
        return f"<{self.name} on {self.problem.summary}{rewards}; {self.n_episodes:,} episodes>"

    def _repr_html_(self) -> str:
        """Return the agent as a table, as notebooks show it."""
        log = self._log
        rows: dict[str, object] = {"problem": self.problem.summary, "episodes": f"{self.n_episodes:,}"}
        if self._algorithm.logged_episodes:
            rows["logged episodes"] = f"{self._algorithm.logged_episodes:,}"
        if log.returns:
            rows["mean return"] = float(np.mean(log.returns))
            rows["of the second half"] = float(np.mean(log.returns[len(log.returns) // 2 :]))
        rows |= {"algorithm": self._algorithm, "seed": self.seed}
        guarantee = self.guarantee
        rows["regret bound is proven"] = "yes" if guarantee is True else f"no: {guarantee}"
        total = self.bound().total
        if total is not None:
            rows["regret so far"] = f"at most {in_digits(total)}"
        return html_table(self.name, rows)

    @property
    def settings(self) -> Any:
        """The settings of the algorithm."""
        return getattr(self._algorithm, "settings", None)

    @property
    def seed(self) -> int:
        """Seed of all random streams."""
        return self._algorithm.seeds[0]

    @property
    def history(self) -> History:
        """All finished episodes."""
        return self._log.freeze()

    def predict(self, obs: Any, stage: int | None = None, *, episode: OpenEpisode | None = None) -> Any:
        """Return the action that all finished episodes advise; it changes nothing, not even a random stream.

        Args:
            obs: Observation.
            stage: Stage h, counted from 0.
            episode: Open episode to take the stage from instead.
        """
        if (stage is None) == (episode is None):
            received = "neither" if stage is None else "both"
            fail("stage", "must be given, or an episode to take it from", received, "Such as stage=0.")
        if episode is not None and not self._is_own(episode):
            received = "one that was ended, abandoned or begun by another agent"
            what = received if isinstance(episode, OpenEpisode) else shown(episode)
            fail("episode", "must be an open episode of this agent", what, "Such as agent.begin_episode().")
        h = episode.stage if episode is not None else stage
        h = index("stage", h, size=self.problem.task.horizon, remedy="Stages count from 0.")
        state = np.asarray(self.problem.state("obs", obs))
        action = self._algorithm.act(self._advised_plan(), h, state[None], explore=False)
        return self.problem.own_action(int(action[0]))

    def learn(
        self,
        n_episodes: int,
        *,
        env: Any = None,
        until_gap: float | None = None,
        explore_for: str | None = None,
        certify: bool = False,
        callback: Callable[[Episode], bool | None] | None = None,
        progress: bool = False,
        blas_threads: int | None = 1,
    ) -> History:
        """Play and learn `n_episodes` more episodes; `learn(a)` then `learn(b)` is `learn(a + b)`.

        Args:
            n_episodes: Largest number of episodes to play.
            env: Vector environment of Gymnasium whose sub-environments are the agent's problem: one episode is open in
                each of them, `n_episodes` are begun, and all of them are finished. Every call seeds it again, by the
                agent's seed and the number of episodes begun so far. By default the agent's own environment.
            until_gap: Stop once `recommend` has a policy that is certified to be within this of optimal. This is
                checked whenever the number of episodes grew by 2 %.
            explore_for: "regret" or "certificate" for these episodes, in place of the agent's setting: play to earn, or
                to certify a policy with few episodes.
            certify: Put a certificate into every `Episode` and the history.
            callback: Called with each finished `Episode`; returning False stops.
            progress: Show progress on standard error: a bar, or lines if it is not a terminal.
            blas_threads: Threads of the linear algebra; None leaves them unchanged.

        Returns:
            The history of all episodes of the agent.
        """
        if self.problem.env is None and env is None:
            raise ProtocolError(
                "learn needs an environment, and this agent has none: pass one to load, or play yourself, with "
                "episode = agent.begin_episode(), episode.act(obs) and episode.observe(…)"
            )
        if self._order.n_open:
            raise ProtocolError("learn was called while an episode is open; end it first")
        count = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
        fits_memory("n_episodes", _NUMBERS_PER_EPISODE * count, f"{count:,} episodes", remedy="Play fewer at a time.")
        if callback is not None:
            function("callback", callback, of=1, remedy="Give a function of an Episode, or leave it out.")
        flag("certify", certify)
        flag("progress", progress)
        for name, given in (("certify", certify or None), ("until_gap", until_gap)):
            if given is not None and not self._algorithm.certifies:
                rule = f"must be left out for {self._algorithm.name}, which has no certificates"
                fail(name, rule, given, "Use MatrixRL.")
        if until_gap is not None:
            number("until_gap", until_gap, low=0.0, remedy="Give a gap in the environment's unit.")
            self._check_certifies("until_gap")
        options: dict[str, Any] = {
            "callback": callback,
            "progress": progress,
            "blas_threads": blas_threads,
            "certify": certify,
            "until_gap": until_gap,
        }
        vector = None if env is None else check_vector_env(self, env)
        with self._exploring_for(explore_for):
            if vector is not None:
                play_vector(self, vector, count, **options)
            elif self.problem.env is not None:
                play_episodes(self, self.problem.env, count, **options)
        return self.history

    @contextmanager
    def _exploring_for(self, purpose: str | None) -> Iterator[None]:
        """Play to earn or to certify until the end of the block, as `learn` says."""
        before = self._algorithm.purpose
        if purpose is not None:
            self._algorithm.explore_for(purpose)
        try:
            yield
        finally:
            if purpose is not None:
                self._algorithm.explore_for(before)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one file, atomically; also while episodes are open."""
        save_agent(self, file_path("path", path))

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        env: Any = None,
        *,
        phi: Phi | None = None,
        psi: Psi | None = None,
        compiled: bool | None = None,
        algorithm: Startable | None = None,
        trust_code: bool = False,
        **objects: Any,
    ) -> Self:
        """Return the agent that `save` wrote, ready to go on as if it had never stopped.

        Args:
            path: The file.
            env: Environment (or its name) in which `learn` goes on; its random stream is restored. Not needed for ask
                and tell on a finite problem; always needed for a `FunctionalTask` and for vectors as states.
            phi: A user's own feature map that the agent was made with, if the environment does not offer it.
            psi: ψ as a feature map or an (S, d_psi) array, if it was a function.
            compiled: Compiled loops, in place of what the agent was made with.
            algorithm: An algorithm of a user's own that the agent was made with, not started.
            trust_code: Whether the file, or the name of an environment, may import code. A class that the file names
                and that is not given is then imported and made with the saved settings, or without arguments.
            objects: Settings that are objects, which no file holds: ``set=MySet()``, ``kernel=…``.
        """
        compiled = optional_flag("compiled", compiled)
        for name, value in objects.items():
            if name not in OBJECT_SETTINGS:
                rule = "must be left out, as it is saved with the agent"
                remedy = f"Load without it; only objects are passed: {', '.join(OBJECT_SETTINGS)}."
                fail(name, rule, shown(value), remedy)
        return load_agent(
            cls,
            file_path("path", path),
            env,
            phi=phi,
            psi=psi,
            compiled=compiled,
            algorithm=algorithm,
            trust_code=trust_code,
            objects=objects,
        )

    def _certify(self, episode: OpenEpisode, obs: Any) -> None:
        """Certify an episode before its first step.

        Where no start is declared and states are not numbered, the certificate is about the episode's own first state.
        """
        estimated_or_declared = self._first.is_estimated or self.problem.start_is_declared
        plan = episode._plan
        found = self._certificate_of(plan) if estimated_or_declared else self._named_certificate(plan, obs)
        episode._certificate = found
