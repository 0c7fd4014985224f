"""UC-MatrixRL that plans on the path: an episode costs its own states, however many there are (docs/proofs.md, 9.8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import OPTIONAL, Algorithm, Arrays
from matrixrl.algorithms.certifier import Certifier
from matrixrl.algorithms.matrix_rl.claims import MatrixRLClaims
from matrixrl.algorithms.matrix_rl.rewards import GivenRewards
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.algorithms.plug_ins import is_plug_in
from matrixrl.archive import check_arrays
from matrixrl.checks import fail
from matrixrl.compilation import to_compile
from matrixrl.core import Frame
from matrixrl.core.greedy import greedy_actions, lowest_first, random_rankings, tie_weights
from matrixrl.core.path import BestRewards, PathConfidence, PathRadii, PathTable
from matrixrl.core.sets import LikelihoodSet
from matrixrl.core.start import Start
from matrixrl.features import OneHotPhi, OneHotPsi
from matrixrl.logs import StepLog
from matrixrl.problems import Problem, Task
from matrixrl.records import BoolArray, Bounds, FloatArray, Guarantee, IntArray, Steps
from matrixrl.settings import Settings

__all__ = ["PathMatrixRL", "PathPlan", "is_large", "why_not_on_path"]

_CHUNK = 1 << 12  # states whose actions are computed together when a table is wanted
_SORTED = 100_000  # states up to which they are sorted by their rewards; beyond, some are unseen and pay the most
_LARGE = 100_000  # S·A·H from which `auto` plans on the path


@dataclass(frozen=True)
class PathPlan:
    """The plan of an episode: greedy in the upper values at hand, which no step of the episode changes.

    Attributes:
        rankings: (B, A) Rankings of the actions that break ties.
        empty: (B,) Zeros: one-hot features can represent every P.
        is_tuned: (B,) Whether it is greedy in the tuned values, which the optimism budget pays for.
    """

    rankings: FloatArray
    empty: IntArray
    is_tuned: BoolArray

    def arrays(self) -> Arrays:
        """Return the arrays of the plan by name, for saving."""
        return {"rankings": self.rankings, "empty": self.empty, "is_tuned": self.is_tuned}


class PathClaims(MatrixRLClaims):
    """What is proven about planning on the path."""

    overlap_is_proven = False

    @property
    def returns_delta(self) -> float:
        """No returns of frozen policies are counted, whose tables would have all states."""
        return 0.0

    @property
    def _proof(self) -> Guarantee:
        algorithm = self._algorithm
        return Guarantee.unless(algorithm._rewards.words()) and algorithm.confidence.guarantee

    def _certificate(self, alarmed: bool) -> Guarantee:
        del alarmed
        algorithm = self._algorithm
        return Guarantee.unless(algorithm._rewards.words()) and algorithm.confidence.certificate_guarantee

    @property
    def _model(self) -> Any:
        return self._algorithm  # which has the confidence set

    def refutation(self) -> str | None:
        """Return None: one-hot features can represent every P."""
        return None

    def bound(self, n_episodes: int, *, delay: int = 0) -> float | None:
        """Return R(N) with what the upper values can fall at the states that N episodes visit (docs/proofs.md, 9.8)."""
        found = super().bound(n_episodes, delay=delay)
        return None if found is None else found + min(self._algorithm.frame.n_states, n_episodes) * self._fall

    @property
    def _fall(self) -> float:
        """How much the values of one state can fall at all stages: Σ γ^h Σ_{k<H-h} γ^k, H(H + 1)/2 for γ = 1."""
        frame = self._algorithm.frame
        return float(frame.discount ** np.arange(frame.horizon) @ frame.lefts())

    def regret_bound(self, n_episodes: int) -> float | None:
        """Return a number that the regret of N episodes exceeds with probability at most 2δ, known before any data.

        With a budget Λ <= α (Ω + H) before the last tuned episode, which is charged with what can fall at most.
        """
        found, alpha = self.bound(n_episodes), self._algorithm.settings.optimism_budget
        if found is None or alpha == 0.0:
            return found
        both = n_episodes + self._algorithm.logged.episodes
        surplus = self._algorithm.confidence.regret_bound(both, switch_growth=0.0, path_delta=1.0)
        return float(found + alpha * (surplus + self._algorithm.frame.horizon) + self._fall)


class PathCertifier(Certifier):
    """Bounds from the states seen; a state that was not seen is worth at most what can still be earned."""

    _algorithm: PathMatrixRL

    def certify(self, plan: PathPlan, start: Start | None = None) -> Bounds:
        """Bound V*(s0) by one more backup of all states seen, and the value of the policy of a plan from below."""
        algorithm, upper, lower = self._algorithm, [], []
        chosen = algorithm._declared_start if start is None else start
        for b, table in enumerate(algorithm.tables):
            high, n = table.swept(), len(table.slots)
            ranking, is_tuned = plan.rankings[b], bool(plan.is_tuned[b])
            low = table.lower_values(partial(algorithm._greedy, ranking=ranking), is_tuned=is_tuned)
            slots = table.numbers(chosen.states)
            best = np.where(slots >= 0, high[0, slots], table.at(chosen.states, 0))
            worst = np.where(slots >= 0, low[0, slots] if n else 0.0, 0.0)
            least = float(low[0].min()) if n == algorithm.frame.n_states else 0.0
            upper.append(chosen.mean(best, float(table.tops[0][0]), sign=1.0))
            lower.append(chosen.mean(worst, least, sign=-1.0))
        task = algorithm.task
        own = task.to_own_unit(np.array(upper) + task.tail), task.to_own_unit(np.array(lower))
        return Bounds(*own, plan.empty + algorithm._rewards.alarm)

    def gaps(self, plan: PathPlan, steps: Steps, *, every: bool = False) -> FloatArray:
        """Return Σ γ^h of the gaps of actions that are not optimistic (`PathTable.gaps`), in the environment's unit.

        These are all actions of a tuned plan, and else those that are not the plan's. What a user leaves out by ending
        an episode is a gap of all that was expected. It is asked for before the steps are learned from.
        """
        algorithm, frame = self._algorithm, self._algorithm.frame
        found = np.zeros(algorithm.n_replicas)
        for b, table in enumerate(algorithm.tables):
            n = int(steps.taken[b].sum())
            states, actions, stages = steps.states[b, :n], steps.actions[b, :n], np.arange(n)
            own = algorithm._greedy(table.q(states, stages), plan.rankings[b])
            other = every | plan.is_tuned[b] | (own != actions)
            found[b] = float((frame.discount**stages * np.where(other, table.gaps(states, actions), 0.0)).sum())
            if n < frame.horizon and not steps.ended[b].any():
                found[b] += frame.discount**n * float(table.at(steps.next_states[b, n - 1 : n], n)[0])
        unit: float = algorithm.task.unit
        return unit * found

    def own_gap(self, plan: PathPlan, steps: Steps) -> float:
        """Return the gaps of an episode of the tuned plan, in the environment's unit; 0 of an optimistic one."""
        return float(self.gaps(plan, steps)[0]) if plan.is_tuned[0] else 0.0


def why_not_on_path(algorithm: Algorithm, settings: MatrixRLSettings, problem: Problem) -> str | None:
    """Return the first of what planning on the path does not serve, or None if it serves everything."""
    features, is_learned, chosen = problem.features, not settings.known_reward, settings.make_set()
    is_one_hot = features is not None and isinstance(features.phi, OneHotPhi) and isinstance(features.psi, OneHotPsi)
    reasons = {
        f"{type(algorithm).__name__}, a class of its own": is_plug_in(type(algorithm)),
        "kernels": algorithm.name != PathMatrixRL.name,
        "a problem whose states are not numbered": problem.kind != "finite",
        "known dynamics": problem.kind == "finite" and problem.finite_task.dynamics is not None,
        "declared structure": problem.kind == "finite" and problem.finite_task.structure is not None,
        "features that are not one-hot": problem.kind == "finite" and not is_one_hot,
        f"the set {settings.set!r}, which is no likelihood set": not settings.is_likelihood,
        "an incumbent": settings.incumbent is not None,
        "sampled columns": settings.columns is not None,
        "learned rewards": is_learned,
        f"drift={settings.drift!r}": settings.drift != "off",
        f"switch_growth={settings.switch_growth:g}": settings.switch_growth > 0.0
        and bool(settings.changed(["switch_growth"])),
        "ties='estimate'": settings.ties == "estimate",
        "explore_for='certificate'": settings.explore_for == "certificate",
        "a radius that is not proven, as values that fell do not rise again": (
            settings.exploration < 1.0 or (isinstance(chosen, LikelihoodSet) and chosen.tuned)
        ),
    }
    return next((reason for reason, is_so in reasons.items() if is_so), None)


def is_large(task: Task) -> bool:
    """Return whether `planner="auto"` plans on the path: S·A·H at which a sweep takes many times as long.

    >>> is_large(Task(n_states=1000, n_actions=4, horizon=20)), is_large(Task(n_states=2000, n_actions=4, horizon=20))
    (False, True)
    """
    return task.n_states * task.n_actions * task.horizon >= _LARGE


class PathMatrixRL(Algorithm):
    """UC-MatrixRL with upper values of the states seen; ``MatrixRL(planner="path")`` makes it.

    Attributes:
        confidence: Confidence set.
        best: Largest rewards of states.
        revision: Number that is raised whenever NumPy changes the tables.
        frame: Horizon, sizes and allowed actions.
    """

    name = "matrix-rl"
    settings_class: ClassVar[type[Settings]] = MatrixRLSettings
    _stream_names = ("ties",)
    _memory_names = ("_played",)
    budget = None
    _played: PathPlan | None = None  # the plan of the steps that are learned from next
    revision = 0
    _late: Callable[[], list[Arrays]] | None = None  # what compiled loops learned and nobody asked for yet
    settings: MatrixRLSettings
    task: Task
    claims: PathClaims
    certifier: PathCertifier
    _claims_class = PathClaims
    _certifier_class = PathCertifier

    def begin(self) -> None:
        """Start without data: every value is what can still be earned."""
        self.task = task = self.problem.finite_task
        self.frame = Frame(
            task.horizon,
            task.n_actions,
            task.n_states,
            task.end_state,
            (0.0 - task.reward_range[0]) / task.unit,
            allowed=self.masks.by_action,
            choices=task.choices,
            discount=task.discount,
        )
        chosen = self.settings.make_set()
        assert isinstance(chosen, LikelihoodSet)
        self.confidence = PathConfidence(
            chosen, self.frame, delta=self.claims.model_delta, exploration=self.settings.exploration
        )
        is_sorted = task.n_states <= _SORTED
        self.best = BestRewards(
            self._unit_rewards(task.reward.max(axis=1) if is_sorted else task.reward.max(keepdims=True)[0])
        )
        radii = PathRadii(self.confidence)
        alpha = self.settings.optimism_budget
        self._tables = [PathTable(self.frame, radii, self._rewards_at, self.best, alpha=alpha) for _ in self.seeds]
        self._rewards = GivenRewards(self.problem, self.n_replicas, delta=self.claims.delta, known_reward=True)

    @property
    def tables(self) -> list[PathTable]:
        """Upper values and counts of each replica."""
        self._catch_up()
        return self._tables

    def _catch_up(self) -> None:
        """Take over what compiled loops have learned, if nobody asked for it since."""
        if self._late is not None:
            late, self._late = self._late, None
            for table, arrays in zip(self._tables, late(), strict=True):
                table.load_state_dict(arrays)

    def take_later(self, arrays: Callable[[], list[Arrays]], n_episodes: int) -> None:
        """Note that compiled loops learned from episodes; what `PathTable.state_dict` returns is read when needed."""
        self._late = arrays
        self.episode += n_episodes
        self.n_plans = self.n_plans + n_episodes

    def __getstate__(self) -> dict[str, Any]:
        self._catch_up()
        return vars(self).copy()

    def _rewards_at(self, states: IntArray) -> FloatArray:
        return self._unit_rewards(self.task.reward[states])

    def _unit_rewards(self, rewards: Any) -> FloatArray:
        low, unit = self.task.reward_range[0], self.task.unit
        mapped: FloatArray = np.clip((rewards - low) / unit, 0.0, 1.0)
        return mapped

    def learn(self, steps: Steps) -> None:
        """Count the steps, and lower the values of the states that were played."""
        self.revision += 1
        for b, table in enumerate(self.tables):
            taken = steps.taken[b]
            is_tuned = self._played is not None and bool(self._played.is_tuned[b])
            of_steps = steps.states[b, taken], steps.actions[b, taken], steps.next_states[b, taken]
            table.learn(*of_steps, is_tuned=is_tuned)
        self._played = None
        self._rewards.add(steps)

    def _recall(self, plan: PathPlan) -> None:
        self._played = plan

    def update_from_log(self, log: StepLog) -> None:
        """Learn from episodes that others recorded, which are not charged."""
        self._played = None
        super().update_from_log(log)

    def plan(self) -> PathPlan:
        """Return the plan to play now."""
        plan: PathPlan = super().plan()
        self._played = plan
        return plan

    def make_plan(self) -> PathPlan:
        """Return a plan with ties broken at random."""
        return self._plan_with(random_rankings(self.streams["ties"], self.task.n_actions))

    def advice(self) -> PathPlan:
        """Return the plan that would be played next, ties to the lowest action."""
        return self._plan_with(lowest_first(self.task.n_actions, self.n_replicas))

    def _plan_with(self, rankings: FloatArray) -> PathPlan:
        """Return the tuned plan while Λ <= α (Ω + H), else the optimistic one."""
        alarms = np.zeros(self.n_replicas, dtype=np.int64) + self._rewards.alarm
        return PathPlan(rankings, alarms, np.array([self.pays(one.charged, one.earned) for one in self.tables]))

    def pays(self, charged: float, earned: float) -> bool:
        """Return whether the budget pays for the tuned plan: Λ <= α (Ω + H)."""
        alpha = self.settings.optimism_budget
        return alpha > 0.0 and charged <= alpha * (earned + self.frame.horizon)

    def _greedy(self, q: FloatArray, ranking: FloatArray) -> IntArray:
        """Return the actions that are greedy in Q (k, A), ties by a ranking (A,)."""
        return greedy_actions(q.copy(), tie_weights(ranking, self.frame.horizon), axis=1)

    def act(self, plan: PathPlan, stage: int, states: NDArray[Any], *, explore: bool = True) -> IntArray:
        """Return the actions of the plan: states (B,) → (B,)."""
        q = self.action_values(plan, stage, states, explore=explore)
        return np.array([self._greedy(q[b : b + 1], plan.rankings[b])[0] for b in range(len(q))], dtype=np.int64)

    def action_values(self, plan: PathPlan, stage: int, states: NDArray[Any], *, explore: bool = True) -> FloatArray:
        """Return the upper bounds on Q at a stage: states (B,) → (B, A)."""
        del explore
        at, each = np.array([stage]), zip(self.tables, plan.is_tuned.tolist(), strict=True)
        return np.concatenate([one.q(states[b : b + 1], at, is_tuned=tuned) for b, (one, tuned) in enumerate(each)])

    def policy_table(self, plan: PathPlan) -> IntArray:
        """Return the actions of a plan at every stage and state: (B, H, S)."""
        horizon, n_states = self.frame.horizon, self.frame.n_states
        policy = np.empty((self.n_replicas, horizon, n_states), dtype=np.min_scalar_type(self.frame.n_actions - 1))
        for b, table in enumerate(self.tables):
            for first in range(0, n_states, _CHUNK):
                states = np.arange(first, min(first + _CHUNK, n_states))
                for h in range(horizon):
                    q = table.q(states, np.full(len(states), h), is_tuned=bool(plan.is_tuned[b]))
                    policy[b, h, states] = self._greedy(q, plan.rankings[b])
        return policy

    def upper(self, plan: PathPlan, first_states: NDArray[Any] | None = None) -> FloatArray:
        """Return the upper values of the first states, in the environment's unit: (B,)."""
        del plan
        if first_states is None:
            start = self._declared_start
            unit = [float(one.at(start.states, 0) @ start.weights) for one in self.tables]
        else:
            each = zip(self.tables, np.asarray(first_states), strict=True)
            unit = [float(one.at(state[None], 0)[0]) for one, state in each]
        return self.task.to_own_unit(np.array(unit) + self.task.tail)

    @cached_property
    def _declared_start(self) -> Start:
        states = np.flatnonzero(self.task.start)
        return Start("", states, self.task.start[states])

    def use_compiled(self, wanted: bool | None, n_episodes: int | None = None) -> None:
        """Choose between compiled and NumPy episodes; they differ in the rounding of sums only.

        Episodes are compiled as a whole where P is simulated, which tells the number of episodes; an agent uses NumPy.
        """
        if wanted and n_episodes is None:
            fail(
                "compiled", "must be left out for an agent with planner='path'", wanted, "run_seeds compiles episodes."
            )
        self.compiled = wanted
        if n_episodes is not None:
            # with NumPy an episode takes about 20 µs for each stage of a state that it played
            total = max(self.episode, n_episodes)
            size = self.task.horizon * self.task.n_actions
            self.compiled = to_compile(wanted, n_episodes=total * 8, horizon=self.task.horizon, n_pairs=size)

    def learned(self) -> Arrays:
        """Return values and counts of the states seen."""
        each = [(f"path_{b}_", table.state_dict()) for b, table in enumerate(self.tables)]
        return {
            prefix + name: array for prefix, one in each for name, array in one.items()
        } | self._rewards.state_dict()

    def _check_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Refuse arrays that do not fit; the number of states seen may vary."""
        own = self.state()
        for name, array in own.items():
            if name.startswith("path_") and array.ndim and not name.endswith(("_budget", "_learned")):
                own[name] = array[..., :0]
        check_arrays(state, own, optional=OPTIONAL)

    def load_learned(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `learned` returned."""
        self.revision, self._late = self.revision + 1, None
        for b, table in enumerate(self.tables):
            prefix = f"path_{b}_"
            own = {name.removeprefix(prefix): one for name, one in arrays.items() if name.startswith(prefix)}
            table.load_state_dict(own)
        self._rewards.load_state_dict(arrays)

    def plan_from_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> PathPlan:
        """Return the plan of one replica whose `arrays` were saved."""
        like = PathPlan(np.empty((1, self.task.n_actions)), np.empty(1, dtype=np.int64), np.zeros(1, dtype=np.bool_))
        check_arrays(arrays, like.arrays())
        return PathPlan(**arrays)
