"""`run_seeds`: many seeds of any agent on any problem, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matrixrl.algorithms import Algorithm, Startable, make_algorithm
from matrixrl.algorithms.registry import known_reward, setting_names, split_features
from matrixrl.envs import checked_settings, open_problem, refuse_env_settings
from matrixrl.play.results import RunResult, join_results
from matrixrl.play.simulation import Simulation, checked_seeds, listed_seeds, plays_in_batches
from matrixrl.problems import Problem, ProblemOptions
from matrixrl.records import IntArray

__all__ = ["SeedRuns", "run_seeds"]


class SeedRuns:
    """All seeds of a run: one simulation where P is known, else one for each seed, played one after the other.

    Args:
        env: As in `Simulation`.
        n_episodes: Number of episodes N.
        seeds: The seeds.
        agent: As in `Simulation`.
        settings: Settings of an agent given by name.
        env_settings: Settings of an environment given by name.
        trust_code: Whether names may import code.
        options: Other arguments of `Simulation`.
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
        trust_code: bool = False,
        **options: Any,
    ) -> None:
        self._seeds = checked_seeds(seeds)
        settings, maps = split_features(settings, trust_code=trust_code)
        self._reading = {k: options.pop(k) for k in tuple(options) if k in _READING} | maps
        self._given = (env, checked_settings("env_settings", env_settings), trust_code)
        refuse_env_settings(env, settings, setting_names(agent))
        self._unstarted = make_algorithm(agent, settings, trust_code=trust_code)
        self._options = {"n_episodes": n_episodes, "agent": self._unstarted, **options}
        problem = self._open()
        batch = self._seeds if plays_in_batches(problem) else self._seeds[:1]
        self.first = self._simulate(problem, batch)
        """The simulation of the first seeds, which is prepared before anything is played."""
        self._results: list[RunResult] = []
        self._current = self.first

    def _open(self) -> Problem:
        env, env_settings, trust_code = self._given
        return open_problem(
            env, env_settings, trust_code=trust_code, known_reward=known_reward(self._unstarted), **self._reading
        )

    def _simulate(self, problem: Problem, seeds: list[int]) -> Simulation:
        simulation = Simulation(problem, seeds=seeds, **self._options)
        simulation.env_settings = dict(self._given[1])
        return simulation

    def run(self, *, progress: bool = False, blas_threads: int | None = 1, label: str | None = None) -> RunResult:
        """Play everything; an interrupt passes through, and `result` then holds what was finished.

        Args:
            progress: Show progress on standard error: a bar, or lines if it is not a terminal.
            blas_threads: Threads of the linear algebra; None leaves them unchanged.
            label: Label of the bar.
        """
        name = label or f"{self.first.agent} on {self.first.problem.name}"
        left = [self.first.seeds, *([seed] for seed in self._seeds[len(self.first.seeds) :])]
        for k, seeds in enumerate(left):
            if k > 0:  # an environment of its own, unless one was given
                self._current = self._simulate(self._open(), seeds)
            title = name if len(left) == 1 else f"{name}, seed {seeds[0]}"
            self._current.run(progress=progress, blas_threads=blas_threads, label=title)
            self._results.append(self._current.result())
        return self.result()

    def fresh(self) -> Algorithm:
        """Return the algorithm of the first seed as it was before its first episode."""
        return self._simulate(self._open(), self._seeds[:1]).algorithm

    def result(self) -> RunResult:
        """Return what was played so far."""
        is_over = bool(self._results) and self._results[-1].seeds == self._current.seeds
        return join_results(self._results if is_over else [*self._results, self._current.result()])


_READING = ProblemOptions.__annotations__


def run_seeds(
    env: Any,
    *,
    n_episodes: int,
    seeds: int | Sequence[int] | IntArray = 8,
    agent: str | Startable | type[Startable] | None = None,
    env_settings: dict[str, Any] | None = None,
    phi: Any = None,
    psi: Any = None,
    psi_pinv: bool = False,
    reward: Any = None,
    horizon: int | None = None,
    reward_range: tuple[float, float] | None = None,
    certify: bool = False,
    compiled: bool | None = None,
    measure_regret: bool | int = True,
    reward_outside: str = "error",
    allowed: Any = None,
    stage_dependent: Any = None,
    discount: float | None = None,
    accuracy: float | None = None,
    start: Any = None,
    trust_code: bool = False,
    progress: bool = False,
    blas_threads: int | None = 1,
    **settings: Any,
) -> RunResult:
    """Run many seeds of an agent on a problem and return regret, returns and bounds.

    Args:
        env: A short name ("river-swim", "gym:FrozenLake-v1", "cart-pole"), a Gymnasium environment or a `FiniteMDP`.
        n_episodes: Number of episodes N.
        seeds: How many (they are 0, 1, 2, …), or the list of them.
        agent: Name of an agent, an algorithm such as ``PSRL(preset="tuned")`` or one of your own, its class, or
            ``package.module:Name`` of one; MatrixRL by default, KernelControl for vectors.
        env_settings: Settings of an environment given by name.
        phi: φ as a feature map or an (S, A, d) array; the problem's own by default.
        psi: ψ as a feature map or an (S, d_psi) array; the problem's own by default.
        psi_pinv: Accept linearly dependent columns of ψ and work on their span.
        reward: (S, A) known rewards, for an environment without a transition table.
        horizon: Steps in an episode, where the environment does not declare them.
        reward_range: Declared range of rewards, for environments that are not ours.
        certify: Keep a certificate of every episode.
        compiled: Use compiled loops (the extra `fast`) wherever there are some, or nowhere; by default where one seed
            alone would take about a second.
        measure_regret: Whether to measure exact regret where P is known; a number k measures the episodes 1, k + 1,
            2k + 1, …, and False leaves regret out and does not compute V*.
        reward_outside: What is done about a reward outside the declared range: "error" or "clip", as in `Agent`.
        allowed: Allowed actions of numbered states, as a table (S, A) or a function of the state, as in `Agent`.
        stage_dependent: Whether laws and rewards differ between stages, as in `Agent`.
        discount: Factor γ of each step, as in `Agent`.
        accuracy: Accuracy of a horizon that the discount chooses, as in `Agent`.
        start: First state, or distribution of first states, of an environment that does not declare it, as in `Agent`.
        trust_code: Whether names may import code (``package.module:Name``, ``gym:module:ID``).
        progress: Show progress on standard error: a bar, or lines if it is not a terminal.
        blas_threads: Threads of the linear algebra; None leaves them unchanged.
        settings: Settings of an agent given by name (preset, set, radius, exploration, …).

    >>> result = run_seeds("river-swim", n_episodes=20, seeds=4, preset="tuned")
    >>> result.regret.shape, result.settings["exploration"]
    ((4, 20), 0.3)
    """
    runs = SeedRuns(
        env,
        n_episodes=n_episodes,
        seeds=listed_seeds(seeds),
        agent=agent,
        settings=settings,
        env_settings=env_settings,
        trust_code=trust_code,
        phi=phi,
        psi=psi,
        psi_pinv=psi_pinv,
        reward=reward,
        horizon=horizon,
        reward_range=reward_range,
        measure_regret=measure_regret,
        reward_outside=reward_outside,
        allowed=allowed,
        stage_dependent=stage_dependent,
        discount=discount,
        accuracy=accuracy,
        start=start,
        certify=certify,
        compiled=compiled,
    )
    return runs.run(progress=progress, blas_threads=blas_threads)
