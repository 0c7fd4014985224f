"""Where P and R are known, a guarantee is claimed only if the features represent them; what is learned is the same."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import FiniteMDP, MatrixRL, Task, make, run_seeds
from matrixrl.core.embedding import embedding, refuted_assumption
from matrixrl.features import Features, OneHotPsi, TablePhi, one_hot
from matrixrl.play import inspect_problem
from matrixrl.problems import low_rank, tabular
from small_worlds import WORLDS

WORLD = tabular(n_states=4, n_actions=2, horizon=3, seed=0)


def blind(mdp: FiniteMDP) -> TablePhi:
    """φ that ignores the action: the alarm does not find it, because its models are distributions."""
    return TablePhi(np.repeat(np.eye(mdp.n_states)[:, None], mdp.n_actions, axis=1))


@pytest.mark.parametrize("kind", ["normalised", "tightest"])
def test_features_that_do_not_represent_a_known_law_prove_nothing(kind):
    mdp = WORLD.mdp
    agent = MatrixRL(mdp, phi=blind(mdp), set=kind, seed=0)
    fit = embedding(mdp.transitions, Features(blind(mdp), OneHotPsi(4)))
    words = f"explain {100 * fit.explained:.3g} % of the known transitions (largest error {fit.residual:.2g})"
    assert words in agent.guarantee.reason
    assert agent.certificate().guarantee == agent.guarantee
    assert agent.algorithm.claims.regret_bound(1000) is None
    found = run_seeds(mdp, n_episodes=20, seeds=2, phi=blind(mdp), set=kind)
    assert not found.alarms.any()
    assert words in found.guarantee.reason
    assert all(words in shown.guarantee.reason for shown in found.certificate)


def test_a_saved_agent_remembers_what_was_refuted(tmp_path):
    """Also where it is loaded without the environment, and P is no longer known."""
    agent = MatrixRL(WORLD.mdp, phi=blind(WORLD.mdp), seed=0)
    agent.save(tmp_path / "agent")
    assert MatrixRL.load(tmp_path / "agent").guarantee == agent.guarantee


def test_where_the_law_is_not_known_it_is_assumed():
    task = WORLD.mdp.task
    agent = MatrixRL(Task(task.reward, 3, start=task.start), phi=blind(WORLD.mdp), seed=0)
    assert agent.guarantee
    assert "the pairs of a group, those with one feature φ, share their transition probabilities" in agent.assumptions


@pytest.mark.parametrize("name", WORLDS)
@pytest.mark.parametrize("known_reward", [True, False])
def test_worlds_that_hold_the_assumptions_are_proven(name, known_reward):
    world = WORLDS[name](3)
    linear = world.features.phi.table @ np.full(world.features.phi.d, 0.01)
    mdp = FiniteMDP(world.mdp.transitions, np.clip(linear, 0, 1), world.mdp.horizon, features=world.features)
    assert MatrixRL(mdp, seed=0, known_reward=known_reward).guarantee


def test_what_is_learned_does_not_depend_on_what_is_known():
    """The table of P decides what is claimed, and nothing else."""
    plain = run_seeds(WORLD.mdp, n_episodes=20, seeds=2, phi=blind(WORLD.mdp))
    again = run_seeds(WORLD.mdp, n_episodes=20, seeds=2, phi=blind(WORLD.mdp), measure_regret=False)
    np.testing.assert_array_equal(plain.returns, again.returns)


def test_laws_that_are_too_large_to_be_checked_are_not_refuted():
    class Large:
        n_states, n_actions = 10**6, 2

    wrong = Features(TablePhi(np.ones((2, 2, 1))), OneHotPsi(2))
    assert refuted_assumption(Large(), None, wrong) is None
    assert refuted_assumption(WORLD.mdp.transitions, None, one_hot(4, 2)) is None


def test_an_inspection_warns_of_learned_rewards_that_are_not_linear():
    world = low_rank(n_states=5, n_actions=2, horizon=4, seed=3, d=3)
    reward = np.random.default_rng(0).random((5, 2))
    mdp = FiniteMDP(world.mdp.transitions, reward, 4, features=world.features)
    (said,) = [w for w in inspect_problem(mdp, settings={"known_reward": False}).warnings if "rewards" in w]
    assert said.startswith("learned rewards must be linear in phi, and the best fit misses R by")
    assert not any("learned rewards" in w for w in inspect_problem(mdp).warnings)
    assert not any(
        "learned rewards" in w for w in inspect_problem(make("river-swim"), settings={"known_reward": False}).warnings
    )
