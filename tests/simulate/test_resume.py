"""A saved state of a simulation belongs to one problem, one algorithm with its settings and features, and its seeds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hostile import changed, header_of, members_of, npy, with_header
from matrixrl import CheckpointError, make
from matrixrl.algorithms.baselines import PSRL
from matrixrl.core.radius import ConstantRadius
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl.problems import low_rank, read_problem


class Tuned(PSRL):
    """A user's own subclass, which has the name of the library's."""


def world():
    return low_rank(n_states=12, n_actions=2, d=3, horizon=4, seed=1)


def simulation(window=range(2), env=None, **given):
    return Simulation(world().mdp if env is None else env, n_episodes=4, seeds=[0, 1], window=window, **given)


def state_of(**given):
    first = simulation(**given)
    first.run()
    return save_simulation(first)


@pytest.mark.parametrize(
    ("made", "other", "words"),
    [
        ({"settings": {"delta": 0.1}}, {"settings": {"delta": 0.2}}, "differs in settings"),
        (
            {"settings": {"radius": ConstantRadius(beta=2.0)}},
            {"settings": {"radius": ConstantRadius(beta=900.0)}},
            "differs in .*recipe",
        ),
        ({"agent": "psrl"}, {"agent": Tuned()}, "differs in algorithm"),
        ({"phi": world().features.phi.table}, {"phi": 2.0 * world().features.phi.table}, "differs in features phi"),
        ({"psi": world().features.psi.table}, {"psi": 2.0 * world().features.psi.table}, "differs in features psi"),
        ({}, {"agent": "psrl"}, "differs in agent"),
    ],
    ids=["setting", "object", "class", "phi", "psi", "agent"],
)
def test_a_state_is_restored_only_where_it_came_from(made, other, words):
    saved = state_of(**made)
    restore_simulation(simulation(range(2, 4), **made), saved)
    with pytest.raises(CheckpointError, match=words):
        restore_simulation(simulation(range(2, 4), **other), saved)


def test_coordinates_of_states_are_part_of_the_problem():
    problem = read_problem(make("grid-world", size=3, horizon=5))
    assert problem.points is not None
    stretched = replace(problem, points=problem.points * [[1.0, 5.0]])
    saved = state_of(env=problem, agent="kernel-ucbvi")
    restore_simulation(simulation(range(2, 4), env=problem, agent="kernel-ucbvi"), saved)
    with pytest.raises(CheckpointError, match="differs in coordinates of states"):
        restore_simulation(simulation(range(2, 4), env=stretched, agent="kernel-ucbvi"), saved)


@pytest.mark.parametrize(
    "change",
    [
        {"learned_design.npy": npy(np.full((2, 3, 3), np.inf))},
        {"learned_cross_moment.npy": npy(np.full((2, 3, 3), np.nan))},
        {"learned_episode.npy": npy(np.array([2, 2]))},
        {"learned_episode.npy": npy(np.array(2.0))},
        {"alarmed.npy": npy(np.zeros(2))},
        {"world.npy": npy(np.zeros((2, 6), dtype=np.uint64))},
        {"world.npy": None},
        {"extra.npy": npy(np.zeros(3))},
        {"learned_extra.npy": npy(np.zeros(3))},
    ],
    ids=lambda change: next(iter(change)),
)
def test_arrays_that_do_not_fit_are_refused(change):
    saved = changed(state_of(), change)
    with pytest.raises(CheckpointError):
        restore_simulation(simulation(range(2, 4)), saved)


def test_a_header_with_other_entries_is_refused():
    saved = state_of()
    assert header_of(saved)["settings"]["delta"] == 0.05
    for change in ({"odd": 1}, {"recipe": ...}, {"seeds": [0, 0]}, {"done": 3}, {"done": True}):
        with pytest.raises(CheckpointError):
            restore_simulation(simulation(range(2, 4)), with_header(saved, **change))
    assert members_of(saved)[0][0] == "header.npy"
