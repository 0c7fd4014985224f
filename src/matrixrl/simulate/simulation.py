"""Many seeds of one algorithm on one problem, advancing episode by episode."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from matrixrl.agents.certified import CONTRADICTION
from matrixrl.algorithms import Algorithm, ContinuousControl, Startable, make_algorithm
from matrixrl.algorithms.matrix_rl import FiniteMatrixRL
from matrixrl.algorithms.registry import split_features
from matrixrl.checks import fail, fits_memory, flag, function, integer, optional_flag, shown
from matrixrl.compiling import playing_time
from matrixrl.core.start import Start
from matrixrl.envs import open_problem
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.measuring import held, is_measured, spacing
from matrixrl.problems import Problem, RegretEvaluator
from matrixrl.progress import EpisodeProgress
from matrixrl.records import BoolArray, Bounds, Certificate, FloatArray, Steps
from matrixrl.seeding import seed_list
from matrixrl.settings import Settings
from matrixrl.simulate.compiled import CompiledPlayer, compiled_player, why_not_compiled
from matrixrl.simulate.results import RunResult
from matrixrl.simulate.stretch import Stretch
from matrixrl.simulate.watching import EpisodeWatch
from matrixrl.simulate.worlds import EnvWorld, TableWorld, World
from matrixrl.threads import limited_threads

__all__ = ["Simulation", "checked_seeds", "listed_seeds", "plays_in_batches"]

_NUMBERS_PER_EPISODE = 14  # of a simulation and its result, in numbers of 8 bytes
_ROUNDING = 1e-9  # relative, of bounds that are compared
_PATIENCE = 0.05  # seconds that an interrupt waits for compiled episodes


def checked_seeds(seeds: Any) -> list[int]:
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


def listed_seeds(seeds: Any) -> list[int]:
    """Return the seeds of a list or an array of them, or the first ones if only their number is given."""
    is_list = isinstance(seeds, (Sequence, np.ndarray)) and not (isinstance(seeds, np.ndarray) and seeds.ndim == 0)
    return checked_seeds(seeds) if is_list else seed_list(0, seeds)


def checked_sizes(n_episodes: int, n_seeds: int) -> None:
    """Refuse more episodes than memory can hold."""
    amount = f"{n_episodes:,} episodes of {n_seeds:,} seed{'s' * (n_seeds > 1)}"
    remedy = "Play fewer at a time; an agent keeps less of each episode."
    fits_memory("n_episodes", _NUMBERS_PER_EPISODE * n_episodes * n_seeds, amount, remedy=remedy)


def _refuse_with_problem(options: Mapping[str, Any]) -> None:
    """Refuse options of reading an environment if it was read before."""
    for name, value in options.items():
        if value is not None and value is not False and value != {}:
            fail(name, "must be left out for a Problem that was read before", shown(value), "Read it with that option.")


def plays_in_batches(problem: Problem) -> bool:
    """Say whether many seeds of a problem are simulated side by side: where P is known and states are numbers."""
    return problem.kind == "finite" and problem.mdp is not None


class Simulation:
    """Independent replicas of one algorithm, one for each seed.

    Every replica plays exactly as ``Agent(env, algorithm, seed=seed).learn(N)`` would; running them together only turns
    matrix-vector products into matrix-matrix products. A problem without a known P is played in its environment by one
    seed at a time; `run_seeds` makes one simulation for each.

    Args:
        env: Name of an environment, an environment, a `FiniteMDP`, or a `Problem` that was read before.
        n_episodes: Number of episodes N.
        seeds: One seed for each replica.
        agent: Name of an agent, an algorithm that is not started, its class, or ``package.module:Name``; MatrixRL by
            default, KernelControl for vectors.
        settings: Settings of an agent given by name; `phi` and `psi` may be ``package.module:Name`` of feature maps.
        env_settings: Settings of an environment given by name.
        certify: Keep a certificate of every episode (costs two more backups each).
        window: The episodes, counted from 0, that this object plays and remembers; all by default. One that does not
            begin at 0 needs `restore_simulation` first.
        compiled: Use compiled loops (the extra `fast`) wherever there are some, or nowhere; by default where one seed
            alone would take about a second. Whole episodes of matrix-rl with one-hot features are compiled, and its
            plans with others. They draw the same numbers and differ in the rounding of sums only.
        measure_regret: Whether to measure exact regret where P is known. A number k measures the episodes 1, k + 1,
            2k + 1, … and leaves the others out (NaN); False measures none, and V* is not computed.
        trust_code: Whether names may import code (``package.module:Name``, ``gym:module:ID``).
        options: phi, psi, psi_pinv, reward, horizon, reward_range, reward_outside, allowed, stage_dependent, discount,
            accuracy and start, as in `matrixrl.problems.read_problem`.
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
        measure_regret: bool | int = True,
        trust_code: bool = False,
        **options: Any,
    ) -> None:
        self.total = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
        self.seeds = checked_seeds(seeds)
        checked_sizes(self.total, len(self.seeds))
        for name, value in (("certify", certify), ("trust_code", trust_code)):
            flag(name, value)
        every = spacing("measure_regret", measure_regret)
        compiled = optional_flag("compiled", compiled)
        self.env_settings = dict(env_settings or {})
        settings, maps = split_features(settings, trust_code=trust_code)
        options |= maps
        if isinstance(env, Problem):
            _refuse_with_problem({**options, "env_settings": env_settings})
        unstarted = make_algorithm(agent, settings, trust_code=trust_code)
        unstarted.announce(self.total)
        problem = (
            env
            if isinstance(env, Problem)
            else open_problem(
                env,
                self.env_settings,
                trust_code=trust_code,
                known_reward=unstarted.known_reward,
                measure_regret=measure_regret,
                **options,
            )
        )
        if problem.env is None and not plays_in_batches(problem):
            fail("env", "must be an environment or an MDP to play in", problem.name, "A Task is for ask and tell.")
        if not plays_in_batches(problem) and len(self.seeds) > 1:
            fail("seeds", "must be one where P is not known", len(self.seeds), "run_seeds plays one after the other.")
        self.algorithm: Algorithm = unstarted.start(problem, self.seeds)
        self.problem = self.algorithm.problem
        if certify and not self.algorithm.certifies:
            rule = f"must be left out for {self.algorithm.name}, which has no certificates"
            fail("certify", rule, True, "Certify matrix-rl.")
        is_estimated = self.problem.kind == "finite" and not self.problem.start_is_declared
        if certify and is_estimated and not plays_in_batches(self.problem):
            rule = "must be left out for an environment whose first states are not declared and not simulated"
            fail("certify", rule, True, "Give start=…, a state or one probability for each state.")
        self.certify = certify
        self.window = range(self.total) if window is None else window
        mdp = self.problem.mdp
        self.evaluator = None if mdp is None else RegretEvaluator(mdp)
        """Measures exact regret; None where P is not known."""
        every = self.problem.regret_every if isinstance(env, Problem) and measure_regret is True else every
        self._asks_for_regret = every > 0 and self.problem.regret_every > 0
        measures = self._asks_for_regret and mdp is not None and self.algorithm.has_policy_table
        self.regret_every = every if measures else 0
        """Regret is measured in every so many episodes, from the first one on; 0 if it is not measured."""
        self.world: World = self._make_world()
        self._compiled = self._compile(compiled)
        shape = (len(self.seeds), len(self.window))
        self.regret: FloatArray = np.full(shape, np.nan)
        self.returns: FloatArray = np.zeros(shape)
        self.lengths: FloatArray = np.zeros(shape)
        self.upper: FloatArray = np.zeros(shape)
        self.alarms: BoolArray = np.zeros(shape, dtype=np.bool_)
        self.certified: FloatArray = np.full((*shape, 2), np.nan)
        self.alarmed: BoolArray = np.zeros(len(self.seeds), dtype=np.bool_)
        """(B,) whether the alarm was on in any episode so far, those before the window included."""
        self.least_upper: FloatArray = np.full(len(self.seeds), np.inf)
        """(B,) least certified upper bound on V*(s0) so far, those before the window included."""
        self.clock: FloatArray = np.zeros(len(self.window))
        """(N,) seconds of each episode without compiling, all replicas together."""
        self.done = 0
        self.last: Stretch
        """The last stretch of episodes."""
        self._regret_so_far, self._last_regret = 0.0, np.zeros(len(self.seeds))
        self._stretch = 1
        self._watch: EpisodeWatch | None = None
        self._is_prepared = not (isinstance(self.algorithm, FiniteMatrixRL) and self.algorithm.compiled)

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self.algorithm.name

    @property
    def is_batched(self) -> bool:
        """Whether a known P is simulated, for all seeds side by side."""
        return isinstance(self.world, TableWorld)

    @property
    def _is_control(self) -> bool:
        """Whether states are vectors, so that returns are all there is to see."""
        return self.problem.kind == "continuous" and not self.regret_every

    @property
    def optimal_value(self) -> float | None:
        """V*(s0), where P is known and regret is measured."""
        return None if self.evaluator is None or not self._asks_for_regret else self.evaluator.optimal_value

    def _make_world(self) -> World:
        if plays_in_batches(self.problem):
            assert self.problem.mdp is not None
            return TableWorld(self.problem.mdp, self.seeds)
        return EnvWorld(self.problem, self.seeds[0])

    def run(
        self,
        *,
        progress: bool = False,
        callback: Callable[[int], bool | None] | None = None,
        blas_threads: int | None = 1,
        label: str | None = None,
    ) -> RunResult:
        """Play all episodes that are left and return the result.

        An interrupt passes through; `result` then holds the episodes that were finished.

        Args:
            progress: Show progress on standard error: a bar, or lines if it is not a terminal.
            callback: Called with the number of finished episodes after each of them; returning False stops.
            blas_threads: Threads of the linear algebra; None leaves them unchanged.
            label: Label of the bar.
        """
        threads = limited_threads(blas_threads)
        title = label or f"{self.agent} on {self.problem.name}"
        flag("progress", progress)
        if callback is not None:
            function("callback", callback, of=1, remedy="Give a function of the number of episodes, or leave it out.")
        total = self.window.stop - self.done
        with threads, EpisodeProgress(title, total, visible=progress) as bar:
            if not self._is_prepared:
                bar.advance("loading the compiled loops (the first time they are compiled: about 10 s)", 0)
                self._prepare()
            self._watch = EpisodeWatch(self.algorithm) if bar.is_drawn and self._is_control else None
            while self.done < self.window.stop:
                began = self.played
                self.advance(1 if callback is not None else self._next_stretch())
                bar.advance(self._note(), self.played - began, () if self._watch is None else self._watch.lines())
                if callback is not None and callback(self.done) is False:
                    break
        return self.result()

    def _note(self) -> str:
        """Return what the bar says: the mean regret so far, or the latest return."""
        if self.regret_every:
            return f"regret {self._regret_so_far:,.1f}"
        return f"return {float(self.returns[:, self.played - 1].mean()):.4g}"

    def _prepare(self) -> None:
        """Load what is compiled, once, so that neither clocks nor interrupts wait for it."""
        if self._is_prepared:
            return
        if self._compiled is not None:
            self._compiled.prepare()
        else:
            self.algorithm.advice()  # changes nothing
        self._is_prepared = True

    def _next_stretch(self) -> int:
        """Return how many episodes to play before the next look at the clock: 1/20 s of compiled ones."""
        if self._compiled is not None and self.played > 0:
            per_episode = max(float(self.clock[self.played - 1]), 1e-9)
            self._stretch = int(min(max(_PATIENCE / per_episode, 1), 4 * self._stretch))
        return self._stretch

    def _compile(self, wanted: bool | None) -> CompiledPlayer | None:
        """Choose between compiled and NumPy plans; return the player of whole compiled episodes, where they fit."""
        algorithm = self.algorithm
        algorithm.use_compiled(wanted, self.total)
        if not isinstance(algorithm, FiniteMatrixRL):
            return None
        algorithm.use_compiled(algorithm.compiles(self.total))
        mdp = self.problem.mdp
        if not algorithm.compiled or mdp is None or why_not_compiled(mdp, algorithm, self.total) is not None:
            return None
        optimum = self.optimal_value if self.regret_every else None
        regret = None if optimum is None else (optimum, self.regret_every)
        return compiled_player(mdp, algorithm, regret, certify=self.certify)

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

        Compiled episodes are played as one stretch, for the end of which an interrupt waits.

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
        if self._compiled is not None:
            self._prepare()
            self._undoing(lambda: self._play_compiled(count))
            return
        stretches = []
        for _ in range(count):
            self._undoing(self._play_one)
            stretches.append(self.last)
        if self.is_batched:
            self.last = Stretch.join(stretches)

    def _undoing(self, play: Callable[[], None]) -> None:
        """Play; if nothing was learned because of an interrupt or an error, put the random streams back."""
        done, world, planning = self.done, self.world.mark(), self.algorithm.mark()
        try:
            play()
        except BaseException:
            if self.algorithm.episode == done:
                self.algorithm.rewind(planning)
                self.world.rewind(world)
            raise

    def _play_compiled(self, count: int) -> None:
        assert self._compiled is not None
        assert isinstance(self.world, TableWorld)
        started = playing_time()
        with uninterrupted():
            self._record(self._compiled.play(self.world.streams, count), started)

    def _play_one(self) -> None:
        started = playing_time()
        algorithm, n = self.algorithm, len(self.seeds)
        plan = algorithm.plan()
        steps = self.world.play(algorithm, plan)
        first = None if self.is_batched or self.problem.start_is_declared else steps.states[:, 0]
        certified = np.full((n, 1, 2), np.nan)
        if self.certify:
            # Without a declared start, functions of states are certified at the first state of each episode.
            bounds = algorithm.certify(algorithm.permitted(plan), None if first is None else Start.at(first[0]))
            certified[:, 0] = np.stack([bounds.lower, bounds.upper], axis=1)
        regret = np.full((n, 1), np.nan)
        if is_measured(self.done, self.regret_every):
            assert self.evaluator is not None
            regret = self.evaluator.regret(algorithm.policy_table(plan))[:, None]
        upper = algorithm.upper(plan, first)[:, None]
        with uninterrupted():
            algorithm.update(steps)
            returns = self.problem.returns(steps.rewards)
            self._record(_stretch_of(steps, returns, plan, regret, upper, certified), started)
        if self._watch is not None:
            self._watch.see(plan, steps)

    def _record(self, stretch: Stretch, started: float) -> None:
        count = stretch.returns.shape[1]
        now = slice(self.played, self.played + count)
        self.regret[:, now], self.returns[:, now], self.lengths[:, now] = (
            stretch.regret,
            stretch.returns,
            stretch.lengths,
        )
        self.upper[:, now], self.certified[:, now] = stretch.upper, stretch.certified
        if self.certify and self.is_batched:  # all bounds hold on one event, so the least one does
            so_far = np.concatenate([self.least_upper[:, None], stretch.certified[:, :, 1]], axis=1)
            self.certified[:, now, 1] = np.minimum.accumulate(so_far, axis=1)[:, 1:]
            self.least_upper = self.certified[:, now.stop - 1, 1].copy()
        self.alarms[:, now] = stretch.alarms
        self.alarmed = self.alarmed | stretch.alarms.any(axis=1)
        if self.regret_every:
            filled = held(stretch.regret, self.regret_every, self.done)
            filled = np.where(np.isnan(filled), self._last_regret[:, None], filled)
            self._regret_so_far += float(filled.sum(axis=1).mean())
            self._last_regret = filled[:, -1]
        self.last = stretch
        self.done += count
        self.clock[now] = (playing_time() - started) / count

    def result(self) -> RunResult:
        """Return what was played so far."""
        n, problem, algorithm = self.played, self.algorithm.problem, self.algorithm
        return RunResult(
            env=problem.name,
            env_settings=self.env_settings,
            agent=self.agent,
            settings=algorithm.settings.as_dict() if isinstance(algorithm.settings, Settings) else {},
            horizon=problem.task.horizon,
            sizes=self.sizes(),
            n_features=algorithm.n_features(),
            seeds=self.seeds,
            optimal_value=self.optimal_value,
            earns_from_zero=(problem.task.reward_range or (-1.0, 0.0))[0] >= 0.0,
            regret=self.regret[:, :n].copy(),
            returns=self.returns[:, :n].copy(),
            lengths=self.lengths[:, :n].copy(),
            upper=self.upper[:, :n].copy(),
            alarms=self.alarms[:, :n].copy(),
            certified=self.certified[:, :n].copy(),
            certificate=self._final_certificates(),
            n_plans=[int(count) for count in algorithm.n_plans],
            settings_guarantee=algorithm.claim,
            withdrawn=algorithm.reward_words,
            seconds=np.tile(self.clock[:n] / len(self.seeds), (len(self.seeds), 1)),
            interrupted=n < len(self.window),
            regret_every=max(self.regret_every, 1),
            first_episode=self.window.start,
            discount=problem.discount,
            length_scales=self._length_scales(),
        )

    def _length_scales(self) -> FloatArray | None:
        """Return the length scales that KernelControl fitted, (B, g), or None."""
        algorithm = self.algorithm
        if not isinstance(algorithm, ContinuousControl) or algorithm.settings.length_scale is not None:
            return None
        scales = algorithm.length_scales()
        return scales if scales.size else None

    def sizes(self) -> dict[str, int]:
        """Return S, A, d and d_psi of a finite problem; the length of observations and A of another one.

        If laws depend on the stage, `stage_classes` is the number of classes of stages. If some actions are not
        allowed, `allowed_pairs` counts the pairs of a state and an action that are.
        """
        task = self.problem.task
        if self.problem.kind == "continuous":
            return {"n_coordinates": int(getattr(task, "n_coordinates", 0)), "n_actions": task.n_actions}
        d, d_psi = self.problem.dimensions
        n_states = self.problem.finite_task.n_states if self.problem.kind == "finite" else 0
        sizes = {"n_states": n_states, "n_actions": self.problem.actions.size, "d": d, "d_psi": d_psi}
        if self.problem.stages is not None:
            sizes["stage_classes"] = self.problem.stages.n_classes
        if self.problem.allowed_by_action is not None:
            sizes["allowed_pairs"] = self.problem.finite_task.n_pairs
        return sizes

    def _final_certificates(self) -> list[Certificate]:
        """Return, for each seed, the certificate of the policy that all its data advise.

        There are none for a baseline, nor for a window that another one follows: its policy is not the final one.
        """
        algorithm = self.algorithm
        if not algorithm.certifies or not self.is_batched or self.window.stop < self.total:
            return []
        if self._compiled is not None:
            bounds = Bounds(*self._compiled.certify_advice(), np.zeros(len(self.seeds), dtype=np.int64))
        else:
            bounds = algorithm.certify(algorithm.advice())
        least = np.minimum(bounds.upper, self.least_upper)
        crossed = least < bounds.lower - _ROUNDING * (1.0 + np.abs(bounds.lower))
        bounds = bounds._replace(upper=np.maximum(least, bounds.lower))
        found = []
        for b in range(len(self.seeds)):
            alarmed = bool(bounds.empty[b]) or bool(self.alarmed[b])
            words = algorithm.certificate_claim(alarmed)
            words = CONTRADICTION if words is True and crossed[b] else words
            found.append(bounds.certificate(b, algorithm.delta, words, self.problem.start_words))
        return found


def _stretch_of(
    steps: Steps, returns: FloatArray, plan: Any, regret: FloatArray, upper: FloatArray, certified: FloatArray
) -> Stretch:
    """Return one episode as a stretch."""
    return Stretch(
        states=steps.states[:, None],
        actions=steps.actions[:, None],
        regret=regret,
        returns=returns[:, None],
        lengths=steps.taken.sum(axis=1)[:, None],
        upper=upper,
        alarms=(plan.empty > 0)[:, None],
        certified=certified,
    )
