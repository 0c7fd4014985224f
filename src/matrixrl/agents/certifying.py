"""What an agent can prove so far: certificates, and a bound on the regret."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import numpy as np

from matrixrl.agents.certified import CONTRADICTION, CertifiedPolicy, CertifiedSoFar
from matrixrl.agents.first_states import FirstStates
from matrixrl.agents.order import EpisodeOrder
from matrixrl.algorithms import Algorithm, FiniteAlgorithm
from matrixrl.core.returns import path_deviation
from matrixrl.errors import ProtocolError
from matrixrl.problems import Problem
from matrixrl.records import Certificate, HistoryLog, RegretBound, RegretCertificate

__all__ = ["LOG_ASSUMPTION", "MASK_ASSUMPTION", "START_ASSUMPTION", "TIME_OUT_ASSUMPTION", "Certifying"]

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

_DECLARED_ASSUMPTION = "first states are drawn from the declared distribution, for bounds on the regret so far"


class Certifying:
    """The methods of an agent that return proven bounds (docs/proofs.md, sections 6 and 11)."""

    name: str
    _algorithm: Algorithm
    _log: HistoryLog
    _order: EpisodeOrder
    _certified: CertifiedSoFar
    _first: FirstStates
    _gaps: float  # sum of the gaps of what was played, in the environment's unit
    _overridden: int  # number of episodes with other actions than those advised whose gaps are not known
    _delay: int  # largest number of episodes that were learned from between the begin of an episode and its own turn
    _time_outs: int
    _selection: str | None  # why nothing is proven any more, such as data that were selected by what they show
    _advice: Any  # for `predict`; dropped when data come in
    _known_masks: object | None  # masks that `_certified` and `_advice` heed

    @property
    def problem(self) -> Problem:
        """The problem that is learned."""
        return self._algorithm.problem

    @property
    def n_episodes(self) -> int:
        """Number of episodes that were played and learned from."""
        return self._algorithm.episode - self._algorithm.logged_episodes

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven for this agent so far, under its `assumptions`; else why not.

        The bound is `bound`: it adds what other actions than the agent's own were expected to lose.
        """
        if any(self._log.alarms):
            return str(self.alarm)
        # Gaps of episodes that somebody else played with the algorithm are not known.
        algorithm, charged = self._algorithm, len(self._log.returns) == self.n_episodes
        words = algorithm.charged_claim if charged else algorithm.claim
        if words is True and self._overridden:
            episodes = f"{self._overridden} episode{'s' * (self._overridden > 1)}"
            others = f"{episodes} had other actions than those advised, or ended early"
            return f"{others}: the proof of {self.name} is about its own actions"
        if words is True and self._delay and not self._algorithm.overlap_is_proven:
            return f"episodes overlapped, and the proof of {self.name} is about episodes played one after the other"
        if words is True and self._algorithm.logged_episodes:
            words = self._algorithm.log_guarantee
        return self._selection or words if words is True else words

    @property
    def alarm(self) -> str | None:
        """Why the assumptions must be false, in words: a misspecification alarm, or bounds that contradict each other.

        None as long as the data do not contradict them.
        """
        self._heed_masks()
        if any(self._log.alarms):
            return self._algorithm.alarm_words(f"misspecification alarm in episode {self._log.alarms.index(True) + 1}")
        return self._certified.contradiction or (None if self._first.is_estimated else self._first.doubt)

    @property
    def assumptions(self) -> str:
        """Assumptions of `guarantee` and of the guarantee of a certificate, in words; empty if nothing is proven."""
        words, algorithm = self._algorithm.assumptions, self._algorithm
        if words and isinstance(algorithm, FiniteAlgorithm) and algorithm.may_be_told and self.problem.env is not None:
            words = f"{words}; {MASK_ASSUMPTION}"
        if words and self._first.is_estimated and self._algorithm.certifies:
            words = f"{words}; {START_ASSUMPTION}"
        elif words and self._first.n_counted:
            words = f"{words}; {_DECLARED_ASSUMPTION}"
        if words and self._time_outs:
            words = f"{words}; {TIME_OUT_ASSUMPTION}"
        return f"{words}; {LOG_ASSUMPTION}" if words and self._algorithm.logged_episodes else words

    def certificate(self, *, start: Any = None) -> Certificate:
        """Return how far from optimal the policy being played can still be.

        The policy is that of the only open episode, or else the one that `predict` follows. The bounds are at the
        tightest proven radius, whatever the agent explores with, so they hold for tuned agents too. The upper bound on
        V* is the least one that was certified so far.

        Args:
            start: A state, as it is observed, in which the episode begins. Its bounds are computed from the model alone
                and are not remembered. By default bounds are about the declared start; if none is declared, about the
                distribution of first states, which all first states so far estimate (docs/proofs.md, section 6.1).
                `Certificate.start` says which.
        """
        if not self._algorithm.certifies:
            words = f"{self.name} has no certificates; matrix-rl and kernel-matrix-rl on numbered states have"
            raise ProtocolError(words)
        played = self._order.open[0]._plan if self._order.n_open == 1 else self._advised_plan()
        return self._certificate_of(played) if start is None else self._named_certificate(played, start)

    def regret_certificate(self) -> RegretCertificate:
        """Return an upper bound on the regret of all episodes so far, from what they earned.

        It is N times the certified upper bound on V*(s0), less the returns, plus what chance along the played steps may
        have added to them. It holds with probability 1 − 2δ for all N at once. s0 is the start of `certificate`.

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
        >>> history = agent.learn(n_episodes=200)
        >>> bool(history.cumulative_regret[-1] <= agent.regret_certificate().upper)
        True
        """
        self._check_certifies("regret_certificate")
        shown = self._certificate_of(self._advised_plan())
        task, delta = self.problem.finite_task, self._algorithm.delta
        low, largest = task.steps_weight * task.reward_range[0], task.steps_weight * task.unit
        returns = np.array(self._log.returns)
        deviation = largest * path_deviation(np.clip((returns - low) / largest, 0.0, 1.0), delta)
        n, earned = len(returns), float(returns.sum())
        rest = n * task.tail * task.reward_range[0]  # steps that are cut off from endless episodes earn at least this
        upper = min(n * shown.upper - earned - rest + deviation, n * task.total_weight * task.unit)
        doubt = self._first.doubt or self._certified.doubts()
        if doubt is None:
            self._certified.contradict(upper=upper, lower=0.0)
        words: Literal[True] | str = doubt or self._certificate_words(shown.guarantee is not True)
        words = shown.guarantee if shown.guarantee is not True else words
        return RegretCertificate(max(upper, 0.0), n, earned, deviation, min(2.0 * delta, 1.0), words, shown.start)

    def bound(self) -> RegretBound:
        """Return what the regret of the episodes so far is proven not to exceed, before what they earned is looked at.

        It is R(N), which is known before any data, and the gaps Γ of what was played: by how much the optimistic value
        of an action was below that of the best one, wherever another action than the agent's own was played
        (docs/proofs.md, 7.1). It is about a number N of episodes that is not chosen by what they show.

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
        >>> history = agent.learn(n_episodes=20)
        >>> bound = agent.bound()
        >>> bound.gaps, bool(history.cumulative_regret[-1] <= bound.total)
        (0.0, True)
        """
        algorithm, n, words = self._algorithm, self.n_episodes, self.guarantee
        before = algorithm.charged_bound(n, delay=self._delay) if words is True else None
        delta = min(2.0 * algorithm.delta, 1.0)
        if before is None:
            reason = f"{self.name} has no bound as a number for these settings" if words is True else words
            return RegretBound(None, None, self._gaps, n, delta, reason)
        task = self.problem.task
        assert task.reward_range is not None
        unit = task.reward_range[1] - task.reward_range[0]
        total = min(unit * before + self._gaps, n * self.problem.total_weight * unit)
        return RegretBound(total, unit * before, self._gaps, n, delta, True)

    def _safest(self) -> tuple[CertifiedPolicy, Certificate]:
        """Return the policy with the largest certified lower bound so far, and its certificate."""
        current = self._certificate_of(self._algorithm.safest_plan())
        self._certified.note_returns()
        best = self._certified.best
        assert best is not None
        return best, self._least(replace(current, lower=best.lower))

    def _heed_masks(self) -> None:
        """Forget what masks that were reported since the last call make wrong."""
        algorithm = self._algorithm
        if algorithm.reported_masks is self._known_masks or not isinstance(algorithm, FiniteAlgorithm):
            return
        self._known_masks, self._advice = algorithm.reported_masks, None
        self._certified.permit(algorithm.frame)
        self._certified.contradiction = None  # a lower bound may have been that of actions that are not allowed

    def _certificate_of(self, plan: Any) -> Certificate:
        self._heed_masks()
        plan = self._algorithm.permitted(plan)
        start, of_start = self._first.start()
        bounds = self._algorithm.certify(plan, start)
        found = bounds.certificate(0, self._algorithm.delta, self._certificate_words(bool(bounds.empty[0])), of_start)
        if self.problem.kind == "finite":
            policy = CertifiedPolicy(found.lower, self._algorithm.policy_table(plan)[0], "model")
            self._certified.note(found.upper, policy)
            if found.optimal_lower is not None:
                self._certified.contradict(upper=found.upper, lower=found.optimal_lower)
            return self._least(found)
        return found

    def _named_certificate(self, plan: Any, state: Any) -> Certificate:
        """Return the certificate of a plan for a state that a user names; nothing is remembered of it."""
        start, of_start = self._first.named(state)
        self._heed_masks()
        plan = self._algorithm.permitted(plan)
        bounds = self._algorithm.certify(plan, start)
        words = self._certificate_words(bool(bounds.empty[0]), named=True)
        found = bounds.certificate(0, self._algorithm.delta, words, of_start)
        low, high = found.optimal_interval
        if low > high:
            apart = low > high + 1e-9 * (1.0 + abs(low) + abs(high))
            found = replace(found, upper=low, guarantee=CONTRADICTION if apart and words is True else words)
        return found

    def _least(self, found: Certificate) -> Certificate:
        """Return a certificate with the least upper bound so far, unless bounds contradict each other."""
        least, contradiction = self._certified.least_upper, self._certified.contradiction
        assert least is not None
        if contradiction is None:
            return replace(found, upper=max(least, found.lower))
        wide = replace(found, upper=max(found.upper, found.lower))
        return replace(wide, guarantee=contradiction) if found.guarantee is True else wide

    def _certificate_words(self, alarmed: bool, *, named: bool = False) -> Literal[True] | str:
        """Return True if a certificate is proven, else the reason why it is not.

        Args:
            alarmed: Whether the misspecification alarm was raised.
            named: Whether it is about a state that a user names, for which first states do not matter.
        """
        words = self._algorithm.certificate_claim(alarmed or any(self._log.alarms))
        doubt = self._first.doubt if self._first.is_estimated and not named else None
        return self._selection or self._certified.contradiction or doubt or words if words is True else words

    def _check_certifies(self, call: str) -> None:
        if not self._algorithm.certifies or self.problem.kind != "finite":
            raise ProtocolError(
                f"{call} needs certificates and numbered states; matrix-rl and kernel-matrix-rl have them"
            )

    def _advised_plan(self) -> Any:
        """Return the plan from all finished episodes; cached."""
        self._heed_masks()
        if self._advice is None:
            self._advice = self._algorithm.advice()
        return self._advice
