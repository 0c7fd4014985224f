"""The player of compiled episodes: MatrixRL with balls around M_n, or with likelihood sets, on one-hot pairs.

It plays the same algorithm with the same random streams as the loops in NumPy, without Python in between.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.special import gammaln

from matrixrl.algorithms import Algorithm, UCMatrixRL
from matrixrl.algorithms.matrix_rl.algorithm import KeptPlan
from matrixrl.algorithms.matrix_rl.budget import PlanChoice
from matrixrl.algorithms.matrix_rl.kernel import FiniteKernelMatrixRL
from matrixrl.checks import fail
from matrixrl.core import Level
from matrixrl.core.confidence import TIE_EXPLORATION, TUNED_EXPLORATION
from matrixrl.core.greedy import tie_weights
from matrixrl.core.models import CountModel, RidgeModel
from matrixrl.core.sets import LIKELIHOOD_SETS
from matrixrl.core.sets.base import split_forms
from matrixrl.linalg import OutcomeCounts
from matrixrl.play.compiled.arrays import Balls, Budget, Data, Kept, KLBalls, Lists, Played, World
from matrixrl.play.results import Chunk
from matrixrl.problems import FiniteMDP, OutcomeMDP
from matrixrl.records import FloatArray, IntArray, Plan
from matrixrl.tolerances import TIE

__all__ = ["CompiledPlayer", "radius_tables", "why_not_compiled"]

_LARGEST = 1 << 30  # bytes of a table
_FEW = 64  # states; beyond them a dense P is faster as one matrix product
_SPARSE = 8
_LEVELS: tuple[Level, ...] = ("agent", "ties", "tuned", "proven")
_NO_RADIUS = 1e-200  # a factor of radii that is taken for 0; 0 times an infinite radius would not be a number
_AHEAD = 8  # episodes that lists get room for at once: a call of the loops takes 0.1 ms before it plays any
_KEPT = 1 << 16  # numbers of visits and outcomes for which parts of the radius are kept, because many pairs share them
_MOST_KEPT = 64  # outcomes among them


def _loops(module: str) -> Any:
    """Return a module of loops; importing numba takes half a second, compiling the first time ten."""
    return importlib.import_module(f"matrixrl.play.compiled.{module}")


@cache
def _log_gammas() -> FloatArray:
    """Return ln Γ(i/2) at i; counts beyond the table take the function, which is ten times as slow."""
    halves: FloatArray = gammaln(0.5 * np.arange(_KEPT))
    return halves


def radius_tables(n_states: int) -> dict[str, FloatArray]:
    """Return the tables of `KLBalls` that radii β_D are made of."""
    most = min(n_states, _MOST_KEPT) + 1
    return {"priors": np.zeros((_KEPT // most, most, 4)), "log_gammas": _log_gammas()}


def why_not_compiled(mdp: FiniteMDP | None, algorithm: Algorithm, n_episodes: int) -> str | None:
    """Return why whole episodes are not compiled, or None if they are."""
    if mdp is None:
        return "P is not known"
    if isinstance(mdp, OutcomeMDP):
        return "next states and rewards follow from outcomes, which compiled episodes do not draw"
    if not isinstance(algorithm, UCMatrixRL):
        return "only matrix-rl with all its columns has compiled episodes"
    if mdp.task.reward_bounds is not None:
        return "pairs have ranges of rewards of their own"
    model = algorithm.model
    for own, compiled in ((algorithm, (UCMatrixRL, FiniteKernelMatrixRL)), (model, (CountModel, RidgeModel))):
        if type(own) not in compiled:
            return _overrides(own)
    if algorithm.settings.explore_for == "certificate":
        return "episodes that explore for a certificate are not compiled"
    if algorithm.loss_budget is not None:
        return "episodes with an incumbent and a loss budget are not compiled"
    if isinstance(model, RidgeModel):
        if algorithm.budget is not None:
            return 'an optimism budget is not compiled with balls (preset="optimistic" is)'
        if algorithm.settings.switch_growth > 0.0:
            return "rare switching is not compiled with balls"
        reason = model.why_not_by_visits(algorithm.settings.n_episodes)
        if reason is not None:
            return reason
    width = mdp.transitions.most_successors()
    if width is None:
        return "P is not given as a table"
    if isinstance(model, CountModel):
        if type(model.likelihood_set) not in LIKELIHOOD_SETS.values():
            return _overrides(model.likelihood_set)
        if model.declared is not None and model.declared.successors is not None:
            return "successors are declared, and compiled episodes take the best of all states"
        return None if model.pair_counts is None else "pairs share groups, or next states a latent one"
    if n_episodes * mdp.horizon * (len(algorithm.model.confidence.set.members) + 1) * 8 > _LARGEST:
        return "the table of half-widths by visits could become larger than 1 GB"
    if mdp.n_states > _FEW and width * _SPARSE > mdp.n_states:
        return f"P is dense ({width} of {mdp.n_states} states can follow a pair): a matrix product is faster"
    if algorithm.n_replicas * width * mdp.n_states * mdp.n_actions * 12 > _LARGEST:
        return "the table of successors would be larger than 1 GB"
    return None


def _overrides(own: object) -> str:
    return f"{type(own).__name__} may override methods that compiled episodes do not call"


class CompiledPlayer:
    """Plays the replicas of an algorithm for which `why_not_compiled` returns None.

    The algorithm has what they learned after each chunk of episodes.

    Args:
        mdp: The MDP that is played.
        algorithm: The algorithm, started on the MDP.
        regret: V*(s0), and the number of episodes from one in which regret is measured to the next; None to measure
            none.
        certify: Whether to certify every episode.
    """

    def __init__(
        self, mdp: FiniteMDP, algorithm: Any, regret: tuple[float, int] | None, *, certify: bool = False
    ) -> None:
        self._mdp, self._algorithm, self._certify = mdp, algorithm, certify
        self._prefers = algorithm.settings.ties == "estimate"
        successors = mdp.transitions.successors()
        assert successors is not None
        self._successors = successors
        self._world = self._make_world(*(regret or (0.0, 0)))
        self._revision = -1  # of the model whose data the following arrays hold
        self._data: Data
        self._law: Lists
        self._joint: Lists
        self._bounds: Balls | KLBalls
        self._kept: Kept
        self._budget: Budget

    def prepare(self) -> None:
        """Load the loops, or compile them if they are not cached, by playing no episode at all."""
        n_replicas = self._algorithm.n_replicas
        ranks = np.zeros((n_replicas, 0, self._mdp.n_actions), dtype=np.int64)
        uniforms = np.zeros((n_replicas, 0, self._mdp.draws_per_episode))
        self._run(ranks, uniforms, certifies=self._certify)
        lists = _loops("lists")
        lists.make_room(self._law, 0, has_extras=False)
        lists.read_lists(self._law, self._mdp.n_states)

    def play(self, streams: Sequence[np.random.Generator], count: int) -> Chunk:
        """Play and learn `count` episodes in every replica."""
        task = self._mdp.task
        ranking, ties = np.tile(np.arange(task.n_actions), (count, 1)), self._algorithm.streams["ties"]
        before = [rng.bit_generator.state for rng in ties]
        ranks = np.stack([rng.permuted(ranking, axis=1) for rng in ties])
        uniforms = np.stack([rng.random((count, self._mdp.draws_per_episode)) for rng in streams])
        played = self._run(ranks, uniforms, certifies=self._certify)
        for rng, state, used in zip(ties, before, self._plans_made(count), strict=True):
            if used < count:  # rankings are drawn for plans only
                rng.bit_generator.state = state
                rng.permuted(ranking[:used], axis=1)
        return Chunk(
            states=played.states[:, :, :-1],
            actions=played.actions,
            regret=played.regret,
            returns=played.returns,
            lengths=played.lengths,
            upper=task.to_own_unit(played.upper + task.tail),
            alarms=np.zeros(played.upper.shape, dtype=np.bool_),
            certified=self._certified(played),
        )

    def _plans_made(self, count: int) -> IntArray:
        """Return the number of plans that each replica made in so many episodes."""
        del count
        made: IntArray = self._kept.n_plans
        return made

    def certify_advice(self) -> tuple[FloatArray, FloatArray]:
        """Return, for each replica, upper and lower bound of the policy that all data advise: each (B,)."""
        n_replicas, n_actions = self._algorithm.n_replicas, self._mdp.n_actions
        lowest_first = np.tile(np.arange(n_actions)[::-1], (n_replicas, 1, 1))
        played = self._run(lowest_first, np.zeros((n_replicas, 1, 0)), certifies=True, learns=False)
        own = self._certified(played)[:, 0]
        return own[:, 1], own[:, 0]

    def _certified(self, played: Played) -> FloatArray:
        """Return certificates (B, n, 2) in the environment's unit; steps that are cut off may earn all or nothing."""
        task = self._mdp.task
        return task.to_own_unit(played.certified + np.array([0.0, task.tail]))

    def _run(self, ranks: IntArray, uniforms: FloatArray, *, certifies: bool, learns: bool = True) -> Played:
        """Run the loops for ranks (B, n, A) of actions and uniforms (B, n, D)."""
        task, algorithm, (n_replicas, count, n_actions) = self._mdp.task, self._algorithm, ranks.shape
        shape = (n_replicas, count)
        played = Played(
            states=np.zeros((*shape, task.horizon + 1), dtype=np.int64),
            actions=np.zeros((*shape, task.horizon), dtype=np.int64),
            regret=np.full(shape, np.nan),
            returns=np.zeros(shape),
            lengths=np.zeros(shape, dtype=np.int64),
            upper=np.zeros(shape),
            certified=np.full((*shape, 2), np.nan),
        )
        tie_break = tie_weights(ranks / n_actions, task.horizon, has_preference=self._prefers)
        if self._revision != algorithm.model.revision:
            self._take_over(count)
        elif isinstance(self._bounds, Balls) and self._most_visits(count) >= self._bounds.by_visits.shape[2]:
            self._bounds = self._make_bounds(certifies=self._certify, n_episodes=count)
        self._revision = -1  # of data that are being changed: after a failure they are taken over again
        bounds = self._bounds if learns else self._make_bounds(certifies=certifies)
        kept = self._kept if learns else self._new_kept()
        budget = self._budget if learns else self._take_budget()
        kept.n_plans[:] = 0
        kinds = (bounds, None) if isinstance(bounds, Balls) else (None, bounds)
        weight, at = TIE if self._prefers else 0.0, np.zeros(2, dtype=np.int64)
        options = (tie_break, uniforms, weight, certifies, learns, algorithm.episode, at, played)
        lists = _loops("lists")
        while not _loops("episodes").play_episodes(
            self._world, self._data, self._law, self._joint, *kinds, kept, budget, *options
        ):
            self._law = lists.make_room(self._law, _AHEAD * task.horizon, has_extras=False)
            self._joint = lists.make_room(self._joint, _AHEAD * 2 * task.horizon, has_extras=True)
        if learns and count > 0:
            self._give_back(count)
        self._revision = algorithm.model.revision
        return played

    def _make_world(self, optimal_value: float, every: int) -> World:
        mdp, task, successors = self._mdp, self._mdp.task, self._successors
        low, high = task.reward_range
        start_cdf = np.cumsum(task.start)
        return World(
            lists=successors.firsts.astype(np.uint64),
            following=successors.states.astype(np.uint32),
            chance=successors.chance,
            cdf=successors.cdf,
            start=task.start,
            start_cdf=start_cdf / start_cdf[-1],
            reward=np.ascontiguousarray(task.reward.T).ravel(),
            pays=np.ascontiguousarray(task.unit_reward.T).ravel(),
            low=float(low),
            high=float(high),
            noisy=mdp.noisy_rewards,
            end_state=-1 if task.end_state is None else int(task.end_state),
            end_values=self._algorithm.frame.end_values(),
            discount=task.discount,
            choices=self._algorithm.frame.choices,
            optimal_value=optimal_value - task.tail * task.reward_range[0],
            every=every,
            ones=np.ones(mdp.n_states),
        )

    def _new_kept(self) -> Kept:
        """Return room for the plans that are being played, before the first of them."""
        task, n = self._mdp.task, self._algorithm.n_replicas
        return Kept(
            policy=np.zeros((n, task.horizon, task.n_states), dtype=np.int32),
            values=np.zeros((n, task.horizon + 1, task.n_states)),
            visits=np.full(self._data.visits.shape, -1, dtype=np.int64),
            due=np.ones(n, dtype=np.bool_),
            upper=np.zeros(n),
            regret=np.zeros(n),
            measured=np.zeros(n, dtype=np.bool_),
            n_plans=np.zeros(n, dtype=np.int64),
            growth=self._algorithm.settings.switch_growth,
        )

    def _take_over(self, n_episodes: int) -> None:
        """Copy what the algorithm has learned into lists that can grow, with bounds for so many more episodes."""
        algorithm, model, n = self._algorithm, self._algorithm.model, self._algorithm.n_replicas
        joint, paid, learns_reward = None, np.zeros((n, 1)), not algorithm.model.confidence.known_reward
        if isinstance(model, CountModel):
            counts, joint, paid, sums = model.counts, model.joint, model.levels.values, model.reward_sums
            shape = (n, model.n_rows)
        else:
            assert isinstance(model, RidgeModel)
            moment, sums = model.cross_moment, model.reward_moment
            shape, codes = moment.shape[:2], np.flatnonzero(moment)
            counts = OutcomeCounts(*moment.shape)
            counts.take(codes, moment.ravel()[codes])
        self._refuse_impossible(counts)
        lists = _loops("lists")
        self._law = lists.lists_of(counts, n, None)
        self._joint = lists.lists_of(joint, n, None if joint is None else paid)
        self._data = Data(
            visits=counts.totals().astype(np.int64),
            learns_reward=learns_reward,
            reward_sums=sums.copy(),
            paid=np.where(np.isnan(paid), -1.0, paid),
            ranks=np.argsort(paid, axis=1, kind="stable"),
            n_paid=np.isfinite(paid).sum(axis=1),
            changed=np.zeros(shape, dtype=np.int64),
            n_changed=np.zeros(n, dtype=np.int64),
            is_changed=np.zeros(shape, dtype=np.bool_),
        )
        self._bounds = self._make_bounds(certifies=self._certify, n_episodes=n_episodes)
        self._kept = self._new_kept()
        self._budget = self._take_budget()
        plan, visits = algorithm.kept.plan, algorithm.kept.sizes
        if visits is not None:
            self._kept.policy[:], self._kept.values[:], self._kept.visits[:] = plan.policy, plan.values, visits
            self._kept.upper[:] = [float(np.dot(values[0], self._mdp.task.start)) for values in plan.values]
            self._kept.due[:] = model.has_grown(model.size(), visits).any(axis=1)
            if isinstance(plan, PlanChoice):
                self._budget.tuned[:], self._budget.lack[:] = plan.tuned, plan.lack
                assert algorithm.budget is not None
                of_this_plan = (plan.made == algorithm.budget.made)[:, None, None]
                self._budget.turns[of_this_plan & ~np.isnan(self._budget.widths)] = 0

    def _take_budget(self) -> Budget:
        """Copy what the optimism budget knows, and make room for the tuned plans."""
        rule, task, n = self._algorithm.budget, self._mdp.task, self._algorithm.n_replicas
        n_states = 0 if rule is None else task.n_states

        widths = np.zeros((n, 0, 0))
        if rule is not None and rule.widths.size:
            widths = rule.widths.reshape(n, task.horizon, -1).copy()

        def one_tie(has_preference: bool) -> Any:
            return tie_weights(np.ones((1, 1)), task.horizon, has_preference=has_preference)[0, 0]

        return Budget(
            alpha=0.0 if rule is None else rule.alpha,
            declares_start=task.start_is_declared,
            lefts=self._algorithm.frame.lefts(),
            tie_scale=float(one_tie(False) / one_tie(self._prefers)),
            charged=np.zeros(n) if rule is None else rule.charged.copy(),
            earned=np.zeros(n) if rule is None else rule.earned.copy(),
            first_states=np.zeros((n, n_states), dtype=np.bool_) if rule is None else rule.first_states.copy(),
            tuned=np.zeros((n, task.horizon if n_states else 0, n_states), dtype=np.int32),
            lack=np.zeros((n, n_states)),
            is_tuned=np.zeros(n, dtype=np.bool_),
            turn=np.zeros(n, dtype=np.int64),
            widths=widths,
            turns=np.full(widths.shape, -1, dtype=np.int64),
        )

    def _refuse_impossible(self, counts: OutcomeCounts) -> None:
        """Refuse data that this P could not have produced: they come from another MDP."""
        seen, mdp = counts.seen, self._mdp
        actions, states = np.divmod(seen.ids[seen.places] % counts.n_rows, mdp.n_states)
        wrong = np.flatnonzero(~self._successors.contain(states * mdp.n_actions + actions, seen.outcomes))
        if len(wrong):
            first = wrong[0]
            step = f"state {states[first]}, action {actions[first]}, next state {seen.outcomes[first]}"
            fail("what was learned", "must come from this MDP", step, "Go on in the MDP that it was learned in.")

    def _most_visits(self, n_episodes: int) -> int:
        """Return the largest number of visits of a pair after so many more episodes."""
        return int(self._data.visits.max()) + n_episodes * self._mdp.horizon

    def _make_bounds(self, *, certifies: bool, n_episodes: int = 0) -> Balls | KLBalls:
        """Return the bounds of all pairs at the levels of the radius that are used, for so many more episodes."""
        has_budget = self._algorithm.budget is not None
        levels = [0, *[1] * self._prefers, *[2] * has_budget, *[3] * (certifies or has_budget)]
        make = self._kl_balls if isinstance(self._algorithm.model, CountModel) else self._balls
        bounds = make(levels, n_episodes)
        kinds = (bounds, None) if isinstance(bounds, Balls) else (None, bounds)
        _loops("bounds").refresh_all(self._data, self._law, self._joint, *kinds, self._mdp.n_states)
        if (
            self._algorithm.frame.allowed is not None
        ):  # no plan has pairs with −∞; their visits stay 0, so it is never changed
            bounds.most[..., ~self._algorithm.frame.allowed.ravel()] = -np.inf
        return bounds

    def _balls(self, levels: list[int], n_episodes: int) -> Balls:
        algorithm, (n, n_pairs) = self._algorithm, self._data.visits.shape
        model, members, width = algorithm.model, algorithm.model.confidence.set.members, self._successors.most
        assert isinstance(model, RidgeModel)
        most = self._most_visits(n_episodes)
        size = most + most // 4 + 1  # a quarter more than needed: growing is rare, and memory is not twice as large
        tables = [algorithm.model.confidence.half_widths(size, algorithm.clock, _LEVELS[level]) for level in levels]
        centre, norm, constant = split_forms(members)
        reward = np.tile(algorithm.task.unit_reward.T.ravel(), (len(levels), n, 1))
        return Balls(
            centre=centre,
            norm=norm,
            constant=constant,
            is_normalised=algorithm.model.confidence.set.is_normalised,
            ridge=model.ridge,
            by_visits=np.stack([half_width for half_width, _ in tables]),
            reward_by_visits=np.stack([of_rewards for _, of_rewards in tables]),
            half_width=np.zeros((len(levels), n, len(members), n_pairs)),
            slack=np.zeros((n, n_pairs)),
            successors=np.zeros((n, width, n_pairs), dtype=np.uint32),
            shares=np.zeros((n, width, n_pairs)),
            widest=np.zeros(n, dtype=np.int64),
            most=reward,
            least=reward[0].copy(),
        )

    def _kl_balls(self, levels: list[int], n_episodes: int) -> KLBalls:
        del n_episodes  # nothing is tabulated by visits
        confidence, (n, n_pairs) = self._algorithm.model.confidence, self._data.visits.shape
        parts, learns, certifies = confidence.parts, self._data.learns_reward, levels[-1] == 3
        own = confidence.exploration**2
        scales = np.array([own, own * TIE_EXPLORATION**2, TUNED_EXPLORATION**2, 1.0])
        reward = np.tile(self._algorithm.unit_reward.ravel(), (n, 1))
        ones = np.ones((len(levels), n, n_pairs))
        return KLBalls(
            levels=np.array(levels),
            scales=scales * (_NO_RADIUS if confidence.deterministic else 1.0),
            log_all=confidence.log_events(parts.all_functions),
            log_optimal=confidence.log_targets() if confidence.targeted else math.inf,
            log_rewards=confidence.log_events(parts.rewards) if learns else math.inf,
            tuned=confidence.tuned,
            **radius_tables(self._mdp.n_states),
            upper=ones,
            lower=np.ones((n, n_pairs if certifies else 0)),
            joint=ones.copy() if learns else ones[:, :, :0],
            top=ones.copy(),
            no_top=np.full((n, n_pairs), np.inf),
            most=ones.copy() if learns else np.tile(reward, (len(levels), 1, 1)),
            least=(np.zeros_like(reward) if learns else reward)[:, : n_pairs if certifies else 0],
        )

    def _give_back(self, n_episodes: int) -> None:
        """Copy what the loops have learned into the algorithm."""
        algorithm, model, data, kept = self._algorithm, self._algorithm.model, self._data, self._kept
        codes, times = _loops("lists").read_lists(self._law, self._mdp.n_states)
        if not isinstance(model, CountModel):
            assert isinstance(model, RidgeModel)
            with model.editing_visits() as visits:
                visits.counts[:], visits.rewards[:] = data.visits, data.reward_sums
                visits.transitions.reshape(-1)[codes] = times
            algorithm.episode += n_episodes
            algorithm.n_plans = algorithm.n_plans + n_episodes
            return
        (n, n_pairs), joint = data.visits.shape, None
        counts = OutcomeCounts(n, n_pairs, self._mdp.n_states)
        counts.take(codes, times)
        if model.joint is not None:
            joint = OutcomeCounts(n, n_pairs, model.joint.n_outcomes)
            joint.take(*_loops("lists").read_lists(self._joint, model.joint.n_outcomes))
        levels = np.where(data.paid < 0.0, np.nan, data.paid)
        model.take(counts, joint, levels=levels, reward_sums=data.reward_sums.copy())
        algorithm.episode += n_episodes
        algorithm.n_plans = algorithm.n_plans + kept.n_plans
        budget, dtype = self._budget, np.min_scalar_type(self._mdp.n_actions - 1)
        if algorithm.budget is not None:
            rule = algorithm.budget
            rule.charged, rule.earned = budget.charged.copy(), budget.earned.copy()
            rule.first_states = budget.first_states.copy()
            if kept.growth > 0.0:
                rule.made = algorithm.n_plans.copy()
                known = budget.turns == budget.turn[:, None, None]
                rule.widths = np.where(known, budget.widths, np.nan).reshape(rule.widths.shape)
        if kept.growth > 0.0:
            made = kept.policy.astype(dtype), kept.values.copy(), np.zeros(len(kept.n_plans), dtype=np.int64)
            plan = Plan(*made)
            if algorithm.budget is not None:
                plan = PlanChoice(*made, budget.tuned.astype(dtype), budget.lack.copy(), algorithm.n_plans)
            algorithm.kept = KeptPlan(plan, kept.visits.astype(np.float64))
