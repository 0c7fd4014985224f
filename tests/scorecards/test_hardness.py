"""Measures of hardness, each by a second route."""

from __future__ import annotations

import math

import numpy as np
import pytest

from matrixrl import FiniteMDP, solve
from scorecards.hardness import diameter, hardness, reaching_times
from tolerances import EXACT


def test_hardness_is_the_sum_over_states_and_stages(mdp):
    values, reachable = solve(mdp).values, {0}
    norm, total = 0.0, 0.0
    for h in range(5):
        following = set()
        for s in range(4):
            for a in range(2):
                p = mdp.transitions.rows(np.array([s]), np.array([a]))[0]
                mean = p @ values[h + 1]
                norm = max(norm, np.sqrt(p @ (values[h + 1] - mean) ** 2))
                if s in reachable:
                    total += 1.0 / (values[h, s] - mdp.task.reward[s, a] - mean + 0.1)
                    following |= set(np.flatnonzero(p).tolist())
        reachable = following
    found = hardness(mdp)
    assert found.value_norm == pytest.approx(norm, abs=EXACT)
    assert found.gaps == pytest.approx(total, rel=EXACT)


@pytest.mark.parametrize("seed", range(3))
def test_the_diameter_is_the_largest_time_between_states(seed):
    """Iterate expected times of all stages and states, where the last stage of an episode leads to the start."""
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.full(3, 0.4), size=(3, 2))
    start = rng.dirichlet(np.ones(3))
    mdp = FiniteMDP(law, np.zeros((3, 2)), 3, start=start)
    from_start = []
    for goal in range(3):
        times = np.zeros((3, 3))
        for _ in range(3000):
            times[2] = 1.0 + start @ times[0]
            times[2, goal] = 0.0
            for h in (1, 0):
                times[h] = 1.0 + (law @ times[h + 1]).min(axis=1)
                times[h, goal] = 0.0
        from_start.append(start @ times[0])
    np.testing.assert_allclose(reaching_times(mdp), from_start, rtol=1e-9)
    assert diameter(mdp) == pytest.approx(1.0 + max(from_start), rel=1e-9)


def test_the_diameter_of_one_lucky_step():
    """With two steps of an episode and chance p in the first, T = 1 + (1 − p)(1 + T) = (2 − p) / p."""
    chance = 0.25
    mdp = FiniteMDP([[[1.0 - chance, chance]], [[0.0, 1.0]]], [[0.0], [0.0]], 2, start=[1.0, 0.0])
    np.testing.assert_allclose(reaching_times(mdp), [0.0, (2.0 - chance) / chance], rtol=EXACT)
    assert diameter(mdp) == pytest.approx(1.0 + (2.0 - chance) / chance, rel=EXACT)


@pytest.mark.parametrize(("chance", "expected"), [(0.1, 2.0), (0.9, 1.11 / 0.99)])
def test_a_longer_way_that_never_misses_is_taken_instead_of_a_bad_gamble(chance, expected):
    """The long way takes two sure steps; two gambles with misses of 0.1 take T = 1 + 0.1 (1 + 0.1 (1 + T))."""
    law = np.zeros((3, 2, 3))
    law[0, 0] = [1.0 - chance, 0.0, chance]
    law[0, 1, 1] = law[1, :, 2] = law[2, :, 2] = 1.0
    mdp = FiniteMDP(law, np.zeros((3, 2)), 3, start=[1.0, 0.0, 0.0])
    np.testing.assert_allclose(reaching_times(mdp), [0.0, 1.0, expected], rtol=EXACT)


def test_a_gamble_that_wastes_the_episode_is_counted_over_episodes():
    """A coin reaches the goal or a trap: 3 steps of an episode, but 6 over episodes; the sure path takes 4."""
    law = np.zeros((6, 2, 6))
    law[0, 0, [4, 5]] = 0.5
    law[0, 1, 1] = law[1, :, 2] = law[2, :, 3] = law[3, :, 4] = law[4, :, 4] = law[5, :, 5] = 1.0
    mdp = FiniteMDP(law, np.zeros((6, 2)), 5, start=np.eye(6)[0])
    np.testing.assert_allclose(reaching_times(mdp), [0.0, 1.0, 2.0, 3.0, 4.0, 6.0], rtol=EXACT)


def test_the_diameter_is_infinite_where_a_state_is_out_of_reach(mdp):
    assert diameter(mdp) == math.inf


def test_a_path_has_the_diameter_of_its_length():
    """Colosseum's own table of RiverSwim and DeepSea without chance: a path of n states has diameter n."""
    law = np.zeros((6, 2, 6))
    law[np.arange(6), 0, np.maximum(np.arange(6) - 1, 0)] = law[np.arange(6), 1, np.minimum(np.arange(6) + 1, 5)] = 1.0
    assert diameter(FiniteMDP(law, np.zeros((6, 2)), 6, start=np.eye(6)[0])) == pytest.approx(6.0, rel=EXACT)
