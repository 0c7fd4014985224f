"""Stages whose laws differ: the adapter at the edge of a problem, which stores it as one with more actions.

Stages of one class share their laws and rewards. With C classes of stages and A actions, a problem is stored with C·A
inner actions: number c·A + a is action a at a stage of class c. Its laws are the same at all stages, and a stage allows
the inner actions of its class only, so everything that is proven and computed for such problems applies
(docs/proofs.md, section 15). Every task has `Stages`; where all stages share their laws there is one class, and inner
actions are those of the user.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, fits_memory, real_numbers, shown
from matrixrl.features import OneHotPhi, Phi, TablePhi
from matrixrl.records import BoolArray, IntArray

__all__ = ["Stages", "read_stages"]

_REMEDY = "Give True for laws of their own at every stage, False for one law, or the class of each of the H stages."


@dataclass(frozen=True, eq=False)
class Stages:
    """Classes of stages that share their laws, and the numbers of inner actions.

    Attributes:
        classes: (H,) Class 0 … C − 1 of each stage.
        n_own: Number of actions A that a user chooses from.

    >>> week = Stages(np.array([0, 0, 1]), n_own=2)
    >>> week.n_classes, week.inner(1, 2), week.own(3)
    (2, 3, 1)
    """

    classes: IntArray
    n_own: int

    @classmethod
    def one(cls, horizon: int, n_actions: int) -> Stages:
        """Return the stages of a problem whose stages share their laws."""
        return cls(np.broadcast_to(np.int64(0), (horizon,)), n_actions)

    @cached_property
    def n_classes(self) -> int:
        """Number of classes C."""
        return int(self.classes.max()) + 1 if self.classes.strides[0] else 1  # `one` stores a single number

    @property
    def n_inner(self) -> int:
        """Number of inner actions C·A."""
        return self.n_classes * self.n_own

    @cached_property
    def choices(self) -> IntArray:
        """(H, 2) First inner action of each stage, and the one after its last."""
        firsts = np.asarray(self.classes, dtype=np.int64) * self.n_own
        return np.stack([firsts, firsts + self.n_own], axis=1)

    def block(self, stage: int) -> slice:
        """Return the inner actions of a stage."""
        return slice(*self.choices[stage].tolist())

    def inner(self, actions: Any, stage: Any) -> Any:
        """Return actions 0 … A − 1 at a stage, or at stages of the same shape, as inner actions."""
        if self.n_classes == 1:
            return actions
        found = np.asarray(actions, dtype=np.int64) + self.choices[stage, 0]
        return int(found) if found.ndim == 0 else found

    def own(self, actions: Any) -> Any:
        """Return inner actions as actions 0 … A − 1."""
        return actions if self.n_classes == 1 else actions % self.n_own

    def inner_policy(self, policy: Any) -> Any:
        """Return a policy (…, H, S) of actions, or probabilities (H, A, S) of whole actions, with inner actions."""
        if self.n_classes == 1:
            return policy
        if policy.dtype.kind in "iu":
            return np.asarray(policy, dtype=np.int64) + self.choices[:, :1]
        horizon, _, n_states = policy.shape
        found = np.zeros((horizon, self.n_inner, n_states))
        for h in range(horizon):
            found[h, self.block(h)] = policy[h]
        return found

    def mask(self, own: BoolArray, stage: int) -> BoolArray:
        """Return a mask (A,) of the actions of a stage as one of the inner actions (C·A,)."""
        if self.n_classes == 1:
            return own
        mask = np.zeros(self.n_inner, dtype=np.bool_)
        mask[self.block(stage)] = own
        return mask

    def at_stages(self, table: Any) -> Any:
        """Return what a table (…, H, C·A, S) has for the actions of each stage: (…, H, A, S)."""
        if self.n_classes == 1:
            return table
        return np.stack([table[..., h, self.block(h), :] for h in range(len(self.classes))], axis=-3)

    def when(self, stage: Any) -> str:
        """Return the words that a message adds to what depends on the stage."""
        return "" if self.n_classes == 1 else f" at stage {stage}"

    def named_blocks(self, name: str) -> list[tuple[str, slice]]:
        """Return the inner actions of each class, with the name of its part of an argument, such as ``P[2]``."""
        if self.n_classes == 1:
            return [(name, slice(0, self.n_own))]
        return [(f"{name}[{h}]", self.block(h)) for h in self._first_stages]

    def same(self, other: Stages) -> bool:
        """Return whether other stages have the same classes and number of actions."""
        return self.n_own == other.n_own and np.array_equal(self.classes, other.classes)

    @property
    def _first_stages(self) -> list[int]:
        """First stage of each class."""
        firsts: list[int] = np.unique(self.classes, return_index=True)[1].tolist()
        return firsts

    def by_class(self, name: str, items: list[Any], what: str) -> list[Any]:
        """Return one item for each class from one for all stages, for each class or for each stage.

        `what` is the shape of an item in words. Stages of one class must have equal items.
        """
        horizon, count = len(self.classes), self.n_classes
        if len(items) == 1:
            return items * count
        if len(items) == count:
            is_clear = count < horizon or np.array_equal(self.classes, np.arange(horizon))
            if not is_clear and not all(_equal(item, items[0]) for item in items):
                rule = f"must be clear: {count} tables may be those of the stages or of the classes {self.classes}"
                fail(name, rule, f"{count}", "Pass stage_dependent=True, and one table for each stage.")
            return items
        if len(items) != horizon:
            classes = f" or {count} classes" * (1 < count < horizon)
            rule = f"must be one {what} for all stages, or one for each of the {horizon} stages{classes}"
            fail(name, rule, f"{len(items)}", f"Give {name}[h] for each stage h.")
        firsts = self._first_stages
        for h, c in enumerate(self.classes):
            if not _equal(items[h], items[firsts[c]]):
                rule = f"must be the same at stages {firsts[c]} and {h}, which stage_dependent puts in one class"
                fail(name, rule, "other numbers", "Put them in different classes.")
        return [items[h] for h in firsts]

    def phi(self, phi: Phi) -> Phi:
        """Return φ of inner actions, e_c ⊗ φ(s, a), so that classes share no feature; one that is of them already."""
        count, width = self.n_classes, self.n_own
        if count == 1 or phi.n_actions == self.n_inner:
            return phi
        if phi.n_actions != width:
            rule = f"must cover the {width} actions, or the {self.n_inner} inner actions of all classes"
            fail("phi", rule, f"{phi.n_actions} actions", f"Give phi of shape (S, {width}, d).")
        if type(phi) is OneHotPhi:
            return OneHotPhi(phi.n_states, self.n_inner)
        sizes = f"{phi.n_states:,} states, {count} classes of stages and {phi.d} features"
        remedy = "Use fewer classes of stages, or one feature for each pair."
        fits_memory("phi", float(phi.n_states * width * phi.d) * count**2, sizes, remedy=remedy)
        table = np.zeros((phi.n_states, self.n_inner, count * phi.d))
        for c in range(count):
            table[:, c * width : (c + 1) * width, c * phi.d : (c + 1) * phi.d] = phi.table
        return TablePhi(table, left_out=phi.left_out)


def read_stages(value: Any, horizon: int, n_actions: int) -> Stages:
    """Return the stages that a request describes.

    Args:
        value: True for a class of its own for each stage; False or None for one law; or a sequence with the class of
            each stage, such as weekdays and weekends. Equal ones share. Whole numbers keep their order: 0 … C − 1 stand
            for themselves, and of 3 and 7 the class 3 is the first one. Words are taken as they first appear.
        horizon: Number of stages H.
        n_actions: Number of actions A.

    >>> read_stages(["work", "work", "free"], horizon=3, n_actions=2).classes
    array([0, 0, 1])
    >>> read_stages([1, 1, 0], horizon=3, n_actions=2).classes
    array([1, 1, 0])
    """
    if value is None or isinstance(value, (bool, np.bool_)):
        return Stages(np.arange(horizon), n_actions) if value else Stages.one(horizon, n_actions)
    labels = list(value) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)) else []
    kinds = {str if isinstance(label, str) else int for label in labels if isinstance(label, (int, np.integer, str))}
    if len(labels) != horizon or len(kinds) != 1 or not all(isinstance(x, (int, np.integer, str)) for x in labels):
        rule = f"must be True, False, or one whole number or word for each of the {horizon} stages"
        fail("stage_dependent", rule, shown(value), _REMEDY)
    order = dict.fromkeys(labels) if kinds == {str} else sorted({int(label) for label in labels})
    numbers = {label: number for number, label in enumerate(order)}
    return Stages(np.array([numbers[label] for label in labels], dtype=np.int64), n_actions)


def _equal(one: Any, other: Any) -> bool:
    if sparse.issparse(one) and sparse.issparse(other):
        return bool(one.shape == other.shape and abs(sparse.csr_array(one) - sparse.csr_array(other)).nnz == 0)
    return np.array_equal(real_numbers(one), real_numbers(other), equal_nan=True)
