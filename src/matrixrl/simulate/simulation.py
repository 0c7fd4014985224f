"""Many seeds of one agent on one known MDP, simulated side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding as gym_seeding
from threadpoolctl import threadpool_limits

from matrixrl.agents import ColumnEngine, MatrixRLEngine
from matrixrl.checks import choice, fail, integer
from matrixrl.core.compiled import to_compile
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.problems import FiniteMDP, RegretEvaluator, draw_start
from matrixrl.progress import EpisodeProgress
from matrixrl.records import BoolArray, Certificate, FloatArray, IntArray
from matrixrl.seeding import restore, seed_list, state_of, stream_seed
from matrixrl.simulate.arguments import checked_seeds, read_world
from matrixrl.simulate.compiled_play import CompiledPlay, why_not_compiled
from matrixrl.simulate.players import agent_names, make_player
from matrixrl.simulate.results import RunResult

__all__ = ["Simulation", "run_seeds"]

_PATIENCE = 0.05  # seconds that an interrupt waits for compiled episodes


class Simulation:
    """Independent replicas of one agent, one for each seed, advancing episode by episode.

    Every replica plays exactly as `MatrixRL(env, seed=seed, n_episodes=N).learn(N)` would; running them together
    only turns matrix-vector products into matrix-matrix products.

    Args:
        env: a short name, a Gymnasium environment with a known MDP, or a `FiniteMDP`.
        env_settings: for an environment given by name.
        agent: name of the agent.
        settings: of the agent; `n_episodes` is filled in.
        n_episodes: N.
        seeds: one for each replica.
        certify: keep a certificate of every episode (costs two more backups each).
        window: the episodes, counted from 0, that this object will play and remember; all by default. One that does
            not begin at 0 needs `restore_simulation` first.
        compiled: use compiled loops (the extra `fast`) wherever there are some, or nowhere; by default where one seed
            alone would take about a second. Whole episodes of matrix-rl with one-hot features are compiled, and its
            plans with others. They draw the same numbers and differ in the rounding of sums only.
        measure_regret: False leaves regret out (NaN) and saves an exact evaluation of every policy.
    """

    def __init__(
        self,
        env: str | gym.Env[Any, Any] | FiniteMDP,
        *,
        n_episodes: int,
        seeds: Sequence[int],
        agent: str = "matrix-rl",
        settings: dict[str, Any] | None = None,
        env_settings: dict[str, Any] | None = None,
        certify: bool = False,
        window: range | None = None,
        compiled: bool | None = None,
        measure_regret: bool = True,
    ) -> None:
        self.total = integer("n_episodes", n_episodes, low=1, remedy="Ask for at least one episode.")
        self.seeds = checked_seeds(seeds)
        self.agent = choice("agent", agent, agent_names())
        self.env_settings = dict(env_settings or {})
        self.env_name, self.mdp, points = read_world(env, self.env_settings)
        chosen = {"n_episodes": self.total, **(settings or {})}
        self.player = make_player(self.agent, self.mdp.task, points, chosen, self.seeds)
        self.engine = self.player.engine
        self.features = self.player.features
        if certify and self.player.certifier is None:
            fail("certify", f"must be left out for {agent}, which has no certificates", True, "Certify matrix-rl.")
        self.certify = certify
        self.window = range(self.total) if window is None else window
        self.judge = RegretEvaluator(self.mdp)
        if not isinstance(measure_regret, bool):
            fail("measure_regret", "must be true or false", repr(measure_regret), "Say which.")
        self.measure_regret = measure_regret
        self.loops = self._compile(compiled)
        """What plays whole episodes without leaving compiled code, where that fits."""
        shape = (len(self.seeds), len(self.window))
        self.regret: FloatArray = np.zeros(shape)
        self.returns: FloatArray = np.zeros(shape)
        self.upper: FloatArray = np.zeros(shape)
        self.alarms: BoolArray = np.zeros(shape, dtype=np.bool_)
        self.certified: FloatArray = np.full((*shape, 2), np.nan)
        self.alarmed: BoolArray = np.zeros(len(self.seeds), dtype=np.bool_)
        """(B,) whether the alarm was on in any episode so far, those before the window included."""
        self.clock: FloatArray = np.zeros(len(self.window))
        self.done = 0
        self.visited: tuple[IntArray, IntArray]
        """States and actions of the last stretch of episodes, each (B, n, H)."""
        self._stretch = 1
        self._is_prepared = not (isinstance(self.engine, MatrixRLEngine) and self.engine.compiled)
        self._streams = [gym_seeding.np_random(stream_seed(s, "env"))[0] for s in self.seeds]
        self._replica = np.arange(len(self.seeds))

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
            progress: draw a live bar on standard error.
            callback: called with the number of finished episodes after each of them; returning False stops.
            blas_threads: threads of the linear algebra; None leaves them alone.
            label: what the bar is called.
        """
        threads = nullcontext() if blas_threads is None else threadpool_limits(blas_threads)
        title = label or f"{self.agent} on {self.env_name}"
        total = self.window.stop - self.done
        with threads, EpisodeProgress(title, total, visible=progress) as bar:
            if not self._is_prepared:
                bar.advance("loading the compiled loops (the first time they are compiled: about 10 s)", 0)
                self._prepare()
            running = float(self.regret[:, : self.played].sum(axis=1).mean())
            while self.done < self.window.stop:
                began = self.played
                self.advance(1 if callback is not None else self._next_stretch())
                running += float(self.regret[:, began : self.played].sum(axis=1).mean())
                bar.advance(f"regret {running:,.1f}" if self.measure_regret else "", self.played - began)
                if callback is not None and callback(self.done) is False:
                    break
        return self.result()

    def _prepare(self) -> None:
        """Load what is compiled, once, so that neither clocks nor interrupts wait for it."""
        if self._is_prepared:
            return
        if self.loops is not None:
            self.loops.prepare()
        elif isinstance(self.engine, MatrixRLEngine) and self.engine.compiled:
            self.engine.plan(break_ties_at_random=False)  # changes nothing
        self._is_prepared = True

    def _next_stretch(self) -> int:
        """Return how many episodes to play before looking up: about a twentieth of a second of compiled ones."""
        if self.loops is not None and self.played > 0:
            per_episode = max(float(self.clock[self.played - 1]), 1e-9)
            self._stretch = int(min(max(_PATIENCE / per_episode, 1), 4 * self._stretch))
        return self._stretch

    def _compile(self, wanted: bool | None) -> CompiledPlay | None:
        """Tell the engine whether to compile its plans; return the loops that play whole episodes, where they fit."""
        engine, mdp = self.engine, self.mdp
        if not isinstance(engine, MatrixRLEngine):
            if wanted:
                which = f"{self.agent} with sampled columns" if isinstance(engine, ColumnEngine) else self.agent
                fail("compiled", "must be left out for an agent without compiled loops", which, "Leave it out.")
            return None
        n_pairs = mdp.n_states * mdp.n_actions
        wanted = to_compile(wanted, n_episodes=self.total, horizon=mdp.horizon, n_pairs=n_pairs)
        engine.compiled = wanted
        if not wanted or why_not_compiled(mdp, engine, self.total) is not None:
            return None
        optimal_value = self.judge.optimal_value if self.measure_regret else None
        return CompiledPlay(mdp, engine, optimal_value, certify=self.certify)

    @property
    def played(self) -> int:
        """How many episodes of the window were played."""
        return self.done - self.window.start

    @property
    def seconds(self) -> float:
        """Wall time of the episodes played."""
        return float(self.clock.sum())

    def advance(self, count: int) -> None:
        """Play `count` episodes in every replica, or all that are left; what is interrupted leaves no trace.

        One episode at a time, or all of them as one stretch where they are compiled: then a stretch is what an
        interrupt waits for.

        Args:
            count: at least 1.
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
        if self.loops is not None:
            self._prepare()
            self._undoing(lambda: self._play_compiled(count))
            return
        visited = []
        for _ in range(count):
            self._undoing(self._play_one)
            visited.append(self.visited)
        states, actions = zip(*visited, strict=True)
        self.visited = np.concatenate(states, axis=1), np.concatenate(actions, axis=1)

    def step(self) -> None:
        """Play one episode in every replica; one that is interrupted leaves no trace."""
        self.advance(1)

    def _undoing(self, play: Callable[[], None]) -> None:
        """Play; if nothing was learned because of an interrupt or an error, put the random streams back."""
        done, streams, planning = self.done, self.env_states(), self.engine.planning_state()
        try:
            play()
        except BaseException:
            if self.engine.episode == done:
                self.engine.restore_planning(planning)
                self.restore_env_states(streams)
            raise

    def env_states(self) -> list[dict[str, Any]]:
        """Return the state of the world's stream of every replica."""
        return [state_of(stream) for stream in self._streams]

    def restore_env_states(self, states: Sequence[object]) -> None:
        """Take back what `env_states` returned."""
        for stream, state in zip(self._streams, states, strict=True):
            restore(stream, state)

    def _play_compiled(self, count: int) -> None:
        assert self.loops is not None
        assert isinstance(self.engine, MatrixRLEngine)
        started = time.perf_counter()
        with uninterrupted():
            played = self.loops.play(self.engine.tie_streams, self._streams, count)
            now = slice(self.played, self.played + count)
            self.regret[:, now] = played.regret
            self.returns[:, now] = played.returns
            self.upper[:, now] = played.upper
            self.certified[:, now] = played.certified
            self.visited = played.states, played.actions
            self.done += count
            self.clock[now] = (time.perf_counter() - started) / count

    def _play_one(self) -> None:
        started = time.perf_counter()
        task, engine = self.mdp.task, self.engine
        plan = engine.next_plan()
        n_replicas, horizon = len(self.seeds), task.horizon
        uniforms = np.stack([stream.random(self.mdp.draws_per_episode) for stream in self._streams])
        states = np.empty((n_replicas, horizon + 1), dtype=np.int64)
        actions = np.empty((n_replicas, horizon), dtype=np.int64)
        states[:, 0] = draw_start(task.start, uniforms[:, 0])
        for h in range(horizon):
            actions[:, h] = plan.policy[self._replica, h, states[:, h]]
            states[:, h + 1] = self.mdp.transitions.sample(states[:, h], actions[:, h], uniforms[:, h + 1])
        before, after = states[:, :-1], states[:, 1:]
        weights = np.ones(before.shape)
        if task.end_state is not None:  # steps after the end were not taken
            weights = (before != task.end_state).astype(np.float64)
        coins = uniforms[:, horizon + 1 :] if self.mdp.noisy_rewards else uniforms[:, 1:]
        rewards = self.mdp.earn(before, actions, coins) * weights
        self.visited = before[:, None], actions[:, None]
        n = self.played
        if self.certify:
            assert self.player.certifier is not None
            upper, lower, _ = self.player.certifier.certify(plan)
            self.certified[:, n] = np.stack([lower, upper], axis=1)
        regret = self.judge.regret(plan.policy) if self.measure_regret else np.full(n_replicas, np.nan)
        upper = engine.upper(plan)
        with uninterrupted():
            engine.update(before, actions, after, weights, rewards)
            self.regret[:, n] = regret
            self.returns[:, n] = rewards.sum(axis=1)
            self.upper[:, n] = upper
            self.alarms[:, n] = plan.empty > 0
            self.alarmed |= self.alarms[:, n]
            self.done += 1
            self.clock[n] = time.perf_counter() - started

    def result(self) -> RunResult:
        """Return what was played so far."""
        n = self.played
        features = self.features
        return RunResult(
            env=self.env_name,
            env_settings=self.env_settings,
            agent=self.agent,
            settings=self.player.settings,
            horizon=self.mdp.horizon,
            sizes={
                "n_states": self.mdp.n_states,
                "n_actions": self.mdp.n_actions,
                "d": features.phi.d,
                "d_psi": features.psi.d_psi,
            },
            seeds=self.seeds,
            optimal_value=self.judge.optimal_value,
            earns_from_zero=self.mdp.task.reward_range[0] >= 0.0,
            regret=self.regret[:, :n].copy(),
            returns=self.returns[:, :n].copy(),
            upper=self.upper[:, :n].copy(),
            alarms=self.alarms[:, :n].copy(),
            certified=self.certified[:, :n].copy(),
            certificate=self._final_certificates(),
            plans=[int(count) for count in self.engine.plans],
            settings_guarantee=self.engine.guarantee,
            seconds=self.seconds,
            interrupted=n < len(self.window),
        )

    def _final_certificates(self) -> list[Certificate]:
        """Return, for each seed, the certificate of the policy that all its data advise; none for a baseline."""
        certifier = self.player.certifier
        if certifier is None:
            return []
        if self.loops is not None:
            upper, lower = self.loops.certify_advice()
            empty = np.zeros(len(self.seeds), dtype=np.int64)
        else:
            upper, lower, empty = certifier.certify(certifier.plan(break_ties_at_random=False))
        found = []
        for b in range(len(self.seeds)):
            alarmed = bool(empty[b]) or bool(self.alarmed[b])
            words = certifier.certificate_guarantee(alarmed)
            found.append(Certificate(float(upper[b]), float(lower[b]), self.player.delta, words))
        return found


def run_seeds(
    env: str | gym.Env[Any, Any] | FiniteMDP,
    *,
    n_episodes: int,
    seeds: int | Sequence[int] = 8,
    progress: bool = False,
    blas_threads: int | None = 1,
    env_settings: dict[str, Any] | None = None,
    agent: str = "matrix-rl",
    certify: bool = False,
    compiled: bool | None = None,
    **settings: Any,
) -> RunResult:
    """Run many seeds of an agent on a known MDP and return regret, returns and bounds.

    Args:
        env: a short name ("river-swim", "gym:FrozenLake-v1"), an environment with a known MDP, a `FiniteMDP`.
        n_episodes: N.
        seeds: how many (they are 0, 1, 2, …), or the list of them.
        progress: draw a live bar.
        blas_threads: threads of the linear algebra; None leaves them alone.
        env_settings: for an environment given by name.
        agent: name of the agent.
        certify: keep a certificate of every episode.
        compiled: use compiled loops (the extra `fast`) wherever there are some, or nowhere; by default where one seed
            alone would take about a second.
        settings: of the agent (preset, set, radius, exploration, …).

    >>> result = run_seeds("river-swim", n_episodes=20, seeds=4, preset="practical")
    >>> result.regret.shape, result.settings["exploration"]
    ((4, 20), 0.05)
    """
    chosen = seeds if isinstance(seeds, Sequence) else seed_list(0, seeds)
    simulation = Simulation(
        env,
        n_episodes=n_episodes,
        seeds=chosen,
        agent=agent,
        settings=settings,
        env_settings=env_settings,
        certify=certify,
        compiled=compiled,
    )
    return simulation.run(progress=progress, blas_threads=blas_threads)
