"""Many seeds of one algorithm on one problem, advancing episode by episode."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from matrixrl.algorithms import Algorithm, ContinuousControl, Startable, UCMatrixRL
from matrixrl.algorithms.finite import permitted
from matrixrl.algorithms.matrix_rl.path import PathMatrixRL
from matrixrl.certificates import Certificate
from matrixrl.checks import fail, fits_memory, flag, function, integer, optional_flag, shown
from matrixrl.core.start import Start
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.measurement import held
from matrixrl.play.arguments import RunOptions, read_arguments, split_options
from matrixrl.play.engine import Engine
from matrixrl.play.ledger import CertificateLedger
from matrixrl.play.monitor import EpisodeMonitor
from matrixrl.play.path_player import PathPlayer
from matrixrl.play.player import CompiledPlayer, why_not_compiled
from matrixrl.play.results import Chunk, RunResult, Series, join_results
from matrixrl.play.rollout import EnvWorld, Finished, TableWorld
from matrixrl.problems import Problem, ProblemOptions
from matrixrl.progress import EpisodeProgress
from matrixrl.random_streams import seed_list
from matrixrl.records import Bounds, FloatArray, IntArray
from matrixrl.settings import Settings
from matrixrl.threads import limited_threads

__all__ = ["Simulation", "plays_in_batches", "refuse_drift", "run_seeds"]

_NUMBERS_PER_EPISODE = 14  # of a simulation and its result, in numbers of 8 bytes
_PATIENCE = 0.05  # seconds that an interrupt waits for compiled episodes


def _checked_seeds(seeds: Any) -> list[int]:
    """Return seeds as plain numbers, at least one and no two alike."""
    is_list = isinstance(seeds, np.ndarray) and seeds.ndim == 1
    if not is_list and (isinstance(seeds, (str, bytes)) or not isinstance(seeds, Sequence)):
        fail("seeds", "must be a list of whole numbers", shown(seeds), "Such as [0, 1, 2].")
    seed_list(0, max(len(seeds), 1))  # not more than memory allows
    checked = [integer("seeds", s, low=0, remedy="Seeds are whole numbers.") for s in seeds]
    if not checked:
        fail("seeds", "must not be empty", "no seeds", "Give at least one seed.")
    if len(set(checked)) < len(checked):
        fail("seeds", "must differ", checked, "A repeated seed repeats the same run.")
    return checked


def plays_in_batches(problem: Problem) -> bool:
    """Say whether many seeds of a problem are simulated side by side: where P is known and states are numbers."""
    return problem.kind == "finite" and problem.mdp is not None


def refuse_drift(algorithm: Startable) -> None:
    """Refuse to look for changes in simulations, whose problem never changes."""
    chosen = getattr(getattr(algorithm, "settings", None), "drift", "off")
    if chosen != "off":
        remedy = "Leave it out, or use an agent: MatrixRL(…, drift=…).learn(…)."
        fail("drift", "must be 'off' in simulations of many seeds, where nothing changes", repr(chosen), remedy)


class Simulation:
    """Independent replicas of one algorithm, one for each seed.

    Every replica plays exactly as ``Agent(env, algorithm, seed=seed).learn(N)`` would; running them together only turns
    matrix-vector products into matrix-matrix products. A problem without a known P is played in its environment by one
    seed at a time: this object plays the first one, and `run` makes another simulation for each of the others.

    Args:
        env, n_episodes, agent, env_settings, certify, compiled, trust_code: As in `run_seeds`; the environment may also
            be a `Problem` that was read before.
        seeds: One seed for each replica.
        settings: Settings of an agent given by name; `phi` and `psi` may be ``package.module:Name`` of feature maps.
        window: The episodes, counted from 0, that this object plays and remembers; all by default. One that does not
            begin at 0 needs `restore_simulation` first.
        options: Options of the problem, see `matrixrl.problems.ProblemOptions`.
    """

    def __init__(
        self,
        env: Any,
        *,
        n_episodes: int,
        seeds: Sequence[int],
        agent: str | Startable | type[Startable] | None = None,
        settings: dict[str, Any] | None = None,
        env_settings: dict[str, Any] | None = None,
        certify: bool = False,
        window: range | None = None,
        compiled: bool | None = None,
        trust_code: bool = False,
        **options: Unpack[ProblemOptions],
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "seeds", "options")}
        self._arguments = {**given, **options}
        self.total = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
        self.seeds = _checked_seeds(seeds)
        n = len(self.seeds)
        amount = f"{self.total:,} episodes of {n:,} seed{'s' * (n > 1)}"
        remedy = "Play fewer at a time; an agent keeps less of each episode."
        fits_memory("n_episodes", _NUMBERS_PER_EPISODE * self.total * n, amount, remedy=remedy)
        for name, value in (("certify", certify), ("trust_code", trust_code)):
            flag(name, value)
        compiled = optional_flag("compiled", compiled)
        unstarted, problem = read_arguments(
            env, agent, settings, options, env_settings=env_settings, trust_code=trust_code
        )
        is_batched = plays_in_batches(problem)
        if problem.env is None and not is_batched:
            fail("env", "must be an environment or an MDP to play in", problem.name, "A Task is for ask and tell.")
        self._later: list[int] = [] if is_batched else self.seeds[1:]
        self._others: list[Simulation] = []  # of later seeds
        if self._later and window is not None:
            fail("seeds", "must be one where P is not known and a window is given", n, "Play one after the other.")
        self.seeds = self.seeds[: n - len(self._later)]
        self.algorithm: Algorithm = unstarted.start(problem, self.seeds, n_episodes=self.total)
        self.problem = self.algorithm.problem
        refuse_drift(self.algorithm)
        if certify and not self.algorithm.claims.certifies:
            rule = f"must be left out for {self.algorithm.name}, which has no certificates"
            fail("certify", rule, True, "Certify matrix-rl.")
        is_estimated = self.problem.kind == "finite" and not self.problem.task.start_is_declared
        if certify and is_estimated and not is_batched:
            rule = "must be left out for an environment whose first states are not declared and not simulated"
            fail("certify", rule, True, "Give start=…, a state or one probability for each state.")
        self.certify = certify
        self.window = range(self.total) if window is None else window
        self.world: TableWorld | EnvWorld
        if is_batched and self.problem.mdp is not None:
            self.world = TableWorld(self.problem.mdp, self.seeds)
        else:
            self.world = EnvWorld(self.problem, self.seeds[0])
        self.engine = Engine(self.algorithm, self.world)
        self._compiled = self._compile(compiled)
        self.series = Series.empty(len(self.seeds), len(self.window))
        """Numbers of the episodes of the window; those that were not played yet are blank."""
        self.ledger = CertificateLedger(self.algorithm)
        """Best bounds so far, those before the window included."""
        self.clock: FloatArray = np.zeros(len(self.window))
        """(N,) seconds of each episode without compiling, all replicas together."""
        self.done = 0
        self.last: Chunk
        """The last chunk of episodes."""
        self._regret_so_far, self._last_regret = 0.0, np.zeros(len(self.seeds))
        self._chunk = 1
        self._monitor: EpisodeMonitor | None = None
        self._started = 0.0
        self._is_prepared = not (isinstance(self.algorithm, (UCMatrixRL, PathMatrixRL)) and self.algorithm.compiled)

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self.algorithm.name

    @property
    def is_batched(self) -> bool:
        """Whether a known P is simulated, for all seeds side by side."""
        return isinstance(self.world, TableWorld)

    @property
    def optimal_value(self) -> float | None:
        """V*(s0), where P is known and regret is measured."""
        evaluator = self.engine.evaluator
        return None if evaluator is None or not self.problem.regret_every else evaluator.optimal_value

    def fresh(self) -> Algorithm:
        """Return the algorithm of the first seed as it was before its first episode."""
        return Simulation(**self._arguments, seeds=self.seeds[:1]).algorithm

    def run(
        self,
        *,
        progress: bool = False,
        callback: Callable[[int], bool | None] | None = None,
        blas_threads: int | None = 1,
        label: str | None = None,
    ) -> RunResult:
        """Play all episodes that are left, of all seeds, and return the result.

        An interrupt passes through; `result` then holds the episodes that were finished.

        Args:
            progress: Show progress on standard error: a bar, or lines if it is not a terminal.
            callback: Called with the number of finished episodes of a seed after each of them; returning False stops.
            blas_threads: Threads of the linear algebra; None leaves them unchanged.
            label: Label of the bar.
        """
        flag("progress", progress)
        if callback is not None:
            function("callback", callback, of=1, remedy="Give a function of the number of episodes, or leave it out.")
        name = label or f"{self.agent} on {self.problem.name}"
        title = f"{name}, seed {self.seeds[0]}" if self._later else name
        with limited_threads(blas_threads):
            goes_on = self._run(progress, callback, title)
            for k, seed in enumerate(self._later):
                if not goes_on:
                    break
                if k == len(self._others):
                    self._others.append(Simulation(**self._arguments, seeds=[seed]))
                goes_on = self._others[k]._run(progress, callback, f"{name}, seed {seed}")
        return self.result()

    def _run(self, progress: bool, callback: Callable[[int], bool | None] | None, title: str) -> bool:
        """Play the seeds of this object; return whether the callback did not stop it."""
        with EpisodeProgress(title, self.window.stop - self.done, visible=progress) as bar:
            if not self._is_prepared:
                bar.advance("loading the compiled loops (the first time they are compiled: about 10 s)", 0)
                self._prepare()
            # returns are all there is to see of a control task
            is_control = self.problem.kind == "continuous" and not self.engine.regret_every
            self._monitor = EpisodeMonitor(self.algorithm) if bar.is_drawn and is_control else None
            while self.done < self.window.stop:
                began = self.played
                self.advance(1 if callback is not None else self._next_chunk())
                bar.advance(self._note(), self.played - began, () if self._monitor is None else self._monitor.lines())
                if callback is not None and callback(self.done) is False:
                    return False
        return True

    def _note(self) -> str:
        """Return what the bar says: the mean regret so far, or the latest return."""
        if self.engine.regret_every:
            return f"regret {self._regret_so_far:,.1f}"
        return f"return {float(self.series.returns[:, self.played - 1].mean()):.4g}"

    def _prepare(self) -> None:
        """Load what is compiled, once, so that neither clocks nor interrupts wait for it."""
        if self._is_prepared:
            return
        if self._compiled is not None:
            self._compiled.prepare()
        else:
            advice = self.algorithm.advice()  # changes nothing
            if self.certify:
                self.algorithm.certifier.certify(advice)
        self._is_prepared = True

    def _next_chunk(self) -> int:
        """Return how many episodes to play before the next look at the clock: 1/20 s of compiled ones."""
        if self._compiled is not None and self.played > 0:
            per_episode = max(float(self.clock[self.played - 1]), 1e-9)
            self._chunk = int(min(max(_PATIENCE / per_episode, 1), 4 * self._chunk))
        return self._chunk

    def _compile(self, wanted: bool | None) -> CompiledPlayer | None:
        """Choose between compiled and NumPy plans; return the player of whole compiled episodes, where they fit."""
        algorithm, mdp = self.algorithm, self.problem.mdp
        algorithm.use_compiled(wanted, self.total)
        if isinstance(algorithm, PathMatrixRL) and algorithm.compiled and mdp is not None and not self.certify:
            return PathPlayer.of(mdp, algorithm, self.optimal_value, self.engine.regret_every)
        if not isinstance(algorithm, UCMatrixRL) or not algorithm.compiled or mdp is None:
            return None
        if why_not_compiled(mdp, algorithm, self.total) is not None:
            return None
        optimum = self.optimal_value if self.engine.regret_every else None
        regret = None if optimum is None else (optimum, self.engine.regret_every)
        return CompiledPlayer(mdp, algorithm, regret, certify=self.certify)

    @property
    def is_compiled(self) -> bool:
        """Whether whole episodes are played by compiled loops."""
        return self._compiled is not None

    @property
    def played(self) -> int:
        """Number of episodes of the window that were played."""
        return self.done - self.window.start

    def advance(self, count: int = 1) -> None:
        """Play `count` episodes in every replica, or all that are left; an episode that is interrupted leaves no trace.

        Compiled episodes are played as one chunk, for the end of which an interrupt waits.

        Args:
            count: At least 1.
        """
        count = integer("count", count, low=1, remedy="Ask for at least one episode.")
        if self.done >= self.window.stop:
            raise ProtocolError(f"all {self.window.stop} episodes were played; make a new simulation for more")
        if self.done < self.window.start:
            raise ProtocolError(
                f"the window is episodes {self.window.start} to {self.window.stop - 1}, and {self.done} were played; "
                "restore the state of its beginning first"
            )
        count = min(count, self.window.stop - self.done)
        self._prepare()
        self._started = time.perf_counter()
        if self._compiled is not None and isinstance(self.world, TableWorld):
            mark = self.engine.mark()
            try:
                with uninterrupted():
                    self._record(self._compiled.play(self.world.streams, count))
            except BaseException:
                self.engine.rewind(mark)
                raise
            return
        chunks = []
        for _ in range(count):
            self.engine.play(self._learn, self._certify if self.certify else None)
            chunks.append(self.last)
            self._started = time.perf_counter()
        if self.is_batched:
            self.last = Chunk.join(chunks)

    def _learn(self, played: Finished) -> None:
        """Learn from an episode of every replica and record it."""
        chunk = self.engine.measure(self.done, played)
        if played.certificate is not None:
            chunk.certified[:, 0] = np.stack([played.certificate.lower, played.certificate.upper], axis=1)
        with uninterrupted():
            self.algorithm.update(played.steps, played.plan)
            self._record(chunk)
        if self._monitor is not None:
            self._monitor.see(played.first_plan, played.steps)

    def _certify(self, plan: Any, first_state: Any) -> Bounds:
        start = None if first_state is None else Start.at(first_state)
        return self.algorithm.certifier.certify(permitted(self.algorithm, plan), start)

    def _record(self, chunk: Chunk) -> None:
        """Add the numbers of the episodes that were just learned from to the result."""
        count, first = chunk.returns.shape[1], self.played
        self.series.write(first, chunk)
        if self.certify and self.is_batched:  # all bounds hold on one event, so the least one does
            self.series.certified[:, first : first + count, 1] = self.ledger.note_uppers(chunk.certified[:, :, 1])
        self.ledger.alarmed = self.ledger.alarmed | chunk.alarms.any(axis=1)
        if self.engine.regret_every:
            filled = held(chunk.regret, self.engine.regret_every, self.done)
            filled = np.where(np.isnan(filled), self._last_regret[:, None], filled)
            self._regret_so_far += float(filled.sum(axis=1).mean())
            self._last_regret = filled[:, -1]
        self.last = chunk
        self.done += count
        self.clock[first : first + count] = (time.perf_counter() - self._started) / count

    def result(self) -> RunResult:
        """Return what was played so far, of all seeds that were begun."""
        return join_results([one._own_result() for one in (self, *self._others)])

    def _own_result(self) -> RunResult:
        n, problem, algorithm = self.played, self.algorithm.problem, self.algorithm
        sizes = getattr(algorithm, "n_features", None)  # of maps that grow with the data
        return RunResult(
            env=problem.name,
            env_settings=dict(self._arguments["env_settings"] or {}),
            agent=self.agent,
            settings=algorithm.settings.as_dict() if isinstance(algorithm.settings, Settings) else {},
            horizon=problem.task.horizon,
            sizes=self.problem.sizes,
            n_features=[problem.dimensions[0]] * len(self.seeds) if sizes is None else sizes(),
            seeds=self.seeds,
            optimal_value=self.optimal_value,
            earns_from_zero=(problem.task.reward_range or (-1.0, 0.0))[0] >= 0.0,
            certificate=self._final_certificates(),
            n_plans=[int(count) for count in algorithm.n_plans],
            settings_guarantee=algorithm.claims.regret,
            withdrawn=algorithm.claims.withdrawn,
            seconds=np.tile(self.clock[:n] / len(self.seeds), (len(self.seeds), 1)),
            interrupted=n < len(self.window),
            regret_every=max(self.engine.regret_every, 1),
            first_episode=self.window.start,
            discount=problem.task.discount,
            length_scales=self._length_scales(),
            **self.series.head(n),
        )

    def _length_scales(self) -> FloatArray | None:
        """Return the length scales that KernelControl fitted, (B, g), or None."""
        algorithm = self.algorithm
        if not isinstance(algorithm, ContinuousControl) or algorithm.settings.length_scale is not None:
            return None
        scales = algorithm.length_scales()
        return scales if scales.size else None

    def _final_certificates(self) -> list[Certificate]:
        """Return, for each seed, the certificate of the policy that all its data advise.

        There are none for a baseline, nor for a window that another one follows: its policy is not the final one.
        """
        algorithm = self.algorithm
        if not algorithm.claims.certifies or not self.is_batched or self.window.stop < self.total:
            return []
        if self._compiled is not None:
            bounds = Bounds(*self._compiled.certify_advice(), np.zeros(len(self.seeds), dtype=np.int64))
        else:
            bounds = algorithm.certifier.certify(algorithm.advice())
        return self.ledger.final_certificates(bounds)


def run_seeds(
    env: Any,
    *,
    n_episodes: int,
    seeds: int | Sequence[int] | IntArray = 8,
    agent: str | Startable | type[Startable] | None = None,
    env_settings: dict[str, Any] | None = None,
    certify: bool = False,
    compiled: bool | None = None,
    trust_code: bool = False,
    progress: bool = False,
    blas_threads: int | None = 1,
    **options: Unpack[RunOptions],
) -> RunResult:
    """Run many seeds of an agent on a problem and return regret, returns and bounds.

    Args:
        env: A short name ("river-swim", "gym:FrozenLake-v1", "cart-pole"), a Gymnasium environment or a `FiniteMDP`.
        n_episodes: Number of episodes N.
        seeds: How many (they are 0, 1, 2, …), or the list of them.
        agent: Name of an agent, an algorithm such as ``PSRL(preset="tuned")`` or one of your own, its class, or
            ``package.module:Name`` of one; MatrixRL by default, KernelControl for vectors.
        env_settings: Settings of an environment given by name.
        certify: Keep a certificate of every episode (costs two more backups each).
        compiled: Use compiled loops wherever there are some, or nowhere; by default where one seed
            alone would take about a second. Whole episodes of matrix-rl with one-hot features are compiled, and its
            plans with others. They draw the same numbers and differ in the rounding of sums only.
        trust_code: Whether names may import code (``package.module:Name``, ``gym:module:ID``).
        progress: Show progress on standard error: a bar, or lines if it is not a terminal.
        blas_threads: Threads of the linear algebra; None leaves them unchanged.
        options: Options of the problem (phi, psi, reward, horizon, allowed, measure_regret, …; `ProblemOptions`) and
            settings of an agent given by name (preset, set, radius, exploration, …).

    >>> result = run_seeds("river-swim", n_episodes=20, seeds=4, preset="tuned")
    >>> result.regret.shape, result.settings["exploration"]
    ((4, 20), 0.3)
    """
    is_list = isinstance(seeds, (Sequence, np.ndarray)) and not (isinstance(seeds, np.ndarray) and seeds.ndim == 0)
    of_problem, settings = split_options(options)
    simulation = Simulation(
        env,
        n_episodes=n_episodes,
        seeds=seeds if is_list else seed_list(0, seeds),  # type: ignore[arg-type]
        agent=agent,
        settings=settings,
        env_settings=env_settings,
        certify=certify,
        compiled=compiled,
        trust_code=trust_code,
        **of_problem,
    )
    return simulation.run(progress=progress, blas_threads=blas_threads)
