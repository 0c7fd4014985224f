"""When the mode changes by itself: promotion with a proof, and the fall back to the incumbent."""

from __future__ import annotations

from typing import Any

from matrixrl.agents import MatrixRL
from matrixrl.policies import Policy
from matrixrl.service.learning.incumbent import IncumbentReturns
from matrixrl.service.problem import LOGGED, Mode, ServedProblem

__all__ = ["comparison", "switch"]


def comparison(
    agent: MatrixRL, recommended: Policy, problem: ServedProblem, returns: IncumbentReturns
) -> dict[str, Any] | None:
    """Return what is proven about the recommended policy and the incumbent, as plain data; None without incumbent.

    A known incumbent is compared by the model (docs/proofs.md, section 12). One that is only reported has an upper
    bound from its returns, at its own share of δ.

    Returns:
        ``lower`` and ``upper`` of the difference of the values, ``delta``, the ``basis``, and the ``guarantee``.
    """
    if problem.incumbent is not None:
        found = agent.compare(recommended, problem.incumbent)
        return {
            "basis": "model",
            "lower": found.lower,
            "upper": found.upper,
            "delta": found.delta,
            "guarantee": found.guarantee,
        }
    if problem.file.incumbent != LOGGED:
        return None
    shown = recommended.certificate
    assert shown is not None
    bound = returns.upper(problem.incumbent_delta)
    return {
        "basis": "returns",
        "lower": shown.lower - bound,
        "upper": shown.upper - float(problem.value_range()[0]),
        "delta": shown.delta + problem.incumbent_delta,
        "guarantee": shown.guarantee,
        "incumbent_upper": bound,
        "incumbent_episodes": returns.n_episodes,
    }


def switch(
    mode: Mode, alarm: str | None, compared: dict[str, Any] | None, problem: ServedProblem
) -> dict[str, Any] | None:
    """Return the body of a mode event that is due after a plan, or None.

    Args:
        mode: Present mode.
        alarm: Words of the alarm, if it was raised.
        compared: What `comparison` returned.
        problem: The problem.
    """
    if alarm is not None:
        if mode == "live" and problem.file.incumbent is not None:
            return {"from": mode, "to": "shadow", "reason": f"back to the incumbent: {alarm}"}
        return None
    if mode != "shadow" or not problem.file.promote or compared is None:
        return None
    if compared["guarantee"] is not True or not compared["lower"] > 0.0:
        return None
    chance = 1.0 - compared["delta"]
    words = f"with probability {chance:g} the recommended policy earns at least {compared['lower']:.4g} more"
    return {"from": mode, "to": "live", "reason": f"{words} in an episode than the incumbent", "proof": compared}
