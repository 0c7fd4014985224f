"""The audit of a log: what was earned, what is proven about policies, and which pairs need data."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from matrixrl.agents import certification
from matrixrl.agents.agent import Agent
from matrixrl.agents.ask_and_tell import read_tables
from matrixrl.agents.matrix_rl import MatrixRL
from matrixrl.checks import fail, flag, number, shown
from matrixrl.core.returns import N_LEVELS, Returns, path_deviation
from matrixrl.display import confidence, html_table, in_digits
from matrixrl.extras import require_packages
from matrixrl.logs import StepLog
from matrixrl.play.given_policies import stage_ranges, value_range
from matrixrl.play.ledger import knows_reward
from matrixrl.policies import Policy
from matrixrl.records import FloatArray, Guarantee

__all__ = ["Audit", "AuditedPair", "AuditedPolicy", "audit_log"]

_PARTS = 2  # of δ: one for all bounds from the model, the other one for returns
SAFEST = "safest"
"""Name of the policy with the largest certified lower bound."""

CHOICES = "as the log"
"""Name of a policy that chooses as often as the log did."""
_LEAST_SHARE = 1e-6  # of the width, of pairs that are named

FIXED = "one policy, fixed before the log, chose all actions"
ANY = (
    "the policies of the log may have changed with what they saw; episodes are in the order in which they were played, "
    "and the bounds are about the mean of the values of the policies that played them"
)
WHOLE = "no episode was left out for what it earned"

Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class AuditedPolicy:
    """What is proven about one policy, in the environment's unit.

    Attributes:
        name: Name.
        lower: Lower bound on its value.
        upper: Upper bound on its value.
        estimate: Its value in the estimated model, which is no bound.
        gain: Bounds on its value less that of the log's policy, from the log's returns; None if no episode counts.
        gain_of_choices: Bounds on its value less that of a policy that chooses as often as the log did, by the model.
    """

    name: str
    lower: float
    upper: float
    estimate: float | None
    gain: Interval | None
    gain_of_choices: Interval


@dataclass(frozen=True, slots=True)
class AuditedPair:
    """What one pair adds to the width of the interval of the safest policy.

    Attributes:
        state: The state, as it is observed.
        action: The action, as users give it.
        visits: How often it is in the log.
        share: Share of the width that it adds; all shares add up to 1, with that of first states.
    """

    state: Any
    action: Any
    visits: int
    share: float


@dataclass(frozen=True, slots=True, repr=False)
class Audit:
    """What `audit_log` found; all bounds hold together with probability 1 − δ, under `assumptions`.

    Attributes:
        log: Name and size of the log.
        n_episodes: Number of its episodes.
        n_counted: Number of episodes whose returns count: those recorded from a first step on.
        delta: Probability δ.
        guarantee: Whether the bounds are proven.
        assumptions: Assumptions, in words.
        start: Start that values are about, in words.
        mean_return: Mean return of the episodes that count, which is no bound; None if there are none.
        logged: Bounds on the value of the log's policy, from returns; None if no episode counts.
        fixed_policy: Whether the log was declared to be of one fixed policy.
        optimum: Upper bound on V*(s0).
        policies: The policies: the safest one, what the log chose, and those that were given.
        pairs: Pairs that the width of the safest policy's interval hangs on, the largest share first.
        safest: The policy with the largest certified lower bound.
    """

    log: str
    n_episodes: int
    n_counted: int
    delta: float
    guarantee: Guarantee
    assumptions: str
    start: str
    mean_return: float | None
    logged: Interval | None
    fixed_policy: bool
    optimum: float
    policies: tuple[AuditedPolicy, ...]
    pairs: tuple[AuditedPair, ...]
    safest: Policy

    @property
    def improvement(self) -> float | None:
        """What the safest policy is proven to earn more than the log's in an episode; None if that is not shown."""
        best = self.policies[0]
        shown_by = [one[0] for one in (best.gain, best.gain_of_choices) if one is not None]
        most = max(shown_by)
        return most if self.guarantee and most > 0.0 else None

    @property
    def verdict(self) -> str:
        """Whether an improvement is proven, in words."""
        if not self.guarantee:
            return f"nothing is proven: {self.guarantee.reason}"
        best, more = self.policies[0], self.improvement
        if more is None:
            return "safe improvement: not shown by these data"
        by_returns = best.gain is not None and best.gain[0] == more
        than = "the log's episodes" if by_returns else "a policy that chooses as often as the log did"
        chance = confidence(self.delta)
        return f"safe improvement: with probability {chance} at least {in_digits(more)} more in an episode than {than}"

    def as_dict(self) -> dict[str, Any]:
        """Return all entries by name as plain data, without the table of the safest policy."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "safest"}
        parts = {
            name: [{field: _plain(getattr(one, field)) for field in one.__dataclass_fields__} for one in found]
            for name, found in (("policies", self.policies), ("pairs", self.pairs))
        }
        more = {"improvement": self.improvement, "verdict": self.verdict, "guarantee": self.guarantee.as_dict()}
        logged = None if self.logged is None else list(self.logged)
        return plain | parts | more | {"logged": logged, "safest": self.safest.digest}

    def to_json(self) -> str:
        """Return `as_dict` as JSON."""
        return json.dumps(self.as_dict(), allow_nan=False, indent=1)

    def to_frame(self) -> Any:
        """Return one row for each pair, the largest share first, as a data frame of pandas."""
        require_packages(["pandas"], extra="pandas", purpose="A data frame")
        import pandas as pd

        return pd.DataFrame({name: [getattr(one, name) for one in self.pairs] for name in AuditedPair.__slots__})

    def __str__(self) -> str:
        return f"{self.log}: {self.verdict}"

    def __repr__(self) -> str:
        return f"<Audit: {self}>"

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {"the log's policy": "not known" if self.logged is None else words_of(self.logged)}
        for one in self.policies:
            rows[one.name] = words_of((one.lower, one.upper))
        rows |= {"any policy": f"at most {in_digits(self.optimum)}", "verdict": self.verdict}
        needs = ", ".join(f"{one.state}, {one.action} ({100 * one.share:.0f} %)" for one in self.pairs[:5])
        return html_table(f"Audit of {self.log}", rows | {"pairs that need data": needs, "if": self.assumptions})


def words_of(interval: Interval) -> str:
    """Return an interval in words."""
    return f"{in_digits(interval[0])} to {in_digits(interval[1])}"


def audit_log(
    log: Any,
    problem: Any,
    *,
    policies: Mapping[str, Any] | None = None,
    fixed_policy: bool = False,
    delta: float = 0.05,
    columns: Any = None,
    first_step: int | None = None,
    missing: str = "error",
    env_settings: dict[str, Any] | None = None,
) -> Audit:
    """Return what a log proves: about its own policy, about given ones and the safest one, and which pairs need data.

    No probabilities of the log's actions are needed. Half of δ is for bounds from the model, which hold for any policy,
    also one that the data chose; the other half for what the episodes of the log earned.

    Args:
        log: As in `Agent.learn_from`.
        problem: Numbered states, as for `MatrixRL`: a `Task`, `KnownDynamics`, an environment or its name.
        policies: Policies to audit, by name, each as in `Agent.compare`.
        fixed_policy: Whether one policy, which may be random, was fixed before the log and chose all its actions. If
            not, what is said of the log's policy is about the mean of the values of all policies that it was played
            with.
        delta: Probability δ.
        columns: As in `Agent.learn_from`.
        first_step: As in `Agent.learn_from`.
        missing: As in `Agent.learn_from`.
        env_settings: Settings of an environment given by name.

    Raises:
        InvalidInput: A row is wrong, or an argument.

    >>> import matrixrl
    >>> task = matrixrl.Task([[0.0, 0.1], [0.0, 1.0]], 2, start=0)
    >>> log = {"episode": [0, 0], "state": [0, 1], "action": [1, 1], "reward": [0.1, 1.0], "next_state": [1, 1]}
    >>> audit_log(log, task).verdict
    'safe improvement: not shown by these data'
    """
    flag("fixed_policy", fixed_policy)
    chance = number("delta", delta, low=0.0, high=1.0, open_ends=True, remedy="Such as 0.05.")
    given = {} if policies is None else policies
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        fail("policies", "must be a dictionary of policies by name", shown(policies), 'Such as {"new": policy}.')
    taken = sorted(set(given) & {SAFEST, CHOICES})
    if taken:
        fail("policies", "must have other names than those of the audit", taken, "Rename them.")
    agent = MatrixRL(problem, env_settings=env_settings, delta=chance / _PARTS, seed=0)
    certification.check_certifies(agent, "audit_log")
    learned = agent.learn_from(log, columns=columns, first_step=first_step, missing=missing, verbose=False)
    assert agent._seen is not None
    seen, _ = agent._seen.all()
    counted = _returns(agent, seen)
    claim = certification.certificate_claim(agent, False)
    logged = None if counted is None else _mean_value(counted, chance / _PARTS, fixed=fixed_policy)
    safest, start = agent.recommend(), agent._ledger.start()[1]
    choices, found = _choices(agent, seen, safest), []
    for name, policy in {SAFEST: safest, CHOICES: choices, **given}.items():
        tables = read_tables(agent, "audit_log", **{name: policy})
        compared = agent.compare(policy, choices)
        claim = claim and compared.guarantee
        lower, upper = compared.policy
        gain = None if logged is None else (lower - logged[1], upper - logged[0])
        [guess] = certification.estimates(agent, tables, None)
        found.append(AuditedPolicy(name, lower, upper, guess, gain, (compared.lower, compared.upper)))
    assert safest.certificate is not None
    known = agent.assumptions.partition(", if ")[2] or agent.assumptions  # without the probability, which is another
    words = [known, *([] if counted is None else [WHOLE, FIXED if fixed_policy else ANY])]
    return Audit(
        f"{learned.plan.source}, {seen.n_steps:,} steps of {seen.n_episodes:,} episodes",
        seen.n_episodes,
        0 if counted is None else len(counted.low),
        chance,
        claim and certification.certificate_claim(agent, False),
        "; ".join(one for one in words if one),
        start,
        None if counted is None else counted.mean,
        logged,
        fixed_policy,
        safest.certificate.upper,
        tuple(found),
        _pairs(agent, safest, seen),
        safest,
    )


def _choices(agent: Agent, seen: StepLog, safest: Policy) -> FloatArray:
    """Return the probabilities (H, S, A) of a policy that chooses as often as the log did.

    Where the log has no step of a stage it chooses as in the other stages, and where it has none at all as `safest`.
    """
    task, problem = agent.problem.finite_task, agent.problem
    shape = task.horizon, problem.n_observed, problem.actions.size
    times = np.zeros(shape)
    np.add.at(times, (seen.stages, seen.states, seen.actions), 1.0)
    pooled = np.broadcast_to(times.sum(axis=0), shape)
    same = task.stages.n_classes == 1  # actions of other stages mean the same
    none = times.sum(axis=2, keepdims=True) == 0.0
    times = np.where(none, pooled if same else 0.0, times)
    stages, states, _ = np.nonzero(times.sum(axis=2, keepdims=True) == 0.0)
    times[stages, states, np.asarray(safest.table)[stages, states]] = 1.0
    shares: FloatArray = times / times.sum(axis=2, keepdims=True)
    return shares


def _returns(agent: Agent, seen: StepLog) -> Returns | None:
    """Return what the episodes earned that begin at the first stage, where certificates begin; None if there is none.

    Steps after a gap in an episode, and those after it was cut, may have earned anything. Where rewards are known the
    expected ones of the pairs are earned.
    """
    problem, ledger = agent.problem, agent._ledger
    task, knows, offsets = problem.finite_task, knows_reward(agent._algorithm), seen.offsets
    firsts = seen.states[offsets[:-1]].astype(np.int64)
    counts = np.asarray(seen.firsts) == 0
    if not ledger.is_estimated:
        counts &= task.start[firsts] > 0.0
        if problem.has_random_start:
            ledger.test_first_states(firsts[counts])
    if not counts.any():
        return None
    gaps = seen.follows.astype(np.int64)
    gaps[1:] &= seen.states[1:] != seen.next_states[:-1]
    so_far = np.cumsum(gaps)
    taken = so_far == np.repeat(so_far[offsets[:-1]], seen.lengths)
    rewards = np.clip(seen.rewards, *task.reward_range)
    if knows:
        inner = task.stages.inner(seen.actions.astype(np.int64), seen.stages)
        rewards = task.reward[seen.states, inner]
    earned = np.add.reduceat(np.where(taken, rewards * task.discount**seen.stages, 0.0), offsets[:-1])
    steps = np.add.reduceat(taken.astype(np.int64), offsets[:-1])
    is_over = (steps == seen.lengths) & seen.ended[offsets[1:] - 1]
    ranges = stage_ranges(task, None, knows_reward=knows) * task.discount ** np.arange(task.horizon)[:, None]
    rest = np.concatenate([np.cumsum(ranges[::-1], axis=0)[::-1], np.zeros((1, 2))])
    left = np.where(is_over[:, None], 0.0, rest[np.minimum(steps, task.horizon)]) + task.tail * np.array(
        task.reward_range
    )
    low, high = (earned[:, None] + left)[counts].T
    return Returns.of(low, high, *value_range(task, None, knows_reward=knows))


def _mean_value(counted: Returns, delta: float, *, fixed: bool) -> Interval:
    """Return an interval of the value of the policy of a log, or of the mean of the values of its policies.

    The first one is that of a fixed policy (docs/proofs.md, 11.5). The second one holds whatever the policies learned
    from: the returns less their means given the past are a martingale, and its deviation is bounded on either side
    (section 11).
    """
    if fixed:
        return counted.interval(delta)
    low, high = counted.low / N_LEVELS, counted.high / N_LEVELS
    ends = (
        low.mean() - path_deviation(low, 0.5 * delta) / len(low),
        (high.mean() + path_deviation(1.0 - high, 0.5 * delta) / len(high)),
    )
    lower, upper = (counted.least + counted.range * float(np.clip(end, 0.0, 1.0)) for end in ends)
    return lower, upper


def _pairs(agent: Agent, safest: Policy, seen: StepLog) -> tuple[AuditedPair, ...]:
    """Return what each pair adds to the width of the interval of the safest policy, the largest share first."""
    problem, visits = agent.problem, agent.visits
    [table] = read_tables(agent, "audit_log", policy=safest)
    inner = agent._algorithm.certifier.widths_by_pair(table, seen)
    widths = np.zeros((problem.actions.size, inner.shape[1]))
    np.add.at(widths, problem.finite_task.stages.own(np.arange(len(inner))), inner)
    total = widths.sum()
    order = np.argsort(-widths, axis=None, kind="stable")[: int((widths > _LEAST_SHARE * total).sum())]
    return tuple(
        AuditedPair(problem.own_state(s), problem.actions.decode(a), int(visits[s, a]), float(widths[a, s] / total))
        for a, s in (np.unravel_index(place, widths.shape) for place in order.tolist())
    )


def _plain(value: Any) -> Any:
    """Return a field as plain data."""
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    if isinstance(value, np.generic):
        return value.item()
    return value if isinstance(value, (int, float, str, bool, type(None))) else str(value)
