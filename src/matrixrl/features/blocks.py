"""Group features into blocks that no state-action pair mixes, and measure how well a design covers them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from matrixrl.linalg import rounding_level, span_of
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = ["Blocks", "design_eigenvalue", "find_blocks"]

_LARGEST_SAMPLE = 4096  # number of pairs on which weights are chosen


@dataclass(frozen=True)
class Blocks:
    """Describe blocks of features such that every pair uses features of one block only.

    Blocks are independent estimation problems (docs/proofs.md, section 5).

    Attributes:
        pair_block: Block of each pair, shape (P,).
        members: Features of each block, a list of K index arrays.
        eigenvalues: Smallest eigenvalue of a weighted Σ φφᵀ over the pairs of each block, shape (K,).
        one_pair_each: Whether every block is a single one-hot pair.
        n_known: Number of blocks whose law is known, because only pairs of the end state use them.
    """

    pair_block: IntArray
    members: list[IntArray]
    eigenvalues: FloatArray
    one_pair_each: bool
    n_known: int = 0

    @property
    def count(self) -> int:
        """Number of blocks."""
        return len(self.members)

    @property
    def n_events(self) -> int:
        """Number K of blocks whose law is not known: each of them has a part δ/K of δ."""
        return max(self.count - self.n_known, 1)

    def knowing(self, end_state: int | None, n_states: int) -> Blocks:
        """Return the blocks of a problem whose end state, if there is one, has a known law.

        Args:
            end_state: Number of the end state, or None.
            n_states: Number of states S; pairs are action-major.
        """
        if end_state is None:
            return self
        by_state = self.pair_block.reshape(-1, n_states)
        only = np.setdiff1d(by_state[:, end_state], np.delete(by_state, end_state, axis=1))
        return replace(self, n_known=len(only))


def find_blocks(rows: FloatArray) -> Blocks:
    """Return the finest blocks: the connected components of the relation "used by the same pair".

    Args:
        rows: Features of all pairs, shape (P, d).

    >>> find_blocks(np.array([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 3.0]])).members
    [array([0, 1]), array([2])]
    """
    used, n_pairs = rows != 0.0, len(rows)
    if _is_one_block(used):  # a graph of dense features has many times their size
        members = [np.arange(rows.shape[1])]
        one = np.array([design_eigenvalue(rows)])
        return Blocks(np.zeros(n_pairs, dtype=np.int64), members, one, one_pair_each=False)
    graph_of_pairs = sparse.csr_array(used)
    graph = sparse.block_array([[None, graph_of_pairs], [graph_of_pairs.T, None]])
    labels = csgraph.connected_components(graph, directed=False)[1]
    names, feature_block = np.unique(labels[n_pairs:], return_inverse=True)
    # A pair without any feature has width 0, so that its block does not matter.
    pair_block = np.searchsorted(names, labels[:n_pairs]).clip(0, len(names) - 1)
    members = [np.flatnonzero(feature_block == k) for k in range(len(names))]
    eigenvalues = [design_eigenvalue(rows[pair_block == k][:, m]) for k, m in enumerate(members)]
    return Blocks(pair_block, members, np.array(eigenvalues), one_pair_each=False)


def _is_one_block(used: BoolArray) -> bool:
    """Say whether all features are connected, by steps from the features of one pair: used (P, d)."""
    reached = used[used.any(axis=1).argmax()]
    while not reached.all():
        grown: BoolArray = np.any(used[used[:, reached].any(axis=1)], axis=0)
        if grown.sum() == reached.sum():
            return False
        reached = grown
        if grown.sum() < 0.5 * len(grown):  # many steps are left, or many blocks
            return False
    return True


def design_eigenvalue(rows: FloatArray) -> float:
    r"""Return \(\lambda_{\min}(\sum_p w_p \phi_p\phi_p^\top)\) on the span of φ, for weights w that sum to one.

    The weights are the best ones of 20 multiplicative steps towards a D-optimal design (Silvey, Titterington & Torsney
    1978). The bound that uses the result holds for any weights (docs/proofs.md, section 4). The result is the square of
    a singular value, less its rounding error; a direction of φ is left out only at the rounding level of singular
    values, because M* may be as large in the others as the result allows.

    Args:
        rows: Features of the pairs, shape (P, d).

    >>> round(design_eigenvalue(np.eye(4)), 12)
    0.25
    """
    if not rows.any():
        return 1.0  # no pair uses these features, so no bound depends on them
    span = span_of(rows)
    error = 0.5 * rounding_level(rows.shape, float(span.singular_values[0]))
    best = (float(span.singular_values[-1]) - error) / np.sqrt(len(rows))  # uniform weights
    stride = max(1, len(rows) // _LARGEST_SAMPLE)  # weights of zero outside a subset are valid
    sample = rows[::stride] @ span.basis
    weights = np.full(len(sample), 1.0 / len(sample))
    for _ in range(20):
        q, r = np.linalg.qr(sample * np.sqrt(weights)[:, None])
        values = np.linalg.svd(r, compute_uv=False)
        if len(values) == span.rank:  # weights on fewer pairs than directions give no bound
            best = max(best, float(values[-1]) - 0.5 * rounding_level(sample.shape, float(values[0])))
        weights = np.vecdot(q, q)  # w_p times the leverage φᵀ(Σ wφφᵀ)⁻¹φ of the pair
        weights /= weights.sum()
    return float(best * best)
