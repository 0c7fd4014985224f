"""Results of runs with several seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.certificates import Certificate
from matrixrl.display import Described, in_digits
from matrixrl.errors import MatrixRLError
from matrixrl.measurement import held, measured_places
from matrixrl.records import BoolArray, FloatArray, Guarantee, IntArray

__all__ = ["Chunk", "RunResult", "alarm_words", "join_results", "proof_label"]

_CURVE_POINTS = 200
_ROUNDING = 1e-9  # relative tolerance of the comparison of upper bounds with V*


def alarm_words(alarmed: int, seeds: int) -> str:
    """Return the reason why nothing is proven if `alarmed` of all `seeds` seeds raised the misspecification alarm."""
    return (
        f"misspecification alarm on {alarmed} of {seeds} seeds: the features cannot represent "
        "P, or rewards that are learned (or the event of probability δ happened)"
    )


@dataclass(frozen=True, repr=False)
class Series:
    """Numbers of n episodes of B replicas, (B, n, …) each and in the environment's unit, as in `RunResult`."""

    regret: FloatArray
    returns: FloatArray
    lengths: NDArray[Any]
    upper: FloatArray
    alarms: BoolArray
    certified: FloatArray

    @staticmethod
    def empty(n_replicas: int, n_episodes: int) -> Series:
        """Return room for the numbers of so many episodes."""
        shape = (n_replicas, n_episodes)
        returns, lengths, upper, alarms = (np.zeros(shape, dtype=kind) for kind in (float, float, float, np.bool_))
        return Series(np.full(shape, np.nan), returns, lengths, upper, alarms, np.full((*shape, 2), np.nan))

    def write(self, first: int, part: Series) -> None:
        """Put the numbers of some episodes in the place from `first` on."""
        for one in fields(Series):
            numbers = getattr(part, one.name)
            getattr(self, one.name)[:, first : first + numbers.shape[1]] = numbers

    def head(self, n_episodes: int) -> dict[str, NDArray[Any]]:
        """Return copies of the numbers of the first episodes, by name."""
        return {one.name: getattr(self, one.name)[:, :n_episodes].copy() for one in fields(Series)}


@dataclass(frozen=True)
class Chunk(Series):
    """n consecutive episodes of B replicas.

    Attributes:
        states: (B, n, H, …) States before each step.
        actions: (B, n, H) Actions.
    """

    states: NDArray[Any]
    actions: IntArray

    @classmethod
    def join(cls, chunks: list[Chunk]) -> Chunk:
        """Return consecutive chunks as one."""
        if len(chunks) == 1:
            return chunks[0]
        return cls(**{f.name: np.concatenate([getattr(s, f.name) for s in chunks], axis=1) for f in fields(cls)})


def proof_label(guarantee: Guarantee | None) -> dict[str, str]:
    """Return a short label of a guarantee, its CSS class and the reason.

    Args:
        guarantee: Whether a regret bound is proven; None if nothing was played so far.

    >>> proof_label(Guarantee(False, "tuned: the bonus was scaled by 0.1"))
    {'label': 'tuned', 'kind': 'tuned', 'reason': 'the bonus was scaled by 0.1'}
    """
    if guarantee is None:
        label, reason = "not known yet", "no episodes have been played so far"
    elif guarantee:
        label, reason = "proven", "a regret bound is proven for these settings"
    elif guarantee.reason.startswith("misspecification alarm"):
        label, reason = "alarm", guarantee.reason
    else:
        # shrinking the confidence set is tuning too: the bound is proven for the set of full size
        label = "tuned" if guarantee.reason.startswith(("tuned", "exploration ")) else "no proof"
        reason = guarantee.reason.removeprefix("tuned: ")
    return {"label": label, "kind": label.replace(" ", "-"), "reason": reason}


@dataclass(frozen=True, repr=False)
class RunResult(Series, Described):
    """The result of N episodes of K seeds, in the environment's unit.

    Attributes:
        regret: (K, N) Exact regret of each episode; NaN if it was not measured.
        returns: (K, N) Sum of the rewards of each episode, discounted by the problem's factor; NaN for an episode that
            was not played.
        lengths: (K, N) Number of steps of each episode.
        upper: (K, N) Optimistic value of the start in the plan of each episode.
        alarms: (K, N) Whether the misspecification alarm was raised.
        certified: (K, N, 2) Lower and upper bound of each episode's certificate; NaN if none was requested.
        env: Name of the environment.
        env_settings: Settings of the environment.
        agent: Name of the agent.
        settings: All settings of the agent, with their values.
        horizon: Number of steps H of an episode.
        sizes: n_states, n_actions, d and d_psi of a finite problem, stage_classes if laws depend on the stage, and
            allowed_pairs if some actions are not allowed; n_coordinates and n_actions if states are vectors.
        n_features: Number of features of a pair (of a state, if states are vectors), for each seed.
        seeds: The K seeds.
        optimal_value: Optimal value V*(s0), or None if P is not known or regret is not measured.
        earns_from_zero: Whether rewards are never negative, so that N·V*(s0) is the regret of a total reward of 0.
        certificate: Certificate of the final policy of each seed; empty for an agent without certificates.
        n_plans: Number of plans computed, for each seed.
        settings_guarantee: Whether the regret bound is proven for these settings.
        seconds: (K, N) Wall time of each episode in seconds, without compiling, divided equally among replicas that are
            played together.
        interrupted: Whether the run was stopped before all episodes were played.
        withdrawn: Why observed rewards withdraw what is proven, or None: some lie outside the declared range, or they
            refute given ones.
        regret_every: Number k of episodes from one whose regret is measured to the next.
        first_episode: Number of the first of the N episodes, counted from 0; episodes 0, k, 2k, … are measured.
        discount: Factor γ of each step.
        length_scales: (K, g) fitted length scales of the coordinates of state and action, of `KernelControl`; a row of
            NaN for a seed that fitted none, and None for other agents.
    """

    env: str
    env_settings: dict[str, Any]
    agent: str
    settings: dict[str, Any]
    horizon: int
    sizes: dict[str, int]
    n_features: list[int]
    seeds: list[int]
    optimal_value: float | None
    earns_from_zero: bool
    certificate: list[Certificate]
    n_plans: list[int]
    settings_guarantee: Guarantee
    seconds: FloatArray
    interrupted: bool = False
    withdrawn: str | None = None
    regret_every: int = 1
    first_episode: int = 0
    discount: float = 1.0
    length_scales: FloatArray | None = None

    @property
    def n_episodes(self) -> int:
        """Number of episodes N; in a joined result some seeds may have finished fewer."""
        return int(self.returns.shape[1])

    @property
    def total_seconds(self) -> float:
        """Wall time of all episodes of all seeds, in seconds, without the time that numba takes to compile loops."""
        return float(np.nansum(self.seconds))

    def second_half(self, k: int | None = None) -> float | None:
        """Return the mean return over the second half of the episodes, or None if no episode was played.

        Args:
            k: Index of a seed; None for all seeds.
        """
        rows = self.returns if k is None else self.returns[k : k + 1]
        played = [row[~np.isnan(row)] for row in rows]
        halves = [row[len(row) // 2 :] for row in played if len(row)]
        return float(np.concatenate(halves).mean()) if halves else None

    @property
    def measures_regret(self) -> bool:
        """Whether regret was measured in every episode, or every k-th one, as it was asked for."""
        places = measured_places(self.n_episodes, self.regret_every, self.first_episode)
        return self.optimal_value is not None and not np.isnan(self.regret[:, places]).any()

    def _words(self) -> str:
        count = len(self.seeds)
        words = f"RunResult: {self.agent} on {self.env}, {self.n_episodes:,} episodes, {count} seed{'s' * (count > 1)}"
        if self.measures_regret and self.n_episodes:
            return f"{words}, mean regret {in_digits(self.final_regret.mean())}"
        return f"{words}, mean return {in_digits(float(np.nanmean(self.returns)))}" if self.n_episodes else words

    def _facts(self) -> dict[str, object]:
        facts: dict[str, object] = {"seeds": ", ".join(map(str, self.seeds[:12])) + ", …" * (len(self.seeds) > 12)}
        if self.optimal_value is not None:
            facts["V*(s0)"] = self.optimal_value
        if self.measures_regret and self.n_episodes:
            final = self.final_regret
            facts["regret"] = f"{in_digits(final.mean())} ({in_digits(final.min())} to {in_digits(final.max())})"
        if self.n_episodes:
            facts["mean return"] = float(np.nanmean(self.returns))
        certificate = self.mean_certificate()
        if certificate is not None:
            facts["mean certificate"] = f"{in_digits(certificate.lower)} to {in_digits(certificate.upper)}"
        return facts | {"regret bound": self.guarantee, "seconds": float(self.total_seconds)}

    @property
    def held_regret(self) -> FloatArray:
        """Regret (K, N) of each episode, of those that were not measured that of the last one that was."""
        return held(self.regret, self.regret_every, self.first_episode)

    @property
    def known_optimum(self) -> float:
        """Optimal value V*(s0); an error is raised if P is not known."""
        if self.optimal_value is None:
            raise MatrixRLError(f"V* of {self.env} is not known; only returns were recorded")
        return self.optimal_value

    @property
    def cumulative_regret(self) -> FloatArray:
        """Cumulative regret (K, N) of each seed; YW19 (1).

        Where only every k-th episode is measured, those in between count with the last measured regret.
        """
        self._refuse_missing_regret("cumulative_regret")
        return np.cumsum(self.held_regret, axis=1)

    @property
    def final_regret(self) -> FloatArray:
        """Total regret (K,) of each seed, with the same convention."""
        self._refuse_missing_regret("final_regret")
        total: FloatArray = self.held_regret.sum(axis=1)
        return total

    def _refuse_missing_regret(self, what: str) -> None:
        if not self.measures_regret:
            raise MatrixRLError(f"{what} needs a known P and measure_regret=True; only returns were recorded")

    @property
    def optimistic_share(self) -> float:
        """Fraction of episodes in which the optimistic value of the start was at least V*(s0)."""
        if self.n_episodes == 0 or self.optimal_value is None:
            return float("nan")
        slack = _ROUNDING * max(1.0, abs(self.optimal_value))
        played = self.upper[~np.isnan(self.returns)]
        return float((played >= self.optimal_value - slack).mean())

    @property
    def guarantee(self) -> Guarantee:
        """Whether the regret bound is proven for this run."""
        alarmed = int(self.alarms.any(axis=1).sum())
        alarm = alarm_words(alarmed, len(self.seeds)) if alarmed else None
        return Guarantee.unless(self.withdrawn, alarm) and self.settings_guarantee

    def mean_certificate(self) -> Certificate | None:
        """Return the mean of the certificates of all K seeds, or None if the agent has no certificates.

        The mean of the bounds holds if those of every seed hold, which may fail with probability Kδ: this is its
        `delta`. It is proven if all certificates are and Kδ < 1; else the first reason counts.
        """
        if not self.certificate:
            return None
        reasons = [c.guarantee.reason for c in self.certificate]
        delta = sum(c.delta for c in self.certificate)
        if delta >= 1.0:
            words = "each certificate holds with probability 1 − δ, but nothing is proven for the mean of"
            reasons.append(f"{words} {len(self.certificate)} seeds: Kδ must be below 1")
        known = [c.optimal_lower for c in self.certificate if c.optimal_lower is not None]
        return Certificate(
            upper=float(np.mean([c.upper for c in self.certificate])),
            lower=float(np.mean([c.lower for c in self.certificate])),
            delta=min(delta, 1.0),
            guarantee=Guarantee.unless(*reasons),
            optimal_lower=float(np.mean(known)) if len(known) == len(self.certificate) else None,
            start=self.certificate[0].start,
        )

    def alarm_list(self) -> list[dict[str, int]]:
        """Return seed, first episode and number of episodes of the alarm, for each seed that raised it."""
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
        """Return the final regret and the mean cumulative regret at the episodes `points` (from 1); None if unknown."""
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
        certificate = self.mean_certificate()
        return {
            "env": self.env,
            "env_settings": self.env_settings,
            "agent": self.agent,
            "settings": self.settings,
            **self.sizes,
            "n_episodes": n,
            "horizon": self.horizon,
            "discount": self.discount,
            "seeds": self.seeds,
            "optimal_value": self.optimal_value,
            "regret_every": self.regret_every,
            **self._regret_summary(points),
            "return_mean": float(np.nanmean(self.returns)) if n else None,
            "return_second_half": self.second_half(),
            "returns": None if self.measures_regret else _numbers(self.returns),
            "optimistic_share": _number(self.optimistic_share),
            "n_features": self.n_features,
            "length_scales": None if self.length_scales is None else _numbers(self.length_scales),
            "guarantee": self.guarantee.as_dict(),
            "certificate": None if certificate is None else certificate.as_dict(),
            "alarms": self.alarm_list(),
            "seconds": self.total_seconds,
            "interrupted": self.interrupted,
        }


def _number(value: float) -> float | None:
    """Return the number, or None for NaN, which JSON does not support."""
    return None if np.isnan(value) else float(value)


def _numbers(table: FloatArray) -> list[list[float | None]]:
    """Return a table as lists for JSON."""
    return [[_number(x) for x in row] for row in table]


def join_results(results: Sequence[RunResult]) -> RunResult:
    """Return the results of different seeds as one result; entries of episodes that a seed did not play are NaN."""
    if len(results) == 1:
        return results[0]
    first, n = results[0], max(result.n_episodes for result in results)

    def joined(name: str, fill: float | bool) -> Any:
        rows = []
        for result in results:
            row = getattr(result, name)
            width = [(0, 0), (0, n - row.shape[1]), *[(0, 0)] * (row.ndim - 2)]
            rows.append(np.pad(row, width, constant_values=fill))
        return np.concatenate(rows)

    return replace(
        first,
        seeds=[seed for result in results for seed in result.seeds],
        n_features=[count for result in results for count in result.n_features],
        certificate=[certificate for result in results for certificate in result.certificate],
        n_plans=[count for result in results for count in result.n_plans],
        settings_guarantee=Guarantee.unless(*(result.settings_guarantee.reason for result in results)),
        withdrawn=next((r.withdrawn for r in results if r.withdrawn is not None), None),
        alarms=joined("alarms", False),
        interrupted=any(result.interrupted for result in results),
        length_scales=_joined_scales(results),
        **{name: joined(name, np.nan) for name in ("regret", "returns", "lengths", "upper", "certified", "seconds")},
    )


def _joined_scales(results: Sequence[RunResult]) -> FloatArray | None:
    """Return the length scales of all seeds: (K, g); seeds that fitted none have NaN."""
    fitted = next((result.length_scales for result in results if result.length_scales is not None), None)
    if fitted is None:
        return None
    none = np.full(fitted.shape[1], np.nan)
    parts = [np.tile(none, (len(r.seeds), 1)) if r.length_scales is None else r.length_scales for r in results]
    return np.concatenate(parts)
