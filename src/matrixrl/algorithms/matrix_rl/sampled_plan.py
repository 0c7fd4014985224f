"""A plan that knows values at sampled columns only and gives Q at any state when asked (YW19 section 3)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.algorithms.matrix_rl.state_oracle import StateOracle
from matrixrl.checks import fail
from matrixrl.core import (
    SETS,
    Belief,
    BlockRadius,
    Regularity,
    SetContext,
    form_belief,
    optimistic_plan,
    pessimistic_values,
    reward_bounds,
)
from matrixrl.core.columns import Columns
from matrixrl.core.radius import RadiusInputs
from matrixrl.errors import InvalidInput
from matrixrl.features import Blocks, TablePhi, TablePsi
from matrixrl.linalg import DesignMatrix, QueriedPairs
from matrixrl.records import FloatArray, IntArray
from matrixrl.tolerances import TIE

__all__ = ["Basis", "Constants", "SampledPlan", "sampled_psi"]

_CHUNK = 1 << 13  # states that are evaluated together when a table is wanted


def sampled_psi(source: StateOracle, columns: Columns, *, pseudo: bool) -> TablePsi:
    """Return ψ at the sampled columns, or say that they are too few for K_ψ to be inverted."""
    try:
        return TablePsi(source.psi_at(columns.states), weights=columns.weights, pseudo=pseudo)
    except InvalidInput as error:
        if columns.is_all:
            raise
        rule = "must be enough for K_psi to be invertible on the sampled states"
        fail("columns", rule, f"{len(columns.states)} ({error})", "Sample more columns.")


@dataclass(frozen=True)
class Constants:
    """What does not change while an agent lives: where states come from, and the constants of their features."""

    source: StateOracle
    settings: MatrixRLSettings
    ridge: float
    regularity: Regularity
    reward_regularity: Regularity
    blocks: Blocks
    feature_block: IntArray


@dataclass(frozen=True)
class Basis:
    """What one replica knew when it planned; a plan is a function of it, so saving it saves the plan.

    Attributes:
        design: (1, d, d) A_n.
        cross_moment: (1, d, d_psi) Σ φψᵀ.
        reward_moment: (1, d) Σ φr.
        episode: n, counted from 1 within the epoch.
        n_episodes: N that the radius may use.
        priority: (1, A) the ranking of actions that breaks ties.
        columns: the sampled states.
        psi: ψ at them; it follows from the columns and is not saved.
    """

    design: FloatArray
    cross_moment: FloatArray
    reward_moment: FloatArray
    episode: int
    n_episodes: int | None
    priority: FloatArray
    columns: Columns
    psi: TablePsi


class SampledPlan:
    """Optimistic backward induction on sampled columns; O(m A d H) whatever the number of states.

    Args:
        constants: of the agent.
        basis: what is known.
        proven: plan at the tightest proven radius instead of the agent's own.
    """

    def __init__(self, constants: Constants, basis: Basis, *, proven: bool = False) -> None:
        self._k, self.basis, self._proven = constants, basis, proven
        source, settings = constants.source, constants.settings
        self._design = DesignMatrix(source.d, 1, ridge=constants.ridge)
        self._design.matrix = basis.design
        self._root = self._design.refactor()
        columns = basis.columns
        self._psi = basis.psi
        self._core = self._psi.solve_gram(self._design.solve(basis.cross_moment))  # YW19 (2)
        self._set = SETS[settings.set](
            SetContext(
                total=self._psi.total,
                d=source.d,
                horizon=source.horizon,
                c_psi=constants.regularity.c_psi,
                c_psi_columns=constants.regularity.c_psi_columns,
            )
        )
        self._radius = BlockRadius() if proven else settings.make_radius()
        self._at_columns = self._query(columns.states)
        self._end_place = None if source.end is None else 0
        plan = optimistic_plan(
            self._at_columns.belief,
            unit_reward=self._at_columns.most,
            horizon=source.horizon,
            priority=basis.priority,
            end_state=self._end_place,
            end_reward=self._end_reward,
        )
        self.values: FloatArray = plan.values[0]
        self.empty = int(plan.empty[0])
        self._column_policy = plan.policy

    @property
    def _end_reward(self) -> float:
        low, high = self._k.source.reward_range
        return (0.0 - low) / (high - low)

    def q(self, stage: int, states: NDArray[Any]) -> FloatArray:
        """Return the optimistic Q_h of some states: (k, …) → (A, k), in unit reward."""
        return self._q(self._query(states), stage)

    def actions(self, stage: int, states: NDArray[Any]) -> IntArray:
        """Return the action to play at a stage in some states: (k, …) → (k,)."""
        return self._greedy(self.q(stage, states))

    def value(self, states: NDArray[Any], probabilities: FloatArray) -> float:
        """Return the optimistic value of a distribution of first states, in unit reward."""
        best = self.q(0, states).max(axis=0)
        if not self._set.is_normalised:
            best = np.clip(best, 0.0, float(self._k.source.horizon))
        return float(best @ probabilities)

    def lower(self, played: SampledPlan, states: NDArray[Any], probabilities: FloatArray) -> float:
        """Return a lower bound on the value of the policy that another plan plays, in unit reward (design 4.2)."""
        source, columns = self._k.source, self.basis.columns
        if played.basis.columns is columns:
            policy = played._column_policy
        else:
            there = played._query(columns.states)
            rows = [played._greedy(played._q(there, h)) for h in range(source.horizon)]
            policy = np.stack(rows)[None]
        values = pessimistic_values(
            self._at_columns.belief,
            policy,
            unit_reward=self._at_columns.least,
            horizon=source.horizon,
            end_state=self._end_place,
            end_reward=self._end_reward,
        )
        first = self._query(states)
        low = first.least[0].copy()
        if source.horizon > 1:
            low += first.belief.bound(values[:, 1], sign=-1.0)[0]
        chosen = played.actions(0, states)
        kept = np.clip(low[chosen, np.arange(len(chosen))], 0.0, float(source.horizon))
        return float(kept @ probabilities)

    def table(self) -> IntArray:
        """Return the policy of every state of a finite problem: (H, S)."""
        source = self._k.source
        if source.n_states is None:
            fail(
                "policy", "is a table only where states can be counted", "a FunctionalTask", "Use predict(obs, stage)."
            )
        policy = np.empty((source.horizon, source.n_states), dtype=np.min_scalar_type(source.n_actions - 1))
        for first in range(0, source.n_states, _CHUNK):
            states = np.arange(first, min(first + _CHUNK, source.n_states))
            there = self._query(states)
            for h in range(source.horizon):
                policy[h, states] = self._greedy(self._q(there, h))
        return policy

    def _q(self, there: _Queried, stage: int) -> FloatArray:
        q: FloatArray = there.most[0].copy()
        if stage < self._k.source.horizon - 1:
            q += there.belief.bound(self.values[None, stage + 1])[0]
        return q

    def _greedy(self, q: FloatArray) -> IntArray:
        tie_break = TIE * self._k.source.horizon * self.basis.priority[0][:, None]
        best: IntArray = (q + tie_break).argmax(axis=0)
        return best

    def _query(self, states: NDArray[Any]) -> _Queried:
        """Return what is known of some states: their widths, and bounds on their rewards."""
        k, settings = self._k, self._k.settings
        phi = TablePhi.of_states(k.source.phi_at(states))
        design = QueriedPairs(phi.flat, self._design, self._root)
        blocks = k.blocks
        if blocks.count > 1:
            blocks = replace(blocks, pair_block=k.feature_block[np.abs(phi.flat).argmax(axis=1)])
        shares = self._set.shares * (1 if settings.known_reward else 2)
        inputs = RadiusInputs(
            regularity=k.regularity,
            horizon=k.source.horizon,
            episode=self.basis.episode,
            n_episodes=self.basis.n_episodes,
            delta=settings.delta / shares,
            design=design,
            blocks=blocks,
        )
        scale = 1.0 if self._proven else settings.exploration
        radius = scale * self._radius(inputs)
        alarm = np.maximum(radius, BlockRadius()(inputs))
        belief = form_belief(phi, self._psi, self._set, design, self._core, radius, alarm)
        if settings.known_reward:
            most = least = k.source.unit_reward_at(states)[None]
        else:
            reward_inputs = replace(inputs, regularity=k.reward_regularity)
            half = scale * self._radius(reward_inputs)
            most, least = reward_bounds(phi, design, self.basis.reward_moment, half)
        return _Queried(belief, most, least)


@dataclass(frozen=True)
class _Queried:
    """Bounds at some states: next values through `belief`, unit rewards between `least` and `most` (1, A, k)."""

    belief: Belief
    most: FloatArray
    least: FloatArray
