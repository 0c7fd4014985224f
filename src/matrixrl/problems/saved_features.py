"""Feature maps as plain arrays, and back. Of a user's own map only the answers at a few states are saved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from matrixrl.checks import fail
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, OneHotPhi, OneHotPsi, Phi, Psi, SparsePsi, TablePhi, TablePsi
from matrixrl.features.bundle import check_sizes
from matrixrl.features.end_state import phi_with_end, psi_with_end
from matrixrl.problems.finite import Task
from matrixrl.records import FloatArray

__all__ = ["Arrays", "SavedMaps", "feature_arrays", "match_features", "save_features", "unpack_features"]

M = TypeVar("M", Phi, Psi)
Arrays = dict[str, NDArray[Any]]
SavedMaps = tuple[Phi | FloatArray, Psi | FloatArray]
"""φ and ψ, or the answers of a user's own map at a few states: (A, k, d) and (k, d_psi)."""

_PROBES = 16  # states at which feature maps are compared
_OWN = "own"  # a feature map of which only answers are saved
_WIDE = 1536  # features ψ of any number of states: K_ψ and what is computed of it fill less than 200 MB
_PHI = {"one-hot": (), "table": ("phi",), _OWN: ("phi_probe",)}
_PSI = {
    "one-hot": (),
    "table": ("psi",),
    "sparse": ("psi_data", "psi_indices", "psi_indptr", "psi_shape"),
    _OWN: ("psi_probe",),
}


def save_features(features: Features, arrays: Arrays) -> dict[str, Any]:
    """Return the header's part of two feature maps, and add their arrays."""
    return {
        "phi": _save_phi(features.phi, arrays),
        "psi": _save_psi(features.psi, arrays),
        "left_out": [features.phi.left_out, features.psi.left_out],  # of kernels, which are not saved
    }


def _save_phi(phi: Phi, arrays: Arrays) -> str:
    if type(phi) is OneHotPhi:
        return "one-hot"
    if type(phi) is TablePhi:
        arrays["phi"] = np.ascontiguousarray(phi.table)
        return "table"
    arrays["phi_probe"] = phi.at(_spread(phi.n_states))
    return _OWN


def _save_psi(psi: Psi, arrays: Arrays) -> str:
    if type(psi) is OneHotPsi:
        return "one-hot"
    if psi.d_psi > _widest(psi.n_states):
        arrays["psi_probe"] = _psi_answers(psi)
        return _OWN
    if type(psi) is SparsePsi:
        csr = psi.matrix
        arrays |= {"psi_data": csr.data, "psi_indices": csr.indices, "psi_indptr": csr.indptr}
        arrays["psi_shape"] = np.array(csr.shape, dtype=np.int64)
        return "sparse"
    if type(psi) is TablePsi:
        arrays["psi"] = psi.table
        return "table"
    arrays["psi_probe"] = _psi_answers(psi)
    return _OWN


def _widest(n_states: int) -> int:
    """Return the largest d_psi of a ψ that a file holds: a small file must not ask for a large K_ψ."""
    return max(n_states, _WIDE)


def feature_arrays(header: dict[str, Any]) -> set[str]:
    """Return the names of the arrays that `save_features` adds with a part of a header."""
    phi, psi = header["phi"], header["psi"]
    if not isinstance(phi, str) or phi not in _PHI or not isinstance(psi, str) or psi not in _PSI:
        raise InvalidInput("it holds feature maps of an unknown kind")
    return {*_PHI[phi], *_PSI[psi]}


def unpack_features(header: dict[str, Any], arrays: Arrays, task: Task, *, pseudo: bool) -> SavedMaps:
    """Return what a file says of φ and ψ, checked as far as the file alone can be."""
    of_phi, of_psi = _left_out(header["left_out"])
    phi = _unpack_phi(header["phi"], arrays, task, of_phi)
    psi = _unpack_psi(header["psi"], arrays, task, pseudo, of_psi)
    if isinstance(phi, Phi) and isinstance(psi, Psi):
        check_sizes(phi, psi, task.n_states, task.n_actions)
    return phi, psi


def _left_out(value: Any) -> tuple[str | None, str | None]:
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(x, str | None) for x in value):
        raise InvalidInput("left_out must be two texts or nothing")
    return value[0], value[1]


def match_features(
    saved: SavedMaps, task: Task, phi: Phi | None, psi: Psi | None, offered: Features | None
) -> Features:
    """Return the features of a saved problem.

    Args:
        saved: What `unpack_features` returned.
        task: Task of the problem.
        phi: A user's own φ that is given again; it may leave out the end state, as it did at first.
        psi: A user's own ψ, likewise.
        offered: Features of the environment, if there is one.

    Raises:
        InvalidInput: A map of which the file has only answers is missing or answers otherwise.
    """
    if task.end_words is not None:
        phi = phi_with_end(phi) if phi is not None and phi.n_states == task.end_state else phi
        psi = psi_with_end(psi) if psi is not None and psi.n_states == task.end_state else psi
    return Features(
        _same_map("phi", saved[0], phi, None if offered is None else offered.phi, _phi_answers),
        _same_map("psi", saved[1], psi, None if offered is None else offered.psi, _psi_answers),
    ).check(task.n_states, task.n_actions)


def _phi_answers(phi: Phi) -> FloatArray:
    return phi.at(_spread(phi.n_states))


def _psi_answers(psi: Psi) -> FloatArray:
    return psi.rows(_spread(psi.n_states))


def _same_map(name: str, saved: Any, given: M | None, offered: M | None, answers: Callable[[M], FloatArray]) -> M:
    """Return the saved feature map, or the user's own one that answers as the saved one did."""
    if not isinstance(saved, np.ndarray):
        if given is not None:
            fail(name, "must be left out: the file holds it", type(given).__name__, "Load without it.")
        kept: M = saved
        return kept
    chosen = offered if given is None else given
    found = None if chosen is None else answers(chosen)
    if found is None or found.shape != saved.shape or not np.allclose(found, saved, rtol=1e-9, atol=1e-12):
        rule = (
            "must be the feature map that it was saved with (no file holds functions), here or as the environment's own"
        )
        received = None
        if chosen is not None and found is not None:
            saved_shape, shape = (f"{array.shape[-1]} features" for array in (saved, found))
            other = "with other values" if found.shape == saved.shape else f"with {shape} (saved: {saved_shape})"
            received = f"another {type(chosen).__name__}, {other}"
        fail(name, rule, received, "Pass it to load.")
    assert chosen is not None
    return chosen


def _unpack_phi(form: str, arrays: Arrays, task: Task, left_out: str | None) -> Phi | FloatArray:
    if form == "one-hot":
        return OneHotPhi(task.n_states, task.n_actions)
    return TablePhi(arrays.pop("phi"), left_out=left_out) if form == "table" else _probe("phi", arrays, task, 3)


def _unpack_psi(form: str, arrays: Arrays, task: Task, pseudo: bool, left_out: str | None) -> Psi | FloatArray:
    if form == "one-hot":
        return OneHotPsi(task.n_states)
    if form == _OWN:
        return _probe("psi", arrays, task, 2)
    table = _csr(arrays) if form == "sparse" else arrays["psi"]
    if table.ndim != 2 or table.shape[0] != task.n_states or table.shape[1] > _widest(task.n_states):
        raise InvalidInput(f"psi must have {task.n_states} rows and at most {_widest(task.n_states)} columns")
    return SparsePsi(table, pseudo=pseudo) if form == "sparse" else TablePsi(table, pseudo=pseudo, left_out=left_out)


def _probe(name: str, arrays: Arrays, task: Task, n_axes: int) -> FloatArray:
    probe: FloatArray = arrays[f"{name}_probe"]
    if probe.ndim != n_axes or not probe.size or not np.isfinite(probe).all():
        raise InvalidInput(f"{name}_probe must be the answers of {name} at a few of {task.n_states} states")
    return probe


def _spread(n_states: int) -> NDArray[Any]:
    """Return a few states from the first to the last."""
    return np.linspace(0, n_states - 1, min(_PROBES, n_states)).astype(np.int64)


def _csr(arrays: Arrays) -> sparse.csr_array:
    shape, parts = arrays["psi_shape"], [arrays[f"psi_{name}"] for name in ("data", "indices", "indptr")]
    if shape.shape != (2,) or any(part.ndim != 1 for part in parts):
        raise InvalidInput("psi must have a shape and three rows of entries")
    if any(part.dtype not in (np.int32, np.int64) for part in (shape, *parts[1:])):
        raise InvalidInput("psi must have whole numbers as indices")
    n_rows, n_columns = (int(n) for n in shape)
    if n_rows + 1 != len(arrays["psi_indptr"]) or not 1 <= n_columns <= len(arrays["psi_data"]):
        raise InvalidInput("psi has a shape that its entries do not fill")
    matrix = sparse.csr_array(
        (arrays["psi_data"], arrays["psi_indices"], arrays["psi_indptr"]), shape=(n_rows, n_columns)
    )
    matrix.check_format(full_check=True)
    return matrix
