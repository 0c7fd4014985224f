from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms import UCMatrixRL
from matrixrl.features import Features, TablePhi, TablePsi
from matrixrl.problems import Problem, Task
from matrixrl.records import Steps
from timing import alternate, cpu_seconds

SIZES = {"large": (10_000, 10, 200, 10, 1.5), "medium": (1_000, 10, 100, 20, 2.0)}


def random_steps(rng, n_states, n_actions, horizon):
    """Return one episode of random states and actions."""
    states, actions, following = (rng.integers(0, n, (1, horizon)) for n in (n_states, n_actions, n_states))
    return Steps.of(states, actions, np.zeros((1, horizon)), following)


def learner_of(n_states, n_actions, d, horizon, ties="random"):
    """Return UC-MatrixRL with random dense features, after three random episodes."""
    rng = np.random.default_rng(0)
    phi = rng.dirichlet(np.ones(d), size=(n_states, n_actions))
    psi = rng.dirichlet(np.ones(n_states), size=d).T
    features = Features(TablePhi(phi), TablePsi(psi))
    task = Task(rng.random((n_states, n_actions)), horizon, features=features)
    algorithm = UCMatrixRL(preset="optimistic", switch_growth=0.0, ties=ties).start(Problem.of(task), [0])
    for _ in range(3):
        algorithm.update(random_steps(rng, n_states, n_actions, horizon))
    return algorithm


@pytest.mark.parametrize("size", SIZES)
def test_planning_against_its_bare_matrix_products(size, benchmark, report):
    """H times v = ΨᵀV, M_n v, Φ(M_n v): nothing of optimism, maximum or policy. One plan, so ties are random."""
    n_states, n_actions, d, horizon, bound = SIZES[size]
    algorithm = learner_of(n_states, n_actions, d, horizon)
    rows = algorithm.problem.features.phi.rows(np.arange(n_states * n_actions))
    psi, core = algorithm.problem.features.psi.table, algorithm.model.core_matrix()
    values = np.random.default_rng(1).random((1, n_states))

    def bare():
        for _ in range(horizon):
            (core @ (values @ psi)[:, :, None])[:, :, 0] @ rows.T

    rng = np.random.default_rng(2)

    def learn():  # a plan of unchanged data would be the last one
        algorithm.update(random_steps(rng, n_states, n_actions, horizon))
        assert algorithm.model.design.width_sq.shape == (
            1,
            len(rows),
        )  # widths are brought up to date where they are read

    plan, products = alternate(algorithm.plan, bare, rounds=9, before=learn, clock=cpu_seconds)
    benchmark.pedantic(algorithm.plan, setup=learn, rounds=3)
    name = f"plan / bare products, S,A,d,H = {n_states},{n_actions},{d},{horizon}"
    report(name, plan / products, f"<= {bound}", plan_ms=round(plan * 1e3, 2), bare_ms=round(products * 1e3, 2))
    assert plan / products <= bound


@pytest.mark.parametrize("size", SIZES)
def test_ties_by_the_estimate_against_random_ones(size, report):
    """The default of `optimistic` with dense features: a second plan, of the estimated model."""
    *sizes, _ = SIZES[size]
    both = [learner_of(*sizes, ties=ties) for ties in ("estimate", "random")]
    rng = np.random.default_rng(2)

    def learn():
        for algorithm in both:
            algorithm.update(random_steps(rng, *sizes[:2], sizes[3]))
            assert algorithm.model.design.width_sq.ndim == 2

    two, one = alternate(both[0].plan, both[1].plan, rounds=9, before=learn, clock=cpu_seconds)
    report(f"plan with ties by the estimate / random ones, {size}", two / one, "<= 2.5", ms=round(two * 1e3, 2))
    assert two / one <= 2.5


def test_widths_by_downdate_against_recomputing(benchmark, report):
    n_states, n_actions, d, horizon, _ = SIZES["large"]
    algorithm = learner_of(n_states, n_actions, d, horizon)
    rows = algorithm.problem.features.phi.rows(np.arange(n_states * n_actions))
    rng = np.random.default_rng(2)

    def downdate():
        algorithm.model.design.update(rng.integers(0, len(rows), (1, horizon)), np.ones((1, horizon)))
        return algorithm.model.design.width_sq

    fast, slow = alternate(downdate, algorithm.model.design.refresh, rounds=7, clock=cpu_seconds)
    benchmark.pedantic(downdate, rounds=3)
    times = {"downdate_ms": round(fast * 1e3, 1), "recompute_ms": round(slow * 1e3, 1)}
    report("widths: recompute / downdate, largest size", slow / fast, ">= 4", **times)
    assert slow / fast >= 4
