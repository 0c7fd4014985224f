"""The result of comparing two policies: an interval of the difference of their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from matrixrl.display import confidence, html_table, printable
from matrixrl.records import Guarantee

__all__ = ["Comparison"]


@dataclass(frozen=True, slots=True, repr=False)
class Comparison:
    """An interval of V^policy(s0) − V^incumbent(s0), in the environment's unit (docs/proofs.md, section 12).

    Attributes:
        lower: Lower bound on the difference.
        upper: Upper bound on the difference.
        policy: Lower and upper bound on V^policy(s0).
        incumbent: Lower and upper bound on V^incumbent(s0).
        delta: Probability δ with which any of the bounds of the agent may fail, those of all its comparisons included.
        guarantee: Whether the bounds are proven.
        start: Start s0 that the bounds are about, in words, as in `Certificate`.

    >>> Comparison(0.5, 2.0, policy=(3.0, 4.0), incumbent=(1.5, 2.5), delta=0.05, guarantee=Guarantee(True))
    <Comparison: with probability 0.95 the policy earns 0.5 to 2 more than the incumbent in an episode: it is better>
    """

    lower: float
    upper: float
    policy: tuple[float, float]
    incumbent: tuple[float, float]
    delta: float
    guarantee: Guarantee
    start: str = ""

    @property
    def probably_better(self) -> bool:
        """Whether the policy is proven to earn more than the incumbent, with probability 1 − δ."""
        return self.guarantee.holds and self.lower > 0.0

    @property
    def probably_worse(self) -> bool:
        """Whether the policy is proven to earn less than the incumbent, with probability 1 − δ."""
        return self.guarantee.holds and self.upper < 0.0

    def as_dict(self) -> dict[str, Any]:
        """Return the bounds, delta, guarantee, the verdict and the start by name."""
        return {
            "lower": self.lower,
            "upper": self.upper,
            "policy": list(self.policy),
            "incumbent": list(self.incumbent),
            "delta": self.delta,
            "guarantee": self.guarantee.as_dict(),
            "probably_better": self.probably_better,
            "probably_worse": self.probably_worse,
            "start": self.start,
        }

    def __repr__(self) -> str:
        what = f"the policy earns {self._interval()} the incumbent in an episode"
        what += f" (start: {printable(self.start)})" if self.start else ""
        if not self.guarantee:
            return f"<Comparison: estimated, not proven: {what} ({printable(self.guarantee.reason)})>"
        verdict = "more data are needed to tell which one is better"
        if self.lower == self.upper == 0.0:
            verdict = "they have the same value"
        elif self.lower > 0.0:
            verdict = "it is better"
        elif self.upper < 0.0:
            verdict = "it is worse"
        return f"<Comparison: with probability {confidence(self.delta)} {what}: {verdict}>"

    def _repr_html_(self) -> str:
        """Return the comparison as a table, as notebooks show it."""
        both = {"policy": self.policy, "incumbent": self.incumbent, "difference": (self.lower, self.upper)}
        rows: dict[str, object] = {f"value of the {k}": f"{low:.4g} to {high:.4g}" for k, (low, high) in both.items()}
        rows["difference"] = rows.pop("value of the difference")
        rows["start"] = self.start or "not known"
        rows["holds with probability"] = confidence(self.delta)
        rows["guarantee"] = self.guarantee
        return html_table(repr(self)[1:-1], rows)

    def _interval(self) -> str:
        """Return the interval in words that go on with "the incumbent"."""
        low, high = f"{abs(self.lower):.4g}", f"{abs(self.upper):.4g}"
        if self.lower == self.upper == 0.0:
            return "as much as"
        if self.lower >= 0.0:
            return f"{low} to {high} more than"
        if self.upper <= 0.0:
            return f"{high} to {low} less than"
        return f"between {low} less and {high} more than"
