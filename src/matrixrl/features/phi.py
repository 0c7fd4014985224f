"""Feature maps φ(s, a) of state-action pairs, and the blocks of features that no pair mixes.

Pairs are action-major: the pair (s, a) has the index a·S + s. The maximum over actions is then one elementwise
operation on contiguous memory.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from matrixrl.checks import fail, integer, real_numbers, shaped
from matrixrl.checks import function as check_function
from matrixrl.display import Described
from matrixrl.features.psi import OneHotPsi, Psi
from matrixrl.linalg import DensePairs, DiagonalPairs, LearningDesign, exact_rank, rounding_level, span_of
from matrixrl.records import BoolArray, FloatArray, IntArray

__all__ = [
    "Blocks",
    "FunctionPhi",
    "OneHotPhi",
    "Phi",
    "TablePhi",
    "design_eigenvalue",
    "find_blocks",
    "tensor_product",
]

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


class Phi(Described, ABC):
    """Base class of feature maps of state-action pairs.

    A subclass sets `n_states`, `n_actions` and `d`, and implements `rows`. All other methods have defaults that form
    the features of all pairs once, S·A·d numbers; override them where the features have more structure.

    Attributes:
        n_states: Number of states S.
        n_actions: Number of actions A.
        d: Number of features.
        left_out: What the features leave out of the kernel that they were computed from, in words; None if nothing.
            Nothing is proven if P may need it.

    >>> class Angles(Phi):
    ...     n_states, n_actions, d = 8, 2, 4
    ...
    ...     def rows(self, pairs):
    ...         states, actions = self.states_and_actions(pairs)
    ...         angle = 2.0 * np.pi * states / self.n_states
    ...         pair = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    ...         return np.concatenate([pair * (actions == a)[..., None] for a in range(2)], axis=-1)
    >>> Angles().dot(np.ones((1, 4))).shape
    (1, 2, 8)
    >>> Angles().blocks().count
    2
    """

    n_states: int
    n_actions: int
    d: int
    left_out: str | None = None

    @abstractmethod
    def rows(self, pairs: IntArray) -> FloatArray:
        """Return the features of some pairs: indices of any shape → the same shape with d at the end."""

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.n_states:,} states, {self.n_actions:,} actions, d {self.d:,}"

    def pairs(self, states: IntArray, actions: IntArray) -> IntArray:
        """Return the pair index a·S + s, elementwise."""
        index: IntArray = np.asarray(actions, dtype=np.int64) * self.n_states + states
        return index

    def states_and_actions(self, pairs: IntArray) -> tuple[IntArray, IntArray]:
        """Return the states and the actions of some pairs, elementwise."""
        actions, states = np.divmod(np.asarray(pairs), self.n_states)
        return states, actions

    def at(self, states: IntArray) -> FloatArray:
        """Return the features of some states with every action: (k,) → (A, k, d)."""
        return self.rows(self.pairs(np.asarray(states)[None, :], np.arange(self.n_actions)[:, None]))

    @cached_property
    def flat(self) -> FloatArray:
        """Features of all pairs, shape (S·A, d), action-major."""
        n_pairs = self.n_states * self.n_actions
        remedy = "Return one row of d numbers for each pair."
        return shaped("phi.rows", self.rows(np.arange(n_pairs)), (n_pairs, self.d), remedy=remedy)

    @property
    def table(self) -> FloatArray:
        """Features of all pairs, shape (S, A, d)."""
        return self.flat.reshape(self.n_actions, self.n_states, self.d).transpose(1, 0, 2)

    @property
    def max_norm_sq(self) -> float:
        """Largest squared norm of a feature vector."""
        return float(np.einsum("pd,pd->p", self.flat, self.flat).max())

    def dot(self, weights: FloatArray) -> FloatArray:
        """Return φ(s,a)ᵀw for all pairs: (B, d) → (B, A, S)."""
        return (weights @ self.flat.T).reshape(-1, self.n_actions, self.n_states)

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        """Return A_1 = λI of B replicas with the widths of all pairs."""
        return DensePairs(self.flat, n_replicas, ridge=ridge)

    def accumulate(
        self, cross_moment: FloatArray, psi: Psi, pairs: IntArray, next_states: IntArray, weights: FloatArray
    ) -> None:
        """Add Σ φψᵀ of visited pairs to a sum (B, d, d_psi) in place.

        Args:
            cross_moment: Sum to add to, shape (B, d, d_psi).
            psi: Feature map of next states.
            pairs: Visited pairs, shape (B, k).
            next_states: Their next states, shape (B, k).
            weights: Factor of each step, shape (B, k); 0 for a step that was not taken.
        """
        rows, replica = self.rows(pairs) * weights[:, :, None], np.arange(len(cross_moment))[:, None]
        if isinstance(psi, OneHotPsi):
            np.add.at(cross_moment.swapaxes(1, 2), (replica, next_states), rows)
        else:
            cross_moment += rows.transpose(0, 2, 1) @ psi.rows(next_states)

    def accumulate_rewards(self, moment: FloatArray, pairs: IntArray, rewards: FloatArray) -> None:
        """Add Σ φr in place: moment (B, d), pairs (B, k), rewards (B, k)."""
        moment += np.einsum("bkd,bk->bd", self.rows(pairs), rewards)

    def blocks(self) -> Blocks:
        """Return the finest blocks of features such that every pair uses features of one block only."""
        return self._blocks

    @cached_property
    def _blocks(self) -> Blocks:
        return find_blocks(self.flat)

    @cached_property
    def _design_eigenvalue(self) -> float:
        """Smallest eigenvalue for weights that are divided between the blocks of features in the best way."""
        is_used: BoolArray = np.any(self.flat, axis=0)
        blocks = self._blocks
        used = [e for own, e in zip(blocks.members, blocks.eigenvalues, strict=True) if is_used[own[0]]]
        return float(1.0 / (1.0 / np.array(used)).sum()) if used else 1.0

    def smallest_design_eigenvalue(self) -> float:
        r"""Return \(\lambda_{\min}(\sum_p w_p \phi_p\phi_p^\top)\) for good weights w, on the span of φ."""
        return self._design_eigenvalue

    @property
    def _distinct_rows(self) -> tuple[FloatArray, int]:
        """Rows whose span is that of φ, up to a number of copies of it in features of their own."""
        return self.flat, 1

    @cached_property
    def too_small(self) -> str | None:
        """How many directions of φ the bound on M* leaves out although they are not zero, in words; None if none.

        Linearly dependent features have fewer directions than features, and nothing is left out.
        """
        rows, copies = self._distinct_rows
        kept = span_of(rows).rank if rows.any() else 0
        if kept == min(rows.shape):
            return None
        dropped = exact_rank(rows) - kept
        if dropped <= 0:
            return None
        kept, dropped = copies * kept, copies * dropped
        return (
            f"phi is nearly dependent: {dropped} of its {kept + dropped} directions are as small as rounding errors "
            "and were left out of the bound on M*, and P may need them. Give all features one scale, and drop those "
            "that are combinations of others"
        )


class OneHotPhi(Phi):
    """Feature map with one feature for each pair, d = S·A. Nothing of size d² is stored.

    Args:
        n_states: Number of states S.
        n_actions: Number of actions A.

    >>> OneHotPhi(n_states=3, n_actions=2).d
    6
    """

    def __init__(self, n_states: int, n_actions: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.n_actions = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
        self.d = self.n_states * self.n_actions

    @property
    def table(self) -> FloatArray:
        return np.eye(self.d).reshape(self.n_actions, self.n_states, self.d).transpose(1, 0, 2)

    @property
    def max_norm_sq(self) -> float:
        return 1.0

    def rows(self, pairs: IntArray) -> FloatArray:
        chosen: FloatArray = (np.asarray(pairs)[..., None] == np.arange(self.d)).astype(np.float64)
        return chosen

    def dot(self, weights: FloatArray) -> FloatArray:
        return weights.reshape(-1, self.n_actions, self.n_states)

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        return DiagonalPairs(self.d, n_replicas, ridge=ridge)

    def accumulate(
        self, cross_moment: FloatArray, psi: Psi, pairs: IntArray, next_states: IntArray, weights: FloatArray
    ) -> None:
        replica = np.arange(len(cross_moment))[:, None]
        if isinstance(psi, OneHotPsi):
            np.add.at(cross_moment, (replica, pairs, next_states), weights)
        else:
            np.add.at(cross_moment, (replica, pairs), psi.rows(next_states) * weights[:, :, None])

    def accumulate_rewards(self, moment: FloatArray, pairs: IntArray, rewards: FloatArray) -> None:
        np.add.at(moment, (np.arange(len(moment))[:, None], pairs), rewards)

    def blocks(self) -> Blocks:
        index = np.arange(self.d)
        return Blocks(index, list(index[:, None]), np.ones(self.d), one_pair_each=True)

    @property
    def too_small(self) -> None:
        """None: all directions have the same size."""

    def smallest_design_eigenvalue(self) -> float:
        """Return 1/d, which uniform weights reach; no weights reach more."""
        return 1.0 / self.d


class TablePhi(Phi):
    """Feature map that stores the features of all pairs.

    Args:
        table: Features φ(s, a), shape (S, A, d).
        left_out: What the table leaves out of the kernel that it was computed from, in words; None if nothing.

    >>> phi = TablePhi(np.ones((4, 2, 3)))
    >>> phi.d, phi.dot(np.ones((1, 3))).shape
    (3, (1, 2, 4))
    """

    def __init__(self, table: object, *, left_out: str | None = None) -> None:
        array = shaped("phi", table, (None, None, None), remedy="Give one vector of d numbers for each (s, a).")
        self.n_states, self.n_actions, self.d = array.shape
        largest = max(array.max(), -array.min())
        if not 1e-100 < largest < 1e100:
            fail("phi", "must have a largest entry between 1e-100 and 1e100", f"{largest:.3g}", "Rescale it.")
        self.flat = np.ascontiguousarray(array.transpose(1, 0, 2)).reshape(-1, self.d)
        self.left_out = left_out

    @classmethod
    def of_states(cls, features: FloatArray) -> TablePhi:
        """Return the map of k states from their features of shape (A, k, d), which are not checked again."""
        phi = cls.__new__(cls)
        phi.n_actions, phi.n_states, phi.d = features.shape
        phi.flat = features.reshape(-1, phi.d)
        return phi

    @cached_property
    def of_state(self) -> FloatArray | None:
        """Features z(s), shape (S, d/A), of which each action has a copy, φ(s, a) = e_a ⊗ z(s); None for other maps.

        Kernels of states are such maps: products with z instead of φ take a part 1/A of the time.
        """
        n_actions, (width, rest) = self.n_actions, divmod(self.d, self.n_actions)
        if n_actions == 1 or rest:
            return None
        copies = self.flat.reshape(n_actions, self.n_states, n_actions, width)
        for a in range(n_actions):  # other maps are told from these by their first numbers
            for b in range(n_actions):
                expected = copies[0, :, 0] if a == b else np.zeros((self.n_states, 1))
                if not ((copies[a, :1, b] == expected[:1]).all() and (copies[a, :, b] == expected).all()):
                    return None
        return np.ascontiguousarray(copies[0, :, 0])

    def dot(self, weights: FloatArray) -> FloatArray:
        z = self.of_state
        if z is None:
            return super().dot(weights)
        return (weights.reshape(-1, z.shape[1]) @ z.T).reshape(-1, self.n_actions, self.n_states)

    def design(self, n_replicas: int, ridge: float = 1.0) -> LearningDesign:
        return DensePairs(self.flat, n_replicas, ridge=ridge, of_state=self.of_state)

    @property
    def _distinct_rows(self) -> tuple[FloatArray, int]:
        return (self.flat, 1) if self.of_state is None else (self.of_state, self.n_actions)

    @cached_property
    def _blocks(self) -> Blocks:
        if self.of_state is None:
            return find_blocks(self.flat)
        one, copies = find_blocks(self.of_state), range(self.n_actions)
        pair_block = np.concatenate([one.pair_block + a * one.count for a in copies])
        members = [own + a * self.of_state.shape[1] for a in copies for own in one.members]
        return Blocks(pair_block, members, np.tile(one.eigenvalues, self.n_actions), one_pair_each=False)

    def rows(self, pairs: IntArray) -> FloatArray:
        return self.flat[pairs]


def tensor_product(state_features: object, action_features: object) -> TablePhi:
    """Return φ(s, a) = f(s) ⊗ g(a), of dimension d_f · d_g.

    Args:
        state_features: Features f of states, shape (S, d_f).
        action_features: Features g of actions, shape (A, d_g); the identity matrix gives every action its own copy of
            the state features.

    >>> tensor_product(np.ones((5, 3)), np.eye(2)).d
    6
    """
    f = shaped("state_features", state_features, (None, None), remedy="Give one row for each state.")
    g = shaped("action_features", action_features, (None, None), remedy="Give one row for each action.")
    product = np.einsum("si,aj->saij", f, g)
    return TablePhi(product.reshape(f.shape[0], g.shape[0], -1))


_CHUNK = 1 << 14  # number of states whose features are formed together
_SMALL_TABLE = 1 << 23  # largest number of features (64 megabytes) that `dot` stores


class FunctionPhi(Phi):
    """Feature map of a large finite state set, given as a function.

    Features are computed for the pairs that are used. The features of all pairs are stored only if they are few, or if
    a method other than `rows`, `at` and `dot` needs them.

    Args:
        function: Function that maps states (k,) to features (k, A, d).
        n_states: Number of states S.
        n_actions: Number of actions A.

    Raises:
        InvalidInput: The function returns another shape, or numbers that are not finite.

    >>> phi = FunctionPhi(lambda s: np.stack([s, 1.0 - s], axis=1)[:, :, None] + 1.0, n_states=10**6, n_actions=2)
    >>> phi.d, phi.at(np.array([0, 5])).shape
    (1, (2, 2, 1))
    """

    def __init__(self, function: Callable[[IntArray], FloatArray], n_states: int, n_actions: int) -> None:
        self.n_states = integer("n_states", n_states, low=1, remedy="Give the number of states.")
        self.n_actions = integer("n_actions", n_actions, low=1, remedy="Give the number of actions.")
        self._function = check_function("phi", function, of=1, remedy="Or give an (S, A, d) array.")
        self.d = 0  # unknown until the first call
        self.d = self.at(np.zeros(1, dtype=np.int64)).shape[2]
        self.at(np.array([0, self.n_states - 1]))

    def at(self, states: IntArray) -> FloatArray:
        return np.ascontiguousarray(self._by_state(states).transpose(1, 0, 2))

    def _by_state(self, states: IntArray) -> FloatArray:
        """Return the checked features of some states with every action: (k,) → (k, A, d)."""
        found = real_numbers(self._function(np.asarray(states)))
        wanted = (len(states), self.n_actions)
        if found.ndim != 3 or found.shape[:2] != wanted or found.shape[2] == 0 or self.d not in (0, found.shape[2]):
            rule = f"must map k states to real numbers of shape (k, {self.n_actions}, {self.d or 'd'})"
            received = f"shape {found.shape} for {len(states)} states"
            fail("phi", rule, received, "Return one vector for each state and action.")
        if not np.isfinite(found).all():
            fail("phi", "must be finite", "NaN or infinity", "Check the function.")
        return found

    def rows(self, pairs: IntArray) -> FloatArray:
        index = np.asarray(pairs)
        states, actions = self.states_and_actions(index.ravel())
        found = self._by_state(states)[np.arange(len(states)), actions]
        return found.reshape(*index.shape, self.d)

    @cached_property
    def flat(self) -> FloatArray:
        return self.at(np.arange(self.n_states)).reshape(-1, self.d)

    def dot(self, weights: FloatArray) -> FloatArray:
        if self.n_states * self.n_actions * self.d <= _SMALL_TABLE:
            return super().dot(weights)
        out = np.empty((len(weights), self.n_actions, self.n_states))
        for first in range(0, self.n_states, _CHUNK):
            states = np.arange(first, min(first + _CHUNK, self.n_states))
            out[:, :, states] = np.moveaxis(self.at(states) @ weights.T, 2, 0)
        return out
