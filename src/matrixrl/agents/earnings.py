"""What learning has cost so far, and what it has earned beyond an incumbent, by blocks of episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import certification
from matrixrl.agents.ask_and_tell import read_tables
from matrixrl.agents.given_policies import certified
from matrixrl.agents.replay import replay, seen_outcomes, why_not
from matrixrl.certificates import PolicyCertificate, RegretBound
from matrixrl.checks import index, integer
from matrixrl.display import Described, confidence, in_digits
from matrixrl.errors import ProtocolError
from matrixrl.extras import require_packages
from matrixrl.play.given_policies import policy_digest
from matrixrl.records import FloatArray, Guarantee, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["Earnings", "earnings"]

_MOST_ROWS = 24  # of a printed table
_ROUNDING = 1e-13  # relative, of a difference that is shown as 0
_SIDES = ("lower", "estimate", "upper")


@dataclass(frozen=True, slots=True, repr=False)
class Earnings(Described):
    """What blocks of episodes received, beside what an incumbent and the best policy are expected to earn.

    Gain and cost are of received returns, which are known exactly and have the luck that the episodes had; what they
    are compared with is expected (docs/proofs.md, section 11.6). Numbers are in the environment's unit.

    Attributes:
        first: (m,) Number of the first episode of each block, counted from 0 as `Episode.index`.
        n_episodes: (m,) Number of episodes of each block.
        received: (m,) Sum of the returns of each block.
        best: Bounds on V*(s0), and its estimate, from all data so far.
        incumbent: What `certify` returned for the incumbent; None if there is none.
        regret: What `Agent.bound` returned: a bound on the expected loss of all episodes so far, without luck.
        rest: Least and most that an endless episode may earn after its last step; (0, 0) for others.
        replayed: (m,) What the incumbent would have earned in each block on the same outcomes, as in `Agent.replay`;
            NaN where an outcome is not known. None without incumbent, or where an action can change outcomes.
    """

    first: IntArray
    n_episodes: IntArray
    received: FloatArray
    best: PolicyCertificate
    incumbent: PolicyCertificate | None
    regret: RegretBound
    rest: tuple[float, float]
    replayed: FloatArray | None = None

    @property
    def mean_received(self) -> FloatArray:
        """Mean return of the episodes of each block: (m,)."""
        found: FloatArray = self.received / self.n_episodes
        return found

    @property
    def gain(self) -> FloatArray:
        """Lower bound, estimate and upper bound of the gain of each block, (m, 3); their sums are those of all blocks.

        The gain is what was received less what the incumbent is expected to earn in as many episodes. Estimates that
        are not known are NaN.
        """
        if self.incumbent is None:
            raise ProtocolError("gain needs an incumbent; pass one: agent.earnings(policy)")
        return self._ahead(self.incumbent)

    @property
    def realised_gain(self) -> FloatArray:
        """What was received more than the incumbent would have earned on the same outcomes: (m,), without uncertainty.

        It has no luck but that of the outcomes, which both have alike (docs/proofs.md, section 11.8).
        """
        if self.replayed is None:
            raise ProtocolError(
                "realised_gain needs an incumbent and outcomes that no action changes; see Agent.replay"
            )
        return _without_rounding(self.received - self.replayed, self.received)

    @property
    def cost(self) -> FloatArray:
        """Lower bound, estimate and upper bound of the cost of learning in each block: (m, 3).

        The cost is what the best policy is expected to earn in as many episodes, less what was received. It is negative
        where episodes had more luck than they lost.
        """
        found: FloatArray = -self._ahead(self.best)[:, ::-1]
        return found

    def _ahead(self, policy: PolicyCertificate) -> FloatArray:
        """Return by how much each block received more than a policy is expected to earn: (m, 3)."""
        guess = np.nan if policy.estimate is None else policy.estimate
        least, most = self.rest  # estimates let the steps that are cut off earn the least
        each = np.array([least - policy.upper, least - guess, most - policy.lower])
        return _without_rounding(self.received[:, None] + self.n_episodes[:, None] * each, self.received[:, None])

    def as_dict(self) -> dict[str, Any]:
        """Return blocks, totals and what is proven by name, as plain data."""
        blocks = {name: column.tolist() for name, column in self._columns().items()}
        known: dict[str, Any] = {
            "gain": None if self.incumbent is None else _sides(self.gain),
            "cost": _sides(self.cost),
        }
        incumbent = None if self.incumbent is None else self.incumbent.as_dict()
        proven = {"best": self.best.as_dict(), "incumbent": incumbent, "regret": self.regret.as_dict()}
        if self.replayed is not None:
            total = float(self.realised_gain.sum())
            known["realised_gain"] = None if np.isnan(total) else total
        return {"received": float(self.received.sum()), **known, **proven, "blocks": blocks}

    def to_frame(self) -> Any:
        """Return one row for each block as a data frame of pandas.

        Raises:
            MissingExtra: pandas is not installed.
        """
        require_packages(["pandas"], extra="pandas", purpose="A data frame")
        import pandas as pd

        return pd.DataFrame(self._columns())

    def _columns(self) -> dict[str, Any]:
        """Return the columns of the blocks, (m,) each."""
        columns: dict[str, Any] = {"first": self.first, "n_episodes": self.n_episodes}
        columns |= {"received": self.received, "mean_received": self.mean_received}
        tables = {"cost": self.cost} if self.incumbent is None else {"gain": self.gain, "cost": self.cost}
        columns |= {} if self.replayed is None else {"replayed": self.replayed, "realised_gain": self.realised_gain}
        return columns | {f"{name}_{side}": t[:, k] for name, t in tables.items() for k, side in enumerate(_SIDES)}

    def _words(self) -> str:
        n, total = int(self.n_episodes.sum()), float(self.received.sum())
        words = (
            f"Earnings: {in_digits(total)} received in {n:,} episode{'s' * (n != 1)} from episode {self.first[0]:,} on"
        )
        if self.incumbent is not None:
            words += f", estimated gain {_number(self.gain[:, 1].sum())}"
        return f"{words}, estimated cost {_number(self.cost[:, 1].sum())}"

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"mean return": in_digits(self.received.sum() / self.n_episodes.sum())}
        if self.incumbent is not None:
            facts["incumbent"] = _said(self.incumbent)
            facts["gain over the incumbent"] = _total(self.gain, self.incumbent)
        if self.replayed is not None:
            gain = self.realised_gain.sum()
            facts["gain on the same outcomes"] = "not known" if np.isnan(gain) else f"{in_digits(gain)}, exactly"
        facts["best policy"] = _said(self.best)
        facts["cost of learning"] = _total(self.cost, self.best)
        if self.regret.total is not None:
            loss, chance = in_digits(self.regret.total), confidence(self.regret.delta)
            n = self.regret.n_episodes
            which = "all" if n == self.first[-1] + self.n_episodes[-1] else f"the last {n:,}"
            facts[f"expected loss of {which} episodes"] = f"at most {loss} with probability {chance} (agent.bound())"
        facts["note"] = "gain and cost are of received returns, luck included"
        reasons = [one.guarantee.reason for one in (self.best, self.incumbent) if one is not None]
        return facts | ({"not proven": "; ".join(dict.fromkeys(filter(None, reasons)))} if any(reasons) else {})

    def __str__(self) -> str:
        lines = [self._words(), *(f"{name}: {value}" for name, value in self._facts().items()), ""]
        head = ["episodes", "mean return"]
        tables = [("cost", self.cost)]
        if self.incumbent is not None:
            tables.insert(0, ("gain", self.gain))
        for name, _ in tables:
            head += [f"{name}: estimate", "at least", "at most"]
        if self.replayed is not None:
            head.append("gain on same outcomes")
        rows = [head]
        for k, (first, count) in enumerate(zip(self.first.tolist(), self.n_episodes.tolist(), strict=True)):
            numbers = [in_digits(self.mean_received[k]), *(_number(t[k, i]) for _, t in tables for i in (1, 0, 2))]
            numbers += [] if self.replayed is None else [_number(self.realised_gain[k])]
            rows.append([f"{first:,}" if count == 1 else f"{first:,} to {first + count - 1:,}", *numbers])
        if len(rows) > _MOST_ROWS + 1:
            half = _MOST_ROWS // 2
            rows[half + 1 : -half] = [["…"] * len(head)]
        totals = [_number(t[:, i].sum()) for _, t in tables for i in (1, 0, 2)]
        rows.append(["all", in_digits(self.received.sum() / self.n_episodes.sum()), *totals])
        rows[-1] += [] if self.replayed is None else [_number(self.realised_gain.sum())]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines += ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join(lines)


def earnings(self: Agent, incumbent: Any = None, *, every: int = 1, since: int = 0) -> Earnings:
    """Return what episodes received, what they gained over an incumbent and what learning has cost, by blocks.

    Returns are those that were received, so gain and cost have the luck of the episodes; they are compared with what
    the incumbent, and the best policy, are expected to earn as far as all data so far tell. Each of the two holds with
    probability 1 − δ for all blocks, whenever you look and whichever first episode you choose. Where no action changes
    the outcomes, `replay` says what the incumbent would have earned, and `Earnings.realised_gain` is known exactly.

    Args:
        incumbent: Policy to compare with, as in `compare`; by default there are costs only.
        every: Number of episodes of a block, such as 7 for weeks of days; the last block may have fewer.
        since: Number of the first episode that counts, counted from 0. Logged episodes do not count.

    Raises:
        ProtocolError: The algorithm has no certificates, or no episode was played.
        InvalidInput: An argument is invalid, or the incumbent is no policy of this problem.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> history = agent.learn(n_episodes=60)
    >>> found = agent.earnings(lambda state, stage: 0, every=20)
    >>> found.n_episodes.tolist(), bool(found.received.sum() == history.returns.sum())
    ([20, 20, 20], True)
    >>> bool(found.gain[:, 0].sum() > 0.0)  # proven to have received more than the incumbent would have
    True
    """
    certification.check_certifies(self, "earnings")
    length = integer("every", every, low=1, remedy="Such as 7 for weeks of days.")
    returns = np.array(self._log.returns)
    if not len(returns):
        raise ProtocolError("earnings needs episodes, and none was played; logged episodes do not count")
    start = index("since", since, size=len(returns), remedy="Episodes count from 0.")
    first = np.arange(start, len(returns), length)
    changed = f"the problem changed before episode {self._run_start:,}, and earlier ones count; give since="
    is_mixed = start < self._run_start
    found, doubt = None, Guarantee.unless(self._ledger.start_doubt, f"{changed}{self._run_start}" if is_mixed else None)
    if incumbent is not None:
        [table] = read_tables(self, "earnings", incumbent=incumbent)
        found = certified(self, table)
        found = replace(found, guarantee=found.guarantee and doubt)
    task = self.problem.finite_task
    return Earnings(
        first=first,
        n_episodes=np.diff([*first, len(returns)]),
        received=np.add.reduceat(returns, first),
        best=_best(self, doubt, None if found is None else found.estimate),
        incumbent=found,
        regret=self.bound(),
        rest=(task.tail * task.reward_range[0], task.tail * task.reward_range[1]),
        replayed=None if incumbent is None else _replayed(self, incumbent, first),
    )


def _replayed(self: Agent, incumbent: Any, first: IntArray) -> FloatArray | None:
    """Return what the incumbent would have earned on the outcomes of blocks of played episodes (m,), where known."""
    if why_not(self) is not None:
        return None
    earned = replay(self, incumbent)[~seen_outcomes(self).is_logged]
    return np.add.reduceat(earned, first) if len(earned) == len(self._log.returns) else None


def _best(self: Agent, doubt: Guarantee, other: float | None) -> PolicyCertificate:
    """Return what is known about V*(s0), which is estimated to be at least the estimate of another policy."""
    _, shown = certification.safest(self)
    lower, upper = shown.optimal_interval
    table = self._algorithm.policy_table(certification.estimated_plan(self))[0]
    [guess] = certification.estimates(self, [table], None)
    known = [one for one in (guess, other) if one is not None]
    guess = min(max([lower, *known]), upper) if known else None
    trivial, claim = certification.possible_values(self, None, None), shown.guarantee and doubt
    about = f"the best policy, from {certification.data_words(self)}"
    digest = policy_digest(table, self.problem.finite_task).hex()
    return PolicyCertificate(
        lower, max(upper, lower), shown.delta, claim, "model", guess, trivial, 0, about, shown.start, digest
    )


def _without_rounding(found: FloatArray, size: FloatArray) -> FloatArray:
    """Return differences of numbers of some size with 0 for those that are rounding errors."""
    return np.where(np.abs(found) <= _ROUNDING * np.abs(size), 0.0, found)


def _number(value: float) -> str:
    return "–" if np.isnan(value) else in_digits(value)


def _sides(table: FloatArray) -> dict[str, float | None]:
    """Return the sums of the columns of (m, 3) by name."""
    return {side: None if np.isnan(x) else x for side, x in zip(_SIDES, table.sum(axis=0).tolist(), strict=True)}


def _said(policy: PolicyCertificate) -> str:
    """Return what a policy is expected to earn in an episode, in words."""
    guess = "not known" if policy.estimate is None else in_digits(policy.estimate)
    return f"estimated {guess} an episode; {in_digits(policy.lower)} to {in_digits(policy.upper)} {_claimed(policy)}"


def _total(table: FloatArray, policy: PolicyCertificate) -> str:
    """Return the sums of the columns of (m, 3), in words."""
    low, guess, high = table.sum(axis=0).tolist()
    return f"estimated {_number(guess)}; {in_digits(low)} to {in_digits(high)} {_claimed(policy)}"


def _claimed(policy: PolicyCertificate) -> str:
    if policy.guarantee:
        return f"with probability {confidence(policy.delta)}"
    return "(not proven)"
