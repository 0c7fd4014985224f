"""UC-MatrixRL for B independent replicas: what is learned, planned and saved, without any protocol."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, TypedDict

import numpy as np

from matrixrl.algorithms.matrix_rl.doubling import counted, restarts
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.core import (
    SETS,
    Belief,
    BlockRadius,
    RadiusInputs,
    SetContext,
    core_matrix,
    form_belief,
    optimistic_plan,
    pessimistic_values,
    regularity,
    reward_bounds,
    reward_regularity,
)
from matrixrl.core.compiled import to_compile
from matrixrl.errors import InvalidInput
from matrixrl.features import Features
from matrixrl.interrupts import uninterrupted
from matrixrl.problems import Task
from matrixrl.records import BoolArray, FloatArray, IntArray, Plan
from matrixrl.seeding import generator, restore, state_of

__all__ = ["TIE_EXPLORATION", "MatrixRLEngine"]

TIE_EXPLORATION = 0.05
"""The share of the radius at which ties are broken, where the estimate breaks them: the exploration of `practical`."""


class _Ends(TypedDict):
    horizon: int
    end_state: int | None
    end_reward: float


class MatrixRLEngine:
    """The state of Algorithm 1 with a leading replica axis; one replica is the ordinary agent.

    Replicas share features and rewards and nothing else, so B of them cost little more than one (design 4.5).

    Args:
        task: what may be known of the problem.
        features: φ and ψ.
        settings: set, radius, exploration and the rest.
        seeds: one seed for each replica.
        compiled: plan by compiled loops (the extra `fast`): always or never; by default once the episodes that were
            played or announced pay for loading them. They differ in the rounding of sums only.
    """

    def __init__(
        self,
        task: Task,
        features: Features,
        settings: MatrixRLSettings,
        seeds: Sequence[int],
        *,
        compiled: bool | None = None,
    ) -> None:
        self.task = task
        self.compiled = compiled
        self.features = features.check(task.n_states, task.n_actions)
        self.settings = settings
        self.seeds = list(seeds)
        self.ridge = settings.ridge_for(features.phi.max_norm_sq)
        self.regularity = regularity(features, c_core=settings.c_core, ridge=self.ridge)
        self.reward_regularity = reward_regularity(features.phi, self.ridge)
        self.radius = settings.make_radius()
        self.proven_radius = BlockRadius()
        self.set = SETS[settings.set](
            SetContext(
                total=features.psi.total,
                d=features.phi.d,
                horizon=task.horizon,
                c_psi=self.regularity.c_psi,
                c_psi_columns=self.regularity.c_psi_columns,
            )
        )
        self.blocks = features.phi.blocks()
        self.episode = 0
        if compiled is not None:
            self._compiles()  # what is asked for in vain is refused now, not in the first plan
        self.plans = np.zeros(len(self.seeds), dtype=np.int64)
        self._unit_reward = np.ascontiguousarray(task.unit_reward.T)
        self._end_reward = (0.0 - task.reward_range[0]) / task.unit
        self.tie_streams = [generator(seed, "ties") for seed in self.seeds]
        self._kept: Plan | None = None
        self._kept_logdet = np.full(len(self.seeds), -np.inf)
        self._forget()

    def _forget(self) -> None:
        """Start without data (Algorithm 1, line 4)."""
        phi, psi, n_replicas = self.features.phi, self.features.psi, len(self.seeds)
        self.design = phi.design(n_replicas, self.ridge)
        self.cross_moment = np.zeros((n_replicas, phi.d, psi.d_psi))
        self.reward_moment = np.zeros((n_replicas, phi.d))

    @property
    def n_replicas(self) -> int:
        """B."""
        return len(self.seeds)

    def core(self) -> FloatArray:
        """Return M_n of every replica: (B, d, d_psi)."""
        return core_matrix(self.design, self.cross_moment, self.features.psi)

    def radius_inputs(self) -> RadiusInputs:
        """Return what the radii of the next episode depend on; δ is shared between sets and rewards."""
        episode, planned = counted(self.episode, self.settings.doubling, self.settings.n_episodes)
        shares = self.set.shares * (1 if self.settings.known_reward else 2)
        return RadiusInputs(
            regularity=self.regularity,
            horizon=self.task.horizon,
            episode=episode,
            n_episodes=planned,
            delta=self.settings.delta / shares,
            design=self.design,
            blocks=self.blocks,
        )

    def radii(self) -> tuple[FloatArray, FloatArray]:
        """Return √β_n of the set, and the √β_n that the alarm is judged with: each (B, 1) or (B, P)."""
        inputs = self.radius_inputs()
        full = self.radius(inputs)
        proven = full if isinstance(self.radius, BlockRadius) else self.proven_radius(inputs)
        chosen = self.settings.exploration * full
        return chosen, np.maximum(chosen, proven)

    def belief(self, *, proven: bool = False, share: float = 1.0, core: FloatArray | None = None) -> Belief:
        """Return M_n with the set around it.

        Args:
            proven: at the tightest proven radius, in place of the agent's.
            share: of the agent's radius.
            core: M_n, where it is at hand.
        """
        if proven:
            radius = alarm_radius = self.proven_radius(self.radius_inputs())
        else:
            radius, alarm_radius = self.radii()
            radius = share * radius
        return form_belief(
            self.features.phi,
            self.features.psi,
            self.set,
            self.design,
            self.core() if core is None else core,
            radius,
            alarm_radius,
        )

    def rewards(self, *, proven: bool = False, share: float = 1.0) -> tuple[FloatArray, FloatArray]:
        """Return upper and lower bounds on unit rewards: (A, S) if known, else (B, A, S)."""
        if self.settings.known_reward:
            return self._unit_reward, self._unit_reward
        inputs = replace(self.radius_inputs(), regularity=self.reward_regularity)
        scale = 1.0 if proven else share * self.settings.exploration
        radius = scale * (self.proven_radius if proven else self.radius)(inputs)
        return reward_bounds(self.features.phi, self.design, self.reward_moment, radius)

    def next_plan(self) -> Plan:
        """Return the plan to play now: a new one where it is due, the last one elsewhere (design 4.3)."""
        growth = self.settings.switch_growth
        if restarts(self.episode, self.settings.doubling):
            self._forget()
            self._kept_logdet[:] = -np.inf
        if growth == 0.0:
            self.plans += 1
            return self.plan()
        logdet = self.design.logdet
        due = logdet >= self._kept_logdet + math.log1p(growth)
        if due.any():
            fresh = self.plan(due=due)
            if self._kept is None or due.all():
                self._kept = fresh
            else:
                keep = self._kept
                self._kept = Plan(
                    policy=np.where(due[:, None, None], fresh.policy, keep.policy),
                    values=np.where(due[:, None, None], fresh.values, keep.values),
                    empty=np.where(due, fresh.empty, keep.empty),
                )
            self._kept_logdet = np.where(due, logdet, self._kept_logdet)
            self.plans += due
        assert self._kept is not None
        return self._kept

    def plan(self, *, break_ties_at_random: bool = True, due: BoolArray | None = None) -> Plan:
        """Return the optimistic plan for the data at hand (Algorithm 1, line 6).

        One random ranking of the actions for each plan and replica breaks all its ties; without it the lowest
        action wins and no random stream moves.

        Args:
            break_ties_at_random: whether replicas draw their ranking.
            due: (B,) which replicas draw one; all by default.
        """
        priority = self._no_ties()
        if break_ties_at_random:
            for b, rng in enumerate(self.tie_streams):
                if due is None or due[b]:
                    priority[b] = rng.permutation(self.task.n_actions) / self.task.n_actions
        most, _ = self.rewards()
        core = self.core()
        return self._optimistic_plan(self.belief(core=core), most, priority, self._preference(core))

    def _preference(self, core: FloatArray) -> FloatArray | None:
        """Return what breaks ties before chance does: Q in [0, H] of a plan that is hardly optimistic, (B, H, A, S)."""
        if self.settings.ties == "random":
            return None
        task = self.task
        q = np.empty((self.n_replicas, task.horizon, task.n_actions, task.n_states))
        most, _ = self.rewards(share=TIE_EXPLORATION)
        self._optimistic_plan(self.belief(share=TIE_EXPLORATION, core=core), most, self._no_ties(), q_out=q)
        return np.clip(q, 0.0, float(task.horizon), out=q)

    def _optimistic_plan(
        self,
        belief: Belief,
        unit_reward: FloatArray,
        priority: FloatArray,
        preference: FloatArray | None = None,
        q_out: FloatArray | None = None,
    ) -> Plan:
        return optimistic_plan(
            belief,
            unit_reward=unit_reward,
            priority=priority,
            compiled=self._compiles(),
            preference=preference,
            q_out=q_out,
            **self._ends(),
        )

    def _compiles(self) -> bool:
        """Say whether the next plan is compiled; it follows from what is saved with an agent, also after loading."""
        return to_compile(
            self.compiled,
            n_episodes=max(self.episode, self.settings.n_episodes or 0),
            horizon=self.task.horizon,
            n_pairs=self.task.n_states * self.task.n_actions,
        )

    def upper(self, plan: Plan, start: FloatArray | None = None) -> FloatArray:
        """Return the optimistic value of the start (the task's, or another one) in its own unit: (B,)."""
        return self.task.to_own_unit(plan.values[:, 0] @ (self.task.start if start is None else start))

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven for these settings, else why not."""
        return self.settings.guarantee

    def certificate_guarantee(self, alarmed: bool) -> Literal[True] | str:
        """True if a certificate holds with probability 1 − δ, else why not."""
        return self.settings.certificate_guarantee(alarmed)

    def start_at(self, state: int | None) -> FloatArray:
        """Return where episodes start, as a distribution (S,): at the state, or where the task says if None."""
        if state is None:
            return self.task.start
        start = np.zeros(self.task.n_states)
        start[state] = 1.0
        return start

    def certify(self, plan: Plan, start: FloatArray | None = None) -> tuple[FloatArray, FloatArray, IntArray]:
        """Bound V*(s0) from above and V^π(s0) from below at the tightest proven radius (design 4.2).

        It holds for any data, however they were collected, so a tuned agent has a proven certificate too.

        Args:
            plan: its policy is the one that is bounded from below.
            start: (S,) where episodes start; as the task says by default.

        Returns:
            Upper bounds (B,), lower bounds (B,), and how many pairs raise the alarm (B,).
        """
        belief = self.belief(proven=True)
        most, least = self.rewards(proven=True)
        best = self._optimistic_plan(belief, most, self._no_ties())
        values = pessimistic_values(belief, plan.policy, unit_reward=least, **self._ends())
        where = self.task.start if start is None else start
        return self.upper(best, where), self.task.to_own_unit(values[:, 0] @ where), belief.empty

    def _no_ties(self) -> FloatArray:
        """Return the ranking in which the lowest action wins: (B, A)."""
        ranks = np.arange(self.task.n_actions)[::-1] / self.task.n_actions
        return np.tile(ranks, (self.n_replicas, 1))

    def _ends(self) -> _Ends:
        return {
            "horizon": self.task.horizon,
            "end_state": self.task.end_state,
            "end_reward": self._end_reward,
        }

    def update(
        self,
        states: IntArray,
        actions: IntArray,
        next_states: IntArray,
        weights: FloatArray,
        rewards: FloatArray,
    ) -> None:
        """Learn from one episode (lines 11, 12).

        Args:
            states: (B, k).
            actions: (B, k).
            next_states: (B, k).
            weights: (B, k); 0 marks a step not taken.
            rewards: (B, k) in the environment's unit; only used where rewards are unknown.
        """
        pairs = self.features.phi.pairs(states, actions)
        with uninterrupted():
            self.design.update(pairs, weights)
            self.features.phi.accumulate(self.cross_moment, self.features.psi, pairs, next_states, weights)
            if not self.settings.known_reward:
                unit = (rewards - self.task.reward_range[0]) / self.task.unit
                self.features.phi.accumulate_rewards(self.reward_moment, pairs, unit * weights)
            self.episode += 1

    def arrays(self) -> dict[str, FloatArray]:
        """Return the learned arrays, for saving."""
        arrays = {
            "cross_moment": self.cross_moment,
            "reward_moment": self.reward_moment,
            "plans": self.plans.astype(np.float64),
            **self.design.arrays(),
        }
        if self.settings.switch_growth > 0.0:
            shape = (self.n_replicas, self.task.horizon, self.task.n_states)
            kept = self._kept or Plan(
                np.zeros(shape), np.zeros((shape[0], shape[1] + 1, shape[2])), np.zeros(self.n_replicas)
            )
            arrays |= {
                "kept_policy": kept.policy.astype(np.float64),
                "kept_values": kept.values,
                "kept_empty": kept.empty.astype(np.float64),
                "kept_logdet": np.where(np.isfinite(self._kept_logdet), self._kept_logdet, -1.0),
            }
        return arrays

    def check_arrays(self, arrays: dict[str, FloatArray]) -> None:
        """Refuse arrays that `arrays` of this engine could not have returned."""
        for name, own in self.arrays().items():
            if arrays[name].shape != own.shape or arrays[name].dtype != own.dtype:
                raise InvalidInput(f"{name} must have shape {own.shape} and type {own.dtype}")

    def restore_arrays(self, arrays: dict[str, FloatArray]) -> None:
        """Take back what `arrays` returned."""
        self.cross_moment = arrays["cross_moment"]
        self.reward_moment = arrays["reward_moment"]
        self.plans = arrays["plans"].astype(np.int64)
        self.design.restore(arrays)
        if self.settings.switch_growth > 0.0 and (arrays["kept_logdet"] >= 0.0).all():
            policy = arrays["kept_policy"].clip(0, self.task.n_actions - 1)
            self._kept = Plan(
                policy=policy.astype(np.min_scalar_type(self.task.n_actions - 1)),
                values=arrays["kept_values"],
                empty=arrays["kept_empty"].astype(np.int64),
            )
            self._kept_logdet = arrays["kept_logdet"]

    def planning_state(self) -> tuple[Any, ...]:
        """Return what planning changes, so that an episode that is abandoned leaves no trace."""
        return self.random_states(), self._kept, self._kept_logdet.copy(), self.plans.copy()

    def restore_planning(self, state: tuple[Any, ...]) -> None:
        """Take back what `planning_state` returned."""
        ties, self._kept, self._kept_logdet, self.plans = state
        self.restore_random_states(ties)

    def random_states(self) -> list[dict[str, Any]]:
        """Return the state of every replica's tie-breaking stream."""
        return [state_of(rng) for rng in self.tie_streams]

    def restore_random_states(self, states: Sequence[object]) -> None:
        """Take back what `random_states` returned."""
        for rng, state in zip(self.tie_streams, states, strict=True):
            restore(rng, state)
