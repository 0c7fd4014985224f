"""A plan that has values at sampled columns only and computes Q at any state on request (YW19 section 3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.state_oracle import StateOracle
from matrixrl.checks import fail
from matrixrl.core import Belief, Clock, Confidence, Frame, Level, optimistic_plan, pessimistic_values
from matrixrl.core.columns import Columns
from matrixrl.core.greedy import greedy_actions, tie_weights
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, TablePhi, TablePsi
from matrixrl.linalg import DesignMatrix, QueriedPairs
from matrixrl.records import FloatArray, IntArray

__all__ = ["PLAN_NAMES", "Constants", "PlanData", "SampledPlan", "SampledPlans", "sampled_psi"]

PLAN_NAMES = ("design", "cross_moment", "reward_moment", "clock", "rankings", "columns", "column_weights")
"""Names of the arrays from which a plan is made again."""

_CHUNK = 1 << 13  # states that are evaluated together when a table is wanted


def sampled_psi(oracle: StateOracle, columns: Columns, *, pseudo: bool) -> TablePsi:
    """Return ψ at the sampled columns; refuse columns that are too few for K_ψ to be inverted."""
    try:
        return TablePsi(oracle.psi_at(columns.states), weights=columns.weights, pseudo=pseudo)
    except InvalidInput as error:
        if columns.is_all:
            raise
        rule = "must be enough for K_psi to be invertible on the sampled states"
        fail("columns", rule, f"{len(columns.states)} ({error})", "Sample more columns.")


@dataclass(frozen=True)
class Constants:
    """Constants of one replica.

    Attributes:
        oracle: Features, rewards and samples of states.
        confidence: Set, radius and shares of δ, with constants of the replica's first sample.
        feature_block: (d,) the block of each feature.
    """

    oracle: StateOracle
    confidence: Confidence
    feature_block: IntArray

    @property
    def ridge(self) -> float:
        """λ."""
        return self.confidence.regularity.ridge


@dataclass(frozen=True)
class PlanData:
    """Data of one replica when it planned. A plan is a function of them, so saving them saves the plan.

    Attributes:
        design: (1, d, d) A_n.
        cross_moment: (1, d, d_psi) Σ φψᵀ.
        reward_moment: (1, d) Σ φr.
        clock: n, N and the run.
        rankings: (1, A) ranking of the actions that breaks ties.
        columns: The sampled states.
        psi: ψ at them; it follows from the columns and is not saved.
    """

    design: FloatArray
    cross_moment: FloatArray
    reward_moment: FloatArray
    clock: Clock
    rankings: FloatArray
    columns: Columns
    psi: TablePsi

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the data as named arrays."""
        return {
            "design": self.design,
            "cross_moment": self.cross_moment,
            "reward_moment": self.reward_moment,
            "clock": np.array([self.clock.episode, self.clock.n_episodes or 0, self.clock.run], dtype=np.int64),
            "rankings": self.rankings,
            "columns": self.columns.states,
            "column_weights": self.columns.weights,
        }

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]], columns: Columns, psi: TablePsi) -> PlanData:
        """Return the data that `arrays` wrote."""
        episode, planned, run = (int(n) for n in arrays["clock"])
        return cls(
            design=arrays["design"],
            cross_moment=arrays["cross_moment"],
            reward_moment=arrays["reward_moment"],
            clock=Clock(episode, planned or None, run),
            rankings=arrays["rankings"],
            columns=columns,
            psi=psi,
        )


class SampledPlan:
    """Optimistic backward induction on sampled columns: O(m A d H) for any number of states.

    Args:
        constants: Constants of the replica.
        data: What is known.
        level: Choice of the radius.
    """

    def __init__(self, constants: Constants, data: PlanData, *, level: Level = "agent") -> None:
        self._oracle, self._blocks_of, self.data, self._level = constants.oracle, constants.feature_block, data, level
        self._confidence = constants.confidence.rebound(data.psi)
        oracle = self._oracle
        self._design = DesignMatrix(oracle.d, 1, ridge=constants.ridge)
        self._design.matrix = data.design
        self._root = self._design.refactor()
        self._core = data.psi.solve_gram(self._design.solve(data.cross_moment))  # YW19 (2)
        low, high = oracle.reward_range
        self._frame = Frame(
            oracle.horizon,
            oracle.n_actions,
            len(data.columns.states),
            end_state=None if oracle.end is None else 0,  # the end state is the first column
            end_reward=(0.0 - low) / (high - low),
            allowed=oracle.allowed_at(data.columns.states),
            stages=oracle.stages,
            discount=oracle.discount,
        )
        self._at_columns = self._belief(data.columns.states)
        plan = optimistic_plan(self._at_columns, self._frame, data.rankings)
        self.values: FloatArray = plan.values[0]
        self.empty = int(plan.empty[0])
        self._column_policy = plan.policy

    def q(self, stage: int, states: NDArray[Any]) -> FloatArray:
        """Return the optimistic Q_h of some states: (k, …) → (A, k), in unit reward."""
        return self._q(self._belief(states), stage)

    def actions(self, stage: int, states: NDArray[Any]) -> IntArray:
        """Return the actions at a stage in some states: (k, …) → (k,)."""
        return self._greedy(self.q(stage, states))

    def values_at(self, states: NDArray[Any]) -> FloatArray:
        """Return the optimistic values of first states, in unit reward: (k, …) → (k,)."""
        return self._best(0, self.q(0, states))

    def best(self, stage: int, state: NDArray[Any]) -> float:
        """Return the optimistic value of one state (1, …) at a stage, in unit reward."""
        return float(self._best(stage, self.q(stage, state))[0])

    def gap(self, stage: int, state: NDArray[Any], action: int) -> float:
        """Return by how much Q of an action is below the value of one state (1, …), in unit reward."""
        q = self.q(stage, state)
        best = float(self._best(stage, q)[0])
        return best - min(max(float(q[action, 0]), 0.0), best)

    def _best(self, stage: int, q: FloatArray) -> FloatArray:
        """Return the optimistic values of some states at a stage from their Q (A, k): (k,)."""
        best: FloatArray = q.max(axis=0)
        if not self._confidence.set.is_normalised:
            best = np.clip(best, 0.0, self._frame.ceilings()[stage])
        return best

    def lower_at(self, played: SampledPlan, states: NDArray[Any]) -> FloatArray:
        """Return lower bounds on the values of another plan's policy at first states (docs/proofs.md, 6): (k,)."""
        horizon, columns = self._frame.horizon, self.data.columns
        if played.data.columns is columns:
            policy = played._column_policy
        else:
            there = played._belief(columns.states)
            policy = np.stack([played._greedy(played._q(there, h)) for h in range(horizon)])[None]
        values = pessimistic_values(self._at_columns, policy, self._frame)
        following = self._frame.discount * values[:, 1] if horizon > 1 else None
        low = self._belief(states).q(following, sign=-1.0)[0]
        chosen = played.actions(0, states)
        kept: FloatArray = np.clip(low[chosen, np.arange(len(chosen))], 0.0, self._frame.ceilings()[0])
        return kept

    def table(self) -> IntArray:
        """Return the policy of every state of a finite problem: (H, S)."""
        oracle = self._oracle
        if oracle.n_states is None:
            fail("policy", "is a table only of counted states", "a FunctionalTask", "Use predict(obs, stage).")
        policy = np.empty((oracle.horizon, oracle.n_states), dtype=np.min_scalar_type(oracle.n_actions - 1))
        for first in range(0, oracle.n_states, _CHUNK):
            states = np.arange(first, min(first + _CHUNK, oracle.n_states))
            there = self._belief(states)
            for h in range(oracle.horizon):
                policy[h, states] = self._greedy(self._q(there, h))
        return policy

    def _q(self, there: Belief, stage: int) -> FloatArray:
        last = stage == self._frame.horizon - 1
        q: FloatArray = there.q(None if last else self._frame.discount * self.values[None, stage + 1])[0]
        replace(self._frame, allowed=there.allowed).exclude(q[None], stage)
        return q

    def _greedy(self, q: FloatArray) -> IntArray:
        weights = tie_weights(self.data.rankings[0], self._frame.horizon)
        return greedy_actions(q, weights[:, None], axis=0)

    def _belief(self, states: NDArray[Any]) -> Belief:
        """Return bounds on next values and rewards of some states."""
        oracle, data = self._oracle, self.data
        phi = TablePhi.of_states(oracle.phi_at(states))
        blocks = self._confidence.blocks
        if blocks.count > 1:
            blocks = replace(blocks, pair_block=self._blocks_of[np.abs(phi.flat).argmax(axis=1)])
        known = self._confidence.known_reward
        return self._confidence.believe(
            Features(phi, data.psi, same_states=False),
            QueriedPairs(phi.flat, self._design, self._root),
            self._core,
            data.clock,
            reward=oracle.unit_reward_at(states)[None] if known else np.empty(0),
            reward_moment=data.reward_moment,
            level=self._level,
            blocks=blocks,
            allowed=oracle.allowed_at(states),
        )


class SampledPlans:
    """The plans of all replicas; the table of a finite problem is computed on first use."""

    def __init__(self, plans: list[SampledPlan]) -> None:
        self.plans = plans
        self.empty: IntArray = np.array([plan.empty for plan in plans])

    @cached_property
    def policy(self) -> IntArray:
        """(B, H, S), where states can be counted."""
        return np.stack([plan.table() for plan in self.plans])
