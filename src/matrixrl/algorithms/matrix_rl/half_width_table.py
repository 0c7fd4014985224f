"""One-hot features: all that sets and radii say of a pair, tabulated by its number of visits."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from matrixrl.algorithms.matrix_rl.finite import MatrixRLEngine
from matrixrl.features import OneHotPhi, OneHotPsi
from matrixrl.linalg import DiagonalPairs
from matrixrl.records import FloatArray, IntArray

__all__ = ["HalfWidthTable", "why_not_by_visits"]

_BLOCK = 1 << 16  # numbers of visits that are asked about together


def why_not_by_visits(engine: object) -> str | None:
    """Return why an engine's bounds are not functions of visits alone, or None if they are."""
    if not isinstance(engine, MatrixRLEngine):
        return "only matrix-rl with all its columns has that form"
    if not isinstance(engine.features.phi, OneHotPhi) or not isinstance(engine.features.psi, OneHotPsi):
        return "the features are not one-hot"
    if engine.settings.doubling != "off" or engine.settings.switch_growth > 0.0:
        return "doubling and rare switching are not compiled"
    if not engine.radius.is_local(engine.settings.n_episodes):
        return f"the radius {engine.settings.radius!r} depends on more than the visits of a pair"
    return None


@dataclass(frozen=True)
class HalfWidthTable:
    """What a pair's bound is made of, by visits 0, 1, …, T − 1.

    Attributes:
        centre: (m,) for each member of the set, what is taken from V.
        norm: (m,) what the half-width is multiplied with.
        constant: (m,) the constant where it is one.
        half_width: (m, T).
        reward_half_width: (T,) of the estimated reward; empty where rewards are known.
    """

    centre: IntArray
    norm: IntArray
    constant: FloatArray
    half_width: FloatArray
    reward_half_width: FloatArray

    @property
    def size(self) -> int:
        """T."""
        return int(self.half_width.shape[1])

    @classmethod
    def of(cls, engine: MatrixRLEngine, size: int, *, proven: bool = False, share: float = 1.0) -> HalfWidthTable:
        """Ask the engine's own set about pairs with 0, 1, …, `size` − 1 visits.

        Args:
            engine: its bounds follow from visits (`why_not_by_visits`).
            size: T.
            proven: at the proven radius, in place of the engine's.
            share: of the engine's radius.
        """
        members = engine.set.members
        learns = not engine.settings.known_reward
        half_width = np.empty((len(members), size))
        reward = np.empty(size if learns else 0)
        for first in range(0, size, _BLOCK):
            visits = np.arange(first, min(first + _BLOCK, size), dtype=np.float64)
            here = slice(first, first + len(visits))
            half_width[:, here], of_reward = _ask(engine, visits, proven=proven, share=share)
            if learns:
                reward[here] = of_reward
        nothing = np.zeros((1, engine.features.psi.d_psi))
        return cls(
            centre=np.array([m.centred for m in members]),
            norm=np.array([m.norm for m in members]),
            constant=np.array([float(m.split(nothing).scale[0]) for m in members]),  # 0, but for a constant
            half_width=half_width,
            reward_half_width=reward,
        )


def _ask(engine: MatrixRLEngine, visits: FloatArray, *, proven: bool, share: float) -> tuple[FloatArray, FloatArray]:
    """Return the half-widths (m, T) of pairs with so many visits (T,), and of their rewards (T,)."""
    design = DiagonalPairs(len(visits), 1, ridge=engine.ridge)
    design.restore({"counts": visits[None]})
    inputs = replace(engine.radius_inputs(), design=design)
    shape, scale = (engine.proven_radius, 1.0) if proven else (engine.radius, share * engine.settings.exploration)
    radius = scale * shape(inputs)
    alarm_radius = np.maximum(radius, engine.proven_radius(inputs))
    slack = engine.ridge * design.width_sq
    reaches = [m.reach(design, radius, alarm_radius, slack) for m in engine.set.members]
    # docs/proofs.md, 4: the proven radius holds the bias λ/(λ + n) of a one-hot pair, so its ball is never empty.
    assert all(reach.empty is None for reach in reaches)
    of_reward = scale * shape(replace(inputs, regularity=engine.reward_regularity)) * np.sqrt(design.width_sq)
    return np.concatenate([np.broadcast_to(reach.half_width, (1, len(visits))) for reach in reaches]), of_reward[0]
