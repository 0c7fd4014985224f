"""Why an agent takes an action: estimates and bounds of all actions, and which unknown pairs the bounds hang on."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import certification
from matrixrl.agents.deployment import own_bounds
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.finite import permitted
from matrixrl.algorithms.matrix_rl.budget import BudgetPlan
from matrixrl.algorithms.matrix_rl.certifier import MatrixRLCertifier
from matrixrl.algorithms.matrix_rl.conservative import OWN, ConservativePlan, LossBudget
from matrixrl.checks import index
from matrixrl.core.likelihood.bounds import LikelihoodBounds
from matrixrl.core.likelihood.outcomes import OutcomeBounds
from matrixrl.display import html_table, in_digits, printable
from matrixrl.errors import ProtocolError
from matrixrl.extras import require_packages
from matrixrl.features import LatentPsi
from matrixrl.records import FloatArray, Guarantee, IntArray
from matrixrl.tolerances import TIE

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["ActionView", "Explanation", "UnknownPair"]

_SHOWN = 3  # pairs that are named in words
_MOST_ACTIONS = 8  # actions that are named in words


@dataclass(frozen=True, slots=True)
class ActionView:
    """What is known of an allowed action; values are those of the rest of the episode, in the environment's unit.

    Attributes:
        action: The action, as users take it.
        estimate: Its value in the estimated model, followed by the best actions of that; no bound.
        lower: Lower bound on Q*.
        upper: Upper bound on Q*.
        visits: How often it was taken in the state; None if the agent keeps no log.
    """

    action: Any
    estimate: float
    lower: float
    upper: float
    visits: int | None


@dataclass(frozen=True, slots=True)
class UnknownPair:
    """A pair whose transitions, or reward, are not known well, and what that adds to the upper bound of a state.

    Attributes:
        state: The state, as it is observed.
        action: The action, as users take it.
        visits: How often it was taken; None if the agent keeps no log.
        width: What is not known about it, times how often the optimistic policy is expected to meet it until the end of
            the episode, in the environment's unit.
        share: Its share of the sum over all pairs.
    """

    state: Any
    action: Any
    visits: int | None
    width: float
    share: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why an agent takes an action in a state.

    Attributes:
        state: The state, as it is observed.
        stage: Stage h, counted from 0.
        action: The action that is played.
        purpose: Why: `earn` (it is the best by the estimate), `learn` (another one is, or all are alike, and this one
            may be better by the bounds of the plan), or `given` (the episode plays a policy that was given).
        plan: Which plan that is, in words.
        actions: All allowed actions.
        upper: Largest upper bound of all actions.
        estimate: What the optimistic policy earns in the estimated model from here on; None where `pairs` is.
        pairs: The pairs that make up the difference of `upper` and `estimate`, those with the largest widths first;
            None if the model is not one of counts.
        guarantee: Whether the bounds are proven.
    """

    state: Any
    stage: int
    action: Any
    purpose: str
    plan: str
    actions: tuple[ActionView, ...]
    upper: float
    estimate: float | None
    pairs: tuple[UnknownPair, ...] | None
    guarantee: Guarantee

    @property
    def played(self) -> ActionView:
        """The action that is played."""
        return next(one for one in self.actions if one.action == self.action)

    def as_dict(self) -> dict[str, Any]:
        """Return all entries by name, as plain data."""
        return asdict(self)

    def to_frame(self) -> Any:
        """Return the actions as a data frame of pandas.

        Raises:
            MissingExtra: pandas is not installed.
        """
        require_packages(["pandas"], extra="pandas", purpose="A data frame")
        import pandas as pd

        return pd.DataFrame([asdict(one) for one in self.actions])

    def __str__(self) -> str:
        lines = [
            f"state {printable(self.state)}, stage {self.stage}: action {printable(self.action)}, {self._reason()}"
        ]
        order = sorted(self.actions, key=lambda one: -one.upper)
        for one in self.actions:
            if one.action == self.action or one in order[:_MOST_ACTIONS]:
                mark = "→" if one.action == self.action else " "
                lines.append(f"{mark} {printable(one.action)}: {_known(one)}")
        if len(self.actions) + 1 > len(lines):
            lines.append(f"  and {len(self.actions) + 1 - len(lines)} with smaller upper bounds")
        if not self.guarantee:
            lines.append(f"the bounds are not proven: {self.guarantee.reason}")
        if self.pairs is None:
            lines.append("the features share data between pairs, so the width has no parts that belong to one pair")
        elif self.pairs and self.estimate is not None:
            named = "; ".join(f"{_name(one)} ({_weight(one)})" for one in self.pairs[:_SHOWN])
            above = in_digits(self.upper - self.estimate)
            worth = f"the optimistic plan, estimated {in_digits(self.estimate)}"
            lines.append(f"the upper bound {in_digits(self.upper)} is that of {worth}; {above} are unknown: {named}")
        return "\n".join(lines)

    def _reason(self) -> str:
        """Return why the action is played, in words."""
        best = max(self.actions, key=lambda one: one.estimate)
        if self.purpose == "given":
            return f"as the given policy says ({self.plan})"
        if self.purpose == "earn":
            return f"to earn: it is the best by the estimate ({self.plan})"
        alike = self.played.estimate >= best.estimate
        words = "all actions are estimated alike" if alike else f"the estimate is for {printable(best.action)}"
        return f"to learn: {words}, and up to {in_digits(self.played.upper)} is possible here ({self.plan})"

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {"played": f"action {printable(self.action)}, {self._reason()}"}
        rows |= {f"action {printable(one.action)}": _known(one) for one in self.actions}
        for one in (self.pairs or ())[:_SHOWN]:
            rows[f"unknown: {_name(one)}"] = f"{in_digits(one.width)}, {_weight(one)}"
        return html_table(f"State {printable(self.state)}, stage {self.stage}", rows)


def _known(one: ActionView) -> str:
    numbers = one.estimate, one.lower, one.upper
    slack = TIE * max(map(abs, numbers))  # rounding errors of 0 are shown as 0
    estimate, lower, upper = (in_digits(x if abs(x) > slack else 0.0) for x in numbers)
    return f"estimated {estimate}, {lower} to {upper}{_tried(one.visits)}"


def _name(one: UnknownPair) -> str:
    return f"action {printable(one.action)} in state {printable(one.state)}"


def _weight(one: UnknownPair) -> str:
    return f"{100.0 * one.share:.2g} %{_tried(one.visits)}"


def _tried(visits: int | None) -> str:
    return "" if visits is None else f", tried {visits:,} time{'s' * (visits != 1)}"


def explain(self: Agent, state: Any, stage: int = 0) -> Explanation:
    """Return why the agent takes its action in a state: to earn or to learn, and what it does not know.

    The action is that of the only open episode, or else of the next one. Nothing changes, not even a random stream.
    The upper bounds are those of the plan that is optimistic at the radius for all actions. Their excess over what that
    plan earns in the estimated model is the sum over all pairs of how often it is expected to meet a pair there, times
    what is not known about the pair, which is exact (docs/proofs.md, section 9.12). So `pairs` says which pairs must be
    tried before the bound can fall.

    Args:
        state: The state, as it is observed.
        stage: Stage h, counted from 0.

    Raises:
        ProtocolError: States are not numbered, or the algorithm has no bounds of single actions.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=20)
    >>> found = agent.explain(2)
    >>> found.action, found.purpose, len(found.actions)
    (1, 'earn', 2)
    """
    algorithm, problem = self._algorithm, self.problem
    if not isinstance(algorithm, FiniteAlgorithm) or type(algorithm.certifier) is not MatrixRLCertifier:
        words = "explain needs bounds of single actions: matrix-rl on numbered states, with planner='sweep', has them"
        raise ProtocolError(words)
    certification.heed_masks(self)
    s = int(problem.state("state", state))
    h = index("stage", stage, size=problem.task.horizon, remedy="Stages count from 0.")
    plan, words, is_given = _plan_of(self, h)
    certifier, task = algorithm.certifier, algorithm.task
    inner = int(algorithm.policy_table(permitted(algorithm, plan))[0][h, s])
    lower, upper = certifier.bound_actions()
    estimated = certifier.estimate_actions()
    low, high = (table[h, s] for table in own_bounds(algorithm, lower, upper))
    guesses, own = own_bounds(algorithm, estimated, estimated)[0][h, s], task.stages.own(inner)
    allowed = np.flatnonzero(np.isfinite(low))
    visits = self.visits if self.keep_log else None
    views = tuple(
        ActionView(
            problem.actions.decode(int(a)),
            float(min(max(guesses[a], low[a]), high[a])),
            float(low[a]),
            float(high[a]),
            None if visits is None else int(visits[s, a]),
        )
        for a in allowed
    )
    slack, others = TIE * task.unit, guesses[allowed]
    is_best = guesses[own] >= others.max() - slack and (len(others) == 1 or others.min() < others.max() - slack)
    purpose = "given" if is_given else "earn" if is_best else "learn"
    widths = _widths(algorithm, upper[0], h, s)
    worth = pairs = None
    top = float(high[allowed].max())
    if widths is not None:
        pairs = _pairs(self, widths * task.unit, visits)
        worth = top - float(widths.sum()) * task.unit
    claim = certification.certificate_claim(self, False, named=True)
    return Explanation(
        problem.own_state(s), h, problem.actions.decode(own), purpose, words, views, top, worth, pairs, claim
    )


def _plan_of(self: Agent, stage: int) -> tuple[Any, str, bool]:
    """Return the plan that is played now, what it is in words, and whether it was given."""
    is_given, which = False, "the next episode"
    if self._queue.n_open == 1:
        [episode] = self._queue.open
        plan, is_given, which = episode.data.plan, episode._given is not None, "the open episode"
    else:
        plan = certification.advised_plan(self)
    kind = "certifying" if self._algorithm.certifier.purpose == "certificate" else ""
    rule = getattr(self._algorithm, "loss_budget", None)
    if isinstance(plan, BudgetPlan):
        kind = "tuned, within the optimism budget" if plan.is_tuned[0] else "optimistic"
    if isinstance(plan, ConservativePlan) and isinstance(rule, LossBudget) and plan.kind[0] != OWN:
        is_incumbent = bool((plan.policy[0, stage] == rule.incumbent[0, stage]).all())
        is_given |= is_incumbent
        kind = "the incumbent, as the loss budget does not pay for more" if is_incumbent else kind
    return plan, f"the plan of {which}{f', {kind}' * bool(kind)}", is_given


def _pairs(self: Agent, widths: FloatArray, visits: IntArray | None) -> tuple[UnknownPair, ...]:
    """Return the pairs (A, S) with widths in the environment's unit, the largest first."""
    problem, task, found = self.problem, self.problem.finite_task, []
    n_own, total = task.n_own_actions, float(widths.sum())
    of_own = widths if task.stages.n_classes == 1 else widths.reshape(-1, n_own, widths.shape[1]).sum(axis=0)
    for code in np.argsort(-of_own, axis=None, kind="stable"):
        a, s = divmod(int(code), of_own.shape[1])
        if of_own[a, s] <= TIE * max(total, 1.0):
            break
        n = None if visits is None else int(visits[s, a])
        width = float(of_own[a, s])
        found.append(UnknownPair(problem.own_state(s), problem.actions.decode(a), n, width, width / total))
    return tuple(found)


def _widths(algorithm: Any, upper: FloatArray, stage: int, state: int) -> FloatArray | None:
    r"""Return what each pair (A, S) adds to the upper bound of a state, in unit rewards; None for other models.

    It is :math:`\sum_k \gamma^{k-h} d_k(s)\,(\bar Q_k(s, a) - \hat r - \gamma \hat P \bar V_{k+1})` at the greedy
    action a, with the occupancy d of the optimistic policy in the estimated model. A law without data leads to the
    outcome that is worst for this policy, as in `greedy`.
    """
    belief = algorithm.model.bounds(algorithm.clock, "estimate")[0]
    law = belief.law if isinstance(belief, OutcomeBounds) else belief
    if not isinstance(law, LikelihoodBounds):
        return None
    frame, ends = algorithm.frame, algorithm.frame.end_values()
    horizon, rows = frame.horizon, np.arange(frame.n_states)
    policy = upper.argmax(axis=1)  # (H, S)
    best = np.zeros((horizon + 1, frame.n_states))
    best[:-1] = np.take_along_axis(upper, policy[:, None, :], axis=1)[:, 0]
    worth = np.zeros((horizon + 1, frame.n_states))
    steps, surplus = [], np.zeros((horizon, frame.n_states))
    for h in reversed(range(horizon)):
        if frame.end_state is not None:
            best[h, frame.end_state] = ends[h]
        step = _EstimatedStep.of(belief, law, policy[h], frame.discount * worth[h + 1])
        worth[h] = step.mean(worth[h + 1], frame.discount)
        surplus[h] = best[h] - step.mean(best[h + 1], frame.discount)
        if frame.end_state is not None:
            worth[h, frame.end_state], surplus[h, frame.end_state] = ends[h], 0.0
        steps.append(step)
    found, occupancy = np.zeros((frame.n_actions, frame.n_states)), np.zeros(frame.n_states)
    occupancy[state] = 1.0
    for h, step in zip(range(stage, horizon), steps[::-1][stage:], strict=True):
        np.add.at(found, (policy[h], rows), frame.discount ** (h - stage) * occupancy * surplus[h])
        ended = 0.0 if frame.end_state is None else occupancy[frame.end_state]
        occupancy = step.pushed(occupancy if not ended else np.where(rows == frame.end_state, 0.0, occupancy))
        if frame.end_state is not None:
            occupancy[frame.end_state] += ended
    return found


@dataclass(frozen=True)
class _EstimatedStep:
    """One step of the estimated model under the actions of a stage: for each state, next states with probabilities.

    Attributes:
        states: (E,) State of each entry.
        following: (E,) Next state.
        chances: (E,) Probability.
        rewards: (S,) Expected rewards.
    """

    states: IntArray
    following: IntArray
    chances: FloatArray
    rewards: FloatArray

    @classmethod
    def of(cls, belief: Any, law: LikelihoodBounds, actions: IntArray, values: FloatArray) -> _EstimatedStep:
        """Return the step of actions (S,); `values` (S,) say which outcome is the worst one where a law has no data."""
        rows = np.arange(len(actions))
        place = np.full(law.n_groups, -1)
        place[law.seen.ids] = np.arange(len(law.seen.ids))
        groups = law.groups[actions, rows]
        places = place[groups]
        known, unknown = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        seen = law.seen.repeated(places[known], known)
        states, outcomes, chances = seen.ids[seen.places], seen.outcomes, seen.shares
        if isinstance(belief, OutcomeBounds):
            following, paid = belief.dynamics.next_states[actions, rows], belief.dynamics.rewards[actions, rows]
            worst = (paid + values[following]).argmin(axis=1)
            states, chances = np.append(states, unknown), np.append(chances, np.ones(len(unknown)))
            outcomes = np.append(outcomes, worst[unknown])
            rewards = np.bincount(states, chances * paid[states, outcomes], minlength=len(rows)).astype(np.float64)
            return cls(states, following[states, outcomes].astype(np.int64), chances, rewards)
        projected, least = law.psi.project(values[None])[0], law.least.reshape(law.groups.shape)
        worst = np.array([_worst(law, int(group), projected) for group in groups[unknown]], dtype=np.int64)
        states, chances = np.append(states, unknown), np.append(chances, np.ones(len(unknown)))
        outcomes = np.append(outcomes, worst)
        if isinstance(law.psi, LatentPsi):  # the next state is one of those of a latent one
            order = np.argsort(law.psi.latent, kind="stable")
            sizes = np.bincount(law.psi.latent, minlength=law.psi.d_psi)
            firsts, lengths = (np.cumsum(sizes) - sizes)[outcomes], sizes[outcomes]
            offsets = np.arange(int(lengths.sum())) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            following = order[np.repeat(firsts, lengths) + offsets]
            states, chances = np.repeat(states, lengths), np.repeat(chances, lengths) * law.psi.chances[following]
        else:
            following = outcomes
        return cls(states, following, chances, least[actions, rows])

    def mean(self, values: FloatArray, discount: float) -> FloatArray:
        """Return reward plus mean next value of each state (S,)."""
        means = np.bincount(self.states, self.chances * values[self.following], minlength=len(values))
        total: FloatArray = self.rewards + discount * means
        return total

    def pushed(self, occupancy: FloatArray) -> FloatArray:
        """Return the distribution of next states from one of states (S,)."""
        pushed = np.bincount(self.following, self.chances * occupancy[self.states], minlength=len(occupancy))
        return np.asarray(pushed, dtype=np.float64)


def _worst(law: LikelihoodBounds, group: int, values: FloatArray) -> int:
    """Return the outcome of a law without data that is worst, of those that are declared to be possible."""
    if law.successors is None:
        return int(values.argmin())
    first = int(law.successors.firsts[group])
    states = law.successors.states[first : first + int(law.successors.lengths[group])]
    return int(states[values[states].argmin()])
