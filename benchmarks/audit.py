"""Audit: does matrixrl ever say "proven" beside a false number?

python benchmarks/audit.py coverage [--runs 200] [--problem NAME ...]   problems that are hard to cover, at δ = 0.5
python benchmarks/audit.py agents [--agents 2000] [--only SEED]         random problems and settings, at δ = 1e-4
python benchmarks/audit.py all                                          both

`coverage` counts the runs in which any proven claim (certificate, recommend, greedy, compare) is false at any
checkpoint; the share must not exceed δ. `agents` allows no false claim at all: also no false alarm, no regret above its
bound, no policy with a forbidden action, no file that cannot be loaded, and no exception but those of the library. The
truth is computed by `audit_worlds.py`, not by matrixrl. `--only SEED` repeats one run and prints its settings, `--jobs`
starts worker processes (1 by default), `--out DIR` writes the tables as CSV and JSON. The status is 1 if a claim fails.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import beta as beta_law

from audit_worlds import World, WorldEnv, simple_world
from matrixrl import Agent, InvalidInput, MatrixRL, MatrixRLError

COVERAGE_DELTA, AGENT_DELTA = 0.5, 1e-4
LIMITS = {
    "certificate": 1.0,
    "recommend": 1.0,
    "greedy": 1.0,
    "compare": 1.0,
    "alarm": 1.0,
    "regret": 2.0,
    "bound": 2.0,
}
"""Claims, and how often they may be false in multiples of δ; the first four are false together at most that often."""
NEVER = ("forbidden", "load", "exception")
Found = tuple[str, str]  # kind of a failure, and words
Choose = Callable[[int, int, int], int]  # stage, state, advice → action
Deed = Callable[["Run", int], None]


class Run:
    """One agent, the world that it learns, and what was really played.

    Args:
        world: The world.
        seed: Seed of the world and of the agent.
        how: What the agent is given: "task", "mdp" or "env".
        settings: Arguments of the agent; `known_reward` says whether rewards are given.
    """

    def __init__(self, world: World, seed: int, how: str = "task", **settings: Any) -> None:
        self.world, self.how, self.rng = world, how, np.random.default_rng([seed, 1])
        self.settings = {"compiled": False, "known_reward": True, "seed": seed, **settings}
        self.env = WorldEnv(world) if how == "env" else None
        options = world.env_options(self.settings["known_reward"]) if how == "env" else {}
        if "keep_data" in settings:
            self.agent = Agent(self._problem(), "doubling-matrix-rl", **self.settings, **options)
        else:
            self.agent = MatrixRL(self._problem(), **self.settings, **options)
        self.paths: list[list[tuple[int, int]]] = []  # states and actions of the episodes of this agent
        self.exact: float | None = None  # regret, where every policy that was played is known
        self.luck = np.zeros((world.n_states, world.n_actions))  # outcomes so far, less their mean
        self.pairs: list[tuple[Any, Any]] = []  # policies to compare besides those of the agent
        self.found: list[Found] = []
        self.deeds: list[str] = []
        self.proven = self.n_logs = 0

    def _problem(self) -> Any:
        known = self.settings["known_reward"]
        return self.env or (self.world.mdp() if self.how == "mdp" else self.world.task(known))

    def words(self) -> str:
        """Return the world, the settings and what was done, in words."""
        shown = {name: value for name, value in self.settings.items() if name != "phi"}
        d = f" d={self.settings['phi'].shape[2]}" if "phi" in self.settings else ""
        return f"{self.how} {self.world.words()}{d} {shown} {self.deeds}"

    def step(self, h: int, s: int, a: int) -> tuple[float, int, bool, bool]:
        """Let the world answer, and note whether that was lucky."""
        reward, following, ended, timed_out = self.world.step(self.rng, h, s, a)
        q, values = self.world.optimal
        self.luck[s, a] += reward + (0.0 if ended else self.world.discount * values[h + 1, following]) - q[h, s, a]
        return reward, following, ended, timed_out

    def lucky(self, h: int, s: int, advice: int) -> int:
        """Choose the action that was luckiest so far."""
        del advice
        return int(np.where(self.world.allowed[h, s], self.luck[s], -np.inf).argmax())

    def at_random(self, h: int, s: int, advice: int) -> int:
        """Choose any allowed action."""
        del advice
        return int(self.rng.choice(np.flatnonzero(self.world.allowed[h, s])))

    def walk(self, choose: Choose | None = None, stops: bool = False, narrows: bool = False) -> Iterator[None]:
        """Play one episode in ask and tell, step by step.

        Args:
            choose: Who decides in place of the agent.
            stops: Whether the user ends the episode after the first unlucky step.
            narrows: Whether the user sometimes allows one action only.
        """
        s, path, timed_out = self.world.first(self.rng), [], False
        episode = self.agent.begin_episode()
        for h in range(self.world.horizon):
            only = [self.at_random(h, s, 0)] if narrows and self.rng.random() < 0.3 else None
            a = int(episode.act(s, allowed=only))
            if not self.world.allowed[h, s, a]:
                self.found.append(("forbidden", f"act({s}) at stage {h} answers {a}"))
                episode.abandon()
                return
            a = a if choose is None else choose(h, s, a)
            before = self.luck[s, a]
            reward, following, ended, timed_out = self.step(h, s, a)
            path.append((s, a))
            if timed_out:
                knows = self.agent.problem.task.knows_reward and self.settings.get("known_reward")
                episode.time_out(None if knows else 0.0)
                break
            episode.observe(s, a, reward, following, ended)
            if ended or (stops and self.luck[s, a] < before):
                break
            s = following
            yield
        if not timed_out:
            episode.end()
        self.paths.append(path)

    def play(self, n_episodes: int, **how: Any) -> None:
        """Play episodes one after the other."""
        for _ in range(n_episodes):
            for _ in self.walk(**how):
                pass

    def overlap(self, n_episodes: int) -> None:
        """Play episodes that are begun together, a step here and a step there."""
        live = [walk for walk in [self.walk() for _ in range(n_episodes)] if next(walk, self) is not self]
        while live:
            walk = live[int(self.rng.integers(len(live)))]
            if next(walk, self) is self:
                live.remove(walk)

    def learn(self, n_episodes: int) -> None:
        """Let the agent play by itself and certify every episode; its certificates bound V* on both sides."""

        def check(episode: Any) -> None:
            shown = episode.certificate
            if shown.guarantee:
                self._require("certificate", "upper", shown.upper, "V*", self.world.best)
                self._require("certificate", "V*", self.world.best, "lower", shown.optimal_interval[0])

        self.agent.learn(n_episodes, certify=True, callback=check)
        if self.env is not None:
            self.paths = self.env.paths
        else:
            self.exact = float(self.agent.history.cumulative_regret[-1])

    def log(
        self,
        n_episodes: int,
        choose: Choose | None = None,
        *,
        stops: bool = False,
        shuffled: bool = False,
        with_next: bool = True,
        first_number: int = 0,
        begins: tuple[int, int] = (0, 0),
        first_step: int | None = None,
    ) -> None:
        """Learn from a log of episodes that others played.

        Args:
            n_episodes: Number of episodes.
            choose: Who decided; chance by default.
            stops: Whether an episode is stopped after its first unlucky step.
            shuffled: Whether rows are in random order.
            with_next: Whether next states are recorded.
            first_number: Number of the first step.
            begins: Smallest and largest stage at which an episode begins.
            first_step: As in `learn_from`.
        """
        rows: list[tuple[Any, ...]] = []
        self.n_logs += 1
        for number in range(n_episodes):
            begin = int(self.rng.integers(begins[0], begins[1] + 1))
            s = int(self.rng.integers(self.world.n_states)) if begin else self.world.first(self.rng)
            for h in range(begin, self.world.horizon):
                a = (choose or self.at_random)(h, s, 0)
                before = self.luck[s, a]
                reward, following, ended, _ = self.step(h, s, a)
                rows.append((f"{self.n_logs}-{number}", h + first_number, s, a, reward, ended, following))
                if ended or (stops and self.luck[s, a] < before):
                    break
                s = following
        names = ("episode", "step", "state", "action", "reward", "terminated", *(["next_state"] if with_next else []))
        order = self.rng.permutation(len(rows)) if shuffled else np.arange(len(rows))
        columns = {name: [rows[i][k] for i in order] for k, name in enumerate(names)}
        # A log without next states may have nothing to learn from, and is refused then.
        with contextlib.suppress(*([] if with_next else [InvalidInput])):
            self.agent.learn_from(columns, verbose=False, first_step=first_step)

    def reload(self) -> None:
        """Save and load the agent; what it certifies must not change."""
        before = self.agent.certificate()
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/agent.mrl"
            self.agent.save(path)
            try:
                self.agent = type(self.agent).load(
                    path, None if self.how == "task" else self._problem(), compiled=False
                )
            except Exception as error:  # noqa: BLE001  # any error is a failure of the audit
                self.found.append(("load", f"{type(error).__name__}: {error}"))
                return
        after = self.agent.certificate()
        if not np.allclose([before.upper, before.lower], [after.upper, after.lower], rtol=1e-9, atol=1e-9):
            self.found.append(("load", f"the certificate changed: {before} → {after}"))

    def _require(self, kind: str, large: str, more: float, small: str, less: float) -> None:
        """Note a false claim unless more ≥ less, up to rounding."""
        if not more >= less - 1e-7 * (1.0 + self.world.most + abs(less)):
            words = f"{kind}: {large} {more:.6g} < {small} {less:.6g} after {self.agent.n_episodes} episodes"
            self.found.append((kind, words))

    def check(self) -> None:
        """Note every claim of the agent that is false now."""
        agent, world = self.agent, self.world
        known = self.env.seen if self.env is not None else np.ones(world.n_states, dtype=bool)
        policies = {"certificate": agent.policy, "recommend": agent.recommend(), "greedy": agent.greedy()}
        for kind, policy in policies.items():
            if wrong := world.n_forbidden(policy.table, known):
                self.found.append(("forbidden", f"{kind}: {wrong} entries of the policy are not allowed"))
            shown = agent.certificate() if kind == "certificate" else policy.certificate
            if shown.guarantee:
                self.proven += 1
                self._require(kind, "upper", shown.upper, "V*", world.best)
                self._require(kind, "V*", world.best, "lower", shown.optimal_interval[0])
                if not world.n_forbidden(policy.table):
                    self._require(kind, "V^π", world.value(policy.table), "lower", shown.lower)
        other = world.any_policy(self.rng, policies["greedy"].table.shape[1])
        for pair in [(policies["recommend"], other), (policies["greedy"].table, agent.policy), *self.pairs]:
            tables = [np.asarray(getattr(policy, "table", policy)) for policy in pair]
            if any(world.n_forbidden(table) for table in tables):
                continue
            shown = agent.compare(*pair)
            if shown.guarantee:
                values = [world.value(table) for table in tables]
                claims = [*zip(values, (shown.policy, shown.incumbent), strict=True)]
                for value, (low, high) in [*claims, (values[0] - values[1], (shown.lower, shown.upper))]:
                    self._require("compare", "value", value, "lower", low)
                    self._require("compare", "upper", high, "value", value)
        if (world.begins == world.start).all():  # else the declared start is false: an alarm is right
            if agent.n_episodes:
                self._check_regret()
            if agent.alarm is not None and "or the selection: " not in agent.alarm:
                self.found.append(("alarm", str(agent.alarm)))

    def _check_regret(self) -> None:
        """Compare the regret with its certificate and its bound; where it is random, a lower bound on it."""
        truth, most = self.exact, self.world.most
        if truth is None:  # E exp(tL) ≤ exp((e^t − 1) E L) for L in [0, 1]; each t fails with probability 1e-7
            lost = sum(self.world.lost(path) for path in self.paths) / most
            truth = most * max((t * lost - np.log(1e7)) / np.expm1(t) for t in (0.1, 0.5, 1.0))
        shown = self.agent.regret_certificate()
        if shown.guarantee:
            self._require("regret", "upper", shown.upper, "regret", truth)
        if hasattr(self.agent, "bound"):
            bound = self.agent.bound()
            total = bound.total if bound.guarantee else None
        else:
            explicit = self.agent.algorithm.claims.regret_bound(self.agent.n_episodes) if self.agent.guarantee else None
            total = None if explicit is None else explicit * (self.world.reward_range[1] - self.world.reward_range[0])
        if total is not None:
            self._require("bound", "bound", total, "regret", truth)


def scenario(seed: int, world: World, sizes: tuple[int, ...], deed: Deed, **options: Any) -> Iterator[Run]:
    """Yield the run of a problem of `coverage` at its checkpoints: after so many more episodes of a deed."""
    pairs = options.pop("pairs", [])
    run = Run(world, seed, **{"delta": COVERAGE_DELTA, **options})
    run.pairs = pairs
    for n in sizes:
        if n:
            deed(run, n)
        yield run


def logged(run: Run, n: int, **options: Any) -> None:
    """Learn from a log whose actions follow luck in every second run."""
    run.log(n, run.lucky if run.settings["seed"] % 2 else None, **options)


def rare(seed: int) -> Iterator[Run]:
    world = simple_world([[[0.999, 0.001], [0.998, 0.002]], [[0, 1], [0, 1]]], [[0, 0], [1, 1]], 2)
    return scenario(seed, world, (30, 100, 600), logged)


def coins(seed: int) -> Iterator[Run]:
    # every coin is compared with another one: the union over pairs is nearly exact here
    pairs = [(np.full((2, 2), a), np.full((2, 2), a + 1)) for a in range(0, 16, 2)]
    world = simple_world(np.full((1, 16, 1), 0.5), np.ones((1, 16)), 2)
    return scenario(seed, world, (60, 250, 1000), logged, pairs=pairs)


def ends_of_range(seed: int) -> Iterator[Run]:
    means = [[-0.98, 0.98, 0.0, -1.0], [1.0, 0.9, -0.9, 0.2]]
    world = simple_world(np.full((2, 4, 2), 0.5), means, 2, reward_range=(-1.0, 1.0), noise="ends")
    return scenario(seed, world, (5, 30, 200), partial(logged, stops=seed % 4 > 1), known_reward=False)


def luck(seed: int) -> Iterator[Run]:
    def deed(run: Run, n: int) -> None:
        run.play(n, choose=run.lucky if seed % 3 else None, stops=seed % 5 > 1)

    world = simple_world([[[0.5, 0.5], [0.6, 0.4]], [[0.5, 0.5], [0.9, 0.1]]], [[0, 0.1], [1, 0.9]], 2)
    return scenario(seed, world, (2, 6, 12), deed, preset=("optimistic", "tuned")[seed % 2])


def masks(seed: int) -> Iterator[Run]:
    laws = [[[0.7, 0.3], [0, 1], [0.5, 0.5]], [[0, 1], [0.4, 0.6], [0.6, 0.4]]]
    allowed = [[True, False, True], [False, True, True]]  # what is not allowed would pay most, or as much as the rest
    world = simple_world(laws, [[0.1, 1, 0], [0, 0, 0]], 2, allowed=allowed)
    return scenario(seed, world, (2, 10), Run.play, how=("task", "mdp")[seed % 2])


def late_masks(seed: int) -> Iterator[Run]:
    # until the second state is seen nothing seems to cost anything, whatever the law
    laws, allowed = [[[0.8, 0.2], [0.7, 0.3]], [[1, 0], [1, 0]]], [[True, True], [False, True]]
    world = simple_world(laws, [[0, 0], [0, -0.9]], 2, allowed=allowed, reward_range=(-1.0, 0.0))
    return scenario(seed, world, (0, 1, 4, 12), Run.learn, how="env")


def discounted(seed: int) -> Iterator[Run]:
    endless = {"endless": True, "accuracy": 0.9} if seed % 2 else {}
    laws, steps = [[[0.9, 0.1], [0.5, 0.5]], [[0, 1], [1, 0]]], 11 if endless else 8
    world = simple_world(laws, [[0.1, 0], [1, 0.8]], steps, discount=0.99, **endless)
    return scenario(seed, world, (3, 40), logged, set=("tightest", "normalised", "frobenius")[seed % 3])


def stages(seed: int) -> Iterator[Run]:
    rng, classes, how = np.random.default_rng(7), [1, 0, 1], ("task", "mdp")[seed // 2 % 2]
    laws, rewards = rng.dirichlet([0.5, 0.5], size=(2, 2, 2)), rng.random((2, 2, 2))
    world = simple_world(laws[classes], rewards[classes], 3, classes=tuple(classes), by_class=bool(seed % 4))
    return scenario(seed, world, (3, 40), partial(logged, shuffled=True, first_step=0), how=how)


def groups(seed: int) -> Iterator[Run]:
    phi, rng = np.eye(3)[np.array([[0, 1], [0, 2], [1, 2]])], np.random.default_rng(5)
    world = simple_world(phi @ rng.dirichlet(np.ones(3), size=3), phi @ [0.05, 0.5, 0.9], 3, noise="ends")
    return scenario(seed, world, (3, 40), logged, known_reward=False, phi=phi)


def linear(seed: int) -> Iterator[Run]:
    rng, kinds = np.random.default_rng(3), ("sandwich", "sandwich-or-ball", "normalised", "frobenius")
    phi = rng.dirichlet(np.full(2, 0.3), size=(4, 2))
    world = simple_world(phi @ rng.dirichlet(np.full(4, 0.3), size=2), phi @ [0.0, 1.0], 3)
    return scenario(seed, world, (5, 30, 150), logged, phi=phi, set=kinds[seed % 4])


def customers(seed: int, deed: Deed, start: list[float], *, declared: bool, how: str = "task", **of_world: Any) -> Any:
    """Return the run of two kinds of customers: what one kind pays has nothing to do with the other."""
    laws, rewards = [[[1, 0], [1, 0]], [[0, 1], [0, 1]]], [[0, 0.1], [1, 0.9]]
    world = simple_world(laws, rewards, 3, start=start, declares_start=declared, **of_world)
    return scenario(seed, world, (0, 1, 4, 16), deed, how=how)


def without_next(seed: int) -> Iterator[Run]:
    def deed(run: Run, n: int) -> None:  # logs of one step, the last one of an episode, which may terminate it
        for _ in range(n):
            run.log(1, with_next=False, begins=(1, 1), first_step=0)

    return scenario(seed, simple_world([[[0.5]]], [[1.0]], 2), (20, 40), deed)


def overlapping(seed: int) -> Iterator[Run]:
    world = simple_world([[[0.5, 0], [0.3, 0]], [[0, 1], [0, 1]]], [[0.2, 0.3], [0, 0]], 4)
    return scenario(seed, world, (3, 9), Run.overlap)


def timing_out(seed: int) -> Iterator[Run]:
    law = 0.8 * np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.1, 0.9]]])
    world = simple_world(law, [[0.1, 0.4], [0.7, 0.8]], 2, time_out=0.2)
    return scenario(seed, world, (2, 12), Run.play, known_reward=False)


def nobody_follows(seed: int) -> Iterator[Run]:
    def deed(run: Run, n: int) -> None:  # for so long that the regret bound says something
        run.play(n, choose=lambda *_: 0)
        run.exact = float(run.agent.n_episodes)

    world = simple_world([[[1.0], [1.0]]], [[0, 1]], 1)
    return scenario(seed, world, (100, 900), deed, delta=0.05, switch_growth=1.0)


BOTH, SECOND = [0.5, 0.5], [0.0, 1.0]
PROBLEMS: dict[str, Callable[[int], Iterator[Run]]] = {
    "rare transitions, p = 0.001": rare,
    "sixteen fair coins": coins,
    "rewards at the ends of the range": ends_of_range,
    "actions and stopping follow luck": luck,
    "declared masks": masks,
    "masks reported late": late_masks,
    "discount 0.99": discounted,
    "stages": stages,
    "groups, learned rewards": groups,
    "linear features": linear,
    "customers, declared": lambda seed: customers(seed, Run.play, BOTH, declared=True),
    "customers, not declared": lambda seed: customers(seed, Run.play, BOTH, declared=False),
    "customers, known P": lambda seed: customers(seed, Run.play, BOTH, declared=True, how="mdp"),
    "customers, log in random order": lambda seed: customers(
        seed, partial(Run.log, shuffled=True, first_step=0), BOTH, declared=bool(seed % 2)
    ),
    "user begins in the good state": lambda seed: customers(
        seed, Run.play, BOTH, declared=True, how=("task", "mdp")[seed % 2], begins=SECOND
    ),
    "certificate before the first episode": lambda seed: customers(seed, Run.play, SECOND, declared=False),
    "logs without next states": without_next,
    "overlapping episodes": overlapping,
    "time-outs": timing_out,
    "nobody follows the advice": nobody_follows,
}
FEWER = {"nobody follows the advice": 10}  # runs; nothing is random there


def random_world(rng: np.random.Generator) -> tuple[World, np.ndarray | None, bool]:
    """Return a random world, features φ of its pairs (None for one-hot), and whether rewards are known."""
    n_states, n_actions, d = (int(rng.integers(1, most)) for most in (5, 4, 4))
    horizon, known = int(rng.integers(1, 5)), bool(rng.random() < 0.6)
    classes: tuple[int, ...] | None = None
    if horizon > 1 and rng.random() < 0.3:
        classes = tuple(range(horizon)) if rng.random() < 0.4 else tuple(int(c) for c in rng.integers(0, 2, horizon))
        classes = classes if set(classes) == set(range(max(classes) + 1)) and len(set(classes)) > 1 else None
    kind = rng.choice(["pairs", "groups", "mixed"], p=[0.6, 0.2, 0.2])
    phi = np.eye(n_states * n_actions).reshape(n_states, n_actions, -1)
    if kind == "groups":
        phi = np.eye(d)[rng.integers(0, d, (n_states, n_actions))]
    elif kind == "mixed":
        phi = rng.dirichlet(np.full(d, 0.4), size=(n_states, n_actions))
    low, high = reward_range = ((0.0, 1.0), (-1.0, 1.0), (0.0, 20.0), (-3.0, 0.5))[int(rng.integers(4))]
    ends, time_out = bool(rng.random() < 0.4), 0.0
    laws, rewards = [], []
    for _ in range(1 if classes is None else max(classes) + 1):
        core = rng.dirichlet(np.full(n_states + ends, rng.choice([0.05, 0.4, 2.0])), size=phi.shape[2])
        means = rng.choice([0.0, 1.0, *rng.random(3)], size=phi.shape[2] if not known else (n_states, n_actions))
        laws.append((phi @ core)[..., :n_states])
        rewards.append(low + (high - low) * (means if known else np.clip(phi @ means, 0.0, 1.0)))
    of_stage = [0] * horizon if classes is None else list(classes)
    if ends and not known and low <= 0.0 and rng.random() < 0.3:
        time_out = 0.2
        laws, rewards = [0.8 * law for law in laws], [0.8 * reward for reward in rewards]
    start = rng.dirichlet(np.ones(n_states)) if rng.random() < 0.4 else np.eye(n_states)[int(rng.integers(n_states))]
    options: dict[str, Any] = {"discount": float(rng.choice([1.0, 0.99, 0.7], p=[0.6, 0.2, 0.2]))}
    if options["discount"] == 0.7 and classes is None and rng.random() < 0.5:
        options |= {"endless": True, "accuracy": 0.2}
        of_stage = [0] * 5  # the smallest H with 0.7^H ≤ 0.2
    if rng.random() < 0.35:
        allowed = rng.random((len(laws), n_states, n_actions)) < 0.6
        allowed[..., 0] |= ~allowed.any(axis=2)
        options["allowed"] = allowed[of_stage]
    if rng.random() < 0.1:
        options["begins"] = np.where(start > 0, rng.random(n_states), 0.0)
        options["begins"] /= options["begins"].sum()
    world = simple_world(
        np.array(laws)[of_stage],
        np.array(rewards)[of_stage],
        len(of_stage),
        start=start,
        reward_range=reward_range,
        noise=str(rng.choice(["", "ends", "spread"])),
        classes=classes,
        by_class=bool(rng.random() < 0.5),
        declares_start="begins" in options or bool(rng.random() < 0.6),
        time_out=time_out,
        **options,
    )
    return world, None if kind == "pairs" else phi, known


BALLS = ("normalised", "frobenius", "column", "normalised-column", "frobenius-closed", "column-closed", "intersection")


def random_settings(rng: np.random.Generator, kind: str) -> dict[str, Any]:
    """Return random settings of an agent for features of a kind: "pairs", "groups" or "mixed"."""
    settings: dict[str, Any] = {"delta": AGENT_DELTA, "preset": str(rng.choice(["optimistic", "tuned"]))}
    counting = ("tightest", "value-targeted", "likelihood")
    chosen = str(rng.choice(["sandwich", "sandwich-or-ball", *BALLS]))
    settings["set"] = str(rng.choice(counting)) if kind != "mixed" and rng.random() < 0.5 else chosen
    if settings["set"] in BALLS and rng.random() < 0.4:
        settings["radius"] = str(rng.choice(["block", "self-normalised", "theorem", "log-det", "constant"]))
    if settings["set"] not in counting and rng.random() < 0.2:
        settings["ridge"] = float(rng.choice([0.1, 10.0]))
    for name, share, values in (
        ("exploration", 0.2, [0.3, 3.0]),
        ("ties", 0.3, ["random", "estimate"]),
        ("explore_for", 0.2, ["certificate"]),
        ("keep_data", 0.2, [True, False]),
        ("switch_growth", 0.3, [0.5, 3.0]),
        ("late_episodes", 0.1, ["learn"]),
    ):
        if rng.random() < share:
            settings[name] = values[int(rng.integers(len(values)))]
    return settings


def random_agent(seed: int) -> Iterator[Run]:
    """Play, overlap, override, log, save and load at random."""
    rng = np.random.default_rng([seed, 0])
    world, phi, known = random_world(rng)
    masked, moved = not world.allowed.all(), bool((world.begins != world.start).any())
    ways = ["task", "task"] if world.time_out or moved else ["task", "task", "mdp", "env"]
    if masked and world.classes is not None:
        ways = ways[:3]  # an environment reports one mask for each state
    how = str(rng.choice(ways)) if world.declares_start else str(rng.choice(["task", "env"][: 1 + ("env" in ways)]))
    kind = "pairs" if phi is None else "groups" if set(np.unique(phi)) <= {0.0, 1.0} else "mixed"
    settings = random_settings(rng, kind) | ({} if phi is None else {"phi": phi})
    settings["compiled"] = bool(seed % 20 == 0)
    run = Run(world, seed, how, known_reward=known, **settings)
    yield run
    deeds = ["play", "play", "override", "luck", "stop", "narrow", "overlap", "log", "reload"]
    for deed in rng.permutation(deeds)[:5] if how == "task" else ["learn", "reload", "log", "learn", "override"]:
        run.deeds.append(deed := str(deed))
        few = int(rng.integers(1, 5))
        if deed == "log" and not world.time_out and settings.get("keep_data", True):
            number, begin = int(rng.integers(2)), int(rng.integers(world.horizon)) if rng.random() < 0.3 else 0
            options: dict[str, Any] = {"first_number": number, "begins": (0, begin), "stops": bool(rng.random() < 0.3)}
            options |= {"first_step": number if world.classes is not None or rng.random() < 0.5 else None}
            options |= {"shuffled": bool(rng.random() < 0.5), "with_next": bool(rng.random() < 0.7)}
            run.log(int(rng.integers(1, 60)), run.lucky if rng.random() < 0.5 else None, **options)
        elif deed == "reload":
            run.reload()
        elif deed == "learn":
            run.learn(few)
        elif deed == "overlap":
            run.overlap(few)
        elif run.env is None and how == "task":
            choose = {"override": run.at_random, "luck": run.lucky}.get(deed)
            run.play(few, choose=choose, stops=deed == "stop", narrows=deed == "narrow")
        yield run


@dataclass
class Outcome:
    """What one run showed."""

    problem: str
    seed: int
    failures: list[Found] = field(default_factory=list)
    refused: str | None = None
    proven: int = 0
    delta: float = AGENT_DELTA
    settings: str = ""
    seconds: float = 0.0


def audit(problem: str, seed: int) -> Outcome:
    """Run one problem of `PROBLEMS`, or a random agent (the problem "agents"), and collect what is false."""
    made, run, started = Outcome(problem, seed), None, time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for run in (random_agent if problem == "agents" else PROBLEMS[problem])(seed):
                run.check()
        except MatrixRLError as error:
            made.refused = f"{type(error).__name__}: {error}"
        except Exception as error:  # noqa: BLE001  # likewise
            place = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            made.failures.append(("exception", words))
    made.seconds = time.process_time() - started
    if run is not None:
        made.failures += dict.fromkeys(run.found)
        made.proven, made.settings, made.delta = run.proven, run.words(), run.settings["delta"]
    return made


def audit_job(job: tuple[str, int]) -> Outcome:
    """Run one job, in any process."""
    return audit(*job)


def audit_all(jobs: list[tuple[str, int]], n_workers: int = 1) -> list[Outcome]:
    """Run all jobs, in worker processes if there are to be several."""
    console = Console(stderr=True)
    if n_workers == 1:
        return [audit_job(job) for job in track(jobs, "audit", console=console)]
    with ProcessPoolExecutor(n_workers) as pool:
        return list(track(pool.map(audit_job, jobs, chunksize=4), "audit", total=len(jobs), console=console))


def interval(failures: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson of a share."""
    tail = (1.0 - level) / 2
    low = beta_law.ppf(tail, failures, runs - failures + 1) if failures else 0.0
    high = beta_law.ppf(1.0 - tail, failures + 1, runs - failures) if failures < runs else 1.0
    return float(low), float(high)


def table_of(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return one row for each problem: shares of the runs in which claims were false, and whether that is allowed."""
    rows = []
    for name in dict.fromkeys(made.problem for made in outcomes):
        mine = [made for made in outcomes if made.problem == name]
        n, delta, kinds = len(mine), mine[-1].delta, [{kind for kind, _ in made.failures} for made in mine]
        counts = Counter(kind for found in kinds for kind in found)
        false = sum(bool(found & set(list(LIMITS)[:4])) for found in kinds)
        shares = {"any": false / n, **{kind: counts[kind] / n for kind in LIMITS}}
        # At most n·δ of the runs of a problem, and none of the random agents, whose δ is below 1/n.
        holds = all(share <= LIMITS.get(kind, 1.0) * delta for kind, share in shares.items())
        low, high = interval(false, n)
        row = {
            "problem": name,
            "runs": n,
            "δ": delta,
            "false": false,
            "share (95 %)": f"{false / n:.3f} ({low:.3f} to {high:.3f})",
            "proven": sum(made.proven > 0 for made in mine),
            "refused": sum(made.refused is not None for made in mine),
            "s": round(sum(made.seconds for made in mine), 1),
            "holds": holds and not any(counts[kind] for kind in NEVER),
            "kinds": dict(counts),
            "seeds": [made.seed for made in mine if made.failures],
            "examples": list({kind: words for made in mine for kind, words in made.failures}.values()),
            "refusals": [
                f"{n} × {w}" for w, n in Counter(str(m.refused)[:90] for m in mine if m.refused).most_common(9)
            ],
        }
        rows.append(row)
    return rows


DETAILS = ("kinds", "seeds", "examples", "refusals")


def show(rows: list[dict[str, Any]], console: Console) -> None:
    """Print the table, and details of the rows in which something was false or refused."""
    table = Table("problem", *(name for name in rows[0] if name not in ("problem", *DETAILS)))
    for row in rows:
        cells = [str(value) for name, value in row.items() if name not in DETAILS]
        table.add_row(*cells, style=None if row["holds"] else "bold red")
    console.print(table)
    for row in rows:
        for words in [row["kinds"], *row["examples"], *row["refusals"]] if row["kinds"] or row["refusals"] else []:
            console.print(f"{row['problem']}: {words}", highlight=False, markup=False, soft_wrap=True)


def main(arguments: list[str] | None = None) -> int:
    """Run the audit and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["coverage", "agents", "all"])
    parser.add_argument("--runs", type=int, default=200, help="runs of each problem of coverage")
    parser.add_argument("--agents", type=int, default=2000, help="number of random agents")
    parser.add_argument("--problem", nargs="+", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--only", type=int, help="repeat this seed and print everything")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--out", type=Path, help="directory of audit.csv and audit.json")
    chosen = parser.parse_args(arguments)
    jobs: list[tuple[str, int]] = []
    for name in [*chosen.problem] * (chosen.part != "agents") + ["agents"] * (chosen.part != "coverage"):
        runs = chosen.agents if name == "agents" else min(chosen.runs, FEWER.get(name, chosen.runs))
        seeds = range(chosen.first, chosen.first + runs) if chosen.only is None else [chosen.only]
        jobs += [(name, seed) for seed in seeds]
    outcomes, console = audit_all(jobs, chosen.jobs), Console()
    for made in outcomes:
        if chosen.only is not None or (made.problem == "agents" and made.failures):
            lines = [*(words for _, words in made.failures), *([f"refused: {made.refused}"] if made.refused else [])]
            words = "\n    ".join([f"{made.problem}, seed {made.seed}: {made.settings}", *lines])
            console.print(words, highlight=False, markup=False, soft_wrap=True)
    rows = table_of(outcomes)
    show(rows, console)
    if chosen.out is not None:
        chosen.out.mkdir(parents=True, exist_ok=True)
        (chosen.out / "audit.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
        with (chosen.out / "audit.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return 0 if all(row["holds"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
