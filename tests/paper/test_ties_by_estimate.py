"""docs/proofs.md, 8: any choice among maximisers keeps the proofs, so the estimate may choose."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import InvalidInput, run_seeds
from matrixrl.algorithms import MatrixRLSettings, UCMatrixRL
from matrixrl.core.confidence import TIE_EXPLORATION
from matrixrl.problems import Problem
from matrixrl.tolerances import TIE
from worlds import WORLDS, random_steps


def learner_of(world, ties, *, seeds=(0, 1), compiled=False, **chosen):
    """Return UC-MatrixRL after six random episodes."""
    algorithm = UCMatrixRL(preset="optimistic", ties=ties, **chosen).start(Problem.of(world.mdp, world.features), seeds)
    algorithm.use_compiled(compiled)
    rng = np.random.default_rng(3)
    for _ in range(6):
        algorithm.update(random_steps(world.mdp, rng, len(seeds)))
    return algorithm


def optimistic_q(algorithm, values):
    """Return Q of every stage and pair (B, H, A, S), from optimistic values by a single backup each."""
    (belief,), horizon = algorithm.model.bounds(algorithm.clock, "agent"), algorithm.task.horizon
    return np.stack([belief.q(values[:, h + 1] if h < horizon - 1 else None) for h in range(horizon)], axis=1)


@pytest.mark.parametrize(("name", "kind"), [*[(name, "normalised") for name in WORLDS], ("tabular", "value-targeted")])
@pytest.mark.parametrize("compiled", [False, True])
def test_the_plan_is_greedy_in_the_same_optimistic_q(name, kind, compiled):
    world = WORLDS[name](4)
    by_estimate = learner_of(world, "estimate", compiled=compiled, set=kind, known_reward=False)
    at_random = learner_of(world, "random", compiled=compiled, set=kind, known_reward=False)
    found, wanted = by_estimate.plan(), at_random.plan()
    np.testing.assert_array_equal(found.values, wanted.values)
    q = optimistic_q(at_random, wanted.values)
    played = np.take_along_axis(q, found.policy[:, :, None].astype(int), axis=2)[:, :, 0]
    assert (q.max(axis=2) - played).max() <= TIE * world.mdp.horizon * 1.0011


def test_among_equals_the_lean_plan_chooses():
    """With a huge radius everything is worth H − h, and what is left is the order of the plan at a share of it."""
    world = WORLDS["tabular"](2)
    chosen = {"radius": "constant", "beta": 1e6, "known_reward": False}
    algorithm = learner_of(world, "estimate", seeds=[0], **chosen)
    plan = algorithm.plan()
    stages_left = np.arange(world.mdp.horizon, 0, -1)
    np.testing.assert_allclose(plan.values[0, :-1], np.tile(stages_left, (world.mdp.n_states, 1)).T)  # all tied
    lean = learner_of(world, "random", seeds=[0], **{**chosen, "exploration": TIE_EXPLORATION})
    q = optimistic_q(lean, lean.plan().values)
    chosen_q = np.take_along_axis(q, plan.policy[:, :, None].astype(int), axis=2)[:, :, 0]
    share = 1.01e-3 * world.mdp.horizon  # what the random ranking may decide
    np.testing.assert_allclose(chosen_q, q.max(axis=2), rtol=0, atol=share)


def test_where_optimism_cannot_tell_actions_apart_the_data_can():
    """Rewards learned, few episodes: every optimistic value is at its cap, and regret falls to a fraction."""
    regrets = {}
    for ties in ("random", "estimate"):
        result = run_seeds("linear-mdp", n_episodes=80, seeds=8, preset="optimistic", known_reward=False, ties=ties)
        assert result.guarantee
        assert result.optimistic_share == 1.0
        regrets[ties] = float(result.final_regret.mean())
    assert regrets["estimate"] < 0.2 * regrets["random"]


def test_it_is_refused_by_name_where_it_cannot_be():
    with pytest.raises(InvalidInput, match="ties must be 'random'"):
        MatrixRLSettings.resolve({"ties": "estimate", "columns": 100})
    with pytest.raises(InvalidInput, match="ties"):
        MatrixRLSettings.resolve({"ties": "lowest"})
