"""Group features into blocks that no state-action pair mixes, and measure how well a design covers them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from matrixrl.records import FloatArray, IntArray

__all__ = ["Blocks", "design_eigenvalue", "find_blocks"]

_SPAN = 1e-14  # eigenvalues below this share of the largest one are rounding errors


@dataclass(frozen=True)
class Blocks:
    """Describe blocks of features such that every pair uses features of one block only.

    Blocks are independent estimation problems (docs/proofs.md, section 5).

    Attributes:
        pair_block: Block of each pair, shape (P,).
        members: Features of each block, a list of K index arrays.
        eigenvalues: Smallest eigenvalue of a weighted Σ φφᵀ over the pairs of each block, shape (K,).
        one_pair_each: Whether every block is a single one-hot pair.
    """

    pair_block: IntArray
    members: list[IntArray]
    eigenvalues: FloatArray
    one_pair_each: bool

    @property
    def count(self) -> int:
        """Number of blocks K."""
        return len(self.members)


def find_blocks(rows: FloatArray) -> Blocks:
    """Return the finest blocks: the connected components of the relation "used by the same pair".

    Args:
        rows: Features of all pairs, shape (P, d).

    >>> find_blocks(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]])).members
    [array([0, 1]), array([2])]
    """
    used = sparse.csr_array(rows != 0.0)
    n_pairs = len(rows)
    graph = sparse.block_array([[None, used], [used.T, None]])
    labels = csgraph.connected_components(graph, directed=False)[1]
    names, feature_block = np.unique(labels[n_pairs:], return_inverse=True)
    # A pair without any feature has width 0, so that its block does not matter.
    pair_block = np.searchsorted(names, labels[:n_pairs]).clip(0, len(names) - 1)
    members = [np.flatnonzero(feature_block == k) for k in range(len(names))]
    eigenvalues = [design_eigenvalue(rows[pair_block == k][:, m]) for k, m in enumerate(members)]
    return Blocks(pair_block, members, np.array(eigenvalues), one_pair_each=False)


def design_eigenvalue(rows: FloatArray) -> float:
    r"""Return \(\lambda_{\min}(\sum_p w_p \phi_p\phi_p^\top)\) on the span of φ, for weights w that sum to one.

    The weights are the best ones of 20 multiplicative steps towards a D-optimal design (Silvey, Titterington & Torsney
    1978). The bound that uses the result holds for any weights (docs/proofs.md, section 4).

    Args:
        rows: Features of the pairs, shape (P, d).

    >>> round(design_eigenvalue(np.eye(4)), 12)
    0.25
    """
    if not rows.any():
        return 1.0  # no pair uses these features, so no bound depends on them
    spectrum = np.linalg.eigvalsh(rows.T @ rows) / len(rows)
    spanned = spectrum > spectrum[-1] * _SPAN
    best = float(spectrum[spanned][0])  # uniform weights
    stride = max(1, len(rows) // 4096)  # weights of zero outside a subset are valid
    sample = rows[::stride]
    weights = np.full(len(sample), 1.0 / len(sample))
    for _ in range(20):
        moment = (sample * weights[:, None]).T @ sample
        eigenvalues, vectors = np.linalg.eigh(moment)
        keep = eigenvalues > eigenvalues[-1] * _SPAN
        if keep.sum() < spanned.sum():
            break  # weights that miss a direction of the span give no bound in it
        best = max(best, float(eigenvalues[keep][0]))
        projected = sample @ (vectors[:, keep] / np.sqrt(eigenvalues[keep]))
        weights = weights * np.einsum("pd,pd->p", projected, projected)
        weights /= weights.sum()
    return best
