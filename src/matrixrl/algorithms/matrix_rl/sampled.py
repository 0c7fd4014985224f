"""UC-MatrixRL on sampled columns: what planning and acting cost does not depend on how many states there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.matrix_rl.doubling import counted, restarts
from matrixrl.algorithms.matrix_rl.sampled_plan import Basis, Constants, SampledPlan, sampled_psi
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.algorithms.matrix_rl.state_oracle import Start, StateOracle
from matrixrl.checks import fail
from matrixrl.core import regularity, reward_regularity
from matrixrl.core.columns import Columns
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, TablePhi, TablePsi
from matrixrl.interrupts import uninterrupted
from matrixrl.linalg import DesignMatrix
from matrixrl.records import FloatArray, IntArray
from matrixrl.seeding import generator, restore, state_of

__all__ = ["ColumnEngine", "ColumnPlan"]

_DRAWS = 50  # tries before columns are called too few


class ColumnPlan:
    """The lazy plans of all replicas; the table of a finite problem is made when it is asked for."""

    def __init__(self, plans: list[SampledPlan]) -> None:
        self.plans = plans
        self.empty: IntArray = np.array([plan.empty for plan in plans])

    def action(self, stage: int, state: Any) -> int:
        """Return the action of the first replica."""
        return int(self.plans[0].actions(stage, np.asarray(state)[None])[0])

    @cached_property
    def policy(self) -> IntArray:
        """(B, H, S), where states can be counted."""
        return np.stack([plan.table() for plan in self.plans])


class ColumnEngine:
    """The same contract as `MatrixRLEngine`, with values at m sampled states only.

    Args:
        source: features, rewards and columns.
        settings: of the agent; `columns` is m.
        seeds: one seed for each replica.
        pseudo: accept linearly dependent columns of ψ.
    """

    def __init__(
        self, source: StateOracle, settings: MatrixRLSettings, seeds: Sequence[int], *, pseudo: bool = False
    ) -> None:
        self.source, self.settings, self.seeds = source, settings, list(seeds)
        self.episode = 0
        self.plans = np.zeros(len(self.seeds), dtype=np.int64)
        self._ties = [generator(seed, "ties") for seed in self.seeds]
        self._sampling = [generator(seed, "sampling") for seed in self.seeds]
        self._pseudo = pseudo
        drawn = [self._draw(rng) for rng in self._sampling]
        self._columns, self._psis = [columns for columns, _ in drawn], [psi for _, psi in drawn]
        self._kept: list[SampledPlan | None] = [None] * len(self.seeds)
        self._kept_logdet = np.full(len(self.seeds), -np.inf)
        self._constants = [self._measure(columns, psi) for columns, psi in drawn]
        self.regularity = self._constants[0].regularity
        self.blocks = self._constants[0].blocks
        self._forget()

    def _measure(self, columns: Columns, psi: TablePsi) -> Constants:
        """Take the constants of the features from a replica's first sample: exact if it is every state."""
        source, settings = self.source, self.settings
        phi = TablePhi(source.phi_at(columns.states).transpose(1, 0, 2))
        ridge = settings.ridge_for(phi.max_norm_sq)
        blocks = phi.blocks()
        feature_block = np.empty(phi.d, dtype=np.int64)
        for k, members in enumerate(blocks.members):
            feature_block[members] = k
        return Constants(
            source=source,
            settings=settings,
            ridge=ridge,
            regularity=regularity(Features(phi, psi), c_core=settings.c_core, ridge=ridge),
            reward_regularity=reward_regularity(phi, ridge),
            blocks=blocks,
            feature_block=feature_block,
        )

    def _draw(self, rng: np.random.Generator) -> tuple[Columns, TablePsi]:
        """Draw columns on which K_ψ can be inverted: one draw in many may miss a feature, and is drawn again."""
        for attempt in range(_DRAWS):
            columns = self._draw_once(rng)
            try:
                return columns, sampled_psi(self.source, columns, pseudo=self._pseudo)
            except InvalidInput:
                if attempt == _DRAWS - 1 or columns.is_all:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _draw_once(self, rng: np.random.Generator) -> Columns:
        columns, end = self.source.draw(rng), self.source.end
        if end is None:
            return columns
        # The end state's value is known, so it stands for itself and comes first.
        others = (columns.states != end).reshape(len(columns.states), -1).any(axis=1)
        return Columns(
            np.concatenate([end[None].astype(columns.states.dtype), columns.states[others]]),
            np.concatenate([np.ones(1), columns.weights[others]]),
            columns.is_all,
        )

    def _forget(self) -> None:
        """Start without data (Algorithm 1, line 4)."""
        n, d = len(self.seeds), self.source.d
        # Each replica has the ridge of its own sample of features.
        self.designs = [DesignMatrix(d, 1, ridge=constants.ridge) for constants in self._constants]
        self.cross_moment = np.zeros((n, d, self.source.d_psi))
        self.reward_moment = np.zeros((n, d))

    @property
    def n_replicas(self) -> int:
        """B."""
        return len(self.seeds)

    @property
    def is_exact(self) -> bool:
        """Whether the columns are all columns."""
        return all(columns.is_all for columns in self._columns)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven for these settings, else why not."""
        return self.settings.guarantee if self.is_exact else self._estimated

    def certificate_guarantee(self, alarmed: bool) -> Literal[True] | str:
        """True if a certificate holds with probability 1 − δ, else why not."""
        return self.settings.certificate_guarantee(alarmed) if self.is_exact else self._estimated

    @property
    def _estimated(self) -> str:
        """Say that bounds are estimates, and so is the alarm: 1 − φᵀM_n u has the sampling error of u."""
        return f"planning looks at {len(self._columns[0].states):,} sampled columns: bounds are estimates, not proven"

    def next_plan(self) -> ColumnPlan:
        """Return the plan to play now; columns are drawn anew for it unless they are fixed."""
        growth = self.settings.switch_growth
        if restarts(self.episode, self.settings.doubling):
            self._forget()
            self._kept_logdet[:] = -np.inf
        logdet = np.array([design.logdet[0] for design in self.designs])
        due = np.ones(self.n_replicas, dtype=np.bool_)
        if growth > 0.0:
            due = logdet >= self._kept_logdet + math.log1p(growth)
        for b in range(self.n_replicas):
            if not due[b]:
                continue
            if self.settings.column_draw == "resampled" and not self._columns[b].is_all:
                self._columns[b], self._psis[b] = self._draw(self._sampling[b])
            ranking = self._ties[b].permutation(self.source.n_actions) / self.source.n_actions
            self._kept[b] = SampledPlan(self._constants[b], self._basis(b, ranking[None]))
        self._kept_logdet = np.where(due, logdet, self._kept_logdet)
        self.plans += due
        return self.current_plan()

    def current_plan(self) -> ColumnPlan:
        """Return the plan that `next_plan` gave last."""
        if None in self._kept:
            raise InvalidInput("an episode is running but there is no plan")
        return ColumnPlan([plan for plan in self._kept if plan is not None])

    def plan(self, *, break_ties_at_random: bool = True) -> ColumnPlan:
        """Return the plan for the data at hand on the last columns; no random stream moves without ties."""
        if break_ties_at_random:
            return self.next_plan()
        return ColumnPlan([SampledPlan(self._constants[b], self._basis(b)) for b in range(self.n_replicas)])

    def _basis(self, b: int, priority: FloatArray | None = None) -> Basis:
        episode, planned = counted(self.episode, self.settings.doubling, self.settings.n_episodes)
        lowest_first = np.arange(self.source.n_actions)[None, ::-1] / self.source.n_actions
        return Basis(
            design=self.designs[b].matrix.copy(),
            cross_moment=self.cross_moment[b : b + 1].copy(),
            reward_moment=self.reward_moment[b : b + 1].copy(),
            episode=episode,
            n_episodes=planned,
            priority=lowest_first if priority is None else priority,
            columns=self._columns[b],
            psi=self._psis[b],
        )

    def start_at(self, state: NDArray[Any] | int | None) -> Start:
        """Return where episodes start: at the state, or where the task says if None."""
        if state is not None:
            return np.asarray(state)[None], np.ones(1)
        if self.source.start is None:
            fail(
                "start",
                "must be known to bound the value of an episode",
                None,
                "Give FunctionalTask a start, or play one.",
            )
        return self.source.start

    def upper(self, plan: ColumnPlan, start: Start | None = None) -> FloatArray:
        """Return the optimistic value of the start in its own unit: (B,)."""
        where = self.start_at(None) if start is None else start
        return self._own_unit(np.array([p.value(*where) for p in plan.plans]))

    def certify(self, plan: ColumnPlan, start: Start | None = None) -> tuple[FloatArray, FloatArray, IntArray]:
        """Bound V*(s0) from above and the value of the plan's policy from below, on the plan's columns."""
        where = self.start_at(None) if start is None else start
        upper, lower, empty = [], [], []
        for b, played in enumerate(plan.plans):
            best = SampledPlan(self._constants[b], self._basis(b), proven=True)
            upper.append(best.value(*where))
            lower.append(best.lower(played, *where))
            empty.append(best.empty)
        return self._own_unit(np.array(upper)), self._own_unit(np.array(lower)), np.array(empty)

    def _own_unit(self, values: FloatArray) -> FloatArray:
        low, high = self.source.reward_range
        own: FloatArray = values * (high - low) + self.source.horizon * low
        return own

    def update(
        self,
        states: NDArray[Any],
        actions: IntArray,
        next_states: NDArray[Any],
        weights: FloatArray,
        rewards: FloatArray,
    ) -> None:
        """Learn from one episode (lines 11, 12); arguments as in `MatrixRLEngine.update`, states (B, k, …)."""
        n, k = actions.shape
        flat = states.reshape(n * k, *states.shape[2:])
        every = self.source.phi_at(flat)
        phi = every[actions.ravel(), np.arange(n * k)].reshape(n, k, -1) * weights[:, :, None]
        psi = self.source.psi_at(next_states.reshape(flat.shape)).reshape(n, k, -1)
        low, high = self.source.reward_range
        with uninterrupted():
            for design, rows in zip(self.designs, phi, strict=True):
                design.matrix += rows.T @ rows
                design.refactor()  # O(d³), and the same bits after a save
            self.cross_moment += phi.transpose(0, 2, 1) @ psi
            if not self.settings.known_reward:
                self.reward_moment += np.einsum("bkd,bk->bd", phi, (rewards - low) / (high - low))
            self.episode += 1

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the learned arrays, for saving."""
        arrays: dict[str, NDArray[Any]] = {
            "cross_moment": self.cross_moment,
            "reward_moment": self.reward_moment,
            "plans": self.plans.astype(np.float64),
            "design": self.designs[0].matrix,
            "columns": self._columns[0].states,
            "column_weights": self._columns[0].weights,
        }
        kept = self._kept[0]
        if kept is not None:
            arrays |= {f"kept_{k}": v for k, v in basis_arrays(kept.basis).items()}
            arrays["kept_logdet"] = self._kept_logdet
        return arrays

    def check_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Refuse arrays that `arrays` of this engine could not have returned."""
        own = self.arrays()
        if arrays["plans"].shape != (1,) or arrays["plans"].dtype != np.float64 or arrays["plans"][0] < 0:
            raise InvalidInput("plans must be one count")
        for prefix in ("", "kept_") if "kept_design" in arrays else ("",):
            for name in ("cross_moment", "reward_moment", "design"):
                array = arrays[prefix + name]
                if array.shape != own[name].shape or array.dtype != own[name].dtype or np.abs(array).max() > 1e100:
                    raise InvalidInput(f"{prefix}{name} must have shape {own[name].shape} and type {own[name].dtype}")
            matrix, ridge = arrays[f"{prefix}design"][0], self._constants[0].ridge
            if not np.allclose(matrix, matrix.T) or np.linalg.eigvalsh(matrix)[0] < ridge * (1.0 - 1e-6):
                raise InvalidInput(f"{prefix}design must be symmetric, with no eigenvalue below the ridge")
            self._check_columns(arrays[f"{prefix}columns"], arrays[f"{prefix}column_weights"], own["columns"])
        if "kept_design" in arrays:
            episodes, priority = arrays["kept_episodes"], arrays["kept_priority"]
            fits = (
                episodes.shape == (2,)
                and episodes.dtype == np.int64
                and episodes[0] >= 1
                and episodes[1] >= 0
                and priority.shape == (1, self.source.n_actions)
                and arrays["kept_logdet"].shape == (1,)
            )
            if not fits:
                raise InvalidInput("the plan that was kept does not fit the problem")

    def _check_columns(self, states: NDArray[Any], weights: FloatArray, own: NDArray[Any]) -> None:
        if states.ndim != own.ndim or states.shape[1:] != own.shape[1:] or states.dtype != own.dtype:
            raise InvalidInput("the columns are not states of this problem")
        if weights.shape != states.shape[:1] or weights.dtype != np.float64 or not (weights > 0).all():
            raise InvalidInput("the columns and their weights do not belong together")
        count, end = self.source.n_states, self.source.end
        if count is not None and not (states.size and 0 <= states.min() <= states.max() < count):
            raise InvalidInput("the columns are not states of this problem")
        if end is not None and not np.array_equal(states[0], end):
            raise InvalidInput("the end state must be the first column")

    def restore_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take back what `arrays` returned, of one replica."""
        self.cross_moment = arrays["cross_moment"]
        self.reward_moment = arrays["reward_moment"]
        self.plans = arrays["plans"].astype(np.int64)
        self.designs[0].matrix = arrays["design"]
        try:
            self.designs[0].refactor()
        except np.linalg.LinAlgError as error:
            raise ValueError("the design matrix is not positive definite") from error
        is_all = self._columns[0].is_all
        self._columns = [Columns(arrays["columns"], arrays["column_weights"], is_all)]
        self._psis = [sampled_psi(self.source, self._columns[0], pseudo=self._pseudo)]
        if "kept_design" in arrays:
            kept = {k.removeprefix("kept_"): v for k, v in arrays.items() if k.startswith("kept_")}
            columns = Columns(kept["columns"], kept["column_weights"], is_all)
            psi = sampled_psi(self.source, columns, pseudo=self._pseudo)
            basis = basis_of(kept, columns, psi)
            self._kept = [SampledPlan(self._constants[0], basis)]
            self._kept_logdet = arrays["kept_logdet"]

    def planning_state(self) -> tuple[Any, ...]:
        """Return what planning changes, so that an episode that is abandoned leaves no trace."""
        drawn = list(self._columns), list(self._psis)
        return self.random_states(), list(self._kept), self._kept_logdet.copy(), self.plans.copy(), drawn

    def restore_planning(self, state: tuple[Any, ...]) -> None:
        """Take back what `planning_state` returned."""
        streams, self._kept, self._kept_logdet, self.plans, (self._columns, self._psis) = state
        self.restore_random_states(streams)

    def random_states(self) -> list[dict[str, Any]]:
        """Return the states of every replica's streams: ties first, then sampling."""
        return [state_of(rng) for rng in [*self._ties, *self._sampling]]

    def restore_random_states(self, states: Sequence[object]) -> None:
        """Take back what `random_states` returned."""
        for rng, state in zip([*self._ties, *self._sampling], states, strict=True):
            restore(rng, state)


def basis_arrays(basis: Basis) -> dict[str, NDArray[Any]]:
    """Return a basis as plain arrays."""
    return {
        "design": basis.design,
        "cross_moment": basis.cross_moment,
        "reward_moment": basis.reward_moment,
        "episodes": np.array([basis.episode, 0 if basis.n_episodes is None else basis.n_episodes], dtype=np.int64),
        "priority": basis.priority,
        "columns": basis.columns.states,
        "column_weights": basis.columns.weights,
    }


def basis_of(arrays: dict[str, NDArray[Any]], columns: Columns, psi: TablePsi) -> Basis:
    """Return the basis that `basis_arrays` wrote."""
    episode, planned = (int(n) for n in arrays["episodes"])
    return Basis(
        design=arrays["design"],
        cross_moment=arrays["cross_moment"],
        reward_moment=arrays["reward_moment"],
        episode=episode,
        n_episodes=planned or None,
        priority=arrays["priority"],
        columns=columns,
        psi=psi,
    )
