"""What the terminal shows of a control task while it is learned."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.algorithms import Algorithm, ContinuousControl
from matrixrl.algorithms.continuous.base import Experience
from matrixrl.display import sparkline
from matrixrl.envs import CONTROL
from matrixrl.records import FloatArray, Steps
from matrixrl.spaces import BoxCodec

__all__ = ["EpisodeMonitor", "coordinate_names", "length_scale_names", "surprise_share"]

_MOST_LINES = 8  # length scales that are shown, the shortest ones


def coordinate_names(n_coordinates: int, env: str | None = None) -> list[str]:
    """Return x0, x1, … with the label of each coordinate where the environment is one of `CONTROL`.

    >>> coordinate_names(2), coordinate_names(2, "mountain-car")
    (['x0', 'x1'], ['x0, position', 'x1, speed'])
    """
    labels = CONTROL[env].axes if env in CONTROL else ()
    if len(labels) != n_coordinates:
        return [f"x{i}" for i in range(n_coordinates)]
    return [f"x{i}, {label}" for i, label in enumerate(labels)]


def length_scale_names(n_coordinates: int, n_scales: int, *, is_box: bool, env: str | None = None) -> list[str]:
    """Return the names of the length scales of KernelControl: those of the state, then those of the action.

    Args:
        n_coordinates: Length p of an observation.
        n_scales: Number of length scales; discrete actions share one.
        is_box: Whether actions are continuous.
        env: Name of the environment.

    >>> length_scale_names(1, 3, is_box=True), length_scale_names(2, 3, is_box=False)
    (['x0', 'u0', 'u1'], ['x0', 'x1', 'action'])
    """
    n_actions = n_scales - n_coordinates
    alone = not is_box and n_actions == 1
    return coordinate_names(n_coordinates, env) + (["action"] if alone else [f"u{i}" for i in range(n_actions)])


def surprise_share(plan: Any, steps: Steps) -> float:
    """Return the share of the steps of an episode that the model of its first plan did not predict; NaN without one."""
    one, data = plan.plans[0], Experience.of(steps, 0)
    if one.world is None:
        return float("nan")
    rows = zip(data.obs, data.actions, data.rewards, data.next_obs, strict=True)
    return float(np.mean([one.is_surprised(obs, int(a), float(r), next_obs) for obs, a, r, next_obs in rows]))


class EpisodeMonitor:
    """Returns so far and, for KernelControl, how well its model predicts and the length scales it fitted.

    Args:
        algorithm: Algorithm with one replica, on vectors.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm
        self.returns: list[float] = []
        self.surprises: list[float] = []
        """Share of the steps of each episode that the model of its first plan did not predict; NaN without a model."""
        self.length_scales: list[FloatArray] = []
        """(g,) length scales after each episode, from the first fit on."""

    def see(self, plan: Any, steps: Steps) -> None:
        """Take note of an episode."""
        self.returns.append(float(self._algorithm.problem.task.returns(steps.rewards)[0]))
        if isinstance(self._algorithm, ContinuousControl):
            self.surprises.append(surprise_share(plan, steps))
            scales = self._algorithm.length_scales()[0]
            if scales.size:
                self.length_scales.append(scales)

    def lines(self) -> list[str]:
        """Return the lines below the bar: a name, a curve over episodes, and the last value."""
        rows: list[tuple[str, str, str]] = []
        if self.returns:
            returns = np.array(self.returns)
            rows.append(("returns", sparkline(returns), f"{returns[-1]:.4g}, best {returns.max():.4g}"))
        if self.surprises and not np.isnan(self.surprises).all():
            shares = np.array(self.surprises)
            last = f"{100.0 * shares[-1]:.0f} % of the last steps were not as predicted"
            rows.append(("surprises", sparkline(shares, low=0.0, high=1.0), last))
        rows += self._scale_rows()
        width = max((len(name) for name, *_ in rows), default=0)
        longest = max((len(curve) for _, curve, _ in rows), default=0)
        return [f"{name:<{width}}  {curve:<{longest}}  {last}" for name, curve, last in rows]

    def _scale_rows(self) -> list[tuple[str, str, str]]:
        """Return a row for each of the shortest length scales; heights of all curves have one unit."""
        if not self.length_scales:
            return []
        problem, logs = self._algorithm.problem, np.log(np.stack(self.length_scales))
        p = int(getattr(problem.task, "n_coordinates", 0))
        names = length_scale_names(p, logs.shape[1], is_box=isinstance(problem.actions, BoxCodec), env=problem.name)
        shown = np.sort(np.argsort(logs[-1], kind="stable")[:_MOST_LINES])
        low, high = float(logs.min()), float(logs.max())
        curves = [sparkline(logs[:, k], low=low, high=high) for k in shown]
        last = np.exp(logs[-1, shown])
        return [
            (f"length {names[k]}", curve, f"{value:.3g}") for k, curve, value in zip(shown, curves, last, strict=True)
        ]
