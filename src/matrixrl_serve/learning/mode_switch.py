"""When the mode changes by itself: promotion with a proof, and the fall back to the incumbent."""

from __future__ import annotations

from typing import Any

from matrixrl.display import confidence
from matrixrl_serve.problem import Mode, ServedProblem

__all__ = ["switch"]


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
    words += f"{compared['lower']:.4g} more"
    reason = f"{words} in an episode than the incumbent{if_so} (start: {compared['start']})"
    return {"from": mode, "to": "live", "reason": reason, "proof": compared}
