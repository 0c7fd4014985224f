"""The one agent shell over any algorithm: episodes, learn, predict, certificate, save, load."""

from __future__ import annotations

import os
from inspect import signature
from typing import Any, Self, Unpack

import numpy as np

from matrixrl.agents import (
    ask_and_tell,
    certification,
    checkpoint,
    deployment,
    explanation,
    forecast,
    given_policies,
    logged,
    loop,
)
from matrixrl.agents.earnings import earnings
from matrixrl.agents.episode_queue import LATE_EPISODES, EpisodeQueue
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.agents.replay import replay
from matrixrl.algorithms import Algorithm, Startable
from matrixrl.algorithms.matrix_rl.drift import Change
from matrixrl.algorithms.registry import with_objects
from matrixrl.checks import choice, file_path, flag, integer, optional_flag, shown
from matrixrl.display import html_table, in_digits
from matrixrl.errors import ProtocolError
from matrixrl.features import Phi, Psi
from matrixrl.history import History, HistoryLog
from matrixrl.logs import SeenLog
from matrixrl.play.arguments import AgentOptions, read_arguments, split_options
from matrixrl.play.engine import Engine
from matrixrl.play.ledger import CertificateLedger
from matrixrl.play.rollout import EnvWorld
from matrixrl.policies import Policy
from matrixrl.problems import Problem
from matrixrl.problems.reader import OPTION_DEFAULTS
from matrixrl.random_streams import fresh_seed
from matrixrl.records import Guarantee, IntArray
from matrixrl.settings import Settings

__all__ = ["Agent"]


class Agent:
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
            `FunctionalTask`, or a `matrixrl.Problem` with options of its own.
        algorithm: What learns: ``PSRL(preset="tuned")``, not started, or the name of an algorithm.
        env_settings: Settings of an environment given by name.
        late_episodes: What happens to an episode that is ended before one that was begun earlier: "wait" learns from it
            once all earlier ones are closed, in the order of their begin, which keeps the proof; "learn" learns from it
            at once, and `guarantee` says from then on that nothing is proven.
        seed: Seed of all random streams; drawn and stored in `agent.seed` if None.
        keep_log: Keep all steps that are seen, so that `export` can write them; at least 14 bytes a step, in files too.
        trust_code: Whether the name of an environment may import code (``package.module:Name``).
        compiled: Plan with compiled loops, or not; by default once the episodes that were played or
            announced (`n_episodes`) pay for loading them.
        options: Settings of an algorithm given by name, and options of the problem: phi, psi, reward, reward_range,
            horizon, allowed, discount and others, see `matrixrl.problems.ProblemOptions`.

    >>> from matrixrl.algorithms.baselines import PSRL
    >>> agent = Agent("river-swim", PSRL(preset="tuned"), seed=0)
    >>> agent.learn(n_episodes=5).n_episodes
    5
    """

    name: str = "agent"
    """Name of the algorithm."""
    _params: tuple[dict[str, Any], dict[str, Any]] | None  # arguments and settings as given; None if it was loaded

    def __init__(
        self,
        problem: Any,
        algorithm: Any,
        *,
        env_settings: dict[str, Any] | None = None,
        seed: int | None = None,
        compiled: bool | None = None,
        keep_log: bool = True,
        late_episodes: str = "wait",
        trust_code: bool = False,
        **options: Unpack[AgentOptions],
    ) -> None:
        params = {name: value for name, value in locals().items() if name not in ("self", "options")}
        flag("trust_code", trust_code)
        flag("keep_log", keep_log)
        choice("late_episodes", late_episodes, LATE_EPISODES)
        compiled = optional_flag("compiled", compiled)
        of_problem, settings = split_options(options)
        unstarted, known = read_arguments(
            problem,
            algorithm,
            settings,
            of_problem,
            env_settings=env_settings,
            trust_code=trust_code,
            arguments=list(params)[2:],
        )
        chosen = fresh_seed() if seed is None else integer("seed", seed, low=0, remedy="Such as 0.")
        self._setup(unstarted.start(known, [chosen]), compiled, keep_log)
        self._queue.late = late_episodes
        self._params = params | of_problem, settings

    def _setup(self, algorithm: Algorithm, compiled: bool | None, keep_log: bool) -> None:
        """Prepare the shell around an algorithm with one replica that is started but has not played."""
        algorithm.use_compiled(compiled)
        problem = algorithm.problem
        self._algorithm = algorithm
        self.name = algorithm.name
        self._log = HistoryLog(regret_every=max(problem.regret_every, 1))
        self._queue = EpisodeQueue(self, LATE_EPISODES[0])
        self._engine = Engine(algorithm, None if problem.env is None else EnvWorld(problem, algorithm.seeds[0]))
        self._ledger = CertificateLedger(algorithm)
        self._params = None
        self._gaps = 0.0
        """Σ of the gaps of what was played, in the environment's unit (docs/proofs.md, 7.1)."""
        self._overridden = 0
        """Number of episodes with other actions than those advised whose gaps are not known."""
        self._run_start = 0
        """Number of episodes at the last restart after a change."""
        self._run_logged = 0
        """Number of logged episodes at that time."""
        self._passed: list[int] = []
        """Episodes since then that were planned before, and were not learned from."""
        self._selection: str | None = None
        """Why nothing is proven any more, such as data that were selected by what they show."""
        self._advice: Any = None
        """The plan that the next episode would play, for `policy`; dropped when data come in."""
        self._estimate: Any = None
        """The plan of the estimates, for `predict`; likewise."""
        self._known_masks: object | None = None
        """Masks that `_ledger`, `_advice` and `_estimate` heed."""
        self._seen = SeenLog(problem) if keep_log else None
        self._digests: list[bytes] = []
        """Digests of the logs that were learned from."""
        self._exported: list[bytes] = []
        """Digests of the logs that were exported."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return all arguments by name, as scikit-learn does: ``MatrixRL(**agent.get_params())`` is an equal agent.

        Settings that were not given have the values of their preset.

        Args:
            deep: Without effect; arguments are not nested.

        Raises:
            ProtocolError: The agent was loaded, or made around an algorithm that was started elsewhere.

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
        >>> agent.get_params()["delta"], agent
        (0.05, MatrixRL('river-swim', seed=0))
        """
        del deep
        if self._params is None:
            raise ProtocolError("get_params needs an agent that was made by its constructor; this one was loaded")
        params, settings = self._params
        kind = getattr(self._algorithm, "settings_class", Settings)
        if not isinstance(params["algorithm"], Startable):
            chosen = kind.resolve(with_objects(settings, trust_code=params["trust_code"]))
            settings = {name: getattr(chosen, name) for name in kind.names()}
        return self._own_params() | settings

    def _own_params(self) -> dict[str, Any]:
        """Return the arguments of the constructor without settings; a subclass names its algorithm itself."""
        assert self._params is not None
        is_fixed = "algorithm" not in signature(type(self).__init__).parameters
        return {name: value for name, value in self._params[0].items() if name != "algorithm" or not is_fixed}

    def __repr__(self) -> str:
        """Return the call that makes the agent, without defaults; it can be evaluated where arguments are plain."""
        if self._params is None:
            return str(self)
        given = self._own_params()
        defaults = {name: one.default for name, one in signature(Agent.__init__).parameters.items()} | OPTION_DEFAULTS
        words = [shown(given.pop(name)) for name in ("problem", "algorithm") if name in given]
        words += [f"{name}={shown(value)}" for name, value in given.items() if value is not defaults[name]]
        words += [f"{name}={shown(value)}" for name, value in self._params[1].items()]
        return f"{type(self).__name__}({', '.join(words)})"

    def __str__(self) -> str:
        learns = getattr(self.settings, "known_reward", True) is False and self.problem.task.dynamics is None
        rewards = ", rewards learned" if learns else ""
        logs = f", learned from logs: {self.n_logged_steps:,} steps of {self.n_logged_episodes:,} episodes"
        logs = logs if self.n_logged_episodes else ""
        doubt = f"; no proof: {self._selection}" if self._selection and logs else ""
        return f"<{self.name} on {self.problem.summary}{rewards}; {self.n_episodes:,} episodes{logs}{doubt}>"

    def _repr_html_(self) -> str:
        log = self._log
        rows: dict[str, object] = {"problem": self.problem.summary, "episodes": f"{self.n_episodes:,}"}
        if self._algorithm.logged.episodes:
            rows["logged episodes"] = f"{self._algorithm.logged.episodes:,}"
        if log.returns:
            rows["mean return"] = float(np.mean(log.returns))
            rows["of the second half"] = float(np.mean(log.returns[len(log.returns) // 2 :]))
        rows |= {"algorithm": self._algorithm, "seed": self.seed}
        rows["regret bound"] = self.guarantee
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

    @property
    def problem(self) -> Problem:
        """The problem that is learned."""
        return self._algorithm.problem

    @property
    def n_episodes(self) -> int:
        """Number of episodes that were played and learned from."""
        return self._algorithm.episode - self._algorithm.logged.episodes

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm inside, with one replica."""
        return self._algorithm

    @property
    def late_episodes(self) -> str:
        """What happens to an episode that is ended before one that was begun earlier: "wait" or "learn"."""
        return self._queue.late

    @property
    def open_episodes(self) -> tuple[OpenEpisode, ...]:
        """The episodes that were begun and neither ended nor abandoned, in the order of their begin."""
        return self._queue.open

    @property
    def n_waiting(self) -> int:
        """Number of ended episodes that wait until all episodes begun before them are closed."""
        return self._queue.n_waiting

    @property
    def n_time_outs(self) -> int:
        """Number of episodes that timed out."""
        return self._queue.n_time_outs

    @property
    def n_logged_episodes(self) -> int:
        """Number of episodes of logs that were learned from; they do not count in `n_episodes`."""
        return self._algorithm.logged.episodes

    @property
    def n_logged_steps(self) -> int:
        """Number of steps of logs that were learned from."""
        return self._algorithm.logged.steps

    @property
    def keep_log(self) -> bool:
        """Whether the steps of all episodes are kept, so that `export` can write them."""
        return self._seen is not None

    @property
    def guarantee(self) -> Guarantee:
        """Whether the regret bound is proven for this agent so far, under its `assumptions`.

        The bound is `bound`: it adds what other actions than the agent's own were expected to lose.
        """
        return certification.guarantee(self)

    @property
    def alarm(self) -> str | None:
        """Why the assumptions must be false, in words: a misspecification alarm, or bounds that contradict each other.

        None as long as the data do not contradict them. Where data were selected, that may be the reason, and is named.
        """
        return certification.alarm(self)

    @property
    def changes(self) -> tuple[Change, ...]:
        """Changes of the problem that were noticed so far, with ``drift="watch"`` or ``"restart"``; the oldest first.

        Each says which states and actions changed, since when, and by how much (`words`, `pairs`, `since`, `before`,
        `after`). If nothing ever changes, none is ever noticed with probability 1 − δ (docs/proofs.md, section 20).
        """
        return certification.changes(self)

    @property
    def assumptions(self) -> str:
        """Assumptions of `guarantee` and of the guarantee of a certificate, in words; empty if nothing is proven."""
        return certification.assumptions(self)

    @property
    def visits(self) -> IntArray:
        """How often each action was taken in each state of a finite problem, played and logged steps together: (S, A).

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 12}, seed=0)
        >>> _ = agent.learn(n_episodes=5)
        >>> int(agent.visits.sum())
        60
        """
        return logged.visits(self)

    @property
    def policy(self) -> Policy:
        """The policy that the next episode would play, as a table of a problem with numbered states.

        It is optimistic for most algorithms; `greedy` is best by the estimates, and `recommend` has the best proof.
        """
        table = self._algorithm.policy_table(certification.advised_plan(self))[0]
        return deployment.named_policy(self, table, "the plan of the next episode")

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
        return checkpoint.load_agent(
            cls,
            file_path("path", path),
            env,
            phi=phi,
            psi=psi,
            compiled=optional_flag("compiled", compiled),
            algorithm=algorithm,
            trust_code=trust_code,
            objects=objects,
        )

    # loop.py: playing by itself
    learn = loop.learn

    # checkpoint.py: everything of an agent, to go on bit for bit
    state_dict = checkpoint.state_dict
    load_state_dict = checkpoint.load_state_dict
    save = checkpoint.save

    # certification.py: what is proven so far
    certificate = certification.certificate
    regret_certificate = certification.regret_certificate
    bound = certification.bound
    loss_bound = certification.loss_bound

    # ask_and_tell.py: advice to a process in the real world, and learning from episodes
    episode = ask_and_tell.episode
    begin_episode = ask_and_tell.begin_episode
    plan_ahead = ask_and_tell.plan_ahead
    act = ask_and_tell.act
    observe = ask_and_tell.observe
    end_episode = ask_and_tell.end_episode
    abandon_episode = ask_and_tell.abandon_episode
    time_out_after = ask_and_tell.time_out_after
    _note_selection = ask_and_tell.note_selection
    _note_doubt = ask_and_tell.note_doubt
    _note_start_doubt = ask_and_tell.note_start_doubt

    # logged.py: logs in and out
    plan_log = logged.plan_log
    learn_from = logged.learn_from
    export = logged.export

    # deployment.py: policies to deploy
    predict = deployment.predict
    greedy = deployment.greedy
    recommend = deployment.recommend
    action_tables = deployment.action_tables

    # explanation.py: why an action is played
    explain = explanation.explain

    # given_policies.py: policies that a user gives
    certify = given_policies.certify
    compare = given_policies.compare

    # replay.py: what a policy would have earned on recorded outcomes
    replay = replay

    # earnings.py and forecast.py: what learning has cost and earned, and how much more data is needed
    earnings = earnings
    forecast = forecast.forecast
