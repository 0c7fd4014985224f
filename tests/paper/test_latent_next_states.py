"""docs/proofs.md, 9.7: indicator features φ with any ψ, and latent next states that ψ reveals.

States with parallel ψ are observations of one latent state. Bounds are compared with those of the same algorithm on the
MDP of latent states, and with a convex solver over laws of the observations; the alarm is summed over all sequences.
"""

from __future__ import annotations

import itertools

import cvxpy
import numpy as np
import pytest
from scipy import sparse

from matrixrl import Agent, Features, FiniteMDP, MatrixRL, run_seeds
from matrixrl.algorithms import UCMatrixRL
from matrixrl.core.likelihood.radii import log_shared_law_ratio
from matrixrl.core.models import CountModel
from matrixrl.features import LatentPsi, OneHotPsi, SparsePsi, TablePhi, TablePsi, latent_psi
from matrixrl.linalg import SeenRows
from matrixrl.problems import Problem, tabular
from tolerances import ALGEBRA, EXACT, SOLVER

LATENT = np.array([1, 0, 2, 0, 1, 3, 0, 2, 3])  # latent state of each of nine observations
S, Z, A, H = len(LATENT), 4, 2, 5


def problems(seed: int = 0) -> tuple[FiniteMDP, FiniteMDP, np.ndarray]:
    """Return an MDP, the same one seen through observations, and P(s'|z) (Z, S).

    ψ(s') is P(s'|z) times a row of a random matrix, so its directions are no unit vectors.
    """
    rng = np.random.default_rng(seed)
    inner = tabular(n_states=Z, n_actions=A, horizon=H, seed=seed).mdp
    chances = rng.random((Z, S)) * (np.arange(Z)[:, None] == LATENT)
    chances /= chances.sum(axis=1, keepdims=True)
    law = inner.transitions.rows(np.repeat(np.arange(Z), A), np.tile(np.arange(A), Z)).reshape(Z, A, Z)
    phi = np.einsum("sz,ab->sazb", np.eye(Z)[LATENT], np.eye(A)).reshape(S, A, Z * A)
    features = Features(TablePhi(phi), TablePsi(chances.T @ rng.standard_normal((Z, Z))))
    start = chances[0]
    seen = FiniteMDP((law @ chances)[LATENT], inner.task.reward[LATENT], H, start=start, features=features)
    return FiniteMDP(law, inner.task.reward, H, start=np.eye(Z)[0]), seen, chances


def learners(steps: int, **settings) -> tuple[UCMatrixRL, UCMatrixRL, np.ndarray]:
    """Return the algorithm on both MDPs after the same steps, seen as latent states and as observations."""
    inner, seen, chances = problems()
    rng = np.random.default_rng(steps)
    pair = rng.integers(A, size=(1, steps)), rng.integers(S, size=(1, steps))
    laws = seen.transitions.rows(pair[1][0], pair[0][0])
    following = np.array([[rng.choice(S, p=law) for law in laws]])
    rewards = np.round(rng.random((1, steps)), 1)
    found = []
    for mdp, of_state in ((inner, LATENT), (seen, np.arange(S))):
        learner = UCMatrixRL(**settings).start(Problem.of(mdp), [0])
        pairs = pair[0] * mdp.n_states + of_state[pair[1]]
        learner.model.update(pairs, of_state[following], rewards, np.ones((1, steps)))
        found.append(learner)
    return *found, chances


FORMS = {
    "tightest": {},
    "by name": {"set": "value-targeted"},
    "all values": {"set": "likelihood"},
    "learned rewards": {"known_reward": False},
    "tuned": {"preset": "tuned"},
}


class TestBoundsAreThoseOfTheLatentMDP:
    @pytest.mark.parametrize("form", FORMS)
    @pytest.mark.parametrize("level", ["agent", "proven", "tuned", "ties", "estimate"])
    def test_of_any_values(self, form, level):
        inner, seen, chances = learners(60, **FORMS[form])
        (of_latent,), (of_seen,) = (one.model.bounds(one.clock, level) for one in (inner, seen))
        values = 5.0 * np.random.default_rng(1).random((1, S))
        for sign in (1.0, -1.0):
            expected = of_latent.q(values @ chances.T, sign=sign)
            np.testing.assert_allclose(of_seen.q(values, sign=sign), expected[..., LATENT], atol=ALGEBRA)
            np.testing.assert_allclose(
                of_seen.q(None, sign=sign), of_latent.q(None, sign=sign)[..., LATENT], atol=EXACT
            )
            by_any = of_latent.bound(values @ chances.T, sign=sign)
            np.testing.assert_allclose(of_seen.bound(values, sign=sign), by_any[..., LATENT], atol=ALGEBRA)

    @pytest.mark.parametrize("form", FORMS)
    def test_plans_certificates_and_regret_bounds(self, form):
        inner, seen, _ = learners(200, **FORMS[form])
        plans = [one.advice() for one in (inner, seen)]
        np.testing.assert_allclose(plans[1].values, plans[0].values[..., LATENT], atol=ALGEBRA)
        made = [one.certifier.certify(plan) for one, plan in zip((inner, seen), plans, strict=True)]
        np.testing.assert_allclose(made[1].upper, made[0].upper, atol=ALGEBRA)
        np.testing.assert_allclose(made[1].lower, made[0].lower, atol=ALGEBRA)
        assert seen.claims.regret_bound(1000) == inner.claims.regret_bound(1000)
        assert seen.claims.guarantee.holds == inner.claims.guarantee.holds

    def test_budget(self):
        """The tuned plan, and what it lacks in optimism."""
        inner, seen, _ = learners(100, preset="budget", ties="random")
        one, other = (each.make_plan(np.zeros((1, A))) for each in (inner, seen))
        np.testing.assert_array_equal(other.tuned, one.tuned[..., LATENT])
        np.testing.assert_allclose(other.lack, one.lack[..., LATENT], atol=ALGEBRA)

    def test_masks(self):
        """Groups of allowed pairs alone count."""
        mask = np.array([[True, True], [True, False], [False, True], [True, True]])
        counts = [
            UCMatrixRL().start(Problem.of(mdp.restricted(allowed)), [0]).model.confidence.n_groups
            for mdp, allowed in zip(problems(), (mask, mask[LATENT]), strict=False)
        ]
        assert counts == [6, 6]


class TestLargestMean:
    @pytest.mark.parametrize("sign", [1.0, -1.0])
    def test_it_is_the_largest_over_laws_of_observations(self, sign):
        """max Σ P(s')V(s') over P = q(z) P(s'|z) with KL(p̂‖q) <= ε, by an interior-point solver."""
        _, seen, chances = learners(40, set="likelihood")
        values = np.random.default_rng(3).random(S)
        [belief] = seen.model.bounds(seen.clock, "agent")
        bounds = belief.bound(values[None], sign=sign)[0]
        counts = seen.model.counts.seen
        for row, group in enumerate(counts.ids):
            shares = np.zeros(Z)
            entries = slice(counts.firsts[row], counts.firsts[row] + counts.lengths[row])
            shares[counts.outcomes[entries]] = counts.shares[entries]
            law, q = cvxpy.Variable(S), cvxpy.Variable(Z)
            # The model numbers latent states in the order in which they occur.
            order = LATENT[[int(np.flatnonzero(seen.model.psi.latent == z)[0]) for z in range(Z)]]
            rules = [law == chances[order].T @ q, cvxpy.sum(law) == 1.0, law >= 0.0]
            rules.append(cvxpy.sum(cvxpy.rel_entr(shares, q)) <= belief.lower[row])
            best = sign * cvxpy.Problem(cvxpy.Maximize(sign * values @ law), rules).solve(solver=cvxpy.CLARABEL)
            a, s = np.argwhere(seen.model.groups == group)[0]
            assert bounds[a, s] == pytest.approx(best, abs=SOLVER)


class TestLatentStates:
    def test_expected_values_are_those_of_latent_means_for_any_core(self, rng):
        """P = φᵀMΨᵀ of random M and ψ with parallel rows: PV is the law of latent states times the means."""
        direction = rng.integers(5, size=30)
        table = rng.random((5, 3))[direction] * rng.random((30, 1))
        law = rng.random((8, 3)) @ table.T
        law /= law.sum(axis=1, keepdims=True)
        psi = latent_psi(TablePsi(table))
        assert psi.d_psi == 5
        of_latent = np.stack([law[:, psi.latent == z].sum(axis=1) for z in range(5)], axis=1)
        values = rng.standard_normal((1, 30))
        np.testing.assert_allclose(law @ values[0], of_latent @ psi.project(values)[0], atol=EXACT)
        np.testing.assert_allclose(of_latent @ psi.table.T, law, atol=EXACT)
        np.testing.assert_allclose(psi.project(values)[0], psi.table.T @ values[0], atol=EXACT)

    def test_opposite_directions_and_states_without_features_are_kept_apart(self):
        psi = latent_psi(TablePsi([[1.0, 0.0], [-2.0, 0.0], [0.0, 3.0], [0.0, 0.0], [0.0, 0.0], [4.0, -0.0]]))
        assert psi.latent.tolist() == [0, 1, 2, 3, 4, 0]
        np.testing.assert_allclose(psi.chances, [0.2, 1.0, 1.0, 1.0, 1.0, 0.8])

    def test_sparse_features_and_features_without_parallel_ones(self, rng):
        table = np.array([[2.0, 0.0], [0.0, 1.0], [6.0, 0.0]])
        np.testing.assert_array_equal(latent_psi(SparsePsi(sparse.csr_array(table))).latent, [0, 1, 0])
        assert isinstance(latent_psi(TablePsi(np.diag([1.0, 2.0, 5.0]))), OneHotPsi)
        assert isinstance(latent_psi(TablePsi(rng.random((9, 2)))), OneHotPsi)


class TestKnowingMoreIsNeverWorse:
    def test_any_psi_gives_the_set_of_one_hot_ones_at_least(self):
        """ψ without parallel rows: every number is that without ψ."""
        _, mdp, _ = problems()
        phi, rng = mdp.features.phi, np.random.default_rng(0)
        runs = [
            run_seeds(mdp, n_episodes=15, seeds=1, phi=phi, psi=psi, certify=True)
            for psi in (OneHotPsi(S), TablePsi(rng.random((S, 4))))
        ]
        np.testing.assert_array_equal(runs[0].returns, runs[1].returns)
        np.testing.assert_array_equal(runs[0].certified, runs[1].certified)
        assert runs[1].guarantee  # P is not φᵀMψ, which is not needed

    def test_the_right_psi_makes_bounds_tighter(self):
        _, mdp, _ = problems()
        phi = mdp.features.phi
        with_psi, without = (
            run_seeds(mdp, n_episodes=200, seeds=2, phi=phi, psi=psi, certify=True).certified
            for psi in (mdp.features.psi, OneHotPsi(S))
        )
        gap = [np.diff(runs[:, -1]).mean() for runs in (with_psi, without)]
        assert gap[0] < 0.95 * gap[1]


@pytest.mark.parametrize("known", [True, False])
def test_certificates_cover(known):
    """In at most δ = 0.5 of the runs some certificate fails; with correct bounds more than 6 of 8 would by 0.4 %."""
    _, mdp, _ = problems(3)
    result = run_seeds(mdp, n_episodes=150, seeds=8, delta=0.5, certify=True, known_reward=known)
    value = result.optimal_value - result.regret
    wrong = (result.upper < result.optimal_value - 1e-9) | (result.certified[..., 0] > value + 1e-9)
    assert wrong.any(axis=1).mean() <= 0.5
    assert not result.alarms.any()
    assert result.settings["set"] == "value-targeted"


class TestAlarm:
    """Observations that are not those of their latent state, or that ψ = 0 rules out."""

    def test_its_expectation_is_at_most_one_for_every_law(self):
        """Σ over all sequences of P(sequence) exp(ratio), two pairs of a group in turn, latent states {0}, {1, 2}."""
        psi = LatentPsi(np.array([0, 1, 1]), np.array([1.0, 0.3, 0.7]))
        for q in (0.2, 0.5, 0.9):
            law, total = psi.table @ np.array([q, 1.0 - q]), 0.0
            for path in itertools.product(range(3), repeat=5):
                pairs = np.array([[path[0::2].count(s) for s in range(3)], [path[1::2].count(s) for s in range(3)]])
                codes = np.flatnonzero(pairs)
                of_pairs = SeenRows(codes, pairs.ravel()[codes].astype(float), 3)
                latent = np.bincount(psi.latent[list(path)], minlength=2)
                group = SeenRows(np.flatnonzero(latent), latent[latent > 0].astype(float), 2)
                ratio = log_shared_law_ratio(of_pairs, np.zeros(2, dtype=int), group, 3)[0]
                ratio -= np.log(psi.chances[list(path)]).sum()
                total += law[list(path)].prod() * np.exp(ratio)
            assert 0.01 < total <= 1.0 + EXACT

    @staticmethod
    def alarms(law_of_view: np.ndarray) -> int:
        """Return the number of groups with an alarm after 4,000 steps whose observations have a law within z."""
        _, mdp, _ = problems()
        learner, rng = UCMatrixRL().start(Problem.of(mdp), [0]), np.random.default_rng(0)
        following = rng.choice(S, p=law_of_view, size=(1, 4000))
        pairs = rng.integers(S * A, size=(1, 4000))
        learner.model.update(pairs, following, np.zeros((1, 4000)), np.ones((1, 4000)))
        return int(learner.plan().empty[0])

    def test_it_is_raised_by_observations_with_another_law(self):
        _, _, chances = problems()
        right = np.full(Z, 1.0 / Z) @ chances
        wrong = right.copy()
        wrong[[1, 3]] = right[[3, 1]]  # two observations of one latent state
        assert self.alarms(right) == 0
        assert self.alarms(wrong) == Z * A

    def test_a_state_that_psi_rules_out_is_an_outcome_like_any_other(self):
        """P is no longer φᵀMψ, but the bounds and the guarantee do not need that."""
        rng = np.random.default_rng(0)
        table = rng.dirichlet(np.ones(4), size=(4, 2))
        features = Features(TablePhi(np.eye(8).reshape(4, 2, 8)), TablePsi([[1.0, 0], [0, 1.0], [0.5, 0], [0, 0]]))
        table[..., 2] = 0.5 * table[..., 0]  # as ψ says
        table /= table.sum(axis=-1, keepdims=True)
        mdp = FiniteMDP(table, rng.random((4, 2)), 4, features=features)
        result = run_seeds(mdp, n_episodes=100, seeds=4, certify=True)
        assert result.guarantee
        assert not result.alarms.any()
        assert (result.upper >= result.optimal_value - 1e-9).all()


@pytest.mark.parametrize("preset", ["optimistic", "budget"])
def test_compiled_plans_are_those_of_numpy(preset):
    _, mdp, _ = problems()
    plain, fast = (
        run_seeds(mdp, n_episodes=30, seeds=2, preset=preset, certify=True, compiled=compiled)
        for compiled in (False, True)
    )
    np.testing.assert_array_equal(plain.returns, fast.returns)
    np.testing.assert_allclose(plain.certified, fast.certified, rtol=1e-9)


def test_saving_goes_on_bit_for_bit(tmp_path):
    _, mdp, _ = problems()
    whole, half = (MatrixRL(mdp, seed=0, preset="budget", known_reward=False) for _ in range(2))
    whole.learn(12)
    half.learn(6)
    half.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", mdp)
    loaded.learn(6)
    np.testing.assert_array_equal(loaded.history.returns, whole.history.returns)
    assert loaded.certificate() == whole.certificate()
    model = loaded.algorithm.model
    assert isinstance(model, CountModel)
    assert isinstance(model.psi, LatentPsi)
