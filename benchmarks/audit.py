"""Audit: does matrixrl ever say "proven" beside a false number?

python benchmarks/audit.py coverage [--runs 200] [--problem NAME ...]   problems that are hard to cover, at δ = 0.5
python benchmarks/audit.py agents [--agents 2000] [--only SEED]         random problems and settings, at δ = 1e-4
python benchmarks/audit.py all                                          both

`coverage` counts the runs in which any proven claim (certificate, recommend, greedy, compare) is false at any checkpoint;
the share must not exceed δ. `agents` allows no false claim at all: also no false alarm, no regret above its bound, no policy
with a forbidden action, no file that cannot be loaded, and no exception but those of the library. Values are computed by
`audit_worlds.py`, not by matrixrl. `--only SEED` repeats one run and prints its settings; `--jobs` starts worker processes
(1 by default); `--out DIR` writes tables as CSV and JSON. The status is 1 if anything is false.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import beta as beta_law

from audit_worlds import World, WorldEnv, simple_world
from matrixrl import MatrixRL, MatrixRLError

COVERAGE_DELTA, AGENT_DELTA = 0.5, 1e-4
DELTA_CLAIMS = ("certificate", "recommend", "greedy", "compare")  # hold together with probability 1 − δ
Found = tuple[str, str]  # kind of a failure, and words
Choose = Callable[[int, int, int], int]  # stage, state, advice → action


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
        self.known_reward = settings.get("known_reward", True)
        self.settings = settings = {"compiled": False, "known_reward": self.known_reward, "seed": seed, **settings}
        self.env = WorldEnv(world) if how == "env" else None
        self.agent = MatrixRL(self._problem(), **settings, **self._env_options())
        self.paths: list[list[tuple[int, int]]] = []  # states and actions of the episodes of this agent
        self.exact: float | None = None  # regret, where every policy that was played is known
        self.luck = np.zeros((world.n_states, world.n_actions))  # outcomes so far, less their mean
        self.pairs: list[tuple[np.ndarray, np.ndarray]] = []  # policies to compare besides those of the agent
        self.extra: list[Found] = []  # failures outside `check`
        self.deeds: list[str] = []
        self.proven = self.n_logs = 0

    def words(self) -> str:
        """Return the world, the settings and what was done, in words."""
        world, settings = self.world, {k: v for k, v in self.settings.items() if k != "phi"}
        shape = f"S={world.n_states} A={world.n_actions} H={world.horizon} γ={world.discount:g}"
        flags = [
            name for name in ("endless", "ends", "noisy", "classes", "by_class", "time_out") if getattr(world, name)
        ]
        flags += [] if world.allowed.all() else ["masks"]
        flags += [] if world.declares_start else ["start not declared"]
        flags += [f"start {world.start.round(3).tolist()}"]
        flags += [f"begins {world.begins.round(3).tolist()}"] if (world.begins != world.start).any() else []
        flags += [f"d={self.settings['phi'].shape[2]}"] if "phi" in self.settings else []
        return f"{self.how} {shape} {' '.join(flags)} {settings} {self.deeds}"

    def _problem(self) -> Any:
        if self.env is not None:
            return self.env
        return self.world.mdp() if self.how == "mdp" else self.world.task(self.known_reward)

    def _env_options(self) -> dict[str, Any]:
        if self.env is None:
            return {}
        options: dict[str, Any] = {"reward_range": self.world.reward_range, **self.world._timing()}
        options |= {"reward": self.world._tables(self.world.rewards)} if self.known_reward else {}
        return options if self.world.endless else {**options, "horizon": self.world.horizon}

    def step(self, h: int, s: int, a: int) -> tuple[float, int, bool, bool]:
        """Let the world answer, and note whether that was lucky."""
        reward, following, ended, timed_out = self.world.step(self.rng, h, s, a)
        q, values = self.world.optimal
        later = 0.0 if ended else self.world.discount * values[h + 1, following]
        self.luck[s, a] += reward + later - q[h, s, a]
        return reward, following, ended, timed_out

    def options(self, h: int, s: int) -> np.ndarray:
        """Return the allowed actions."""
        return np.flatnonzero(self.world.allowed[h, s])

    def lucky(self, h: int, s: int, advice: int) -> int:
        """Choose the action that was luckiest so far."""
        del advice
        allowed = self.options(h, s)
        return int(allowed[self.luck[s, allowed].argmax()])

    def at_random(self, h: int, s: int, advice: int) -> int:
        """Choose any allowed action."""
        del advice
        return int(self.rng.choice(self.options(h, s)))

    def walk(self, choose: Choose | None = None, stops: bool = False, narrows: bool = False) -> Iterator[None]:
        """Play one episode in ask and tell, step by step.

        Args:
            choose: Who decides in place of the agent.
            stops: Whether the user ends the episode after the first unlucky step.
            narrows: Whether the user sometimes allows one action only.
        """
        world, s, path = self.world, self.world.first(self.rng), []
        episode = self.agent.begin_episode()
        for h in range(world.horizon):
            only = [self.at_random(h, s, 0)] if narrows and self.rng.random() < 0.3 else None
            a = int(episode.act(s, allowed=only))
            assert world.allowed[h, s, a], f"forbidden action {a} in state {s}"
            a = a if choose is None else choose(h, s, a)
            before = self.luck[s, a]
            reward, following, ended, timed_out = self.step(h, s, a)
            path.append((s, a))
            if timed_out:
                episode.time_out()
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

    def overlap(self, n_episodes: int, **how: Any) -> None:
        """Play episodes that are open together, a step here and a step there, in an order that chance decides."""
        live = [self.walk(**how) for _ in range(n_episodes)]
        for walk in live[:]:
            if next(walk, self) is self:
                live.remove(walk)
        while live:
            walk = live[int(self.rng.integers(len(live)))]
            if next(walk, self) is self:
                live.remove(walk)

    def learn(self, n_episodes: int) -> None:
        """Let the agent play by itself, in its environment or in the known problem."""
        self.agent.learn(n_episodes)
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
        latest_begin: int = 0,
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
            latest_begin: Largest stage at which an episode may begin.
            first_step: As in `learn_from`.
        """
        names = ("episode", "step", "state", "action", "reward", "next_state", "terminated")
        rows: list[tuple[Any, ...]] = []
        self.n_logs += 1
        for number in range(n_episodes):
            begin = int(self.rng.integers(latest_begin + 1))
            s = self.world.first(self.rng) if begin == 0 else int(self.rng.integers(self.world.n_states))
            for h in range(begin, self.world.horizon):
                a = (choose or self.at_random)(h, s, 0)
                before = self.luck[s, a]
                reward, following, ended, _ = self.step(h, s, a)
                rows.append((f"{self.n_logs}-{number}", h + first_number, s, a, reward, following, ended))
                if ended or (stops and self.luck[s, a] < before):
                    break
                s = following
        if shuffled:
            rows = [rows[i] for i in self.rng.permutation(len(rows))]
        columns = {name: [row[i] for row in rows] for i, name in enumerate(names) if with_next or name != "next_state"}
        self.agent.learn_from(columns, verbose=False, first_step=first_step)

    def reload(self) -> list[Found]:
        """Save and load the agent; what it certifies must not change."""
        before = self.agent.certificate()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "agent.mrl")
            self.agent.save(path)
            try:
                self.agent = MatrixRL.load(path, self._problem() if self.how != "task" else None, compiled=False)
            except Exception as error:
                return [("load", f"{type(error).__name__}: {error}")]
        after = self.agent.certificate()
        pairs = [(before.upper, after.upper), (before.lower, after.lower)]
        same = np.allclose(*zip(*pairs, strict=True), rtol=1e-9, atol=1e-9) and before.guarantee == after.guarantee
        return [] if same else [("load", f"certificate changed: {before} → {after}")]

    def check(self) -> list[Found]:
        """Return every claim of the agent that is false now."""
        return [found for found in self._claims() if found is not None]

    def _claims(self) -> Iterator[Found | None]:
        agent, world = self.agent, self.world
        known = np.ones(world.n_states, dtype=bool) if self.env is None or world.allowed.all() else self.env.seen
        policies = {"certificate": agent.policy, "recommend": agent.recommend(), "greedy": agent.greedy()}
        for kind, policy in policies.items():
            wrong = world.forbidden(policy.table, known)
            yield ("forbidden", f"{kind}: {wrong} entries of the policy are not allowed") if wrong else None
            shown = agent.certificate() if kind == "certificate" else policy.certificate
            if shown.guarantee is True:
                self.proven += 1
                yield self._above(kind, "upper", shown.upper, "V*", world.best)
                yield self._above(kind, "V*", world.best, "optimal_lower", shown.optimal_interval[0])
                if not world.forbidden(policy.table, np.ones_like(known)):
                    yield self._above(kind, "V^π", world.value(policy.table), "lower", shown.lower)
        width = policies["greedy"].table.shape[1]
        own = [(policies["recommend"], self.any_policy(width)), (policies["greedy"].table, agent.policy)]
        for one, other in own + self.pairs:
            try:
                shown = agent.compare(one, other)
            except MatrixRLError as error:
                if known.all() or "allow" not in str(error):
                    yield "forbidden", f"compare refuses a policy of the agent: {error}"
                continue
            if shown.guarantee is True:
                yield from self._compared(shown, one, other)
        yield from self._regrets()
        yield ("alarm", str(agent.alarm)) if agent.alarm is not None else None

    def _compared(self, shown: Any, one: Any, other: Any) -> Iterator[Found | None]:
        values = [self.world.value(getattr(policy, "table", policy)) for policy in (one, other)]
        for value, (low, high) in zip(values, (shown.policy, shown.incumbent), strict=True):
            yield self._above("compare", "V^π", value, "lower", low)
            yield self._above("compare", "upper", high, "V^π", value)
        yield self._above("compare", "difference", values[0] - values[1], "lower", shown.lower)
        yield self._above("compare", "upper", shown.upper, "difference", values[0] - values[1])

    def any_policy(self, width: int) -> np.ndarray:
        """Return a random policy of allowed actions: a table (H, width), or probabilities (H, width, A)."""
        world = self.world
        chances = self.rng.random((world.horizon, width, world.n_actions)) + 1e-3
        chances[:, : world.n_states] *= world.allowed
        if self.rng.random() < 0.5:
            return chances.argmax(axis=2)
        return chances / chances.sum(axis=2, keepdims=True)

    def _regrets(self) -> Iterator[Found | None]:
        """Compare the regret with its certificate and its bound; where it is random, with a lower bound on it."""
        n, world, truth = self.agent.n_episodes, self.world, self.exact
        if n == 0 or (world.begins != world.start).any():
            return
        if truth is None:  # E exp(λL) ≤ exp((e^λ − 1) E L) for L in [0, 1]; each λ fails with probability 1e-7
            lost = sum(world.lost(path) for path in self.paths) / world.most
            truth = world.most * max((t * lost - np.log(1e7)) / np.expm1(t) for t in (0.1, 0.5, 1.0))
        shown = self.agent.regret_certificate()
        if shown.guarantee is True:
            yield self._above("regret", "upper", shown.upper, "regret", truth)
        if hasattr(self.agent, "bound"):
            bound = self.agent.bound()
            if bound.guarantee is True:
                yield self._above("bound", "bound", bound.upper, "regret", truth)
        elif self.agent.guarantee is True:
            unit = world.reward_range[1] - world.reward_range[0]
            explicit = self.agent.algorithm.regret_bound(n)
            if explicit is not None:
                yield self._above("bound", "bound", unit * explicit, "regret", truth)

    def _above(self, kind: str, large: str, more: float, small: str, less: float) -> Found | None:
        """Return the failure of a claim more ≥ less, or None."""
        if more >= less - 1e-7 * (1.0 + self.world.most + abs(less)):
            return None
        return kind, f"{kind}: {large} {more:.6g} < {small} {less:.6g} after {self.agent.n_episodes} episodes"


# The problems of `coverage`: generators that yield their run at every checkpoint.


def rare(seed: int) -> Iterator[Run]:
    """Transitions of probability 0.001 and 0.002 to the only state that pays; actions follow luck."""
    world = simple_world([[[0.999, 0.001], [0.998, 0.002]], [[0, 1], [0, 1]]], [[0, 0], [1, 1]], 2)
    run = Run(world, seed, delta=COVERAGE_DELTA)
    for n in (30, 100, 300, 900):
        run.log(n, run.lucky if seed % 2 else None)
        yield run


def coins(seed: int) -> Iterator[Run]:
    """Twelve fair coins, each compared with the next: the union over pairs is nearly exact here."""
    laws = np.full((3, 12, 3), 1 / 3)
    laws[0], laws[1:] = [0, 0.5, 0.5], np.eye(3)[1:, None]
    run = Run(simple_world(laws, np.repeat([[0.0], [0.0], [1.0]], 12, axis=1), 2), seed, delta=COVERAGE_DELTA)
    run.pairs = [(np.full((2, 3), a), np.full((2, 3), a + 1)) for a in range(0, 12, 2)]
    for n in (24, 60, 200, 600):
        run.log(n, run.lucky if seed % 2 else None)
        yield run


def ends_of_range(seed: int) -> Iterator[Run]:
    """Learned rewards that are −1 or 1, with means near and at the ends; luck chooses and stops."""
    means = [[-0.98, 0.98, 0.0, -1.0], [1.0, 0.9, -0.9, 0.2]]
    world = simple_world(np.full((2, 4, 2), 0.5), means, 2, reward_range=(-1.0, 1.0), noisy=True)
    run = Run(world, seed, delta=COVERAGE_DELTA, known_reward=False)
    for n in (5, 20, 80, 300):
        run.log(n, run.lucky if seed % 2 else None, stops=seed % 4 > 1)
        yield run


def luck(seed: int) -> Iterator[Run]:
    """Ask and tell by a user who takes the luckiest action and ends the episode after bad luck."""
    world = simple_world([[[0.5, 0.5], [0.6, 0.4]], [[0.5, 0.5], [0.9, 0.1]]], [[0, 0.1], [1, 0.9]], 3)
    run = Run(world, seed, delta=COVERAGE_DELTA, preset=("guaranteed", "practical")[seed % 2])
    for n in (2, 6, 14):
        run.play(n, choose=run.lucky if seed % 3 else None, stops=seed % 5 > 1)
        yield run


def masks(seed: int) -> Iterator[Run]:
    """Declared masks; actions that are not allowed would pay most."""
    allowed = [[True, False, True], [False, True, True]]
    laws = [[[0.7, 0.3], [0, 1], [0.5, 0.5]], [[0, 1], [0.4, 0.6], [0.6, 0.4]]]
    world = simple_world(laws, [[0.1, 1, 0], [1, 0.4, 0.6]], 3, allowed=allowed)
    run = Run(world, seed, ("task", "mdp")[seed % 2], delta=COVERAGE_DELTA)
    for n in (1, 4, 10):
        run.play(n)
        yield run


def late_masks(seed: int) -> Iterator[Run]:
    """An environment that reports masks with the states; the action that does not exist would pay 1."""
    allowed = [[True, True], [False, True]]
    world = simple_world([[[0.9, 0.1], [0.8, 0.2]], [[1, 0], [1, 0]]], [[0, 0], [1, 0.1]], 2, allowed=allowed)
    run = Run(world, seed, "env", delta=COVERAGE_DELTA)
    for n in (1, 3, 8, 20):
        run.learn(n)
        yield run


def discounted(seed: int) -> Iterator[Run]:
    """γ = 0.99, cut or endless, with balls and likelihood sets."""
    endless = {"endless": True, "accuracy": 0.8} if seed % 2 else {}
    laws, steps = [[[0.9, 0.1], [0.5, 0.5]], [[0, 1], [1, 0]]], 23 if endless else 12
    world = simple_world(laws, [[0.1, 0], [1, 0.8]], steps, discount=0.99, **endless)
    run = Run(world, seed, delta=COVERAGE_DELTA, set=("tightest", "normalised", "frobenius")[seed % 3])
    for n in (2, 10, 60):
        run.log(n, run.lucky if seed % 4 > 1 else None)
        yield run


def stages(seed: int) -> Iterator[Run]:
    """Laws and rewards by class of stage, handed over by the number of the class or by stage."""
    rng = np.random.default_rng(7)
    classes = (1, 0, 1)
    laws, rewards = rng.dirichlet([0.5, 0.5], size=(2, 2, 2)), rng.random((2, 2, 2))
    world = simple_world(laws[list(classes)], rewards[list(classes)], 3, classes=classes, by_class=bool(seed % 2))
    run = Run(world, seed, ("task", "mdp")[seed // 2 % 2], delta=COVERAGE_DELTA)
    for n in (2, 10, 60):
        run.log(n, run.lucky if seed % 3 else None, shuffled=True)
        yield run


def groups(seed: int) -> Iterator[Run]:
    """Pairs that share a law and a reward, which is learned; luck chooses among them."""
    phi = np.eye(3)[np.array([[0, 1], [0, 2], [1, 2]])]
    laws, means = np.random.default_rng(5).dirichlet(np.ones(3), size=3), np.array([0.05, 0.5, 0.9])
    run = Run(
        simple_world(phi @ laws, phi @ means, 3, noisy=True),
        seed,
        delta=COVERAGE_DELTA,
        known_reward=False,
        phi=phi,
    )
    for n in (2, 10, 60):
        run.log(n, run.lucky if seed % 2 else None)
        yield run


def linear(seed: int) -> Iterator[Run]:
    """A linear MDP with mixed features: balls and both sandwiches."""
    rng = np.random.default_rng(3)
    phi = rng.dirichlet(np.full(2, 0.3), size=(4, 2))
    world = simple_world(phi @ rng.dirichlet(np.full(4, 0.3), size=2), phi @ [0.0, 1.0], 3)
    kind = ("sandwich", "sandwich-or-ball", "normalised", "frobenius")[seed % 4]
    run = Run(world, seed, delta=COVERAGE_DELTA, phi=phi, set=kind)
    for n in (5, 30, 150):
        run.log(n, run.lucky if seed % 3 else None)
        yield run


CUSTOMERS: dict[str, Any] = {"laws": [[[1, 0], [1, 0]], [[0, 1], [0, 1]]], "rewards": [[0, 0.1], [1, 0.9]]}


def customers(seed: int, *, declared: bool = True, how: str = "task", log: bool = False, good: bool = False) -> Any:
    """Two kinds of customers, drawn at random; what one kind pays has nothing to do with the other."""
    begins = {"begins": [0.0, 1.0]} if good else {}
    world = simple_world(**CUSTOMERS, horizon=4, start=[0.5, 0.5], declares_start=declared, **begins)
    run = Run(world, seed, how, delta=COVERAGE_DELTA)
    yield run
    for n in (1, 4, 12, 30):
        run.log(n, shuffled=True) if log else run.play(n)
        yield run


def first_certificate(seed: int) -> Iterator[Run]:
    """A certificate before the first episode, which then begins in another state than the first one."""
    world = simple_world(**CUSTOMERS, horizon=4, start=[0.0, 1.0], declares_start=False)
    run = Run(world, seed, delta=COVERAGE_DELTA, known_reward=bool(seed % 2))
    yield run
    for n in (1, 6, 20):
        run.play(n)
        yield run


def without_next(seed: int) -> Iterator[Run]:
    """Logs of one episode each without next states, which end by termination or at the last stage."""
    run = Run(simple_world([[[0.5, 0.0]], [[0.0, 0.5]]], [[0.5], [0.5]], 2), seed, delta=COVERAGE_DELTA)
    for _ in range(3):
        for _ in range(30):
            run.log(1, with_next=False)
        yield run


def overlapping(seed: int) -> Iterator[Run]:
    """Episodes that are open together and end in an order that their outcomes decide."""
    run = Run(simple_world([[[0.5, 0], [0.3, 0]], [[0, 1], [0, 1]]], [[0.2, 0.3], [0, 0]], 5), seed, delta=COVERAGE_DELTA)
    for n in (3, 6, 9):
        run.overlap(n)
        yield run


def timing_out(seed: int) -> Iterator[Run]:
    """Steps time out with probability 0.2, which pays nothing and ends the episode."""
    law = 0.8 * np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.1, 0.9]]])
    world = simple_world(law, [[0.1, 0.4], [0.7, 0.8]], 3, time_out=0.2)
    run = Run(world, seed, delta=COVERAGE_DELTA, known_reward=False)
    for n in (2, 6, 14):
        run.play(n)
        yield run


def nobody_follows(seed: int) -> Iterator[Run]:
    """A user who always takes the worst action, for so long that the regret bound says something."""
    world = simple_world([[[1.0], [1.0]]], [[0, 1]], 1)
    run = Run(world, seed, delta=COVERAGE_DELTA, switch_growth=1.0)
    for n in (100, 900):
        run.play(n, choose=lambda h, s, advice: 0)
        run.exact = float(run.agent.n_episodes)
        yield run


PROBLEMS: dict[str, Callable[[int], Iterator[Run]]] = {
    "rare transitions, p = 0.001": rare,
    "twelve fair coins": coins,
    "rewards at the ends of the range": ends_of_range,
    "actions and stopping follow luck": luck,
    "declared masks": masks,
    "masks reported late": late_masks,
    "discount 0.99": discounted,
    "stages": stages,
    "groups, learned rewards": groups,
    "linear features": linear,
    "customers, declared": customers,
    "customers, not declared": lambda seed: customers(seed, declared=False),
    "customers, known P": lambda seed: customers(seed, how="mdp"),
    "customers, log in random order": lambda seed: customers(seed, declared=bool(seed % 2), log=True),
    "user begins in the good state": lambda seed: customers(seed, how=("task", "mdp")[seed % 2], good=True),
    "certificate before the first episode": first_certificate,
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
        noisy=not known and bool(rng.random() < 0.7),
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
    settings: dict[str, Any] = {"delta": AGENT_DELTA, "preset": str(rng.choice(["guaranteed", "practical"]))}
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
        ("doubling", 0.2, ["keep", "restart"]),
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
        if deed == "log" and not world.time_out and settings.get("doubling") != "restart":
            number, begin = int(rng.integers(2)), int(rng.integers(world.horizon)) if rng.random() < 0.3 else 0
            options: dict[str, Any] = {"first_number": number, "latest_begin": begin, "stops": bool(rng.random() < 0.3)}
            options |= {"first_step": number if world.classes is not None or rng.random() < 0.5 else None}
            options |= {"shuffled": bool(rng.random() < 0.5), "with_next": bool(rng.random() < 0.7)}
            run.log(int(rng.integers(1, 60)), run.lucky if rng.random() < 0.5 else None, **options)
        elif deed == "reload":
            run.extra += run.reload()
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
    settings: str = ""


def audit(problem: str, seed: int) -> Outcome:
    """Run one problem of `PROBLEMS`, or a random agent (the problem "agents"), and collect what is false."""
    made = Outcome(problem, seed)
    run: Run | None = None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            for run in (random_agent if problem == "agents" else PROBLEMS[problem])(seed):
                made.failures += [found for found in run.check() + run.extra if found not in made.failures]
        except MatrixRLError as error:
            made.refused = f"{type(error).__name__}: {error}"
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            words = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
            made.failures.append(("exception", words))
    if run is not None:
        made.proven, made.settings = run.proven, run.words()
    return made


def _audit(job: tuple[str, int]) -> Outcome:
    return audit(*job)


def audit_all(jobs: list[tuple[str, int]], n_workers: int, console: Console) -> list[Outcome]:
    """Run all jobs, in worker processes if there are to be several."""
    if n_workers == 1:
        return [_audit(job) for job in track(jobs, "audit", console=console)]
    with ProcessPoolExecutor(n_workers) as pool:
        return list(track(pool.map(_audit, jobs, chunksize=4), "audit", total=len(jobs), console=console))


def interval(failures: int, runs: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of Clopper and Pearson of a share."""
    tail = (1.0 - level) / 2
    low = beta_law.ppf(tail, failures, runs - failures + 1) if failures else 0.0
    high = beta_law.ppf(1.0 - tail, failures + 1, runs - failures) if failures < runs else 1.0
    return float(low), float(high)


def coverage_rows(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return one row for each problem of `coverage`."""
    rows = []
    for name in dict.fromkeys(made.problem for made in outcomes):
        mine = [made for made in outcomes if made.problem == name]
        kinds = Counter(kind for made in mine for kind in {kind for kind, _ in made.failures})
        false = sum(any(kind in DELTA_CLAIMS for kind, _ in made.failures) for made in mine)
        never = {kind: count for kind, count in kinds.items() if kind in ("bound", "forbidden", "load", "exception")}
        low, high = interval(false, len(mine))
        alarms = kinds["alarm"] / len(mine)
        holds = false / len(mine) <= COVERAGE_DELTA and alarms <= COVERAGE_DELTA and not never
        example = next((words for made in mine for _, words in made.failures), "")
        refused = next((made.refused for made in mine if made.refused), "")
        rows.append(
            {
                "problem": name,
                "runs": len(mine),
                "false": round(false / len(mine), 3),
                "interval": f"{low:.3f} to {high:.3f}",
                "with proof": sum(made.proven > 0 for made in mine),
                "refused": sum(made.refused is not None for made in mine),
                "kinds": ", ".join(f"{kind} {count}" for kind, count in kinds.items()),
                "holds": holds,
                "example": example or refused,
            }
        )
    return rows


def agent_rows(outcomes: list[Outcome]) -> list[dict[str, Any]]:
    """Return one row for each kind of failure of `agents`, and rows that say how many were refused or proven."""
    mine = [made for made in outcomes if made.problem == "agents"]
    rows = []
    for kind in (*DELTA_CLAIMS, "regret", "bound", "alarm", "forbidden", "load", "exception"):
        seeds = [made.seed for made in mine if kind in {k for k, _ in made.failures}]
        example = next((words for made in mine for k, words in made.failures if k == kind), "")
        rows.append({"kind": kind, "agents": len(seeds), "holds": not seeds, "seeds": seeds, "example": example})
    refused = [made for made in mine if made.refused]
    words = "; ".join(f"{n} × {what}" for what, n in Counter(str(made.refused)[:90] for made in refused).most_common(8))
    rows.append({"kind": "refused in words", "agents": len(refused), "holds": True, "seeds": [], "example": words})
    proven = sum(made.proven > 0 for made in mine)
    rows.append({"kind": "with proven claims", "agents": proven, "holds": proven > 0, "seeds": [], "example": ""})
    return rows


def show(title: str, rows: list[dict[str, Any]], console: Console, out: Path | None) -> bool:
    """Print and write a table; return whether everything holds."""
    table = Table(title=title)
    shown = [name for name in rows[0] if name not in ("example", "seeds", "kinds")]
    for name in shown:
        table.add_column(name)
    for row in rows:
        table.add_row(*(str(row[name]) for name in shown), style=None if row["holds"] else "bold red")
    console.print(table)
    for row in rows:
        if row["example"]:
            extra = " ".join(str(row[name]) for name in ("kinds", "seeds", "example") if row.get(name))
            console.print(f"{next(iter(row.values()))}: {extra}", highlight=False, markup=False, soft_wrap=True)
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        name = title.split(",")[0].replace(" ", "_")
        (out / f"{name}.json").write_text(json.dumps(rows, indent=1, ensure_ascii=False), encoding="utf-8")
        with (out / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return all(row["holds"] for row in rows)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["coverage", "agents", "all"])
    parser.add_argument("--runs", type=int, default=200, help="runs of each problem of coverage")
    parser.add_argument("--agents", type=int, default=2000, help="number of random agents")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--problem", nargs="+", default=list(PROBLEMS), help="problems of coverage")
    parser.add_argument("--only", type=int, help="repeat this seed and print everything")
    parser.add_argument("--jobs", type=int, default=1, help="worker processes")
    parser.add_argument("--out", type=Path, help="directory of the tables")
    chosen = parser.parse_args(arguments)
    jobs: list[tuple[str, int]] = []
    seeds = [chosen.only] if chosen.only is not None else None
    if chosen.part in ("coverage", "all"):
        for name in chosen.problem:
            runs = min(chosen.runs, FEWER.get(name, chosen.runs))
            jobs += [(name, seed) for seed in seeds or range(chosen.first, chosen.first + runs)]
    if chosen.part in ("agents", "all"):
        jobs += [("agents", seed) for seed in seeds or range(chosen.first, chosen.first + chosen.agents)]
    console, errors = Console(), Console(stderr=True)
    outcomes = audit_all(jobs, chosen.jobs, errors)
    for made in outcomes:
        strict = [words for kind, words in made.failures if made.problem == "agents" or chosen.only is not None]
        if strict or (chosen.only is not None):
            console.print(f"{made.problem}, seed {made.seed}: {made.settings}", highlight=False, soft_wrap=True)
            for words in [*strict, *([f"refused: {made.refused}"] if made.refused else [])]:
                console.print(f"    {words}", highlight=False, soft_wrap=True)
    holds = True
    if chosen.part in ("coverage", "all"):
        rows = coverage_rows([made for made in outcomes if made.problem != "agents"])
        holds &= show(f"coverage, δ = {COVERAGE_DELTA}", rows, console, chosen.out)
    if chosen.part in ("agents", "all"):
        holds &= show(f"agents, δ = {AGENT_DELTA:g}", agent_rows(outcomes), console, chosen.out)
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
