"""Arguments of the compiled backup, of bounds on Q."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from matrixrl.core.sets.base import MIDDLE, SingleSet
from matrixrl.features import OneHotPhi, OneHotPsi, TablePhi, TablePsi
from matrixrl.records import FloatArray, IntArray

if TYPE_CHECKING:
    from matrixrl.core.matrix_bounds import MatrixBounds
    from matrixrl.core.value_bounds import PlanArrays

__all__ = ["fill_in_compiled", "has_compiled_form", "split_forms"]

_MANY_FEATURES = 64


def has_compiled_form(bounds: MatrixBounds) -> bool:
    """Return whether the compiled backup supports bounds on Q and is faster than NumPy.

    It supports every set with a `compiled_form`, if no confidence set is empty and the centre c has a closed form. With
    more than 64 features a matrix product for all replicas is faster.
    """
    phi, psi = bounds.phi, bounds.psi
    forms = [member.compiled_form for member in bounds.confidence_set.members]
    return (
        all(form is not None for form in forms)
        and (isinstance(phi, OneHotPhi) or (type(phi) is TablePhi and phi.d <= _MANY_FEATURES))
        and isinstance(psi, (OneHotPsi, TablePsi))
        and (np.ptp(psi.total) == 0.0 or all(form is not None and form.centre != MIDDLE for form in forms))
        and all(reach.empty is None for reach in bounds.reaches)
    )


def split_forms(members: tuple[SingleSet, ...]) -> tuple[IntArray, IntArray, FloatArray]:
    """Return centre, norm and constant scale of the m members of a set, each (m,), for the compiled backup."""
    forms = [member.compiled_form for member in members]
    nothing = np.zeros((1, members[0].context.d_psi))
    return (
        np.array([form.centre for form in forms if form is not None]),
        np.array([form.norm for form in forms if form is not None]),
        np.array([float(member.split(nothing).scale[0]) for member in members]),  # 0 unless the scale is a constant
    )


def fill_in_compiled(bounds: MatrixBounds, plan: PlanArrays) -> None:
    """Fill in optimistic values and policy of bounds for which `has_compiled_form` is True."""
    from matrixrl.core.compiled import backup  # imports numba, which takes half a second

    n_replicas = bounds.n_replicas
    nothing, by_replica = np.zeros((0, 0)), np.zeros((n_replicas, 0, 0))
    estimate = (
        bounds.phi.feature_rows if isinstance(bounds.phi, TablePhi) else nothing,
        bounds.psi.weighted if isinstance(bounds.psi, TablePsi) else nothing,
        bounds.psi.total,
        np.ascontiguousarray(bounds.core_matrix),
        by_replica,
        by_replica.astype(np.uint32),
        np.zeros(n_replicas, dtype=np.int64),
    )
    bound = (
        np.zeros(bounds.reaches[0].half_width.shape) if bounds.slack is None else bounds.slack,
        np.stack([reach.half_width for reach in bounds.reaches], axis=1),
        *split_forms(bounds.confidence_set.members),
        bounds.is_normalised,
    )
    backup.fill_plan(estimate, bound, plan.rewards(bounds.most), *plan.arguments())
