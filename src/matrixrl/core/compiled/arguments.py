"""From a belief to the compiled loops of its plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from matrixrl.core.sets.base import MIDDLE
from matrixrl.features import OneHotPhi, OneHotPsi, TablePhi, TablePsi
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import TIE

if TYPE_CHECKING:
    from matrixrl.core.backup import Belief

__all__ = ["fill_in_compiled", "has_compiled_form"]

_MANY_FEATURES = 64


def has_compiled_form(belief: Belief) -> bool:
    """Say whether the compiled loops know the form of a belief's bound, and are worth it.

    They know every set where no pair is empty, but for centres that must be searched for; with many features one matrix
    product for all replicas is faster.
    """
    phi, psi, members = belief.phi, belief.psi, belief.confidence_set.members
    return (
        (isinstance(phi, OneHotPhi) or (isinstance(phi, TablePhi) and phi.d <= _MANY_FEATURES))
        and isinstance(psi, (OneHotPsi, TablePsi))
        and (np.ptp(psi.total) == 0.0 or all(member.centred != MIDDLE for member in members))
        and all(reach.empty is None for reach in belief.reaches)
    )


def fill_in_compiled(
    belief: Belief,
    unit_reward: FloatArray,
    tie_break: FloatArray,
    ends: tuple[int, float],
    values: FloatArray,
    policy: IntArray,
    preference: FloatArray | None = None,
    q_out: FloatArray | None = None,
) -> None:
    """Fill in values (B, H+1, S) and policy (B, H, S) by the compiled loops.

    Args:
        belief: one that has a compiled form.
        unit_reward: (A, S), or (B, A, S).
        tie_break: (B, A).
        ends: the end state, or -1, and its unit reward.
        values: zero at the last stage.
        policy: filled in.
        preference: (B, H, A, S) what breaks ties first, or None.
        q_out: (B, H, A, S) filled in, or None.
    """
    from matrixrl.core.compiled.backup import plan_all  # numba: half a second

    n_replicas, d_psi = len(belief.core), belief.psi.d_psi
    n_pairs = unit_reward.shape[-2] * unit_reward.shape[-1]
    nothing, members = np.zeros((0, 0)), belief.confidence_set.members
    plan_all(
        belief.phi.feature_rows if isinstance(belief.phi, TablePhi) else nothing,
        belief.psi.weighted if isinstance(belief.psi, TablePsi) else nothing,
        belief.psi.total,
        np.ascontiguousarray(belief.core),
        np.zeros((n_replicas, 0)) if belief.slack is None else belief.slack,
        np.stack([reach.half_width for reach in belief.reaches]),
        np.array([member.centred for member in members]),
        np.array([member.norm for member in members]),
        np.array([float(member.split(np.zeros((1, d_psi))).scale[0]) for member in members]),  # 0, but for a constant
        belief.confidence_set.is_normalised,
        np.broadcast_to(unit_reward, (n_replicas, *unit_reward.shape[-2:])).reshape(n_replicas, n_pairs),
        tie_break,
        *ends,
        values,
        policy,
        _by_pairs(preference),
        TIE,
        _by_pairs(q_out),
    )


def _by_pairs(table: FloatArray | None) -> FloatArray:
    """Return (B, H, A, S) as (B, H, P), or nothing at all for None."""
    return np.zeros((0, 0, 0)) if table is None else table.reshape(*table.shape[:2], -1)
