"""Stages whose laws differ: how a stage-dependent problem is stored as one with more actions.

Stages of one class share their laws and rewards. With C classes of stages and A actions, a problem is stored with C·A
inner actions: number c·A + a is action a at a stage of class c. Its laws are the same at all stages, and a stage allows
the inner actions of its class only, so everything that is proven and computed for such problems applies
(docs/proofs.md, section 15).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.checks import fail, fits_memory, index, real_numbers, shown
from matrixrl.features import OneHotPhi, Phi, TablePhi
from matrixrl.problems.action_masks import read_allowed
from matrixrl.records import BoolArray, IntArray
from matrixrl.spaces import Codec

__all__ = [
    "Stages",
    "n_laws",
    "read_stages",
    "shared_by_stages",
    "spread_allowed",
    "spread_phi",
    "spread_rewards",
    "spread_transitions",
    "stages_of",
]

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

    @property
    def n_classes(self) -> int:
        """Number of classes C."""
        return int(self.classes.max()) + 1

    @property
    def n_inner(self) -> int:
        """Number of inner actions C·A."""
        return self.n_classes * self.n_own

    @property
    def most_stages(self) -> int:
        """Largest number of stages of a class."""
        return int(np.bincount(self.classes).max())

    def first(self, stage: Any) -> Any:
        """Return the number of the first inner action of a stage, or of each of some stages."""
        found = self.classes[stage] * self.n_own
        return int(found) if np.ndim(found) == 0 else found

    def block(self, stage: int) -> slice:
        """Return the inner actions of a stage."""
        first = self.first(stage)
        return slice(first, first + self.n_own)

    def inner(self, actions: Any, stage: Any) -> Any:
        """Return actions 0 … A − 1 at a stage, or at stages of the same shape, as inner actions."""
        found = np.asarray(actions, dtype=np.int64) + self.first(stage)
        return int(found) if found.ndim == 0 else found

    def own(self, actions: Any) -> Any:
        """Return inner actions as actions 0 … A − 1."""
        found = np.asarray(actions) % self.n_own
        return int(found) if found.ndim == 0 else found

    def inner_table(self, table: Any) -> Any:
        """Return a policy (…, H, S) of actions 0 … A − 1 as inner actions."""
        return np.asarray(table, dtype=np.int64) + self.first(np.arange(len(self.classes)))[:, None]

    def inner_policy(self, policy: Any) -> Any:
        """Return a policy (H, S) of actions, or probabilities (H, A, S) of actions, with inner actions."""
        if policy.ndim == 2:
            return self.inner_table(policy)
        horizon, _, n_states = policy.shape
        found = np.zeros((horizon, self.n_inner, n_states))
        for h in range(horizon):
            found[h, self.block(h)] = policy[h]
        return found

    def named_blocks(self, name: str) -> list[tuple[str, slice]]:
        """Return the inner actions of each class, with a name of its part of an argument, such as ``P[2]``."""
        firsts = [int(np.flatnonzero(self.classes == c)[0]) for c in range(self.n_classes)]
        return [(f"{name}[{h}]", self.block(h)) for h in firsts]

    def same(self, other: Stages | None) -> bool:
        """Return whether other stages have the same classes and number of actions."""
        return other is not None and self.n_own == other.n_own and np.array_equal(self.classes, other.classes)


def read_stages(value: Any, horizon: int, n_actions: int) -> Stages | None:
    """Return the stages that a request describes; None for one law at all stages.

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
    if value is None or (isinstance(value, (bool, np.bool_)) and not value):
        return None
    if isinstance(value, (bool, np.bool_)):
        return Stages(np.arange(horizon), n_actions) if horizon > 1 else None
    labels = list(value) if isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, (str, bytes)) else []
    kinds = {str if isinstance(label, str) else int for label in labels if isinstance(label, (int, np.integer, str))}
    if len(labels) != horizon or len(kinds) != 1 or not all(isinstance(x, (int, np.integer, str)) for x in labels):
        rule = f"must be True, False, or one whole number or word for each of the {horizon} stages"
        fail("stage_dependent", rule, shown(value), _REMEDY)
    order = dict.fromkeys(labels) if kinds == {str} else sorted({int(label) for label in labels})
    numbers = {label: number for number, label in enumerate(order)}
    classes = np.array([numbers[label] for label in labels], dtype=np.int64)
    return Stages(classes, n_actions) if len(numbers) > 1 else None


def spread_allowed(
    allowed: Any,
    shape: tuple[int, int],
    stages: Stages,
    end_state: int | None,
    *,
    states: Codec | None = None,
    actions: Codec | None = None,
) -> BoolArray:
    """Return which inner actions are allowed in each state: (S, C·A).

    Args:
        allowed: Table (S, A) or function of the state, which all stages share, tables (C, S, A) or (H, S, A), or a
            table (S, C·A) of inner actions.
        shape: Number of states S and of actions A.
        stages: Classes of stages.
        end_state: State in which nothing is chosen, or None.
        states: Numbers of the states that a function takes, as in `read_allowed`.
        actions: Numbers of the actions that it returns, likewise.
    """
    given = np.empty(0) if callable(allowed) else real_numbers(allowed)

    def read(one: Any, width: int = shape[1], name: str = "allowed") -> BoolArray:
        return read_allowed(one, shape[0], width, end_state=end_state, states=states, actions=actions, name=name)

    if given.ndim == 2 and given.shape[1] == stages.n_inner:
        return read(allowed, stages.n_inner)
    if given.ndim != 3:
        return np.tile(read(allowed), (1, stages.n_classes))
    tables = _by_class("allowed", list(given), stages, "(S, A)")
    named = zip(stages.named_blocks("allowed"), tables, strict=True)
    return np.concatenate([read(one, name=name) for (name, _), one in named], axis=1)


def spread_phi(phi: Phi, stages: Stages) -> Phi:
    """Return φ of inner actions: e_c ⊗ φ(s, a), so that classes of stages share no feature.

    Args:
        phi: φ of A actions; one of C·A inner actions is returned as it is.
        stages: Classes of stages.
    """
    if phi.n_actions != stages.n_own:
        return phi
    if type(phi) is OneHotPhi:
        return OneHotPhi(phi.n_states, stages.n_inner)
    count, width = stages.n_classes, stages.n_own
    sizes = f"{phi.n_states:,} states, {count} classes of stages and {phi.d} features"
    remedy = "Use fewer classes of stages, or one feature for each pair."
    fits_memory("phi", float(phi.n_states * width * phi.d) * count**2, sizes, remedy=remedy)
    table = np.zeros((phi.n_states, stages.n_inner, count * phi.d))
    for c in range(count):
        table[:, c * width : (c + 1) * width, c * phi.d : (c + 1) * phi.d] = phi.table
    return TablePhi(table, left_out=phi.left_out)


def spread_transitions(value: Any, stages: Stages) -> Any:
    """Return transition laws as one of states and inner actions: an array (S, C·A, S) or a sparse matrix (S·C·A, S).

    Args:
        value: One law that all stages share, or one for each class or stage: an array (…, S, A, S), or a list of arrays
            (S, A, S) or of scipy.sparse matrices (S·A, S).
        stages: Classes of stages.
    """
    given = [value] if n_laws(value) is None else list(value)
    kinds = {sparse.issparse(law) for law in given}
    if len(kinds) > 1:
        rule = "must be arrays at all stages, or sparse matrices at all stages"
        fail("P", rule, "some of each", "Convert one kind: scipy.sparse.csr_array(P[h].reshape(S·A, S)).")
    laws = given * stages.n_classes if len(given) == 1 else _by_class("P", given, stages, "(S, A, S)")
    if kinds == {True}:
        n_states, width = laws[0].shape[1], stages.n_own
        for law in laws:
            if law.shape != (n_states * width, n_states):
                rule = f"must have shape (S·A, S) with A = {width} at every stage"
                fail("P", rule, f"shape {law.shape}", "Row s·A + a holds P(·|s,a).")
        stacked = sparse.vstack(laws, format="csr")  # (c, s, a) → (s, c, a)
        order = np.arange(stacked.shape[0]).reshape(stages.n_classes, n_states, width).transpose(1, 0, 2).ravel()
        return stacked[order]
    tables = [real_numbers(law) for law in laws]
    if len({table.shape for table in tables}) > 1 or tables[0].ndim != 3:
        shapes = ", ".join(sorted({str(table.shape) for table in tables}))
        fail("P", "must have the same shape (S, A, S) at every stage", shapes, "Give P[h][s, a, s'].")
    return np.concatenate(tables, axis=1)


def shared_by_stages(name: str, items: list[Any], horizon: int, what: str) -> Any:
    """Return the table that all stages share from one item, or from equal ones for each stage; refuse different ones.

    Args:
        name: Name of the argument.
        items: One table, or one for each stage.
        horizon: Number of stages H.
        what: Shape of a table in words, for messages.
    """
    return _by_class(name, items, Stages(np.zeros(horizon, dtype=np.int64), 1), what)[0]


def stages_of(stage_dependent: Any, reward: Any, horizon: int) -> Stages | None:
    """Return the classes of stages that are asked for, or that rewards with an axis of stages need.

    Args:
        stage_dependent: True, False, None or one class for each stage.
        reward: (S, A) or (H, S, A) Rewards.
        horizon: Number of stages H.
    """
    table = real_numbers(reward)
    if table.ndim == 3 and stage_dependent is None:
        stage_dependent = True
    if stage_dependent is None or stage_dependent is False:
        return None
    n_actions = table.shape[-1] if table.ndim in (2, 3) else 0
    return read_stages(stage_dependent, horizon, n_actions)


def spread_rewards(reward: Any, allowed: Any, stages: Stages | None, horizon: int, end_state: Any) -> tuple[Any, Any]:
    """Return rewards and allowed actions as tables of inner actions, each (S, C·A) or None; (S, A) without stages."""
    if stages is None:
        table = real_numbers(reward)
        return (shared_by_stages("reward", list(table), horizon, "(S, A)") if table.ndim == 3 else reward), allowed
    table = real_numbers(reward)
    if table.ndim == 3:
        table = np.concatenate(_by_class("reward", list(table), stages, "(S, A)"), axis=1)
    elif table.ndim == 2:
        table = np.tile(table, (1, stages.n_classes))
    else:
        fail(
            "reward", "must have shape (S, A), or one such table for each stage", shown(reward), "Give reward[h][s, a]."
        )
    if allowed is not None:
        end = None if end_state is None else index("end_state", end_state, size=len(table), remedy="Give a state.")
        allowed = spread_allowed(allowed, (len(table), stages.n_own), stages, end)
    return table, allowed


def n_laws(value: Any) -> int | None:
    """Return the number of laws in a list or an array (n, S, A, S); None for one law."""
    if isinstance(value, np.ndarray):
        return len(value) if value.ndim == 4 else None
    if not isinstance(value, (list, tuple)) or not value:
        return None
    return len(value) if any(sparse.issparse(law) or real_numbers(law).ndim == 3 for law in value) else None


def _by_class(name: str, items: list[Any], stages: Stages, what: str) -> list[Any]:
    """Return one item for each class, in the order of their numbers, from items for each class or each stage."""
    horizon, count = len(stages.classes), stages.n_classes
    if len(items) == count == horizon and not np.array_equal(stages.classes, np.arange(horizon)):
        if not all(_equal(item, items[0]) for item in items):
            rule = f"must be clear: {count} tables may be those of the stages or of the classes {stages.classes}"
            fail(name, rule, f"{count}", "Pass stage_dependent=True, and one table for each stage.")
        return items
    if len(items) == count:
        return items
    if len(items) != horizon:
        classes = f" or {count} classes" * (1 < count < horizon)
        rule = f"must be one {what} for all stages, or one for each of the {horizon} stages{classes}"
        fail(name, rule, f"{len(items)}", f"Give {name}[h] for each stage h.")
    firsts = [int(np.flatnonzero(stages.classes == c)[0]) for c in range(count)]
    for h, c in enumerate(stages.classes):
        if not _equal(items[h], items[firsts[c]]):
            rule = f"must be the same at stages {firsts[c]} and {h}, which stage_dependent puts in one class"
            fail(name, rule, "other numbers", "Put them in different classes.")
    return [items[h] for h in firsts]


def _equal(one: Any, other: Any) -> bool:
    if sparse.issparse(one) and sparse.issparse(other):
        return bool(one.shape == other.shape and abs(sparse.csr_array(one) - sparse.csr_array(other)).nnz == 0)
    return np.array_equal(real_numbers(one), real_numbers(other), equal_nan=True)
