"""What an agent can prove so far: certificates, and a bound on the regret."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents.witness import witness_of
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.certifier import Certifier
from matrixrl.algorithms.finite import permitted
from matrixrl.algorithms.matrix_rl.drift import Change
from matrixrl.certificates import Certificate, LossBound, RegretBound, RegretCertificate
from matrixrl.checks import fail
from matrixrl.core.returns import path_deviation
from matrixrl.errors import ProtocolError
from matrixrl.play.given_policies import value_range
from matrixrl.play.ledger import CONTRADICTION, CertifiedPolicy, contradictory, knows_reward
from matrixrl.records import Guarantee, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["LOG_ASSUMPTION"]

TIME_OUT_ASSUMPTION = (
    "whether a step times out depends on its state and action alone, and bounds are for the problem in which a "
    "time-out is an outcome"
)
"""Assumption about time-outs under which bounds hold, in words (docs/proofs.md, section 3)."""

MASK_ASSUMPTION = (
    "every action is allowed in a state at whose visits the environment reports no mask, and what a mask forbids is "
    "never allowed"
)
"""Assumption about environments whose allowed actions are not declared, in words (docs/proofs.md, section 13)."""

LOG_ASSUMPTION = (
    "logged steps have the same transitions and rewards; any policy may have chosen their actions, but whether a step "
    "is in a log was decided before its reward and next state were known, and no step is learned from twice"
)
"""Assumption about logs under which bounds hold, in words (docs/proofs.md, section 14)."""

START_ASSUMPTION = (
    "the first states of all episodes, those of logs that begin at the first step included, are drawn from one "
    "distribution, whatever happened before"
)
"""Assumption about first states where no start is declared, in words (docs/proofs.md, section 6.1)."""

GIVEN_ASSUMPTION = (
    "each given policy was fixed before the episodes that count for it, and no episode of it is left out, or put into "
    "a log, for what it earned"
)
"""Assumption about policies whose returns count, in words (docs/proofs.md, section 11.5)."""

DECLARED_ASSUMPTION = "first states are drawn from the declared distribution, for bounds on the regret so far"


def certificate(self: Agent, *, start: Any = None) -> Certificate:
    """Return how far from optimal the policy being played can still be.

    The policy is that of the only open episode, or else `policy`. The bounds are at the
    tightest proven radius, whatever the agent explores with, so they hold for tuned agents too. The upper bound on
    V* is the least one that was certified so far.

    Args:
        start: A state, as it is observed, in which the episode begins. Its bounds are computed from the model alone
            and are not remembered. By default bounds are about the declared start; if none is declared, about the
            distribution of first states, which all first states so far estimate (docs/proofs.md, section 6.1).
            `Certificate.start` says which.
    """
    if not self._algorithm.claims.certifies:
        words = f"{self.name} has no certificates; matrix-rl and kernel-matrix-rl on numbered states have"
        raise ProtocolError(words)
    is_open = self._queue.n_open == 1
    played = self._queue.open[0].data.plan if is_open else advised_plan(self)
    found = certificate_of(self, played, start)
    if self.problem.kind != "finite":
        return found
    table = self._algorithm.policy_table(permitted(self._algorithm, played))[0]
    return described(self, found, table, "the plan of the open episode" if is_open else "the plan to come", start)


def guarantee(self: Agent) -> Guarantee:
    """Return whether the regret bound is proven; see `Agent.guarantee`."""
    if first_alarm(self) is not None:
        return Guarantee(False, str(self.alarm))
    # Gaps of episodes that somebody else played with the algorithm are not known.
    algorithm, charged = self._algorithm, len(self._log.returns) == self.n_episodes
    others = overlap = None
    if self._overridden:
        episodes = f"{self._overridden} episode{'s' * (self._overridden > 1)}"
        others = f"{episodes} had other actions than those advised, or ended early"
        others = f"{others}: the proof of {self.name} is about its own actions"
    if self._queue.delay and not algorithm.claims.overlap_is_proven:
        overlap = f"episodes overlapped, and the proof of {self.name} is about episodes played one after the other"
    return (
        (algorithm.claims.charged_regret if charged else algorithm.claims.regret)
        and Guarantee.unless(others, overlap)
        and (algorithm.claims.after_logs() if algorithm.logged.episodes else Guarantee(True))
        and Guarantee.unless(self._selection)
    )


def alarm(self: Agent) -> str | None:
    """Return why the assumptions must be false; see `Agent.alarm`."""
    heed_masks(self)
    number, drift = first_alarm(self), getattr(self._algorithm.claims, "drift_words", None)
    if number is not None or drift is not None:
        words: str | None = drift or self._algorithm.claims.alarm_words(f"misspecification alarm in episode {number}")
    else:
        words = self._ledger.contradiction or (None if self._ledger.is_estimated else self._ledger.start_doubt)
    # Selected data contradict assumptions that are true.
    return words if words is None or self._selection is None else f"{words}, or the selection: {self._selection}"


def first_alarm(self: Agent) -> int | None:
    """Return the number of the first episode, counted from 1, of those that count that raised an alarm, or None."""
    raised = np.setdiff1d(np.flatnonzero(self._log.alarms[self._run_start :]) + self._run_start, self._passed)
    return int(raised[0]) + 1 if len(raised) else None


def changes(self: Agent) -> tuple[Change, ...]:
    """Return the changes of the problem that were noticed; see `Agent.changes`."""
    drift = getattr(self._algorithm, "drift", None)
    if drift is None:
        rule = "must be watched to name changes, and this agent assumes that nothing changes"
        fail("drift", rule, "off", 'Make the agent with drift="watch" or "restart".')
    found: tuple[Change, ...] = drift.changes
    return found


def stationary_words(self: Agent) -> str:
    """Return the assumption that nothing changes, and whether it is watched, in words."""
    drift, start = getattr(self._algorithm, "drift", None), self._run_start
    since = f" since episode {start + 1:,}" if drift is not None and drift.run > 1 else ""
    assumed = f"assumes that the problem has not changed{since}"
    if drift is None:
        return f"{assumed}, which is not watched"
    if drift.alarm:
        return f"{assumed}, but it has"
    return f"{assumed}; watched: no change seen, but pairs that are no longer visited cannot be watched"


def assumptions(self: Agent) -> str:
    """Return the assumptions of what is proven, in words."""
    words, algorithm = self._algorithm.claims.assumptions, self._algorithm
    if words and "since episode" in stationary_words(self):
        start = f"{self._run_start + 1:,}"
        words = f"{words}; data before episode {start} are dropped, and the problem has not changed since"
    if words and algorithm.masks.may_be_reported and self.problem.env is not None:
        words = f"{words}; {MASK_ASSUMPTION}"
    if words and self._ledger.is_estimated and self._algorithm.claims.certifies:
        words = f"{words}; {START_ASSUMPTION}"
    elif words and self._ledger.counts_first_states:
        words = f"{words}; {DECLARED_ASSUMPTION}"
    if words and self._ledger.given:
        words = f"{words}; {GIVEN_ASSUMPTION}"
    if words and self._queue.n_time_outs:
        words = f"{words}; {TIME_OUT_ASSUMPTION}"
    return f"{words}; {LOG_ASSUMPTION}" if words and self._algorithm.logged.episodes else words


def regret_certificate(self: Agent) -> RegretCertificate:
    """Return an upper bound on the regret of all episodes so far, from what they earned.

    It is N times the certified upper bound on V*(s0), less the returns, plus what chance along the played steps may
    have added to them. It holds with probability 1 − 2δ for all N at once. s0 is the start of `certificate`.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> history = agent.learn(n_episodes=200)
    >>> bool(history.cumulative_regret[-1] <= agent.regret_certificate().upper)
    True
    """
    check_certifies(self, "regret_certificate")
    shown = certificate_of(self, advised_plan(self))
    task, delta = self.problem.finite_task, self._algorithm.claims.delta
    low, largest = task.steps_weight * task.reward_range[0], task.steps_weight * task.unit
    counted = np.setdiff1d(np.arange(self._run_start, self.n_episodes), self._passed)
    returns = np.array(self._log.returns)[counted]
    part = self._algorithm.claims.run_delta
    deviation = largest * path_deviation(np.clip((returns - low) / largest, 0.0, 1.0), part)
    n, earned = len(returns), float(returns.sum())
    rest = n * task.tail * task.reward_range[0]  # steps that are cut off from endless episodes earn at least this
    upper = min(n * shown.upper - earned - rest + deviation, n * task.total_weight * task.unit)
    doubt = self._ledger.start_doubt or self._ledger.doubts
    if doubt is None:
        self._ledger.contradict(upper=upper, lower=0.0)
    claim = shown.guarantee and Guarantee.unless(doubt) and certificate_claim(self, False)
    return RegretCertificate(max(upper, 0.0), n, earned, deviation, min(2.0 * delta, 1.0), claim, shown.start)


def bound(self: Agent) -> RegretBound:
    """Return what the regret of the episodes so far is proven not to exceed, before what they earned is looked at.

    It is R(N), which is known before any data, and the gaps Γ of what was played: by how much the optimistic value
    of an action was below that of the best one, wherever another action than the agent's own was played
    (docs/proofs.md, 7.1), and what the tuned plans of an optimism budget lacked (7.2).
    It is about a number N of episodes that is not chosen by what they show.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, preset="optimistic", seed=0)
    >>> history = agent.learn(n_episodes=20)
    >>> bound = agent.bound()
    >>> bound.gaps, bool(history.cumulative_regret[-1] <= bound.total)
    (0.0, True)
    """
    algorithm, n, claim = self._algorithm, n_counted(self), self.guarantee
    before = algorithm.claims.bound(n, delay=self._queue.delay) if claim else None
    delta = min(2.0 * algorithm.claims.delta, 1.0)
    if before is None:
        claim = claim and Guarantee(False, f"{self.name} has no bound as a number for these settings")
        return RegretBound(None, None, self._gaps, n, delta, claim)
    task = self.problem.task
    assert task.reward_range is not None
    unit = task.reward_range[1] - task.reward_range[0]
    total = min(unit * before + self._gaps, n * self.problem.task.total_weight * unit)
    return RegretBound(total, unit * before, self._gaps, n, delta, claim)


def loss_bound(self: Agent) -> LossBound:
    """Return what the policies played are proven to have earned at most less than the incumbent.

    It is about expected values: what the returns show differs by chance. Episodes that a user gave a policy for do not
    count, nor do actions that a user played in place of those advised.

    Raises:
        ProtocolError: The agent was made without an incumbent.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", incumbent=[0] * 6, loss_budget=2.0, seed=0)
    >>> _ = agent.learn(n_episodes=50)
    >>> found = agent.loss_bound()
    >>> found.upper <= 2.0, found.n_episodes, bool(found.guarantee)
    (True, 50, True)
    """
    rule = getattr(self._algorithm, "loss_budget", None)
    if rule is None:
        raise ProtocolError("loss_bound needs an agent with incumbent=… and loss_budget=…")
    account = rule.account
    claim = certificate_claim(self, False, named=True) and Guarantee.unless(rule.forbidden)
    kinds, allowed = account.kinds[0].tolist(), float(rule.allowed(account, more=0)[0])
    lost, (n_incumbent, n_part, n_own) = 0.0 - float(account.worth[0]), kinds
    return LossBound(lost, allowed, n_incumbent, n_part, n_own, self._algorithm.claims.delta, claim)


def safest(self: Agent) -> tuple[CertifiedPolicy, Certificate]:
    """Return the policy with the largest certified lower bound so far, and its certificate."""
    current = certificate_of(self, self._algorithm.certifier.safest_plan())
    self._ledger.note_returns()
    best = self._ledger.best
    assert best is not None
    return best, _least(self, replace(current, lower=best.lower))


def described(self: Agent, found: Certificate, table: IntArray, which: str, state: Any = None) -> Certificate:
    """Return a certificate with the estimated value of its policy (H, S), what is possible, and what it is about."""
    [guess] = estimates(self, [table], state)
    inside = None if guess is None else min(max(guess, found.lower), found.upper)
    about, trivial = f"{which}, from {data_words(self)}; {stationary_words(self)}", possible_values(self, table, None)
    witness = witness_of(self, table, state)
    return replace(found, estimate=inside, trivial=trivial, about=about, witness=witness)


def estimates(self: Agent, tables: list[IntArray], state: Any) -> list[float] | list[None]:
    """Return the values of policies in the estimated model, or None for each if there is none."""
    start, _ = self._ledger.start() if state is None else self._ledger.named_start(state)
    return self._algorithm.certifier.estimate_policies(tables, start) or [None] * len(tables)


def run_number(self: Agent) -> int:
    """Return the number of the run between restarts after changes, counted from 1."""
    drift = getattr(self._algorithm, "drift", None)
    return 1 if drift is None else int(drift.run)


def n_counted(self: Agent) -> int:
    """Return the number of played episodes that are learned from: those since the last restart after a change."""
    return self.n_episodes - self._run_start - len(self._passed)


def data_words(self: Agent) -> str:
    """Return how many episodes were learned from, in words."""
    n, logged = n_counted(self), self.n_logged_episodes - self._run_logged
    if logged and not n:
        return f"{logged:,} logged episode{'s' * (logged > 1)}"
    return f"{n:,} episode{'s' * (n != 1)}" + f" and {logged:,} logged" * (logged > 0)


def possible_values(self: Agent, lower: IntArray | None, upper: IntArray | None) -> tuple[float, float]:
    """Return the smallest value of a policy, and the largest of another one, without data; None is any policy."""
    task, knows = self.problem.finite_task, knows_reward(self._algorithm)
    low, high = (value_range(task, table, knows_reward=knows) for table in (lower, upper))
    return low[0], high[1]


def heed_masks(self: Agent) -> None:
    """Forget what masks that were reported since the last call make wrong."""
    algorithm = self._algorithm
    if algorithm.masks.reported is self._known_masks or not isinstance(algorithm, FiniteAlgorithm):
        return
    self._known_masks = algorithm.masks.reported
    forget_plans(self)
    self._ledger.permit(algorithm.frame)


def certificate_of(self: Agent, plan: Any, state: Any = None) -> Certificate:
    """Return the certificate of a plan; nothing is remembered of one for a state that a user names."""
    start, of_start = self._ledger.start() if state is None else self._ledger.named_start(state)
    heed_masks(self)
    plan = permitted(self._algorithm, plan)
    bounds = self._algorithm.certifier.certify(plan, start)
    claim = certificate_claim(self, bool(bounds.empty[0]), named=state is not None)
    found = Certificate.of(bounds, 0, self._algorithm.claims.delta, claim, of_start)
    if state is not None:
        low, high = found.optimal_interval
        if low > high:
            words = CONTRADICTION if contradictory(upper=high, lower=low) else None
            found = replace(found, upper=low, guarantee=claim and Guarantee.unless(words))
        return found
    if self.problem.kind != "finite":
        return found
    self._ledger.note(found.upper, CertifiedPolicy(found.lower, self._algorithm.policy_table(plan)[0], "model"))
    if found.optimal_lower is not None:
        self._ledger.contradict(upper=found.upper, lower=found.optimal_lower)
    return _least(self, found)


def _least(self: Agent, found: Certificate) -> Certificate:
    """Return a certificate with the least upper bound so far, unless bounds contradict each other."""
    least, contradiction = float(self._ledger.least_upper[0]), self._ledger.contradiction
    if contradiction is None:
        return replace(found, upper=max(least, found.lower))
    wide = replace(found, upper=max(found.upper, found.lower))
    return replace(wide, guarantee=found.guarantee and Guarantee(False, contradiction))


def certificate_claim(self: Agent, alarmed: bool, *, named: bool = False) -> Guarantee:
    """Return whether a certificate is proven; first states do not matter to one of a state that a user names."""
    doubt = self._ledger.start_doubt if self._ledger.is_estimated and not named else None
    claim = self._algorithm.claims.certificate(alarmed or first_alarm(self) is not None)
    return claim and Guarantee.unless(self._selection, self._ledger.contradiction, doubt)


def check_certifies(self: Agent, call: str) -> None:
    if not self._algorithm.claims.certifies or self.problem.kind != "finite":
        raise ProtocolError(f"{call} needs certificates and numbered states; matrix-rl and kernel-matrix-rl have them")


def check_bounds_policies(self: Agent, call: str) -> None:
    """Refuse what needs bounds of given policies before anything is learned."""
    check_certifies(self, call)
    if type(self._algorithm.certifier).bound_policies is Certifier.bound_policies:
        raise ProtocolError(
            f"{call} needs bounds of given policies; matrix-rl has them without sampled columns and with "
            "planner='sweep'. Without policy=…, the log is learned from"
        )


def advised_plan(self: Agent) -> Any:
    """Return the plan from all finished episodes; cached."""
    heed_masks(self)
    if self._advice is None:
        self._advice = self._algorithm.advice()
    return self._advice


def estimated_plan(self: Agent) -> Any:
    """Return the plan that is greedy in the estimates; that of `_advised_plan` without a model; cached."""
    heed_masks(self)
    if self._estimate is None:
        try:
            self._estimate = self._algorithm.estimated_plan()
        except ProtocolError:  # the algorithm has no model
            self._estimate = advised_plan(self)
    return self._estimate


def forget_plans(self: Agent) -> None:
    """Forget the plans of data or masks that are out of date."""
    self._advice = self._estimate = None
