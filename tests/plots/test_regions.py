"""The drawn confidence set is the set of the proofs: its boundary satisfies the constraint with equality."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import ball_agent, labels, river_agent

import matrixrl
from matrixrl import plots
from matrixrl.core.sets import LIKELIHOOD_SETS
from matrixrl.errors import InvalidInput
from matrixrl.plots.regions import region_of

STATE, ACTION, NEXT = 1, 1, [0, 1, 2]


def counts_of(agent, state, action):
    """Count next states from what the agent exports, not from what it learned."""
    seen, _ = agent._seen.all()
    chosen = (seen.states == state) & (seen.actions == action)
    return np.bincount(seen.next_states[chosen], minlength=agent.problem.finite_task.n_states)


def dirichlet_radius(counts, n_groups, delta, n_states):
    """Return β_D/n of docs/proofs.md, 9.3, from its formula."""
    from math import comb, lgamma, log

    n, seen = int(counts.sum()), counts[counts > 0]
    k0 = len(seen)
    terms = []
    for k in range(k0, n_states + 1):
        weight = (1 + 1 / n_states) / (k * (k + 1))
        ways = comb(n_states - k0, k - k0) / comb(n_states, k)
        terms.append(log(weight) + log(ways) + lgamma(k / 2) - lgamma(n + k / 2))
    log_m = sum(lgamma(c + 0.5) - lgamma(0.5) for c in seen) + np.logaddexp.reduce(terms)
    return (log(n_groups / delta) + float((seen * np.log(seen / n)).sum()) - log_m) / n


def test_the_boundary_of_the_likelihood_set_has_the_divergence_of_the_proof():
    agent = river_agent()
    region = region_of(agent, STATE, ACTION)
    counts = counts_of(agent, STATE, ACTION)
    assert region.next_states.tolist() == NEXT
    assert region.visits == counts.sum() == agent.visits[STATE, ACTION]
    law = counts[:3] / counts.sum()
    assert np.allclose(region.estimate, law)
    assert LIKELIHOOD_SETS["value-targeted"].targeted
    share = 1.0 - 0.25 - 0.05  # of δ: β₁ has a quarter, returns a twentieth
    epsilon = dirichlet_radius(counts, n_groups=8, delta=0.05 * share, n_states=4)
    assert np.allclose(region.boundary.sum(axis=1), 1.0)
    assert (region.boundary >= 0.0).all()
    inner = region.boundary[(region.boundary > 1e-12).all(axis=1)]
    assert len(inner) > 500
    divergence = (law * (np.log(law) - np.log(inner))).sum(axis=1)
    assert np.allclose(divergence, epsilon, rtol=1e-6)


def test_the_boundary_of_the_ball_has_the_distance_of_the_proof():
    agent = ball_agent()
    region = region_of(agent, STATE, ACTION)
    algorithm = agent.algorithm
    counts = counts_of(agent, STATE, ACTION)
    n = counts.sum()
    estimate = counts / (n + algorithm.model.ridge)  # ridge regression on indicators
    level = algorithm.model.confidence.radii(algorithm.model.design, algorithm.clock, level="proven")
    pair = ACTION * 4 + STATE
    radius = float(np.broadcast_to(level.models, (1, 8))[0, pair]) / np.sqrt(n + algorithm.model.ridge)
    inner = region.boundary[(region.boundary > 1e-12).all(axis=1)]
    assert len(inner) > 50
    laws = np.zeros((len(inner), 4))
    laws[:, :3] = inner
    assert np.allclose(np.linalg.norm(laws - estimate, axis=1), radius, rtol=1e-9)
    assert np.allclose(laws.sum(axis=1), 1.0)
    if len(inner) < len(region.boundary):
        edge = region.boundary[(region.boundary <= 1e-12).any(axis=1)]
        whole = np.zeros((len(edge), 4))
        whole[:, :3] = edge
        assert (np.linalg.norm(whole - estimate, axis=1) <= radius * (1 + 1e-9)).all()


@pytest.mark.parametrize("make", [river_agent, ball_agent])
def test_the_true_law_is_inside_and_its_coordinates_are_those_of_p(make):
    agent = make()
    axes = plots.confidence_region(agent, STATE, ACTION)
    truth = np.array([0.1, 0.6, 0.3])  # RiverSwim, action 1 in the middle
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])
    cross = next(line for line in axes.lines if line.get_label() == "true law")
    assert np.allclose(cross.get_xydata()[0], truth @ corners)
    polygon = axes.patches[0].get_path()
    assert polygon.contains_point(truth @ corners)
    drawn = axes.patches[0].get_xy()
    assert np.allclose(drawn[:-1], region_of(agent, STATE, ACTION).boundary @ corners)
    assert labels(axes)[1:] == ["estimate", "true law"]
    assert [text.get_text() for text in axes.texts] == ["state 0", "state 1", "state 2"]


def test_a_pair_that_was_never_tried_may_have_any_law():
    agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    region = region_of(agent, 1, 1)
    assert region.estimate is None
    for corner in np.eye(3):
        assert np.linalg.norm(region.boundary - corner, axis=1).min() < 1e-9
    assert np.allclose(region.boundary.min(axis=1), 0.0, atol=1e-12)


def test_the_region_shrinks_with_data():
    agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    areas = []
    for n in (5, 50, 200):
        agent.learn(n)
        x, y = plots.confidence_region(agent, 1, 1).patches[0].get_xy().T
        areas.append(0.5 * abs(np.dot(x[:-1], y[1:]) - np.dot(y[:-1], x[1:])))
    assert areas[0] > 2 * areas[1] > 4 * areas[2]


def test_states_that_the_pair_does_not_lead_to_may_be_chosen_as_corners():
    agent = river_agent()
    region = region_of(agent, 0, 0, next_states=(0, 2, 3))
    assert region.truth.tolist() == [1.0, 0.0, 0.0]


def other_agent(**settings):
    return matrixrl.MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 12}, seed=0, **settings)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: plots.confidence_region(3, 0, 0), "agent must be an agent; got 3"),
        (lambda: plots.confidence_region(river_agent(), 9, 0), "state must be in 0 … 3; got 9"),
        (lambda: plots.confidence_region(river_agent(), 1, 5), "action must be in 0 … 1; got 5"),
        (lambda: plots.confidence_region(river_agent(), 1, 1, next_states=(0, 1)), "must be three different states"),
        (lambda: plots.confidence_region(river_agent(), 1, 1, next_states=(0, 1, 3)), r"without \[2\]"),
        (lambda: plots.confidence_region(other_agent(set="frobenius"), 1, 1), "must have a likelihood set"),
        (lambda: plots.confidence_region(matrixrl.Agent("river-swim", "psrl"), 1, 1), "must have a confidence set"),
        (lambda: plots.confidence_region(matrixrl.MatrixRL("linear-mdp", seed=0), 1, 1), "next states"),
        (lambda: plots.confidence_region(river_agent(), 1, 1, stage=12), "stage must be in 0 … 11"),
    ],
)
def test_what_has_no_region_is_refused_in_one_line(call, words):
    with pytest.raises(InvalidInput, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
