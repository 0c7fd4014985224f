"""What a certificate is saved with, so that it can be checked without solving anything (docs/proofs.md, 9.11)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl import check
from matrixrl.algorithms import UCMatrixRL
from matrixrl.algorithms.matrix_rl.certifier import MatrixRLCertifier
from matrixrl.archive import atomic_write
from matrixrl.core.backup import Frame
from matrixrl.core.likelihood.bounds import LikelihoodBounds
from matrixrl.core.likelihood.kl_ball import KLBall
from matrixrl.core.likelihood.outcomes import OutcomeBounds
from matrixrl.core.likelihood.radii import targeted_beta
from matrixrl.core.models import CountModel, OutcomeModel
from matrixrl.core.sets import LikelihoodSet, ValueTargetedSet
from matrixrl.core.start import START_SHARE, Start
from matrixrl.errors import CheckpointError
from matrixrl.features import OneHotPsi
from matrixrl.linalg import SeenRows
from matrixrl.play.given_policies import policy_digest
from matrixrl.problems import OutcomeTables, Task
from matrixrl.records import FloatArray, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["Witness", "witness_of"]

_OUTWARDS = 1e-11
"""What claimed values are moved outwards by, relative to what can be earned, so that rounding cannot refute them."""
_SHARE = 1.0 - 2e-15  # of each part of δ, so that the parts as they are written do not add up to more than δ
_FARTHEST = 1e10  # largest ν − max V that is written; any ν is valid
_DIGITS = 9  # of ν − max V: a bound is at its minimum there


@dataclass(frozen=True)
class Witness:
    """The data of a certificate, from which bounds and the numbers ν that prove them are computed when it is saved.

    Attributes:
        law: Laws of the groups at the radii of certificates, for one replica.
        dynamics: Known dynamics in unit rewards, or None.
        task: The problem.
        frame: Horizon, sizes and allowed actions.
        n_observed: Number of states that can be observed.
        table: (H, S) Actions of the policy.
        start: Where episodes start; None for the declared start.
        first_states: (S,) Counts of first states, from which the start is estimated; None if it is not.
        shares: Parts of δ.
        reward_sums: (K,) Sums of the unit rewards of each group.
        log_rewards: ln(number of groups / part of δ) of each side of learned rewards; None if rewards are known.
        delta: δ.
        assumptions: Assumptions, in words.
        problem: Problem, in words.
    """

    law: LikelihoodBounds
    dynamics: OutcomeTables | None
    task: Task
    frame: Frame
    n_observed: int
    table: IntArray
    start: Start | None
    first_states: IntArray | None
    shares: dict[str, float]
    reward_sums: FloatArray
    log_rewards: float | None
    delta: float
    assumptions: str
    problem: str

    def write(self, path: str, *, about: str, start: str, upper_of: str) -> tuple[float, float]:
        """Write the file that `matrixrl.check` reads, and return the lower and upper bound that it proves.

        Args:
            path: The file.
            about: What the certificate is about, in words.
            start: Start that it is about, in words.
            upper_of: Whether the upper bound is that of the best policy (`best`) or of the policy (`policy`).
        """
        best, numbers = self._best()
        witness: dict[str, Any] = {"best": numbers, "reward": self._rewards(), "policy_upper": None}
        low, witness["policy_lower"] = self._of_policy(-1.0, None)
        high = best
        if upper_of == "policy":
            high, witness["policy_upper"] = self._of_policy(1.0, best)
        (upper, above), (lower, below) = self._at_start(high[0], 1.0), self._at_start(low[0], -1.0)
        witness["start"] = None if self.first_states is None else [above, below]
        data, problem = self._data(), self._problem()
        digests = {"data": check.digest(data), "problem": check.digest(problem)}
        entries: dict[str, Any] = {
            "format": check.FORMAT,
            "version": check.VERSION,
            "claim": {"lower": lower, "upper": max(lower, upper), "upper_of": upper_of, "delta": self.delta},
            "words": {"about": about, "start": start, "assumptions": self.assumptions, "problem": self.problem},
            "digests": {"policy": policy_digest(self.table, self.task).hex(), **digests},
            "problem": problem,
            "shares": self.shares,
            "start": self._start(),
            "policy": self.table.tolist(),
            "data": data,
            "witness": witness,
        }
        text = json.dumps({"digest": check.digest(entries), **entries}, separators=(",", ":"), allow_nan=False)
        if len(text) > check.LARGEST_FILE:
            size = f"{len(text):,} bytes, more than the {check.LARGEST_FILE:,} that are checked"
            raise CheckpointError(f"{path} would have {size}")
        atomic_write(path, lambda temporary: temporary.write_text(text, encoding="ascii"), parents=False)
        return lower, upper

    def _best(self) -> tuple[FloatArray, dict[str, Any]]:
        """Return upper bounds (H+1, S) on V*, and the numbers that prove them."""
        law, frame, joint = self.law, self.frame, self.law.joint
        values, found, found_joint = np.zeros((frame.horizon + 1, frame.n_states)), [], []
        states, actions = np.divmod(np.arange(frame.n_states * frame.n_actions), frame.n_actions)
        for h in reversed(range(frame.horizon)):
            following = frame.discount * values[h + 1]
            most = float(following.max())
            if self.dynamics is not None:
                each, nu = self._of_pairs(actions, states, following, 1.0)
                q = each.reshape(frame.n_states, frame.n_actions).T.copy()
            else:
                ends = np.full(len(law.seen.ids), most)
                bound, nu = _ceilings(law.seen, following[law.seen.outcomes], ends, law.upper, law.top)
                q = law.most.reshape(law.groups.shape) + self._of_groups(law.seen, bound, most)
            if joint is not None:
                state, level = np.divmod(joint.seen.outcomes, joint.levels.shape[1])
                ends = np.full(len(joint.seen.ids), most + 1.0)
                totals = following[state] + joint.levels[0, level]
                bound, both = _ceilings(joint.seen, totals, ends, joint.epsilon, joint.top)
                q = np.minimum(q, self._of_groups(joint.seen, bound, most + 1.0))
                found_joint.append(both.tolist())
            frame.exclude(q[None], h)
            found.append(nu.tolist())
            values[h] = self._outwards(q.max(axis=0), h, 1.0)
        witness = {"values": values.tolist(), "nu": found[::-1], "joint": found_joint[::-1] or None}
        return values, witness

    def _of_policy(self, sign: float, best: FloatArray | None) -> tuple[FloatArray, dict[str, Any]]:
        """Return bounds (H+1, S) on the values of the policy at the radius for all values, and what proves them."""
        frame, law = self.frame, self.law
        values, found, states = np.zeros((frame.horizon + 1, frame.n_states)), [], np.arange(frame.n_states)
        reward = (law.most if sign > 0 else law.least).reshape(law.groups.shape) if self.dynamics is None else None
        for h in reversed(range(frame.horizon)):
            actions = self.table[h].astype(np.int64)
            q, nu = self._of_pairs(actions, states, frame.discount * values[h + 1], sign, any_values=True)
            q = q if reward is None else q + reward[actions, states]
            found.append(nu.tolist())
            values[h] = self._outwards(q if best is None else np.minimum(q, best[h]), h, sign)
        return values, {"values": values.tolist(), "nu": found[::-1]}

    def _of_pairs(
        self, actions: IntArray, states: IntArray, following: FloatArray, sign: float, *, any_values: bool = False
    ) -> tuple[FloatArray, FloatArray]:
        """Return bounds on the mean next value of some pairs (n,), with their reward if dynamics are known, and ν."""
        law, dynamics = self.law, self.dynamics
        place = np.full(law.n_groups, -1)
        place[law.seen.ids] = np.arange(len(law.seen.ids))
        places = place[law.groups[actions, states]]
        known = np.flatnonzero(places >= 0)
        rows = law.seen.repeated(places[known], known)
        if dynamics is None:
            entries, ends = sign * following[rows.outcomes], np.full(len(actions), (sign * following).max())
        else:
            at = actions, states
            worth = sign * (dynamics.rewards[at] + following[dynamics.next_states[at]])
            entries, ends = worth[rows.ids[rows.places], rows.outcomes], worth.max(axis=1)
        radius = law.lower if any_values else law.upper
        top = None if any_values or law.top is None else law.top[places[known]]
        nu = np.zeros(len(actions))
        bound, nu[known] = _ceilings(rows, entries, ends[known], radius[places[known]], top)
        ends[known] = bound
        return sign * ends, nu

    def _of_groups(self, seen: SeenRows, bound: FloatArray, most: float) -> FloatArray:
        """Return bounds (A, S) from those of groups with data; `most` elsewhere."""
        groups = np.full(self.law.n_groups, most)
        groups[seen.ids] = bound
        pairs: FloatArray = groups[self.law.groups]
        return pairs

    def _outwards(self, values: FloatArray, h: int, sign: float) -> FloatArray:
        """Return values (S,) of a stage as they are claimed: a little outwards, with fewer digits."""
        left = float(self.frame.lefts()[h])
        moved = values + sign * _OUTWARDS * (1.0 + left)
        round_out = np.ceil if sign > 0 else np.floor
        claimed: FloatArray = np.clip(round_out(moved * 1e13) / 1e13, 0.0, None if sign > 0 else left)
        if self.frame.end_state is not None:
            end = self.frame.end_values()[h] + sign * _OUTWARDS * (1.0 + left)
            claimed[self.frame.end_state] = max(float(end), 0.0)
        return claimed

    def _rewards(self) -> list[list[float]] | None:
        """Return the numbers ν of the bounds on learned rewards, upper and lower ones, of groups with data."""
        if self.log_rewards is None:
            return None
        seen = self.law.seen
        n, paid = seen.totals, np.clip(self.reward_sums[seen.ids] / seen.totals, 0.0, 1.0)
        times = np.stack([1.0 - paid, paid], axis=1).ravel()
        rows = SeenRows(np.flatnonzero(times > 0.0), times[times > 0.0], 2)
        epsilon, found = targeted_beta(n, self.log_rewards) / n, []
        for sign, end in ((1.0, 1.0), (-1.0, 0.0)):
            entries, ends = sign * rows.outcomes.astype(np.float64), np.full(len(n), end)
            found.append(_ceilings(rows, entries, ends, epsilon, None)[1].tolist())
        return found

    def _at_start(self, values: FloatArray, sign: float) -> tuple[float, float]:
        """Return the bound at the start in the environment's unit, a little outwards, and its ν."""
        nu, task = 0.0, self.task
        if self.start is None:
            mean = float(values @ task.start)
        elif self.first_states is None:
            mean = float(values[self.start.states] @ self.start.weights)
        else:
            possible = sign * values[: self.n_observed]
            mean = sign * float(possible.max())
            if len(self.start.states):
                seen = SeenRows(np.arange(len(self.start.states)), self.start.weights, len(self.start.states))
                ends, radius = np.array([possible.max()]), np.array([self.start.radius])
                bound, found = _ceilings(seen, possible[self.start.states], ends, radius, None)
                mean, nu = sign * float(bound[0]), float(found[0])
        tail = task.tail if sign > 0 else 0.0
        own = float(task.to_own_unit(np.array(mean + tail)))
        size = task.unit * (1.0 + task.total_weight) + abs(own)
        return own + sign * _OUTWARDS * size, nu

    def _start(self) -> dict[str, Any] | None:
        """Return a known start as states and weights."""
        if self.first_states is not None:
            return None
        if self.start is not None:
            return {"states": self.start.states.tolist(), "weights": self.start.weights.tolist()}
        states = np.flatnonzero(self.task.start)
        return {"states": states.tolist(), "weights": self.task.start[states].tolist()}

    def _problem(self) -> dict[str, Any]:
        """Return what is known of the problem."""
        task, frame, dynamics = self.task, self.frame, self.task.dynamics
        known = self.log_rewards is None and dynamics is None
        tables = None
        if dynamics is not None:
            named = {"next": dynamics.next_states, "reward": dynamics.rewards}
            tables = {name: table.transpose(1, 0, 2).tolist() for name, table in named.items()}
            tables["n_outcomes"] = dynamics.n_outcomes
        return {
            "n_states": frame.n_states,
            "n_actions": frame.n_actions,
            "horizon": frame.horizon,
            "discount": frame.discount,
            "endless": int(task.is_endless),
            "reward_range": [float(x) for x in task.reward_range],
            "end_state": frame.end_state,
            "n_observed": self.n_observed,
            "groups": self.law.groups.T.tolist(),
            "allowed": None if frame.allowed is None else frame.allowed.T.astype(int).tolist(),
            "choices": None if frame.has_all else frame.choices.tolist(),
            "reward": task.reward.tolist() if known else None,
            "dynamics": tables,
        }

    def _data(self) -> dict[str, Any]:
        """Return counts, and sums and levels of rewards."""
        law, first = self.law, self.first_states
        seen_first = None
        if first is not None and first.any():
            states = np.flatnonzero(first)
            seen_first = [states.tolist(), first[states].tolist()]
        data: dict[str, Any] = {"laws": _rows(law.seen, whole=True), "first_states": seen_first}
        if self.log_rewards is not None:
            data["reward_sums"] = self.reward_sums[law.seen.ids].tolist()
            data["joint"] = data["levels"] = None
        if law.joint is not None:
            levels = law.joint.levels[0]
            data["levels"] = np.where(np.isnan(levels), 0.0, levels).tolist()
            data["joint"] = _rows(law.joint.seen, whole=False)
        return data


def witness_of(self: Agent, table: IntArray, state: Any = None, parts: int = 1) -> Witness | str:
    """Return the witness of a certificate of a policy (H, S) with the data at hand, or why there is none.

    Args:
        self: The agent.
        table: Actions of the policy.
        state: State that a user named as the start; None for the start of certificates.
        parts: Number of equal parts of δ of which the bounds have one.
    """
    algorithm, ledger = self._algorithm, self._ledger
    certifier, model = algorithm.certifier, getattr(algorithm, "model", None)
    if type(certifier) is not MatrixRLCertifier or type(model) not in (CountModel, OutcomeModel):
        return f"the bounds of {self.name} with these settings come from no likelihood set"
    assert isinstance(model, CountModel)
    assert isinstance(algorithm, UCMatrixRL)
    if type(model.likelihood_set) not in (LikelihoodSet, ValueTargetedSet):
        return "the confidence set is a user's own class"
    if model.declared is not None:
        return "what was declared of the transitions has no place in the file"
    if not isinstance(model.psi, OneHotPsi):
        return "latent next states have no place in the file"
    if self.problem.task.reward_bounds is not None and not model.context.known_reward:
        return "rewards with a range for each pair have no place in the file"
    dynamics = self.problem.task.dynamics
    if dynamics is not None and dynamics.is_censored:
        return "censored outcomes have no place in the file"
    if table.ndim != 2:
        return "the policy is random"
    belief = certifier.bounds(parts)
    law = belief.law if isinstance(belief, OutcomeBounds) else belief
    assert isinstance(law, LikelihoodBounds)
    if (law.seen.times != np.floor(law.seen.times)).any():
        return "some steps count as parts of a visit"
    confidence, claims = model.confidence, algorithm.claims
    of_delta, given = confidence.parts, confidence.delta / algorithm.clock._replace(parts=parts).shares
    is_estimated = state is None and ledger.is_estimated
    knows = dynamics is not None or confidence.known_reward
    shares = {
        "optimal": of_delta.optimal * given,
        "all": of_delta.all_functions * given,
        "reward": of_delta.rewards * given,
        "start": START_SHARE * claims.run_delta / parts if is_estimated else 0.0,
    }
    used = shares["optimal"] + shares["all"] + 2.0 * shares["reward"] + shares["start"]
    shares["other"] = max(claims.delta - used, 0.0)
    return Witness(
        law=law,
        dynamics=belief.dynamics if isinstance(belief, OutcomeBounds) else None,
        task=algorithm.task,
        frame=algorithm.frame,
        n_observed=self.problem.n_observed,
        table=table,
        start=(ledger.start(parts) if state is None else ledger.named_start(state))[0],
        first_states=ledger.first_states if is_estimated else None,
        shares={name: _SHARE * share for name, share in shares.items()},
        reward_sums=model.reward_sums[0],
        log_rewards=None if knows else confidence.log_events(of_delta.rewards, algorithm.clock.shares * parts),
        delta=claims.delta,
        assumptions=self.assumptions,
        problem=self.problem.summary,
    )


def _rows(seen: SeenRows, *, whole: bool) -> list[list[Any]]:
    """Return counts as one entry for each row: its number, the outcomes, and how often each was seen."""
    lasts = seen.firsts + seen.lengths
    times = seen.times.astype(np.int64) if whole else seen.times
    return [
        [row, seen.outcomes[first:last].tolist(), times[first:last].tolist()]
        for row, first, last in zip(seen.ids.tolist(), seen.firsts.tolist(), lasts.tolist(), strict=True)
    ]


def _ceilings(
    seen: SeenRows, values: FloatArray, ends: FloatArray, epsilon: FloatArray, top: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return upper bounds on the means of rows (R,) as `extreme_means` does, and ν − max V with few digits."""
    ball = KLBall(seen, values, ends, epsilon)
    x = np.minimum(ball.best(), _FARTHEST)
    scale = 10.0 ** (_DIGITS - np.ceil(np.log10(np.where(x > 1e-30, x, 1.0))))
    x = np.where(x > 1e-30, np.round(x * scale) / scale, 0.0)
    bound = ball.bound(x)
    if top is not None and len(bound):
        best_seen = np.maximum.reduceat(values, seen.firsts)
        bound = np.minimum(bound, np.maximum(ball.bound(np.zeros(len(x)), top), best_seen))
    return bound, x
