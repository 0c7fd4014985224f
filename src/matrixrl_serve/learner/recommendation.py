"""The recommended policy, and the mode that follows from what is proven about it and the incumbent."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.agents import MatrixRL
from matrixrl.display import confidence, in_digits
from matrixrl.policies import Policy
from matrixrl.records import IntArray
from matrixrl_serve.learner.incumbent import IncumbentReturns
from matrixrl_serve.problem import LOGGED, Mode, ServedProblem

__all__ = ["Recommendation", "Recommender", "switch"]


class Recommendation(NamedTuple):
    """A policy, and what is proven about it as plain data.

    Attributes:
        table: (H, S) Actions, counted from 0.
        certificate: Bounds on its value and on the best one.
        compared: Bounds on the difference to the incumbent: ``lower``, ``upper``, ``delta``, ``basis``, ``guarantee``
            and ``start``, the start that they are about; None without an incumbent.
    """

    table: IntArray
    certificate: dict[str, Any]
    compared: dict[str, Any] | None


class Recommender:
    """Chooses the policy that the agent recommends, unless another one is proven better and this one is not.

    The agent recommends the policy with the largest lower bound on its value. That of the next plan may have a larger
    bound, and a difference to the incumbent that is not proven to be positive: then the one before it stays. Bounds of
    all policies and all times hold together with probability 1 − δ, so what was proven once stays proven, also if
    nothing more can be proven later, for example because an episode was abandoned.
    """

    def __init__(self, problem: ServedProblem) -> None:
        self._problem = problem
        self.returns = IncumbentReturns(problem)
        self._proven: IntArray | None = None
        self._by = 0.0  # lower bound on the difference between that policy and the incumbent

    def choose(self, agent: MatrixRL) -> Recommendation:
        """Return the policy of a new plan."""
        newest = agent.recommend()
        shown = newest.certificate
        assert shown is not None
        certificate = shown.as_dict() | {"basis": newest.basis}
        compared = self._compared(agent, newest)
        if compared is None:
            return Recommendation(newest.table, certificate, None)
        if compared["guarantee"]["holds"] and compared["lower"] > 0.0:
            self._proven, self._by = newest.table, compared["lower"]
        elif self._proven is not None:
            return self._kept(agent, newest, certificate, compared)
        return Recommendation(newest.table, certificate, compared)

    def _compared(self, agent: MatrixRL, policy: Policy) -> dict[str, Any] | None:
        """Return what is proven about a policy and the incumbent.

        A known incumbent is compared by the model (docs/proofs.md, section 12). One that is only reported has an upper
        bound from its returns, at its own share of δ.
        """
        problem = self._problem
        if problem.incumbent is not None:
            found = agent.compare(policy, problem.incumbent)
            bounds = {"lower": found.lower, "upper": found.upper}
            claim = {"delta": found.delta, "guarantee": found.guarantee.as_dict(), "start": found.start}
            return {"basis": "model", **bounds, **claim}
        if problem.file.incumbent != LOGGED:
            return None
        shown = policy.certificate
        assert shown is not None
        bound = self.returns.upper(problem.incumbent_delta)
        return {
            "basis": "returns",
            "lower": shown.lower - bound,
            "upper": shown.upper - float(problem.value_range()[0]),
            "delta": shown.delta + problem.incumbent_delta,
            "guarantee": shown.guarantee.as_dict(),
            "start": shown.start,
            "incumbent_upper": bound,
            "incumbent_episodes": self.returns.n_episodes,
            "assumptions": "the incumbent was one policy, the same in all shadow episodes",
        }

    def _kept(
        self, agent: MatrixRL, newest: Policy, certificate: dict[str, Any], compared: dict[str, Any]
    ) -> Recommendation:
        """Return the policy that was proven better before, with what is known about it now."""
        assert self._proven is not None
        other = newest.table if self._problem.incumbent is None else self._problem.incumbent
        found = agent.compare(self._proven, other)
        lower, by, upper = found.policy[0], self._by, compared["upper"]
        if compared["guarantee"]["holds"]:
            known = self._problem.incumbent is not None
            by = max(by, found.lower if known else lower - compared["incumbent_upper"])
            upper = max(found.upper if known else upper, by)
            self._by = by
        own = certificate | {"lower": lower, "gap": certificate["upper"] - lower, "basis": "model"}
        own |= {"estimate": None, "share_left": None}  # those of the newest policy
        return Recommendation(self._proven, own, compared | {"lower": by, "upper": upper})

    def to_plain(self) -> dict[str, Any]:
        """Return everything as plain data, for checkpoints."""
        table = None if self._proven is None else self._proven.tolist()
        return {"returns": self.returns.to_plain(), "proven": table, "by": self._by}

    def restore(self, data: dict[str, Any]) -> None:
        """Take back what `to_plain` returned."""
        self.returns.restore(data["returns"])
        self._proven = None if data["proven"] is None else np.array(data["proven"], dtype=np.int64)
        self._by = float(data["by"])


def switch(
    mode: Mode,
    alarm: str | None,
    compared: dict[str, Any] | None,
    problem: ServedProblem,
    *,
    by_request: bool = False,
) -> dict[str, Any] | None:
    """Return the body of a mode event that is due after a plan, or None.

    Args:
        mode: Present mode.
        alarm: Words of the alarm, if it was raised.
        compared: What is proven about the recommended policy and the incumbent; see `Recommendation`.
        problem: The problem.
        by_request: Whether a user chose the present mode; then the service does not promote itself.
    """
    if alarm is not None:
        if mode == "live" and problem.file.incumbent is not None:
            return {"from": mode, "to": "shadow", "reason": f"back to the incumbent: {alarm}"}
        return None
    if mode != "shadow" or by_request or not problem.file.promote or compared is None:
        return None
    if not compared["guarantee"]["holds"] or not compared["lower"] > 0.0:
        return None
    if_so = f", if {compared['assumptions']}" if "assumptions" in compared else ""
    words = f"with probability {confidence(compared['delta'])} the recommended policy earns at least "
    words += f"{in_digits(compared['lower'])} more"
    reason = f"{words} in an episode than the incumbent{if_so} (start: {compared['start']})"
    return {"from": mode, "to": "live", "reason": reason, "proof": compared}
