"""How many more episodes it is expected to take until a gap is small, or a comparison is decided."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import certification, given_policies
from matrixrl.agents.ask_and_tell import read_tables
from matrixrl.certificates import Forecast
from matrixrl.checks import fail, number, shown
from matrixrl.core.returns import Returns, difference_bounds, statement_share
from matrixrl.display import in_digits
from matrixrl.errors import ProtocolError
from matrixrl.records import IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["forecast"]

_DRAWS = 11
_FEW_DRAWS = 5  # to see whether something helps
_LONGEST = 256.0  # times the episodes so far; what takes longer is called never
_MOST_RETURNS = 1_000_000
_SPREAD = 0.1, 0.9  # quantiles of the draws
_MARGIN = 1.1  # by which the ends of the spread are further out
_ROLLOUTS = 24  # episodes that stand for those of one plan where returns count
_FEWEST = 4

Futures = Iterator[Iterator[tuple[int, float]]]  # of each draw: episodes, and what the goal lacks


def forecast(self: Agent, *, gap: float | None = None, decide: Any = None) -> Forecast:
    """Return how many more episodes it is expected to take until something is proven.

    Copies of the agent play on, each in a problem that is drawn from what was seen, and compute their bounds. The
    forecast is the median of what they need, and the spread leaves out the least and the most of eleven. It is an
    estimate, and nothing about it is proven. On problems on which the method was not chosen, the number of episodes
    that a gap took was in the spread in 33 of 40 runs (`benchmarks/forecasts.py gap`).

    Args:
        gap: Wait until `recommend` has a policy that is certified to be within this of optimal, as ``until_gap``.
        decide: Pair (policy, incumbent): wait until `compare` knows which one is better. If both were given before
            episodes that they have played, they go on being played in turns, else the agent plays its own plans.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=200)
    >>> found = agent.forecast(gap=2.0)
    >>> 0 < found.fewest <= found.episodes <= found.most
    True
    """
    certification.check_certifies(self, "forecast")
    if (gap is None) == (decide is None):
        received = "neither" if gap is None else "both"
        fail("gap", "must be given, or decide=(policy, incumbent)", received, "Give one of the two.")
    if self._seen is None or self._seen.n_episodes < _FEWEST:
        raise ProtocolError("forecast needs the steps of four episodes at least; make the agent with keep_log=True")
    if gap is not None:
        return _of_gap(self, number("gap", gap, low=0.0, remedy="Give a gap in the environment's unit."))
    if not isinstance(decide, (tuple, list)) or len(decide) != 2:
        fail("decide", "must be a pair (policy, incumbent)", shown(decide), "Give two policies, as in compare.")
    return _of_comparison(self, *decide)


def _of_gap(self: Agent, goal: float) -> Forecast:
    start, _ = self._ledger.start()
    own, (_, certified) = self._algorithm.certifier, certification.safest(self)
    words = f"a gap of at most {in_digits(goal)} (now {in_digits(certified.gap)})"
    if not certified.guarantee:
        return _nothing(words, str(certified.guarantee.reason))
    if certified.gap <= goal:
        return _reached(words)
    assert self._seen is not None
    seen = own.imagine(self._seen.all()[0])
    counts_returns = self._ledger.returns.best() is not None

    def futures(purpose: str, n_draws: int) -> Futures:
        for rng in _generators(self, n_draws):
            yield one(purpose, rng)

    def one(purpose: str, rng: np.random.Generator) -> Iterator[tuple[int, float]]:
        run, upper, lower = seen.draw(rng), certified.upper, certified.lower
        returns = copy.deepcopy(self._ledger.returns, {id(self.problem): self.problem}) if counts_returns else None
        run.certifier.purpose = purpose
        yield 0, certified.gap - goal
        next_look = 0.0
        while run.n_episodes < _LONGEST * seen.n_episodes:
            growth = _growth(run.n_episodes / seen.n_episodes)
            table, n = run.play(growth)
            more = run.n_episodes - seen.n_episodes
            if returns is not None:
                k = min(n, _ROLLOUTS)
                returns.imagine(self.n_episodes + more, table, run.episodes(table, k), n / k)
            if run.n_episodes < next_look:
                continue
            next_look = (1.0 + 0.8 * growth) * run.n_episodes
            found = run.certifier.certify(run.certifier.safest_plan(), run.start(start))
            upper, lower = min(upper, float(found.upper[0])), max(lower, float(found.lower[0]))
            best = None if returns is None else returns.best()
            lower = lower if best is None else max(lower, best[0])
            yield more, upper - lower - goal

    found = _spread(futures(own.purpose, _DRAWS))
    helps = list(_helps(self)) if found[0] is None else []
    if found[0] is None and own.purpose != "certificate":
        faster = _spread(futures("certificate", _FEW_DRAWS))[0]
        then = "never either" if faster is None else f"about {faster:,} more episodes"
        helps.insert(0, f'play to certify, explore_for="certificate" (estimated: {then})')
    return Forecast(words, *found, "the agent plays on as it is set", tuple(helps))


def _of_comparison(self: Agent, policy: Any, incumbent: Any) -> Forecast:
    now = given_policies.compare(self, policy, incumbent)
    tables = read_tables(self, "forecast", policy=policy, incumbent=incumbent)
    words = "a decision between the two policies"
    if not now.guarantee:
        return _nothing(words, str(now.guarantee.reason))
    if now.lower > 0.0 or now.upper < 0.0 or now.lower == now.upper:
        return _reached(words)
    given = [given_policies.given_returns(self).of(table) for table in tables]
    both = [one for one in given if one is not None]
    if len(both) == len(given):
        found = _spread(_by_returns(self, both, rng) for rng in _generators(self, _DRAWS))
        return Forecast(words, *found, "both are played on in turns as so far", ())
    parts = 2 if both else 1
    found = _spread(_by_model(self, tables, parts, rng) for rng in _generators(self, _DRAWS))
    helps = () if found[0] is not None else ("play both in turns with policy=…, so that their returns count",)
    return Forecast(words, *found, "the agent plays on as it is set", helps if found[0] else (*helps, *_helps(self)))


def _by_model(self: Agent, tables: list[IntArray], parts: int, rng: np.random.Generator) -> Iterator[tuple[int, float]]:
    """Yield numbers of episodes, and by how much the bounds of a difference are on both sides of 0."""
    assert self._seen is not None
    seen, (start, _) = self._algorithm.certifier.imagine(self._seen.all()[0]), self._ledger.start(parts)
    run = seen.draw(rng)
    first, second = (table[None] for table in tables)
    while run.n_episodes < _LONGEST * seen.n_episodes:
        found = run.certifier.bound_policies(first, second, run.start(start), parts)
        yield run.n_episodes - seen.n_episodes, float(min(found.upper[2, 0], -found.lower[2, 0]))
        run.play(_growth(run.n_episodes / seen.n_episodes))


def _by_returns(self: Agent, both: list[tuple[int, Returns]], rng: np.random.Generator) -> Iterator[tuple[int, float]]:
    """Yield the same from returns that are drawn from those of two given policies."""
    delta = 0.5 * self._algorithm.claims.delta * statement_share(both[0][0], both[1][0])
    chances = [rng.dirichlet(np.ones(len(one.low))) for _, one in both]
    returns, n = [one for _, one in both], sum(len(one.low) for _, one in both)
    shares, played = [len(one.low) / n for one in returns], 0
    while played + n < min(_LONGEST * n, _MOST_RETURNS):
        lower, upper = difference_bounds(returns[0], returns[1], delta)
        yield played, min(upper, -lower)
        growth = _growth(1.0 + played / n)
        new = max(int(growth * (played + n)), 2)
        for k, (_, one) in enumerate(both):
            more = rng.choice(len(one.low), size=max(round(shares[k] * new), 1), p=chances[k])
            low, high = (np.concatenate([old, seen[more]]) for old, seen in zip(returns[k][:2], one[:2], strict=True))
            returns[k] = one._replace(low=low, high=high)
        played += new


def _growth(so_far: float) -> float:
    """Return the growth of the number of episodes between two looks, after a growth so far."""
    return 0.05 if so_far < 4.0 else 0.15 if so_far < 16.0 else 0.4


def _generators(self: Agent, n: int) -> Iterator[np.random.Generator]:
    """Yield generators that depend on the agent alone, so that the same agent has the same forecast."""
    for child in np.random.SeedSequence([self.seed, self.n_episodes, self.n_logged_episodes]).spawn(n):
        yield np.random.default_rng(child)


def _spread(futures: Futures) -> tuple[int | None, int | None, int | None]:
    """Return how many episodes draws take: the median and the two ends of the spread; None for never."""
    needed = np.array([_first(one) for one in futures])
    low, middle, high = (float(np.quantile(needed, q, method=how)) for q, how in _quantiles())
    return _rounded(middle), _rounded(low / _MARGIN, down=True), _rounded(high * _MARGIN)


def _quantiles() -> list[tuple[float, Any]]:
    return [(_SPREAD[0], "lower"), (0.5, "lower"), (_SPREAD[1], "higher")]


def _first(future: Iterator[tuple[int, float]]) -> float:
    """Return after how many episodes nothing lacks, between two looks by interpolation; ∞ for never."""
    before = None
    for count, lacks in future:
        if lacks <= 0.0:
            share = 1.0 if before is None else before[1] / (before[1] - lacks)
            return float(count) if before is None else before[0] + share * (count - before[0])
        before = count, lacks
    return math.inf


def _rounded(count: float, *, down: bool = False) -> int | None:
    """Return a number of episodes with two digits, at least 1; None for never."""
    if math.isinf(count):
        return None
    unit = 10.0 ** max(math.ceil(math.log10(max(count, 1.0))) - 2, 0)
    whole = math.floor(count / unit) if down else math.ceil(count / unit)
    return max(int(whole * unit), 1)


def _reached(goal: str) -> Forecast:
    return Forecast(goal, 0, 0, 0, "", ())


def _nothing(goal: str, reason: str) -> Forecast:
    return Forecast(goal, None, None, None, "nothing changes", (f"nothing is proven: {reason}",))


def _helps(self: Agent) -> Iterator[str]:
    """Yield what may help where more of the same data do not."""
    task, features = self.problem.finite_task, self.problem.features
    n_pairs = task.n_states * self.problem.actions.size if task.allowed is None else int(task.allowed.sum())
    tried = int((self.visits > 0).sum())
    if tried < n_pairs:
        yield f"{n_pairs - tried:,} of {n_pairs:,} pairs were never tried"
    if task.dynamics is None:
        if features is not None and features.phi.d >= n_pairs:
            yield "features φ in which pairs that share their transition probabilities share data"
        yield "known dynamics (KnownDynamics), if only a demand or the like is random; or fewer states"
