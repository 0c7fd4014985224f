"""Guarantees: the truth value, what is said, how they combine, and what is no guarantee."""

from __future__ import annotations

import json

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import matrixrl
from matrixrl import Agent, Guarantee, InvalidInput, KernelMatrixRL, Task, make
from matrixrl.algorithms.baselines import PSRL, UCBVI
from matrixrl.core.sets import FrobeniusBall
from matrixrl.problems import tabular

PROVEN, OPEN, OTHER = Guarantee(True), Guarantee(False, "c is open"), Guarantee(False, "an alarm was raised")


def test_the_truth_value_is_whether_it_holds_and_the_first_reason_counts():
    assert (bool(PROVEN), str(PROVEN)) == (True, "proven")
    assert (bool(OPEN), str(OPEN)) == (False, "not proven: c is open")
    assert (PROVEN and OPEN and OTHER) == OPEN
    assert Guarantee.unless(None, "", "c is open", "an alarm was raised") == OPEN
    assert Guarantee.unless(None, None) == Guarantee.unless() == PROVEN


@pytest.mark.parametrize("given", [(True, "why"), (False, ""), (1, ""), ("no", "why"), (False, None)])
def test_what_does_not_hold_has_a_reason_and_nothing_else_has(given):
    with pytest.raises(InvalidInput, match="guarantee must have a reason"):
        Guarantee(*given)


def test_in_json_it_has_holds_and_reason():
    agent = matrixrl.MatrixRL("river-swim", seed=0)
    agent.learn(n_episodes=1)
    plain = [
        agent.certificate().as_dict(),
        agent.bound().as_dict(),
        agent.compare(agent.greedy(), agent.recommend()).as_dict(),
        matrixrl.run_seeds("river-swim", n_episodes=1, seeds=1).as_dict(),
    ]
    assert [entry["guarantee"] for entry in json.loads(json.dumps(plain))] == [{"holds": True, "reason": ""}] * 4


@pytest.mark.parametrize("declared", [True, "no proof"])
def test_classes_of_users_must_declare_a_guarantee(declared):
    """Words why there is no proof would be true."""
    own_set = type("Ball", (FrobeniusBall,), {"guarantee": declared, "split": FrobeniusBall.split})
    with pytest.raises(InvalidInput, match=r"Ball\.guarantee must be a matrixrl\.Guarantee"):
        matrixrl.MatrixRL("river-swim", set=own_set()).guarantee  # noqa: B018
    own_algorithm = type("Mine", (PSRL,), {"guarantee": declared})
    with pytest.raises(InvalidInput, match=r"Mine\.guarantee must be a matrixrl\.Guarantee"):
        matrixrl.Agent("river-swim", own_algorithm()).guarantee  # noqa: B018


def test_a_subclass_of_a_baseline_proves_nothing():
    class Mine(UCBVI):
        def make_plan(self):
            plan = super().make_plan()
            plan.policy[:] = 0
            return plan

    assert Agent("river-swim", UCBVI(n_episodes=50), seed=0).guarantee
    assert "the proof is not about its methods" in Agent("river-swim", Mine(n_episodes=50), seed=0).guarantee.reason


def test_baselines_with_features_prove_nothing_that_a_known_problem_refutes():
    rng = np.random.default_rng(0)
    river, bandit = make("river-swim"), tabular(n_states=6, n_actions=3, horizon=1, seed=0).mdp
    assert Agent(river, "ucrl-vtr", seed=0).guarantee
    assert "explain" in Agent(river, "ucrl-vtr", seed=0, phi=rng.random((6, 2, 3))).guarantee.reason
    assert Agent(bandit, "lin-ucb", seed=0).guarantee
    assert "linear in phi" in Agent(bandit, "lin-ucb", seed=0, phi=rng.random((6, 3, 2))).guarantee.reason


def test_all_columns_of_an_approximate_kernel_prove_nothing():
    rewards, points = np.random.default_rng(0).random((20, 2)), np.linspace(0.0, 1.0, 20)[:, None]
    task = Task(rewards, horizon=4, reward_range=(0.0, 1.0), start=0)
    for columns in (None, 20):
        agent = KernelMatrixRL(task, k_phi=RBF(1e-3), points=points, k_psi=RBF(0.5), columns=columns, seed=0)
        assert "k_psi is approximated" in agent.guarantee.reason
        assert "k_psi is approximated" in agent.certificate().guarantee.reason
