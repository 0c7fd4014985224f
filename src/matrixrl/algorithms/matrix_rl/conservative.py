"""Conservative exploration: play an incumbent wherever the agent's own policy could cost more than a budget allows.

The rule and its proof are in docs/proofs.md, section 12.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.budget import BudgetPlan
from matrixrl.core.backup import ValueBounds, averages, policy_bounds
from matrixrl.core.models import CountModel
from matrixrl.errors import InvalidInput
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan, Steps

if TYPE_CHECKING:
    from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL

__all__ = ["INCUMBENT", "OWN", "PART", "Account", "ConservativePlan", "LossBudget"]

INCUMBENT, PART, OWN = range(3)
"""What an episode plays: the incumbent, the agent's own policy from some stage on, or from the first stage on."""

_NO_INCUMBENT = "the environment reported that an action of the incumbent is not allowed"
_NO_PLAN = (
    "the environment reported allowed actions after episodes whose bounds were about others; declare them (allowed=…)"
)
_MOST_TRIED = 32  # policies of each replica whose bounds are computed again as data come in


@dataclass(frozen=True)
class ConservativePlan(BudgetPlan):
    """The plan of an episode that the loss budget pays for; `values` are those of the agent's own plan.

    Attributes:
        kind: (B,) `INCUMBENT`, `PART` or `OWN`.
    """

    kind: IntArray

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the plan by name, for saving."""
        return super().arrays() | {"kind": self.kind}


class Tried(NamedTuple):
    """A policy that was played in place of the incumbent.

    Attributes:
        table: (H, S) Actions.
        lower: Largest lower bound so far on V^π(s0) − V^μ(s0), in the environment's unit.
        begun: Number of episodes that were begun with it.
        finished: Number of these that followed it to their end and were learned from.
    """

    table: IntArray
    lower: float
    begun: int
    finished: int

    @property
    def worth(self) -> float:
        """Lower bound on what these episodes earned more than the incumbent; gains count once they are finished."""
        return self.begun * min(self.lower, 0.0) + self.finished * max(self.lower, 0.0)


class Offer(NamedTuple):
    """What is known about the agent's own plan of every replica.

    Attributes:
        n_plans: (B,) Number of plans that were made when this was computed.
        policy: (B, H, S) The agent's own policy.
        part: (B, H, S) The incumbent, and from some stage on the agent's own policy; the incumbent if no part of that
            can be paid for.
        lower: (B, 2) Lower bounds on what `part` and `policy` earn more than the incumbent.
        has_part: (B,) Whether `part` is not the incumbent.
    """

    n_plans: IntArray
    policy: IntArray
    part: IntArray
    lower: FloatArray
    has_part: BoolArray


class Account(NamedTuple):
    """What B replicas may have lost against the incumbent; a new record for every change.

    Attributes:
        tried: Policies that were played in place of the incumbent, of each replica.
        settled: (B,) Lower bounds on what policies earned more than the incumbent that are not kept any more.
        learned: (B,) Number of episodes that the rule decided and that were learned from.
        kinds: (B, 3) Number of episodes that were begun, by kind.
        incumbent_lower: (B,) Largest lower bound so far on V^μ(s0).
        offer: The present plan; None before the first one.
    """

    tried: tuple[tuple[Tried, ...], ...]
    settled: FloatArray
    learned: IntArray
    kinds: IntArray
    incumbent_lower: FloatArray
    offer: Offer | None = None

    @property
    def worth(self) -> FloatArray:
        """Lower bounds on Σ (V^π − V^μ) over all episodes that were begun: (B,)."""
        total: FloatArray = self.settled + [sum((one.worth for one in kept), 0.0) for kept in self.tried]
        return total

    def begun(self, b: int, table: IntArray, lower: float) -> Account:
        """Return the account after one more episode of replica b was begun with a policy."""
        kept, settled = list(self.tried[b]), self.settled
        place = _place(kept, table)
        if place is None:
            kept.append(Tried(table.copy(), lower, 1, 0))
        else:
            kept[place] = kept[place]._replace(lower=max(kept[place].lower, lower), begun=kept[place].begun + 1)
        if len(kept) > _MOST_TRIED:
            settled = settled.copy()
            settled[b] += kept.pop(0).worth
        return self._with(b, kept)._replace(settled=settled)

    def revised(self, b: int, table: IntArray, lower: float) -> Account:
        """Return the account with a new bound for a policy, if it was tried: all bounds hold together."""
        kept = list(self.tried[b])
        place = _place(kept, table)
        if place is None or lower <= kept[place].lower:
            return self
        kept[place] = kept[place]._replace(lower=lower)
        return self._with(b, kept)

    def finished(self, b: int, table: IntArray) -> Account:
        """Return the account after an episode of replica b followed a policy to its end."""
        kept = list(self.tried[b])
        place = _place(kept, table)
        if place is None:  # it is settled, without the gains of episodes that were open then
            return self
        kept[place] = kept[place]._replace(finished=kept[place].finished + 1)
        return self._with(b, kept)

    def _with(self, b: int, kept: list[Tried]) -> Account:
        return self._replace(tried=(*self.tried[:b], tuple(kept), *self.tried[b + 1 :]))


def _place(kept: list[Tried], table: IntArray) -> int | None:
    return next((i for i, one in enumerate(kept) if np.array_equal(one.table, table)), None)


class LossBudget:
    """The rule that decides once an episode whether the agent's own policy is played, or the incumbent.

    Args:
        algorithm: The algorithm.
        incumbent: (H, S) Actions of the incumbent μ.
        budget: Largest loss of all episodes together, in the environment's unit, or a text such as ``"5 %"``, the
            share of what the incumbent is proven to earn.

    Attributes:
        incumbent: (B, H, S) Actions of the incumbent.
        account: What may have been lost so far.
        forbidden: Why the promise is withdrawn; None if it is not.
    """

    def __init__(self, algorithm: UCMatrixRL, incumbent: IntArray, budget: float | str) -> None:
        self._algorithm = algorithm
        n, dtype = algorithm.n_replicas, np.min_scalar_type(algorithm.frame.n_actions - 1)
        self.incumbent: IntArray = np.tile(incumbent.astype(dtype), (n, 1, 1))
        is_share = isinstance(budget, str)
        self.share = float(budget.removesuffix("%")) / 100.0 if isinstance(budget, str) else 0.0
        self.total = 0.0 if is_share else float(budget)
        self.forbidden: str | None = None
        self.account = Account(
            tried=((),) * n,
            settled=np.zeros(n),
            learned=np.zeros(n, dtype=np.int64),
            kinds=np.zeros((n, 3), dtype=np.int64),
            incumbent_lower=np.full(n, algorithm.task.total_weight * algorithm.task.reward_range[0]),
        )

    def allowed(self, account: Account, *, more: int = 1) -> FloatArray:
        """Return what the episodes that were learned from and `more` may lose together, in the environment's unit."""
        least = np.maximum(account.incumbent_lower, 0.0)
        return self.total + self.share * (account.learned + more) * least

    def decided(self, account: Account, plan: Plan) -> tuple[ConservativePlan, Account]:
        """Return the plan that an episode is begun with in place of the agent's own plan, and the account after."""
        account = self._offered(account, plan)
        offer, kind, head = account.offer, np.full(len(plan.policy), INCUMBENT), self._head(account)
        assert offer is not None
        for choice in (PART, OWN):
            can_pay = head + np.minimum(offer.lower[:, choice - 1], 0.0) >= 0.0
            kind[can_pay & (offer.has_part if choice == PART else True)] = choice
        tables = self.incumbent, offer.part, offer.policy
        policy = tables[kind[0]]
        if len(kind) > 1:
            policy = np.choose(kind[:, None, None], tables).astype(policy.dtype)
        for b in np.flatnonzero(kind != INCUMBENT).tolist():
            account = account.begun(b, policy[b], float(offer.lower[b, kind[b] - 1]))
        kinds = account.kinds.copy()
        kinds[np.arange(len(kind)), kind] += 1
        is_tuned, lack = np.zeros(len(kind), dtype=np.bool_), np.zeros((len(kind), policy.shape[2]))
        made = np.zeros(len(kind), dtype=np.int64)
        if isinstance(plan, BudgetPlan):
            is_tuned, made = plan.is_tuned & (kind == OWN), plan.made
            lack = np.where(is_tuned[:, None], plan.lack, 0.0)
        found = ConservativePlan(policy, plan.values, plan.empty, is_tuned, lack, made, kind)
        return found, account._replace(kinds=kinds)

    def settled(self, account: Account, plan: ConservativePlan, steps: Steps) -> Account:
        """Return the account after an episode of every replica was learned from."""
        frame, rows = self._algorithm.frame, np.arange(len(plan.kind))
        planned = plan.policy[rows[:, None], np.arange(steps.actions.shape[1]), steps.states]
        follows = ((planned == steps.actions) | ~steps.taken).all(axis=1)
        follows &= (steps.taken.sum(axis=1) >= frame.horizon) | steps.ended.any(axis=1)
        for b in np.flatnonzero(follows & (plan.kind != INCUMBENT)).tolist():
            account = account.finished(b, plan.policy[b])
        return account._replace(learned=account.learned + 1)

    def _head(self, account: Account) -> FloatArray:
        """Return what the next episode may lose: (B,)."""
        return account.worth + self.allowed(account)

    def _offered(self, account: Account, plan: Plan) -> Account:
        """Return the account with bounds on the agent's own plan, computed where it is a new one."""
        offer, n_plans = account.offer, self._algorithm.n_plans
        if offer is None:
            is_new = np.ones(len(plan.policy), dtype=np.bool_)
        else:
            is_new = (offer.n_plans != n_plans) | (offer.policy != plan.policy).any(axis=(1, 2))
        return self._offer(account, plan, is_new) if is_new.any() else account

    def _offer(self, account: Account, plan: Plan, is_new: BoolArray) -> Account:
        """Return the account with bounds on new plans (B,), on the incumbent, and on the dearest policies tried."""
        algorithm = self._algorithm
        belief = algorithm.certifier.bounds()
        ceiling = algorithm._greedy(belief).values
        new = np.flatnonzero(is_new).tolist()
        dearest = self.incumbent.copy()
        for b in new:
            owing = [one for one in account.tried[b] if one.worth < 0.0 and algorithm.frame.permits(one.table)]
            if owing:
                dearest[b] = min(owing, key=lambda one: one.worth).table
        if (dearest != self.incumbent).any():
            again, _ = self._differences(belief, dearest, ceiling)
            for b in new:
                account = account.revised(b, dearest[b], float(self._at_start(again[:, 0])[b]))
        apart, of_incumbent = self._differences(belief, plan.policy, ceiling)
        own = self._at_start(apart[:, 0])
        for b in new:
            account = account.revised(b, plan.policy[b], float(own[b]))
        to_own = algorithm.task.to_own_unit(self._mean(of_incumbent[:, 0]))
        lower = np.where(is_new, np.maximum(account.incumbent_lower, to_own), account.incumbent_lower)
        account = account._replace(incumbent_lower=lower)
        stage, of_part = self._part(belief, apart, self._head(account), own)
        after = np.arange(plan.policy.shape[1]) >= stage[:, None]
        part = np.where(after[:, :, None], plan.policy, self.incumbent).astype(self.incumbent.dtype)
        differs = (part != self.incumbent).any(axis=(1, 2))
        for b in new:
            account = account.revised(b, part[b], float(of_part[b]))
        made = Offer(algorithm.n_plans.copy(), plan.policy, part, np.stack([of_part, own], axis=1), differs)
        before = account.offer
        if before is not None and not is_new.all():
            tables = is_new[:, None, None]
            made = Offer(
                np.where(is_new, made.n_plans, before.n_plans),
                np.where(tables, made.policy, before.policy),
                np.where(tables, made.part, before.part),
                np.where(is_new[:, None], made.lower, before.lower),
                np.asarray(np.where(is_new, made.has_part, before.has_part)),
            )
        return account._replace(offer=made)

    def _differences(self, belief: ValueBounds, policy: IntArray, ceiling: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower bounds on V^π − V^μ and on V^μ, each (B, H+1, S), in unit reward."""
        found = policy_bounds(belief, policy, self.incumbent, self._algorithm.frame, ceiling=ceiling)
        return found.lower[2], found.lower[1]

    def _part(
        self, belief: ValueBounds, apart: FloatArray, head: FloatArray, own: FloatArray
    ) -> tuple[IntArray, FloatArray]:
        """Return the earliest stage from which on the own policy can be paid for, and its bound: (B,) and (B,).

        It is found by bisection; H where no stage can be paid for, 0 where the whole policy can.
        """
        horizon, n = apart.shape[1] - 1, len(apart)
        too_dear, paid = np.zeros(n, dtype=np.int64), np.full(n, horizon)
        paid[head + np.minimum(own, 0.0) >= 0.0] = 0
        lower = np.where(paid == 0, own, 0.0)
        while (paid - too_dear > 1).any():
            middle = np.where(paid - too_dear > 1, (paid + too_dear) // 2, paid)
            bound = self._at_start(self._before(belief, apart, middle))
            can_pay = head + np.minimum(bound, 0.0) >= 0.0
            searched = paid - too_dear > 1
            lower = np.where(searched & can_pay, bound, lower)
            paid = np.where(searched & can_pay, middle, paid)
            too_dear = np.where(searched & ~can_pay, middle, too_dear)
        return paid, lower

    def _before(self, belief: ValueBounds, apart: FloatArray, stage: IntArray) -> FloatArray:
        """Return lower bounds (B, S) at the first stage on what is `apart` from a stage (B,) on."""
        frame, last = self._algorithm.frame, int(stage.max())
        values = apart[:, last].copy()
        for h in reversed(range(last)):
            taken = self.incumbent[:, h][:, None, :] == np.arange(frame.n_actions)[:, None]
            q = averages(belief.restricted(taken), frame.discount * values, -1.0)
            backed = np.take_along_axis(q, self.incumbent[:, h].astype(np.int64)[:, None, :], axis=1)[:, 0]
            if frame.end_state is not None:
                backed[:, frame.end_state] = 0.0
            values = np.where((stage > h)[:, None], backed, apart[:, h])
        return values

    def _at_start(self, apart: FloatArray) -> FloatArray:
        """Return lower bounds at the start on what a policy earns more than the incumbent, in the environment's unit.

        Steps that are cut off from endless episodes may earn all to the one and nothing to the other.
        """
        task = self._algorithm.task
        return task.unit * (self._mean(apart) - task.tail)

    def _mean(self, values: FloatArray) -> FloatArray:
        """Return lower bounds (B, S) at the declared start, or at the worst first state if none is declared: (B,)."""
        task = self._algorithm.task
        if task.start_is_declared:
            mean: FloatArray = values @ task.start
            return mean
        least: FloatArray = values[:, : self._algorithm.problem.n_observed].min(axis=1)
        return least

    def use_masks(self) -> None:
        """Let new plans be compared again.

        The promise is withdrawn if an action of the incumbent is not allowed, or if a bound may have been about an
        action that is not: what the episode played in its place may have lost anything.
        """
        frame, account = self._algorithm.frame, self.account
        if not frame.permits(self.incumbent):
            self.forbidden = _NO_INCUMBENT
            self.incumbent = frame.permitted(self.incumbent)
        kept = [one for of_replica in account.tried for one in of_replica]
        was_dropped = sum(one.begun for one in kept) < account.kinds[:, PART:].sum()
        is_ball = not isinstance(self._algorithm.model, CountModel)  # whose radius was for other actions
        if was_dropped or (is_ball and account.kinds.any()) or not all(frame.permits(one.table) for one in kept):
            self.forbidden = self.forbidden or _NO_PLAN
        self.account = account._replace(offer=None)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return the account as named arrays, for saving."""
        account, offer = self.account, self.account.offer
        rows = [(b, one) for b, kept in enumerate(account.tried) for one in kept]
        none = self.incumbent[:0]
        return {
            "loss_tables": np.stack([one.table for _, one in rows]) if rows else none,
            "loss_replicas": np.array([b for b, _ in rows], dtype=np.int64),
            "loss_lower": np.array([one.lower for _, one in rows], dtype=np.float64),
            "loss_begun": np.array([one.begun for _, one in rows], dtype=np.int64),
            "loss_finished": np.array([one.finished for _, one in rows], dtype=np.int64),
            "loss_forbidden": np.array([self.forbidden is not None, self.forbidden == _NO_PLAN]),
            "loss_settled": account.settled,
            "loss_learned": account.learned,
            "loss_kinds": account.kinds,
            "loss_incumbent": account.incumbent_lower,
            "loss_offer_plans": np.zeros(0, dtype=np.int64) if offer is None else offer.n_plans,
            "loss_offer_policy": none if offer is None else offer.policy,
            "loss_offer_part": none if offer is None else offer.part,
            "loss_offer_lower": np.zeros((0, 2)) if offer is None else offer.lower,
            "loss_offer_has_part": np.zeros(0, dtype=np.bool_) if offer is None else offer.has_part,
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned.

        Raises:
            InvalidInput: It is no account of this problem.
        """
        n, own = len(self.incumbent), {name.removeprefix("loss_"): a for name, a in arrays.items()}
        names = ("tables", "replicas", "lower", "begun", "finished")
        lengths = {len(own[name]) for name in names}
        offered = {len(own[f"offer_{name}"]) for name in ("plans", "policy", "part", "lower", "has_part")}
        policies = [own[name] for name in ("tables", "offer_policy", "offer_part")]
        fits = (
            len(lengths) == 1
            and offered in ({0}, {n})
            and all(table.dtype == self.incumbent.dtype for table in policies)
            and all(not table.size or int(table.max()) < self._algorithm.frame.n_actions for table in policies)
            and bool(((own["replicas"] >= 0) & (own["replicas"] < n)).all())
            and bool(((own["finished"] >= 0) & (own["finished"] <= own["begun"])).all())
            and bool((own["kinds"] >= 0).all() and (own["learned"] >= 0).all())
        )
        if not fits:
            raise InvalidInput("the account of the loss budget must have one entry for each policy that was tried")
        tried: list[list[Tried]] = [[] for _ in range(n)]
        for table, b, lower, begun, finished in zip(*(own[name] for name in names), strict=True):
            tried[b].append(Tried(table.copy(), float(lower), int(begun), int(finished)))
        if own["forbidden"].any():
            self.forbidden = _NO_PLAN if own["forbidden"].all() else _NO_INCUMBENT
        offer = None
        if offered == {n}:
            parts = (own[f"offer_{name}"].copy() for name in ("plans", "policy", "part", "lower", "has_part"))
            offer = Offer(*parts)
        self.account = Account(
            tuple(map(tuple, tried)),
            own["settled"].copy(),
            own["learned"].copy(),
            own["kinds"].copy(),
            own["incumbent"].copy(),
            offer,
        )
