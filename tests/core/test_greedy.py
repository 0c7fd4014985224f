"""The greedy step and backward induction against loops over replicas, states and actions."""

from __future__ import annotations

import math

import numpy as np
import pytest

from matrixrl.core import Frame, backward_induction, greedy_plan
from matrixrl.core.greedy import best_action_at_random, greedy_actions, lowest_first, random_rankings, tie_weights
from matrixrl.tolerances import TIE

B, H, A, S = 3, 5, 4, 6


def random_q(rng):
    """Return Q of every stage with many exact ties: (B, H, A, S)."""
    return rng.integers(0, 3, (B, H, A, S)) / 2.0


def best_by_loops(q, rank, preference):
    """Return the best action of one state: largest Q, then preference, then ranking, each only among equals."""
    best = [a for a in range(A) if q[a] == max(q)]
    if preference is not None:
        best = [a for a in best if preference[a] == max(preference[a] for a in best)]
    return max(best, key=lambda a: rank[a])


@pytest.mark.parametrize("prefers", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_actions_are_those_of_a_triple_loop(seed, prefers):
    rng = np.random.default_rng(seed)
    q, rankings = random_q(rng)[:, 0], random_rankings([np.random.default_rng(b) for b in range(B)], A)
    preference = rng.integers(0, H + 1, (B, A, S)).astype(float) if prefers else None
    tie_break = tie_weights(rankings, H, has_preference=prefers)
    found = greedy_actions(q.copy(), tie_break[:, :, None], preference=preference)
    for b in range(B):
        for s in range(S):
            wished = None if preference is None else preference[b, :, s].tolist()
            assert found[b, s] == best_by_loops(q[b, :, s].tolist(), rankings[b], wished)
    moved = greedy_actions(np.moveaxis(q, 1, -1).copy(), tie_break[:, None, :], preference=None, axis=-1)
    if not prefers:
        np.testing.assert_array_equal(moved, found)


@pytest.mark.parametrize("clips", [False, True])
@pytest.mark.parametrize("end_state", [None, 2])
@pytest.mark.parametrize("seed", range(3))
def test_backward_induction_is_a_triple_loop(seed, end_state, clips):
    """Q_h = r_h + Σ P V_{h+1} with random r and P: values, policy, Q and what is called at each stage."""
    rng = np.random.default_rng(seed)
    reward, law = rng.normal(size=(B, H, A, S)), rng.dirichlet(np.ones(S), (B, A, S))
    frame = Frame(H, A, S, end_state, 0.25)
    low, high = -np.arange(1.0, H + 1), np.arange(H, 0, -1.0) / 4
    visited = []

    def q_of(h, values):
        return reward[:, h] + np.einsum("bast,bt->bas", law, values)

    limits = {"low": low, "high": high} if clips else {}
    found = backward_induction(q_of, frame, B, visit=lambda h, q: visited.append((h, q.copy())), **limits)
    q_out = np.empty((B, H, A, S))
    plan = greedy_plan(q_of, frame, lowest_first(A, B), high=high if clips else None, q_out=q_out)
    if clips:  # the plan clips at zero from below
        np.testing.assert_allclose(plan.values, backward_induction(q_of, frame, B, high=high))
    else:
        np.testing.assert_allclose(plan.values, found)
    assert [h for h, _ in visited] == list(reversed(range(H)))
    for b in range(B):
        value = [0.0] * S
        for h in reversed(range(H)):
            q = [
                [reward[b, h, a, s] + sum(law[b, a, s, t] * value[t] for t in range(S)) for a in range(A)]
                for s in range(S)
            ]
            value = [max(row) for row in q]
            if clips:
                value = [min(max(v, low[h]), high[h]) for v in value]
            if end_state is not None:
                value[end_state] = (H - h) * 0.25
            np.testing.assert_allclose(found[b, h], value, atol=1e-12)
            np.testing.assert_allclose(dict(visited)[h][b].T, q, atol=1e-12)
            if not clips:
                np.testing.assert_allclose(q_out[b, h].T, q, atol=1e-12)
                assert plan.policy[b, h].tolist() == [int(np.argmax(row)) for row in q]
    assert (found[:, H] == 0.0).all()
    assert (plan.empty == 0).all()


def test_rankings():
    rngs = [np.random.default_rng(b) for b in range(B)]
    drawn = random_rankings(rngs, A)
    assert (np.sort(drawn, axis=1) == np.arange(A) / A).all()
    some = random_rankings(rngs, A, np.array([1]), lowest_first(A, B))
    np.testing.assert_array_equal(some[[0, 2]], lowest_first(A, 2))
    assert greedy_actions(np.zeros((1, A, 1)), tie_weights(lowest_first(A, 1), H)[:, :, None])[0, 0] == 0
    assert tie_weights(drawn, H).max() < TIE * H  # no difference that counts is overruled
    assert math.isclose(tie_weights(drawn, H, has_preference=True).max(), 1e-3 * tie_weights(drawn, H).max())


def test_ties_at_random_are_drawn_among_equals_only():
    q, rng = np.array([1.0, 2.0, 2.0 - 1e-12, 1.5]), np.random.default_rng(0)
    assert {best_action_at_random(q, 1e-9, rng) for _ in range(50)} == {1, 2}
    assert best_action_at_random(q, 1e-9, None) == 1
    assert best_action_at_random(q, 0.0, rng) == 1
