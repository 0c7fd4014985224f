"""What a run of many seeds leaves behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from matrixrl.errors import MatrixRLError
from matrixrl.records import BoolArray, Certificate, FloatArray

__all__ = ["RunResult", "alarm_words", "plain_setting"]

_CURVE_POINTS = 200
_ROUNDING = 1e-9  # optimism is judged up to the rounding of values


def plain_setting(value: Any) -> Any:
    """Return a setting as plain data: a kernel or an array as the words that show it."""
    return value if isinstance(value, (str, float, int, list, tuple, type(None))) else repr(value)


def alarm_words(alarmed: int, seeds: int) -> str:
    """Say why nothing is proven where the misspecification alarm was on."""
    return (
        f"misspecification alarm on {alarmed} of {seeds} seeds: the features cannot represent "
        "P (or the event of probability δ happened)"
    )


@dataclass(frozen=True)
class RunResult:
    """N episodes of K seeds, in the environment's own unit.

    Attributes:
        env: name of the environment.
        env_settings: how it was made.
        agent: name of the agent.
        settings: every setting of the agent, resolved.
        horizon: H.
        sizes: n_states, n_actions, d, d_psi.
        seeds: the K seeds.
        optimal_value: V*(s0).
        earns_from_zero: whether rewards are never negative, so that N·V* is the regret of earning nothing.
        regret: (K, N) exact regret of each episode; NaN if it was not measured.
        returns: (K, N) realised sums of (expected) rewards.
        upper: (K, N) optimistic value of the start at each plan.
        alarms: (K, N) whether the misspecification alarm was on.
        certified: (K, N, 2) lower and upper bound of each episode's certificate; NaN where none was asked for.
        certificate: for each seed, the certificate of the policy that all its data advise; empty for a baseline.
        plans: for each seed, how often it planned.
        settings_guarantee: True if the bound is proven for these settings, else why not.
        seconds: wall time of the episodes.
        interrupted: whether it was stopped before all episodes were played.
    """

    env: str
    env_settings: dict[str, Any]
    agent: str
    settings: dict[str, Any]
    horizon: int
    sizes: dict[str, int]
    seeds: list[int]
    optimal_value: float
    earns_from_zero: bool
    regret: FloatArray
    returns: FloatArray
    upper: FloatArray
    alarms: BoolArray
    certified: FloatArray
    certificate: list[Certificate]
    plans: list[int]
    settings_guarantee: Literal[True] | str
    seconds: float
    interrupted: bool = False

    @property
    def n_episodes(self) -> int:
        """How many episodes each seed finished."""
        return int(self.regret.shape[1])

    @property
    def measures_regret(self) -> bool:
        """Whether regret was measured."""
        return not np.isnan(self.regret).any()

    @property
    def cumulative_regret(self) -> FloatArray:
        """(K, N) YW19 (1) for each seed."""
        self._refuse_missing_regret("cumulative_regret")
        return np.cumsum(self.regret, axis=1)

    @property
    def final_regret(self) -> FloatArray:
        """(K,) total regret of each seed."""
        self._refuse_missing_regret("final_regret")
        total: FloatArray = self.regret.sum(axis=1)
        return total

    def _refuse_missing_regret(self, what: str) -> None:
        if not self.measures_regret:
            raise MatrixRLError(f"{what} needs measure_regret=True; only returns were recorded")

    @property
    def optimistic_share(self) -> float:
        """The share of episodes in which the optimistic value was at least V*(s0)."""
        if self.n_episodes == 0:
            return float("nan")
        slack = _ROUNDING * max(1.0, abs(self.optimal_value))
        return float((self.upper >= self.optimal_value - slack).mean())

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the bound is proven for this run, else why not."""
        if self.alarms.any():
            return alarm_words(int(self.alarms.any(axis=1).sum()), len(self.seeds))
        return self.settings_guarantee

    def mean_certificate(self) -> Certificate | None:
        """Return the certificates of all seeds as one: means of the bounds, and the first reason against it.

        None for an agent that has no certificates.
        """
        if not self.certificate:
            return None
        words = [c.guarantee for c in self.certificate if c.guarantee is not True]
        return Certificate(
            upper=float(np.mean([c.upper for c in self.certificate])),
            lower=float(np.mean([c.lower for c in self.certificate])),
            delta=self.certificate[0].delta,
            guarantee=words[0] if words else True,
        )

    def alarm_list(self) -> list[dict[str, int]]:
        """Return one entry for each seed that raised the alarm."""
        return [
            {
                "seed": seed,
                "first_episode": int(np.argmax(row)) + 1,
                "episodes": int(row.sum()),
            }
            for seed, row in zip(self.seeds, self.alarms, strict=True)
            if row.any()
        ]

    def _regret_summary(self, points: list[int]) -> dict[str, Any]:
        """Return regret and its curve at some episodes, counted from 1; None where it was not measured."""
        if not self.measures_regret:
            return {"regret": None, "regret_curve": None}
        final, curve = self.final_regret, self.cumulative_regret.mean(axis=0)
        return {
            "regret": {
                "mean": float(final.mean()),
                "std": float(final.std(ddof=1)) if len(final) > 1 else 0.0,
                "per_seed": [float(x) for x in final],
            },
            "regret_curve": {"episode": points, "mean": [float(curve[i - 1]) for i in points]},
        }

    def as_dict(self) -> dict[str, Any]:
        """Return the summary that ``matrixrl run --json`` prints."""
        n = self.n_episodes
        points = np.unique(np.linspace(1, n, min(n, _CURVE_POINTS)).round().astype(int)).tolist() if n else []
        shown = self.mean_certificate()
        return {
            "env": self.env,
            "env_settings": self.env_settings,
            "agent": self.agent,
            "settings": self.settings,
            **self.sizes,
            "n_episodes": n,
            "horizon": self.horizon,
            "seeds": self.seeds,
            "optimal_value": self.optimal_value,
            **self._regret_summary(points),
            "return_mean": float(self.returns.mean()) if n else None,
            "optimistic_share": self.optimistic_share if n else None,
            "guarantee": self.guarantee,
            "certificate": None if shown is None else shown.as_dict(),
            "alarms": self.alarm_list(),
            "seconds": self.seconds,
            "interrupted": self.interrupted,
        }
