"""What is proven about policies that a user gives, from the model and from what their episodes earned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from matrixrl.agents import certification
from matrixrl.agents.ask_and_tell import numbering
from matrixrl.certificates import Comparison, PolicyCertificate
from matrixrl.checks import fail, flag, number, shaped, within
from matrixrl.core.returns import Returns, difference_bounds
from matrixrl.play.given_policies import GivenReturns, policy_digest
from matrixrl.play.ledger import CONTRADICTION, contradictory
from matrixrl.policies import read_actions
from matrixrl.problems.task import checked_range
from matrixrl.records import FloatArray, Guarantee, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["certify", "compare", "compare_returns", "given_returns", "read_tables"]

_PARTS = 2  # of δ: one for the model, the other one for returns

Interval = tuple[float, float]


class Evidence(NamedTuple):
    """What the model and returns say of two policies, each at half of δ.

    Attributes:
        model: Intervals of the first and the second value, and of their difference, from the model.
        returns: Likewise from returns; None for what they say nothing about.
        of_model: Whether the first ones are proven.
        of_returns: Whether the second ones are proven.
        start: Start that they are about, in words.
    """

    model: list[Interval]
    returns: list[Interval | None]
    of_model: Guarantee
    of_returns: Guarantee
    start: str

    def intersected(self) -> tuple[list[Interval], Guarantee, str]:
        """Return the tighter bounds on each side, whether they are proven, and what they come from.

        What is not proven is left out if the other one is.
        """
        known = [one for one in self.returns if one is not None]
        if not known or not self.of_returns:
            return self.model, self.of_model, "model"
        if len(known) == len(self.returns) and not self.of_model:
            return known, self.of_returns, "returns"
        both = [
            one if other is None else (max(one[0], other[0]), min(one[1], other[1]))
            for one, other in zip(self.model, self.returns, strict=True)
        ]
        is_beaten = [other is not None and other == one for one, other in zip(both, self.returns, strict=True)]
        return both, self.of_model, "returns" if all(is_beaten) else "model and returns"


def certify(self: Agent, policy: Any, *, start: Any = None) -> PolicyCertificate:
    """Return an interval of the value of a given policy that holds with probability 1 − δ.

    The model bounds any policy. If the policy was given before its episodes, by `learn`, `begin_episode` or
    `learn_from` with ``policy=``, what these episodes earned bounds it too, and the tighter bound is taken on each
    side; each has half of δ. All intervals of `certify`, for all policies and after any number of episodes, hold
    together with probability 1 − δ (docs/proofs.md, section 11.5).

    Args:
        policy: As in `compare`.
        start: A state, as it is observed, in which the episode begins; returns say nothing about it.

    Raises:
        ProtocolError: The algorithm has no certificates.
        InvalidInput: It is no policy of this problem, or takes actions that are not allowed.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> right = [1, 1, 1]
    >>> _ = agent.learn(n_episodes=200, policy=right)
    >>> found = agent.certify(right)
    >>> found.n_episodes, found.basis, found.lower < found.estimate < found.upper
    (200, 'returns', True)
    """
    certification.check_certifies(self, "certify")
    [table] = read_tables(self, "certify", policy=policy)
    found = _evidence(self, [table, table], start)
    intervals, claim, basis = found.intersected()
    lower, upper = intervals[0]
    given, task = given_returns(self), self.problem.finite_task
    own = None if start is not None else given.of(table)
    n, digest = 0 if own is None else len(own[1].low), policy_digest(table, task).hex()
    if contradictory(upper=upper, lower=lower):
        claim = claim and Guarantee(False, CONTRADICTION)
    lower, upper = min(lower, upper), max(lower, upper)
    estimate = own[1].mean if own is not None and basis != "model" else _estimates(self, [table], start)[0]
    about = f"policy {digest[:8]}, from {certification.data_words(self)}{f', {n:,} of them its own' * (n > 0)}"
    return PolicyCertificate(
        lower=lower,
        upper=upper,
        delta=self._algorithm.claims.delta,
        guarantee=claim,
        basis=basis,
        estimate=None if estimate is None else min(max(estimate, lower), upper),
        trivial=certification.possible_values(self, table, table),
        n_episodes=n,
        about=about,
        start=found.start,
        digest=digest,
    )


def compare(self: Agent, policy: Any, incumbent: Any, *, start: Any = None) -> Comparison:
    """Return an interval of V^policy(s0) − V^incumbent(s0) that holds with probability 1 − δ.

    It is computed from what the agent has seen, under any policy. On the event of probability 1 − δ on which
    certificates hold, all comparisons of the agent hold together, so any number of policies may be compared, also
    those that the agent has learned. Where both policies take the same action, what is unknown about it cancels
    (docs/proofs.md, section 12). Values are those of the declared start, or of the distribution of first states if
    none is declared; `Comparison.start` says which.

    If one of the two was given before its episodes (`learn`, `begin_episode` or `learn_from` with ``policy=``), their
    returns count too: the model has half of δ, returns have the other half (section 11.5).

    Args:
        policy: A `Policy`; an array of whole numbers (S,) or (H, S), the actions counted from 0; an array of
            probabilities (S, A) or (H, S, A); or a function of observation and stage that returns an action, in the
            environment's numbers.
        incumbent: The policy to compare it with, likewise.
        start: A state, as it is observed, in which the episode begins, in place of that start; what was certified
            so far is then not used.

    Raises:
        ProtocolError: The algorithm has no certificates, or not for given policies.
        InvalidInput: An argument is no policy of this problem, or takes actions that are not allowed.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=200)
    >>> agent.compare(agent.recommend(), lambda obs, stage: 0).probably_better
    True
    """
    certification.check_certifies(self, "compare")
    tables = read_tables(self, "compare", policy=policy, incumbent=incumbent)
    given = [start is None and given_returns(self).of(table) is not None for table in tables]
    if any(given):
        found = _evidence(self, tables, start)
        intervals, claim, basis = found.intersected()
        first, second, (lower, upper) = intervals
        of_start = found.start
    else:
        first, second, (lower, upper), claim, of_start = _by_model(self, tables, start)
        basis = "model"
    lower, upper = max(lower, first[0] - second[1]), min(upper, first[1] - second[0])
    crossed = [contradictory(upper=b, lower=a) for a, b in ((lower, upper), first, second)]
    if start is None and not any(given):
        self._ledger.contradict(upper=upper, lower=lower)
    if any(crossed):
        claim = claim and Guarantee(False, CONTRADICTION)
    lower, upper = min(lower, upper), max(lower, upper)
    low, high = (certification.possible_values(self, table, table) for table in tables)
    values = [given_returns(self).of(table) for table in tables] if all(given) else [None, None]
    ours, theirs = _estimates(self, tables, start) if None in values else [one[1].mean for one in values if one]
    guess = None if ours is None or theirs is None else min(max(ours - theirs, lower), upper)
    about = f"two policies, from {certification.data_words(self)}, by the {basis}"
    return Comparison(
        lower,
        upper,
        first,
        second,
        self._algorithm.claims.delta,
        claim,
        of_start,
        estimate=guess,
        trivial=(low[0] - high[1], low[1] - high[0]),
        about=about,
    )


def compare_returns(
    policy: Any, incumbent: Any, *, return_range: tuple[float, float], delta: float = 0.05, paired: bool = False
) -> Comparison:
    """Return an interval of how much more one policy earns than another, from their returns alone, as in an A/B test.

    It holds with probability 1 − δ at all times at once, so a test may be looked at after every episode, and stopped
    when it is decided (docs/proofs.md, section 11.5). Both policies were fixed before, and no episode is left out for
    what it earned. Widths follow the variance of the returns, not their range, as soon as there are enough of them.

    Args:
        policy: (n,) Returns of the policy, in the order of the episodes. Episodes of both may alternate in any way that
            does not look ahead.
        incumbent: (m,) Returns of the policy to compare it with.
        return_range: Smallest and largest return that are possible.
        delta: Probability δ.
        paired: Whether the k-th episodes of both share a day, or anything else that their returns depend on; then
            n = m, and what they share cancels.

    >>> import numpy as np
    >>> day = np.random.default_rng(0).normal(5000.0, 900.0, size=(400, 1)) + [[80.0, 0.0]]
    >>> found = compare_returns(day[:, 0], day[:, 1], return_range=(0.0, 12000.0), paired=True)
    >>> found.probably_better, compare_returns(*day.T, return_range=(0.0, 12000.0)).probably_better
    (True, False)
    """
    least, most = checked_range(return_range, "return_range")
    chance = number("delta", delta, low=0.0, high=1.0, open_ends=True, remedy="Such as 0.05.")
    remedy = "Give returns (n,) within return_range."
    earned = [
        within(name, shaped(name, given, (None,), remedy=remedy), least, most, remedy=remedy)
        for name, given in (("policy", policy), ("incumbent", incumbent))
    ]
    if flag("paired", paired) and len(earned[0]) != len(earned[1]):
        fail("paired", "must have as many returns of one policy as of the other", [len(one) for one in earned], remedy)
    ours, theirs = (Returns.of(one, one, least, most) for one in earned)
    first, second = (one.interval(0.25 * chance) for one in (ours, theirs))
    if paired:
        apart = earned[0] - earned[1]
        lower, upper = Returns.of(apart, apart, least - most, most - least).interval(0.5 * chance)
    else:
        lower, upper = difference_bounds(ours, theirs, 0.5 * chance)
    lower, upper = max(lower, first[0] - second[1]), min(upper, first[1] - second[0])
    claim = Guarantee.unless(CONTRADICTION if contradictory(upper=upper, lower=lower) else None)
    lower, upper = min(lower, upper), max(lower, upper)
    guess = float(earned[0].mean() - earned[1].mean()) if len(earned[0]) and len(earned[1]) else None
    about = f"{len(earned[0]):,} and {len(earned[1]):,} returns{', paired' if paired else ''}"
    trivial = least - most, most - least
    return Comparison(lower, upper, first, second, chance, claim, "", guess, trivial, about)


def read_tables(self: Agent, call: str, **policies: Any) -> list[IntArray | FloatArray]:
    """Return policies of a user as (H, S) inner actions or (H, A, S) probabilities of them."""
    sizes = numbering(self, call)
    read = {name: read_actions(name, given, sizes) for name, given in policies.items()}
    return [self._algorithm.masks.read_policy(name, table) for name, table in read.items()]


def given_returns(self: Agent) -> GivenReturns:
    """Return what episodes of given policies earned, on numbered states."""
    found = self._ledger.given
    assert found is not None  # states are numbered
    return found


def _estimates(self: Agent, tables: list[IntArray | FloatArray], state: Any) -> list[float] | list[None]:
    """Return the values of policies in the estimated model, or None for each if there is none."""
    start, _ = self._ledger.start() if state is None else self._ledger.named_start(state)
    return self._algorithm.certifier.estimate_policies(tables, start) or [None] * len(tables)


def _evidence(self: Agent, tables: list[IntArray | FloatArray], state: Any) -> Evidence:
    """Return what the model says of two policies at half of δ, and what returns say at the other half."""
    ledger, algorithm = self._ledger, self._algorithm
    start, words = ledger.start(_PARTS) if state is None else ledger.named_start(state)
    certification.heed_masks(self)
    found = algorithm.certifier.bound_policies(tables[0][None], tables[1][None], start, _PARTS)
    model = [(float(low), float(high)) for low, high in zip(found.lower[:, 0], found.upper[:, 0], strict=True)]
    claim = certification.certificate_claim(self, bool(found.empty[0]), named=state is not None)
    if state is not None:
        return Evidence(model, [None] * 3, claim, Guarantee(False, "returns are about another start"), words)
    for k, table in enumerate(tables):
        frozen = ledger.returns.lower(table, algorithm.claims.returns_delta / _PARTS) if table.ndim == 2 else None
        if frozen is not None:
            model[k] = max(model[k][0], frozen), model[k][1]
    delta, given = algorithm.claims.delta / _PARTS, given_returns(self)
    returns = [*(given.interval(table, delta) for table in tables), given.difference(tables[0], tables[1], delta)]
    if tables[0] is tables[1] and returns[0] is not None:
        returns[2] = 0.0, 0.0
    withdrawn = Guarantee.unless(algorithm.claims.withdrawn, self._selection, ledger.start_doubt)
    return Evidence(model, returns, claim, withdrawn, words)


def _by_model(
    self: Agent, tables: list[IntArray | FloatArray], state: Any
) -> tuple[Interval, Interval, Interval, Guarantee, str]:
    """Return intervals of two values and of their difference at all of δ, and what was certified so far."""
    ledger = self._ledger
    start, words = ledger.start() if state is None else ledger.named_start(state)
    certification.heed_masks(self)
    found = self._algorithm.certifier.bound_policies(tables[0][None], tables[1][None], start)
    first, second = (
        _cut(self, table, (float(low), float(high)), is_named=state is not None)
        for table, low, high in zip(tables, found.lower[:2, 0], found.upper[:2, 0], strict=True)
    )
    claim = certification.certificate_claim(self, bool(found.empty[0]), named=state is not None)
    return first, second, (float(found.lower[2, 0]), float(found.upper[2, 0])), claim, words


def _cut(
    self: Agent, table: IntArray | FloatArray, interval: tuple[float, float], *, is_named: bool
) -> tuple[float, float]:
    """Return an interval of a policy's value, cut to what was certified so far unless bounds contradict it."""
    if is_named:
        return interval
    lower, upper = self._ledger.tighten(table if table.ndim == 2 else None, interval)
    self._ledger.contradict(upper=upper, lower=lower)
    return (lower, upper) if lower <= upper else interval
