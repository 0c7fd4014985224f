"""UC-MatrixRL on sampled columns: the cost of planning and acting does not depend on the number of states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.matrix_rl.learner import MatrixRLLearner
from matrixrl.algorithms.matrix_rl.sampled_plan import (
    PLAN_NAMES,
    Constants,
    PlanData,
    SampledPlan,
    SampledPlans,
    sampled_psi,
)
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.algorithms.matrix_rl.state_oracle import make_oracle
from matrixrl.algorithms.possible import check_regression, impossible, largest_norm_sq
from matrixrl.checks import fail
from matrixrl.core import Confidence
from matrixrl.core.columns import Columns
from matrixrl.core.greedy import lowest_first
from matrixrl.core.start import Start
from matrixrl.errors import InvalidInput
from matrixrl.features import Features, TablePhi, TablePsi, allowed_part
from matrixrl.linalg import DesignMatrix, lost_digits, summation_error
from matrixrl.problems import Problem
from matrixrl.problems.discounting import total_weight
from matrixrl.problems.problem import Kind
from matrixrl.records import Bounds, FloatArray, IntArray, Steps

__all__ = ["SampledMatrixRL"]

_DRAWS = 50  # attempts before columns are refused as too few
_LEARNED = ("cross_moment", "reward_moment", "design")


class SampledMatrixRL(MatrixRLLearner):
    """The form of UC-MatrixRL with values at m sampled states only; `UCMatrixRL.start` returns it."""

    name = "matrix-rl"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite", "functional")
    stream_names = ("ties", "sampling")
    data_names = ("designs", "cross_moment", "reward_moment")
    may_be_infinite = ("kept_sizes",)

    def begin(self) -> None:
        """Draw the first columns of every replica and take its constants from them."""
        super().begin()
        if self.settings.explore_for == "certificate":
            rule = "must be 'regret' for a problem whose states are functions"
            fail("explore_for", rule, repr(self.settings.explore_for), "Leave it out.")
        if self.settings.columns is None:
            rule = "must be given for a task whose states are not enumerated"
            fail("columns", rule, None, "Try columns=2000.")
        problem = self.problem
        assert problem.kind != "continuous"
        self.oracle = make_oracle(problem, self.settings.columns, self.settings.column_weights)
        drawn = [self._draw(rng) for rng in self.streams["sampling"]]
        self._columns, self._psis = [columns for columns, _ in drawn], [psi for _, psi in drawn]
        self._constants = [self._measure(columns, psi) for columns, psi in drawn]
        self.kept: list[SampledPlan] | None = None
        self.watch_given_rewards(may_watch=self.is_exact)  # estimates claim nothing
        self.forget()

    def _measure(self, columns: Columns, psi: TablePsi) -> Constants:
        """Return the constants of the features at a replica's first sample: exact if it is every state."""
        given = self.problem.features
        left_out = None if given is None else given.phi.left_out
        phi = TablePhi(self.oracle.phi_at(columns.states).transpose(1, 0, 2), left_out=left_out)
        end = None if self.oracle.end is None else 0  # the end state is the first column
        part = allowed_part(phi, self.oracle.allowed_at(columns.states))
        confidence = self.settings.confidence(
            Features(phi, psi), self.oracle.horizon, delta=self.model_delta, part=part, end_state=end
        )
        feature_block = np.zeros(phi.d, dtype=np.int64)
        for k, members in enumerate(confidence.blocks.members):
            feature_block[members] = k
        return Constants(self.oracle, confidence, feature_block)

    def _draw(self, rng: np.random.Generator) -> tuple[Columns, TablePsi]:
        """Draw columns on which K_ψ can be inverted; a draw that misses a feature is repeated."""
        for attempt in range(_DRAWS):
            columns = self._draw_once(rng)
            try:
                return columns, sampled_psi(self.oracle, columns, pseudo=self.problem.pseudo)
            except InvalidInput:
                if attempt == _DRAWS - 1 or columns.is_all:
                    raise
        raise AssertionError("the last attempt returns or raises")

    def _draw_once(self, rng: np.random.Generator) -> Columns:
        columns, end = self.oracle.draw(rng), self.oracle.end
        if end is None:
            return columns
        # The end state's value is known, so it stands for itself and comes first.
        others = (columns.states != end).reshape(len(columns.states), -1).any(axis=1)
        return Columns(
            np.concatenate([end[None].astype(columns.states.dtype), columns.states[others]]),
            np.concatenate([np.ones(1), columns.weights[others]]),
            columns.is_all,
        )

    def forget(self) -> None:
        """Start without data (Algorithm 1, line 4)."""
        n, d = self.n_replicas, self.oracle.d
        # Each replica has the ridge of its own sample of features.
        self.designs = [DesignMatrix(d, 1, ridge=constants.ridge) for constants in self._constants]
        self.cross_moment = np.zeros((n, d, self.oracle.d_psi))
        self.reward_moment = np.zeros((n, d))

    @property
    def confidence(self) -> Confidence:
        """Set, radius and shares of δ of the first replica."""
        return self._constants[0].confidence

    def logdets(self) -> FloatArray:
        """Return ln det(A_n / λ) of every replica: (B,)."""
        return np.array([design.logdet[0] for design in self.designs])

    def rounding_words(self, *, regret: bool = False) -> str | None:
        """Return, in words, that rounding errors may matter; None if they are small."""
        del regret
        steps = np.array([float(self.episode * self.oracle.horizon)])
        errors = []
        for design in self.designs:
            sum_sq = np.maximum(np.trace(design.matrix, axis1=1, axis2=2) - design.d * design.ridge, 0.0)
            errors.append(summation_error(steps, sum_sq, np.sqrt(steps * sum_sq), design.ridge, design.d))
        return lost_digits(float(np.max(errors)))

    @property
    def is_exact(self) -> bool:
        """Whether the columns are all columns."""
        return all(columns.is_all for columns in self._columns)

    @property
    def proof(self) -> Literal[True] | str:
        """True if the regret bound is proven for these settings, else why not."""
        return super().proof if self.is_exact else self._estimated

    def gaps(self, plan: SampledPlans, steps: Steps, *, every: bool = False) -> FloatArray:
        """Return by how much played steps fell short of a plan's optimistic values, in the environment's unit: (B,)."""
        del every  # Q of the plan itself is at hand
        found, discount = [], self.oracle.discount
        for b, one in enumerate(plan.plans):
            length = int(steps.taken[b].sum())
            total = sum(
                discount**h * one.gap(h, steps.states[b, h : h + 1], int(steps.actions[b, h])) for h in range(length)
            )
            if length < self.oracle.horizon and not steps.ended[b].any():
                total += discount**length * one.best(length, steps.next_states[b, length - 1 : length])
            found.append(total)
        low, high = self.oracle.reward_range
        return (high - low) * np.array(found)

    def certificate_guarantee(self, alarmed: bool) -> Literal[True] | str:
        """True if a certificate holds with probability 1 − δ, else why not."""
        return super().certificate_guarantee(alarmed) if self.is_exact else self._estimated

    def refutation(self) -> str | None:
        """Return why the assumptions are false, or not checked: the alarm does not watch rewards with columns."""
        words = super().refutation()
        if words is None and self.confidence.watches_rewards and self.problem.mdp is None:
            return "proven only if learned rewards are linear in phi, which is not watched with columns"
        return words

    def alarm_words(self, first_alarm: str) -> str:
        """Return why nothing is proven after an alarm: 1 − φᵀM_n u has the sampling error of u."""
        if self.is_exact:
            return super().alarm_words(first_alarm)
        return f"{self._estimated}; {first_alarm}, which sampling may have caused"

    def use_compiled(self, wanted: bool | None, n_episodes: int = 0) -> None:
        """Refuse compiled plans: Q is computed where it is asked for."""
        del n_episodes
        if wanted:
            fail("compiled", "must be left out with sampled columns", wanted, "Leave one of them out.")

    @property
    def _estimated(self) -> str:
        return f"planning looks at {len(self._columns[0].states):,} sampled columns: bounds are estimates, not proven"

    def plan(self) -> SampledPlans:
        """Return the plan to play now; columns are drawn again for a new plan unless they are fixed."""
        due = self.due()
        kept: list[SampledPlan | None] = [None] * self.n_replicas if self.kept is None else list(self.kept)
        n_actions = self.oracle.n_actions
        for b in np.flatnonzero(due).tolist():
            if self.settings.column_draw == "resampled" and not self._columns[b].is_all:
                columns, psi = self._draw(self.streams["sampling"][b])
                self._columns = [*self._columns[:b], columns, *self._columns[b + 1 :]]
                self._psis = [*self._psis[:b], psi, *self._psis[b + 1 :]]
            ranking = self.streams["ties"][b].permutation(n_actions) / n_actions
            kept[b] = SampledPlan(self._constants[b], self._data(b, ranking[None]))
        self.kept = [plan for plan in kept if plan is not None]
        self.n_plans = self.n_plans + due
        return SampledPlans(self.kept)

    def make_plan(self) -> SampledPlans:
        """Return the plan to play now."""
        return self.plan()

    def advice(self) -> SampledPlans:
        """Return the plan for the data at hand on the last columns, ties to the lowest action."""
        return SampledPlans([SampledPlan(self._constants[b], self._data(b)) for b in range(self.n_replicas)])

    def estimated_plan(self) -> SampledPlans:
        """Return the plan of the estimated model on the last columns, ties to the lowest action."""
        every = range(self.n_replicas)
        return SampledPlans([SampledPlan(self._constants[b], self._data(b), level="estimate") for b in every])

    def _data(self, b: int, rankings: FloatArray | None = None) -> PlanData:
        return PlanData(
            design=self.designs[b].matrix.copy(),
            cross_moment=self.cross_moment[b : b + 1].copy(),
            reward_moment=self.reward_moment[b : b + 1].copy(),
            clock=self.clock,
            rankings=lowest_first(self.oracle.n_actions, 1) if rankings is None else rankings,
            columns=self._columns[b],
            psi=self._psis[b],
        )

    def act(self, plan: SampledPlans, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of the plans: states (B, …) → (B,)."""
        del explore
        chosen = [one.actions(stage, states[b : b + 1])[0] for b, one in enumerate(plan.plans)]
        return np.array(chosen, dtype=np.int64)

    def action_values(
        self, plan: SampledPlans, stage: int, states: NDArray[Any], *, explore: bool = True
    ) -> FloatArray:
        """Return Q of the plans: states (B, …) → (B, A)."""
        del explore
        return np.stack([one.q(stage, states[b : b + 1])[:, 0] for b, one in enumerate(plan.plans)])

    @property
    def freezes_policies(self) -> bool:
        """Whether the columns are all states: else a table takes longer than all the rest of an episode."""
        return self.is_exact

    def policy_table(self, plan: SampledPlans) -> IntArray:
        """Return the actions of every counted state: (B, H, S)."""
        return plan.policy

    def upper(self, plan: SampledPlans, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return what the plans expect an episode to be worth, in the environment's unit: (B,)."""
        if first_states is None:
            start = self._declared_start()
            values = [float(one.values_at(start.states) @ start.weights) for one in plan.plans]
        else:
            each = zip(plan.plans, np.asarray(first_states), strict=True)
            values = [float(one.values_at(state[None])[0]) for one, state in each]
        return self._own_unit(values, tail=self.oracle.tail)

    def certify(self, plan: SampledPlans, start: Start | None = None) -> Bounds:
        """Bound V*(s0) and the value of a plan's policy, on the last columns."""
        chosen = self._declared_start() if start is None else start
        states, most = chosen.states, total_weight(self.oracle.discount, self.oracle.horizon)
        upper, lower, empty = [], [], []
        for b, played in enumerate(plan.plans):
            best = SampledPlan(self._constants[b], self._data(b), level="proven")
            # Values at states in which no episode began are not computed: they lie in [0, Σγ^h].
            upper.append(chosen.mean(best.values_at(states), most, sign=1.0) if len(states) else most)
            lower.append(chosen.mean(best.lower_at(played, states), 0.0, sign=-1.0) if len(states) else 0.0)
            empty.append(best.empty)
        return Bounds(self._own_unit(upper, tail=self.oracle.tail), self._own_unit(lower), np.array(empty))

    def _declared_start(self) -> Start:
        """Return where the problem says that episodes start."""
        if self.oracle.start is None:
            rule = "must be known to bound the value of an episode"
            fail("start", rule, None, "Give the task a start, or name a state: certificate(start=…).")
        return Start("", *self.oracle.start)

    def _own_unit(self, values: list[float], *, tail: float = 0.0) -> FloatArray:
        """Convert values in unit reward, with what steps that are cut off may earn, to the environment's unit: (B,)."""
        low, high = self.oracle.reward_range
        own: FloatArray = (np.array(values) + tail) * (high - low) + self.problem.total_weight * low
        return own

    def planning_memory(self) -> tuple[Any, ...]:
        """Return the plans, the determinants they were made at, and the columns."""
        return super().planning_memory(), self._columns, self._psis

    def restore_planning_memory(self, memory: tuple[Any, ...]) -> None:
        """Take back what `planning_memory` returned."""
        shared, self._columns, self._psis = memory
        super().restore_planning_memory(shared)

    def learn(self, steps: Steps) -> None:
        """Add the steps to A_n, Σ φψᵀ and Σ φr (Algorithm 1, lines 11 and 12)."""
        n, k = steps.actions.shape
        flat = steps.states.reshape(n * k, *steps.states.shape[2:])
        every = self.oracle.phi_at(flat)
        phi = every[steps.actions.ravel(), np.arange(n * k)].reshape(n, k, -1) * steps.weights[:, :, None]
        psi = self.oracle.psi_at(steps.next_states.reshape(flat.shape)).reshape(n, k, -1)
        low, high = self.oracle.reward_range
        for design, rows in zip(self.designs, phi, strict=True):
            design.matrix += rows.T @ rows
            design.refactor()  # O(d³), and the same bits after a save
        self.cross_moment += phi.transpose(0, 2, 1) @ psi
        if not self.settings.known_reward:
            self.reward_moment += np.einsum("bkd,bk->bd", phi, (steps.rewards - low) / (high - low))
        self.given.add(steps)

    def learned(self) -> Arrays:
        """Return the moments, the designs and columns, and with rare switching the plans that are being played."""
        arrays: Arrays = {
            "cross_moment": self.cross_moment,
            "reward_moment": self.reward_moment,
            "design": np.concatenate([design.matrix for design in self.designs]),
        }
        for b, columns in enumerate(self._columns):
            arrays |= {f"columns_{b}": columns.states, f"column_weights_{b}": columns.weights}
        if self.settings.switch_growth > 0.0 and self.kept is not None:
            for b, plan in enumerate(self.kept):
                arrays |= {f"kept_{b}_{name}": array for name, array in plan.data.arrays().items()}
            arrays["kept_sizes"] = self._kept_sizes
        return arrays | self.given.arrays()

    def check_learned(self, arrays: Arrays, episode: int) -> None:
        """Refuse arrays that `learned` could not have returned."""
        own, names = self.learned(), set(self._names("kept_sizes" in arrays))
        if set(arrays) != names:
            raise InvalidInput(f"the arrays must be {sorted(names)}; got {sorted(arrays)}")
        for name in _LEARNED:
            array = arrays[name]
            if array.shape != own[name].shape or array.dtype != own[name].dtype or np.abs(array).max() > 1e100:
                raise InvalidInput(f"{name} must have shape {own[name].shape} and type {own[name].dtype}")
        self._check_moments(arrays, np.array([constants.ridge for constants in self._constants]), episode)
        self.given.check(arrays, self.problem, episode * self.oracle.horizon)
        for b in range(self.n_replicas):
            self._check_columns(arrays[f"columns_{b}"], arrays[f"column_weights_{b}"])
        if "kept_sizes" in arrays:
            kept = arrays["kept_sizes"]
            if kept.shape != (self.n_replicas,) or kept.dtype != np.float64 or (kept == np.inf).any():
                raise InvalidInput("kept_sizes must be one number for each replica")
            for b in range(self.n_replicas):
                self._check_plan(_unprefixed(arrays, f"kept_{b}_"), b, episode)

    def _names(self, has_kept: bool) -> list[str]:
        """Return the names of what `learned` returns."""
        names = [*_LEARNED, *self.given.arrays()]
        for b in range(self.n_replicas):
            names += [f"columns_{b}", f"column_weights_{b}"]
            names += [f"kept_{b}_{name}" for name in PLAN_NAMES] if has_kept else []
        return [*names, "kept_sizes"] if has_kept else names

    def _check_moments(self, arrays: Mapping[str, NDArray[Any]], ridge: FloatArray, episode: int) -> None:
        """Refuse designs and moments that so many episodes cannot have."""
        features = self.problem.features
        largest = np.inf if features is None else largest_norm_sq(features.psi)
        targets = {"cross_moment": largest, "reward_moment": 1.0}
        check_regression(
            None if features is None else features.phi, ridge, arrays, targets, episode * self.oracle.horizon
        )
        if self.settings.known_reward and arrays["reward_moment"].any():
            impossible("reward_moment", "must be zero where rewards are known")

    @staticmethod
    def check_saved_sizes(settings: MatrixRLSettings, problem: Problem, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Refuse features and columns that the arrays of a file do not prove, before they are drawn."""
        d, d_psi = problem.dimensions
        for name, shape in {"design": (1, d, d), "cross_moment": (1, d, d_psi), "reward_moment": (1, d)}.items():
            if arrays[name].shape != shape:
                impossible(name, f"must have shape {shape}; got {arrays[name].shape}")
        n_saved, wanted = len(arrays["columns_0"]), settings.columns or 0
        drawn = wanted if problem.kind == "functional" else min(wanted, problem.finite_task.n_states)
        if drawn > 10 * n_saved + 1000:  # fewer are saved where the end state was drawn several times
            impossible("columns", f"must be about as many as the settings say, {wanted}; got {n_saved}")

    def _check_columns(self, states: NDArray[Any], weights: FloatArray) -> None:
        own = self._columns[0].states
        if states.ndim != own.ndim or states.shape[1:] != own.shape[1:] or states.dtype != own.dtype:
            raise InvalidInput("the columns are not states of this problem")
        if len(states) > max(len(column.states) for column in self._columns) + (self.settings.columns or 0) + 1:
            raise InvalidInput("the columns are more than the settings say")
        if weights.shape != states.shape[:1] or weights.dtype != np.float64 or not (weights > 0).all():
            raise InvalidInput("the columns and their weights do not belong together")
        count, end = self.oracle.n_states, self.oracle.end
        if count is not None and not (states.size and 0 <= states.min() <= states.max() < count):
            raise InvalidInput("the columns are not states of this problem")
        if end is not None and not np.array_equal(states[0], end):
            raise InvalidInput("the end state must be the first column")

    def _check_plan(self, arrays: Mapping[str, NDArray[Any]], b: int, episode: int) -> None:
        shapes = {
            "design": (1, self.oracle.d, self.oracle.d),
            "cross_moment": (1, self.oracle.d, self.oracle.d_psi),
            "reward_moment": (1, self.oracle.d),
            "rankings": (1, self.oracle.n_actions),
        }
        fits = set(arrays) == set(PLAN_NAMES) and all(
            arrays[name].shape == shape and arrays[name].dtype == np.float64 for name, shape in shapes.items()
        )
        clock = arrays["clock"]
        if (
            not fits
            or clock.shape != (3,)
            or clock.dtype != np.int64
            or not 1 <= clock[0] <= episode + 1
            or (clock[1:] < 0).any()
        ):
            raise InvalidInput("the plan does not fit the problem")
        if not np.array_equal(np.sort(arrays["rankings"][0]), np.arange(self.oracle.n_actions) / self.oracle.n_actions):
            raise InvalidInput("rankings must rank the actions")
        self._check_moments(arrays, np.array([self._constants[b].ridge]), episode)
        self._check_columns(arrays["columns"], arrays["column_weights"])

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        self.cross_moment, self.reward_moment = arrays["cross_moment"].copy(), arrays["reward_moment"].copy()
        self.given.restore(arrays, self.problem)
        for b, design in enumerate(self.designs):
            design.matrix = arrays["design"][b : b + 1].copy()
            try:
                design.refactor()
            except np.linalg.LinAlgError as error:
                raise ValueError("the design matrix is not positive definite") from error
        drawn = [
            self._loaded_columns(arrays[f"columns_{b}"], arrays[f"column_weights_{b}"], b)
            for b in range(self.n_replicas)
        ]
        self._columns, self._psis = [columns for columns, _ in drawn], [psi for _, psi in drawn]
        if "kept_sizes" in arrays:
            self.kept = [self._loaded_plan(_unprefixed(arrays, f"kept_{b}_"), b) for b in range(self.n_replicas)]
            self._kept_sizes = arrays["kept_sizes"].copy()

    def _loaded_columns(self, states: NDArray[Any], weights: FloatArray, b: int) -> tuple[Columns, TablePsi]:
        columns = Columns(states, weights, self._columns[b].is_all)
        return columns, sampled_psi(self.oracle, columns, pseudo=self.problem.pseudo)

    def _loaded_plan(self, arrays: Mapping[str, NDArray[Any]], b: int) -> SampledPlan:
        columns, psi = self._loaded_columns(arrays["columns"], arrays["column_weights"], b)
        return SampledPlan(self._constants[b], PlanData.from_arrays(arrays, columns, psi))

    def plan_to_arrays(self, plan: SampledPlans) -> Arrays:
        """Return what the plan of the only replica was made from."""
        return plan.plans[0].data.arrays()

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> SampledPlans:
        """Make the plan again that `plan_to_arrays` wrote."""
        self._check_plan(arrays, 0, self.episode)
        return SampledPlans([self._loaded_plan(arrays, 0)])


def _unprefixed(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Arrays:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
