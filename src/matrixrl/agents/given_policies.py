"""What is proven about policies that a user gives, from the model and from what their episodes earned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from matrixrl.agents import certification
from matrixrl.agents.ask_and_tell import read_tables
from matrixrl.agents.replay import Replay, checked_task, counted, run_begin, seen_outcomes
from matrixrl.agents.witness import witness_of
from matrixrl.certificates import Comparison, PolicyCertificate
from matrixrl.checks import fail, flag, number, shaped, within
from matrixrl.core.returns import Returns, difference_bounds
from matrixrl.play.given_policies import GivenReturns, policy_digest
from matrixrl.play.ledger import CONTRADICTION, contradictory
from matrixrl.problems.task import checked_range
from matrixrl.records import Guarantee, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["certify", "compare", "compare_returns", "given_returns"]

_PARTS = 2  # of δ: one for the model, the other one for returns

Interval = tuple[float, float]


class Evidence(NamedTuple):
    """What is proven about two policies: intervals of the first and second value and of their difference."""

    intervals: list[Interval]
    claim: Guarantee
    basis: str
    start: str


def certify(self: Agent, policy: Any, *, start: Any = None, since: int | None = None) -> PolicyCertificate:
    """Return an interval of the value of a given policy that holds with probability 1 − δ.

    The model bounds any policy. If the policy was given before its episodes, by `learn`, `begin_episode` or
    `learn_from` with ``policy=``, what these episodes earned bounds it too, and the tighter bound is taken on each
    side; each has half of δ. All intervals of `certify`, for all policies and after any number of episodes, hold
    together with probability 1 − δ (docs/proofs.md, section 11.5).

    Args:
        policy: As in `compare`.
        start: A state, as it is observed, in which the episode begins; returns say nothing about it.
        since: As in `compare`: the policy was fixed before the episode of this number.

    Raises:
        ProtocolError: The algorithm has no certificates, or `since` is given and `replay` refuses the problem.
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
    return certified(self, table, start, _replays(self, [table], start, since))


def certified(
    self: Agent, table: IntArray, start: Any = None, replays: list[Returns] | None = None
) -> PolicyCertificate:
    """Return what `certify` returns, for the actions (H, S), or probabilities (H, A, S), of a policy."""
    found = _evidence(self, [table, table], start, _PARTS, replays)
    lower, upper, claim = _ordered(found.intervals[0], found.claim)
    own = None if start is not None else given_returns(self).of(table)
    own = (0, replays[0]) if replays else own
    n, digest = 0 if own is None else len(own[1].low), policy_digest(table, self.problem.finite_task).hex()
    [guess] = (
        certification.estimates(self, [table], start)
        if not n or own is None or found.basis == "model"
        else [own[1].mean]
    )
    guess = None if guess is None else min(max(guess, lower), upper)
    trivial, delta = certification.possible_values(self, table, table), self._algorithm.claims.delta
    about = f"policy {digest[:8]}, from {certification.data_words(self)}"
    about += _replay_words(replays) if replays else f", {n:,} of them its own" * (n > 0)
    witness = "it has replays, which no file holds" if replays else witness_of(self, table, start, _PARTS)
    words = about, found.start, digest
    return PolicyCertificate(lower, upper, delta, claim, found.basis, guess, trivial, n, *words, witness)


def compare(self: Agent, policy: Any, incumbent: Any, *, start: Any = None, since: int | None = None) -> Comparison:
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
        since: Both policies were fixed before the episode of this number, counted from 0 over all episodes that were
            learned from, logged ones too: ``since=0`` for two rules, ``since=agent.n_episodes`` of the day on which a
            learned policy was put aside. What both would have earned on the same outcomes of these episodes (`replay`)
            then counts as paired days do, and has half of δ. This one comparison holds with probability 1 − δ after any
            number of episodes; others with `since` have a δ of their own (docs/proofs.md, section 11.8).

    Raises:
        ProtocolError: The algorithm has no certificates, or not for given policies, or `since` is given and `replay`
            refuses the problem.
        InvalidInput: An argument is no policy of this problem, or takes actions that are not allowed.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=200)
    >>> agent.compare(agent.recommend(), lambda obs, stage: 0).probably_better
    True
    """
    certification.check_certifies(self, "compare")
    tables = read_tables(self, "compare", policy=policy, incumbent=incumbent)
    replays = _replays(self, tables, start, since)
    known = [None if start is not None else given_returns(self).of(table) for table in tables]
    known = [(0, one) for one in replays[:2]] if replays else known
    found = _evidence(self, tables, start, _PARTS if any(known) else 1, replays)
    first, second, apart = found.intervals
    apart = max(apart[0], first[0] - second[1]), min(apart[1], first[1] - second[0])
    if start is None and not any(known):
        self._ledger.contradict(upper=apart[1], lower=apart[0])
    lower, upper, claim = _ordered(apart, found.claim, first, second)
    returns = [one[1].mean for one in known if one is not None and len(one[1].low)]
    ours, theirs = returns if len(returns) == len(tables) else certification.estimates(self, tables, start)
    guess = None if ours is None or theirs is None else min(max(ours - theirs, lower), upper)
    low, high = (certification.possible_values(self, table, table) for table in tables)
    trivial, delta = (low[0] - high[1], low[1] - high[0]), self._algorithm.claims.delta
    about = f"two policies, from {certification.data_words(self)}, by the {found.basis}"
    about += _replay_words(replays) if replays else ""
    about = f"{about}; {certification.stationary_words(self)}"
    return Comparison(lower, upper, first, second, delta, claim, found.start, guess, trivial, about)


def compare_returns(
    policy: Any, incumbent: Any, *, return_range: tuple[float, float], delta: float = 0.05, paired: bool = False
) -> Comparison:
    """Return an interval of how much more one policy earns than another, from their returns alone, as in an A/B test.

    It holds with probability 1 − δ at all times at once, so a test may be looked at after every episode, and stopped
    when it is decided (docs/proofs.md, section 11.5). Both policies were fixed before, and no episode is left out for
    what it earned.

    Args:
        policy: (n,) Returns of the policy, in the order of the episodes. Episodes of both may alternate in any way that
            does not look ahead.
        incumbent: (m,) Returns of the policy to compare it with.
        return_range: Smallest and largest return that are possible.
        delta: Probability δ.
        paired: Whether the k-th episodes of both share a day, or anything else that their returns depend on; then
            n = m, and what they share cancels.

    >>> import numpy as np
    >>> day = np.random.default_rng(0).normal(5000.0, 900.0, size=(400, 1)) + [[170.0, 0.0]]
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
        by_day = earned[0] - earned[1]
        lower, upper = Returns.of(by_day, by_day, least - most, most - least).interval(0.5 * chance)
    else:
        lower, upper = difference_bounds(ours, theirs, 0.5 * chance)
    apart = max(lower, first[0] - second[1]), min(upper, first[1] - second[0])
    lower, upper, claim = _ordered(apart, Guarantee(True))
    guess, trivial = float(earned[0].mean() - earned[1].mean()), (least - most, most - least)
    about = f"{len(earned[0]):,} and {len(earned[1]):,} returns{', paired' if paired else ''}"
    return Comparison(lower, upper, first, second, chance, claim, "", guess, trivial, about)


def given_returns(self: Agent) -> GivenReturns:
    """Return what episodes of given policies earned, on numbered states."""
    found = self._ledger.given
    assert found is not None  # states are numbered
    return found


def _ordered(interval: Interval, claim: Guarantee, *others: Interval) -> tuple[float, float, Guarantee]:
    """Return the bounds of an interval in order; nothing is claimed if some interval has its bounds crossed."""
    crossed = any(contradictory(upper=high, lower=low) for low, high in (interval, *others))
    return min(interval), max(interval), claim and Guarantee.unless(CONTRADICTION if crossed else None)


def _replays(self: Agent, tables: list[IntArray], state: Any, since: int | None) -> list[Returns] | None:
    """Return what policies would have earned since an episode, and if they are two by how much it differs."""
    if since is None:
        return None
    if state is not None:
        fail("since", "must be left out with start, about which recorded episodes say nothing", since, "Pass one.")
    task, seen = checked_task(self), seen_outcomes(self, since)
    if since < run_begin(self):
        rule = f"must be at least {run_begin(self)}, as a change was noticed before"
        fail("since", rule, since, "Earlier outcomes may have other laws.")
    seen = seen.take(counted(self, seen))
    policies = [Replay(task, table) for table in tables]
    return [*(one.levels(seen) for one in policies), *(policies[0].difference(one, seen) for one in policies[1:])]


def _replay_words(replays: list[Returns]) -> str:
    return f", fixed before the {len(replays[0].low):,} episodes that are replayed"


def _evidence(
    self: Agent, tables: list[IntArray], state: Any, parts: int, replays: list[Returns] | None = None
) -> Evidence:
    """Return what is proven about two policies, from the model at one of some parts of δ.

    If there are two parts, returns, or replays, have the other one; the tighter bound is taken on each side, and what
    is not proven is left out if the other is. If there is one, intervals are cut to what was certified so far.
    """
    ledger, algorithm = self._ledger, self._algorithm
    start, words = ledger.start(parts) if state is None else ledger.named_start(state)
    certification.heed_masks(self)
    found = algorithm.certifier.bound_policies(tables[0][None], tables[1][None], start, *([parts] * (parts > 1)))
    model = [(float(low), float(high)) for low, high in zip(found.lower[:, 0], found.upper[:, 0], strict=True)]
    claim = certification.certificate_claim(self, bool(found.empty[0]), named=state is not None)
    if state is not None:
        return Evidence(model, claim, "model", words)
    if parts == 1:
        cut = [_cut(self, table, interval) for table, interval in zip(tables, model[:2], strict=True)]
        return Evidence([*cut, model[2]], claim, "model", words)
    for k, table in enumerate(tables):
        frozen = ledger.returns.lower(table, algorithm.claims.returns_delta / parts) if table.ndim == 2 else None
        model[k] = max(model[k][0], model[k][0] if frozen is None else frozen), model[k][1]
    delta, given = algorithm.claims.run_delta / parts, given_returns(self)
    returns = [*(given.interval(table, delta) for table in tables), given.difference(tables[0], tables[1], delta)]
    if tables[0] is tables[1] and returns[0] is not None:
        returns[2] = 0.0, 0.0
    if replays is not None:  # docs/proofs.md, 11.8
        shares = (0.25, 0.25, 0.5) if len(replays) > 1 else (1.0,)
        replayed = [one.interval(share * delta) for one, share in zip(replays, shares, strict=True)]
        returns = [*replayed] if len(replayed) > 1 else [replayed[0], replayed[0], (0.0, 0.0)]
    known = [one for one in returns if one is not None]
    if not known or algorithm.claims.withdrawn or self._selection or ledger.start_doubt:
        return Evidence(model, claim, "model", words)
    if not claim and len(known) == len(returns) and replays is None:
        return Evidence(known, Guarantee(True), "returns", words)
    both = [
        one if other is None else (max(one[0], other[0]), min(one[1], other[1]))
        for one, other in zip(model, returns, strict=True)
    ]
    name = "returns" if replays is None else "replay"
    return Evidence(both, claim, name if both == returns else f"model and {name}", words)


def _cut(self: Agent, table: IntArray, interval: Interval) -> Interval:
    """Return an interval of a policy's value, cut to what was certified so far unless bounds contradict it."""
    lower, upper = self._ledger.tighten(table if table.ndim == 2 else None, interval)
    self._ledger.contradict(upper=upper, lower=lower)
    return (lower, upper) if lower <= upper else interval
