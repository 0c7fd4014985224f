"""How many more episodes it is expected to take until a gap is small, or a comparison is decided."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import certification, given_policies
from matrixrl.agents.ask_and_tell import read_tables
from matrixrl.algorithms.certifier import Certifier
from matrixrl.certificates import Forecast
from matrixrl.checks import fail, number, shown
from matrixrl.display import in_digits
from matrixrl.errors import ProtocolError

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["forecast"]

_MOST_DOUBLINGS = 12.0  # of the data; what takes longer is called never
_HALVINGS = 12
_DRIFT = 0.05  # by which a bound may at least shrink faster or slower with each doubling
_DEVIATIONS = 1.28  # standard errors of the estimate: four of five
_MARGINS_PER_ERROR = 4.0  # a proven margin is about so many standard errors wide
_RATE = "episodes go on as so far"


def forecast(self: Agent, *, gap: float | None = None, decide: Any = None) -> Forecast:
    """Return how many more episodes it is expected to take until something is proven.

    It computes the bounds that twice, four times, … the data would have if they said the same, with pairs visited in
    the same proportions. What the same forecast would have said after half of the episodes, compared with what came,
    says by how much more or less each doubling brings; it widens the spread too. Nothing about a forecast is proven.

    Args:
        gap: Wait until `recommend` has a policy that is certified to be within this of optimal, as ``until_gap``.
        decide: Pair (policy, incumbent): wait until `compare` knows which one is better.

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
    if self._seen is None or self._seen.n_episodes < 4:
        raise ProtocolError("forecast needs the steps of four episodes at least; make the agent with keep_log=True")
    if gap is not None:
        return _of_gap(self, number("gap", gap, low=0.0, remedy="Give a gap in the environment's unit."))
    if not isinstance(decide, (tuple, list)) or len(decide) != 2:
        fail("decide", "must be a pair (policy, incumbent)", shown(decide), "Give two policies, as in compare.")
    return _of_comparison(self, *decide)


def _of_gap(self: Agent, goal: float) -> Forecast:
    start, _ = self._ledger.start()
    own, (_, shown_now) = self._algorithm.certifier, certification.safest(self)
    words = f"a gap of at most {in_digits(goal)} (now {in_digits(shown_now.gap)})"
    if not shown_now.guarantee:
        return Forecast(words, None, None, None, _RATE, (f"nothing is proven: {shown_now.guarantee.reason}",))

    def gap_of(certifier: Certifier) -> float:
        found = certifier.certify(certifier.safest_plan(), start)
        return float(found.upper[0] - found.lower[0])

    now = gap_of(own)
    known = min(1.0, shown_now.gap / max(now, 1e-300))  # returns, and what was certified earlier
    speed = _speed(self, now, gap_of)

    def lacks(doublings: float, per_doubling: float, errors: float) -> float:
        del errors  # a gap is one of bounds
        return known * math.pow(per_doubling, doublings) * gap_of(own.multiplied(2.0**doublings)) - goal

    return _forecast(self, words, shown_now.gap <= goal, lacks, speed)


def _of_comparison(self: Agent, policy: Any, incumbent: Any) -> Forecast:
    now = given_policies.compare(self, policy, incumbent)
    tables = read_tables(self, "forecast", policy=policy, incumbent=incumbent)
    start, _ = self._ledger.start()
    own, words = self._algorithm.certifier, "a decision between the two policies"
    if not now.guarantee:
        return Forecast(words, None, None, None, _RATE, (f"nothing is proven: {now.guarantee.reason}",))
    given, delta = given_policies.given_returns(self), 0.5 * self._algorithm.claims.delta
    known = [given.of(table) for table in tables]
    has_returns = known[0] is not None and known[1] is not None
    parts = 2 if any(known) else 1
    guess = now.estimate or 0.0
    side = 1.0 if guess >= 0.0 else -1.0

    def margin_of(certifier: Certifier, factor: float = 1.0) -> float:
        found = certifier.bound_policies(tables[0][None], tables[1][None], start, parts)
        low, high = float(found.lower[2, 0]), float(found.upper[2, 0])
        apart = given.difference(tables[0], tables[1], delta, factor) if has_returns else None
        if apart is not None:
            low, high = max(low, apart[0]), min(high, apart[1])
        return max(guess - low if side > 0.0 else high - guess, 0.0)

    margin = margin_of(own)
    error = margin / _MARGINS_PER_ERROR
    if has_returns:
        error = min(error, math.sqrt(sum(one[1].squared_error for one in known if one is not None)))
    speed = 1.0 if has_returns else _speed(self, margin, margin_of)

    def lacks(doublings: float, per_doubling: float, errors: float) -> float:
        wide = math.pow(per_doubling, doublings) * margin_of(own.multiplied(2.0**doublings), 2.0**doublings)
        return wide - (abs(guess) + _DEVIATIONS * errors * error)

    is_decided = now.lower > 0.0 or now.upper < 0.0 or now.lower == now.upper
    helps = () if has_returns else ("play both by turns with policy=…, so that their returns count",)
    return _forecast(self, words, is_decided, lacks, speed, helps=helps)


def _speed(self: Agent, now: float, width: Callable[[Certifier], float]) -> float:
    """Return the present width over that which was to be expected after half of the episodes."""
    assert self._seen is not None
    seen, _ = self._seen.all()
    half = seen.first(seen.n_episodes // 2)
    expected = width(self._algorithm.certifier.of_steps(half).multiplied(seen.n_episodes / half.n_episodes))
    return float(np.clip(now / max(expected, 1e-300), 0.5, 2.0))


def _forecast(
    self: Agent,
    goal: str,
    is_reached: bool,
    lacks: Callable[[float, float, float], float],
    speed: float,
    *,
    helps: tuple[str, ...] = (),
) -> Forecast:
    """Return a forecast from what a goal lacks after some doublings, at a rate, and with an error of the estimate."""
    if is_reached:
        return Forecast(goal, 0, 0, 0, _RATE, ())
    n = self.n_episodes + self.n_logged_episodes
    fast, slow = min(1.0, speed**2) * (1.0 - _DRIFT), max(1.0, speed**2) * (1.0 + _DRIFT)

    def episodes(rate: float, error: float) -> int | None:
        found = _first(lambda doublings: lacks(doublings, rate, error))
        return None if found is None else _rounded(n * (2.0**found - 1.0))

    expected = episodes(speed, 0.0)
    helps = (*helps, *_helps(self)) if expected is None else ()
    return Forecast(goal, expected, episodes(fast, 1.0), episodes(slow, -1.0), _RATE, helps)


def _rounded(count: float) -> int:
    """Return a number of episodes that is not smaller, with two digits."""
    digits = math.ceil(math.log10(max(count, 1.0)))
    unit = math.pow(10.0, max(digits - 2, 0))
    return max(int(math.ceil(count / unit) * unit), 1)


def _first(lacks: Callable[[float], float]) -> float | None:
    """Return the number of doublings after which nothing lacks, or None."""
    low, high = 0.0, 1.0
    while lacks(high) > 0.0:
        low, high = high, 2.0 * high
        if low >= _MOST_DOUBLINGS:
            return None
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if lacks(middle) > 0.0 else (low, middle)
    return high


def _helps(self: Agent) -> tuple[str, ...]:
    """Return what may help where more of the same data do not."""
    found: list[str] = []
    if self._algorithm.certifier.purpose != "certificate":
        found.append('play to certify, explore_for="certificate"')
    task = self.problem.finite_task
    n_pairs = task.n_states * self.problem.actions.size if task.allowed is None else int(task.allowed.sum())
    tried = int((self.visits > 0).sum())
    if tried < n_pairs:
        found.append(f"{n_pairs - tried:,} of {n_pairs:,} pairs were never tried")
    features = self.problem.features
    if features is not None and features.phi.d >= n_pairs:
        found.append("features φ in which pairs with the same law share data, or fewer states")
    return tuple(found)
