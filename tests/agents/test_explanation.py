"""`Agent.explain`: its bounds are those of the plan, and the widths of pairs add up to what is not known (9.12)."""

from __future__ import annotations

import numpy as np
import pytest

import matrixrl
import witness
from matrixrl import FiniteMDP, InvalidInput, KernelMatrixRL, KnownDynamics, MatrixRL, ProtocolError
from matrixrl.agents.ask_and_tell import PlannedAhead
from matrixrl.core.start import Start
from matrixrl.problems import low_rank
from tolerances import ALGEBRA


def agent(n_episodes: int = 30, **options) -> MatrixRL:
    made = MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 8}, **({"seed": 0} | options))
    made.learn(n_episodes=n_episodes)
    return made


def optimistic_policy(made: MatrixRL) -> np.ndarray:
    """Return the policy (H, S) that is greedy in the upper bounds that are shown."""
    return made.algorithm.certifier.bound_actions()[1][0].argmax(axis=1)


class TestWidths:
    @pytest.mark.parametrize("seed", range(16))
    def test_they_are_the_upper_bound_less_what_the_estimated_model_says(self, seed):
        """The performance-difference identity, against backward induction on the estimated model, in every state."""
        made = witness.random_agent(np.random.default_rng(700 + seed))
        task, scale = made.problem.finite_task, 1.0
        policy, algorithm = optimistic_policy(made), made.algorithm
        tail = task.unit * task.tail
        for s in range(made.problem.n_observed):
            found = made.explain(made.problem.observation(s))
            [worth] = algorithm.certifier.estimate_policies([policy], Start.at(s))
            scale = 1.0 + abs(found.upper) + abs(worth)
            assert found.estimate == pytest.approx(worth + tail, abs=ALGEBRA * scale)
            total = sum(one.width for one in found.pairs)
            assert total == pytest.approx(found.upper - worth - tail, abs=1e-6 * scale)
            assert sum(one.share for one in found.pairs) == pytest.approx(1.0, abs=1e-6) or not found.pairs

    @pytest.mark.parametrize("discount", [1.0, 0.7])
    @pytest.mark.parametrize("options", [{}, {"known_reward": False}], ids=["known", "learned"])
    def test_at_a_later_stage_they_are_those_of_a_dense_model(self, options, discount):
        """Occupancies and values from dense matrices of the counts that the log has."""
        rng = np.random.default_rng(3)
        world = FiniteMDP(rng.dirichlet(np.ones(4), size=(4, 2)), rng.random((4, 2)), 5, start=0, discount=discount)
        made = MatrixRL(world, seed=0, **options)
        made.learn(n_episodes=25)
        counts = np.zeros((4, 2, 4))
        sums = np.zeros((4, 2))
        steps, _ = made._seen.all()
        np.add.at(counts, (steps.states, steps.actions, steps.next_states), 1.0)
        np.add.at(sums, (steps.states, steps.actions), steps.rewards)
        n = counts.sum(axis=2)
        reward = np.where(n > 0, sums / np.maximum(n, 1), world.task.reward if made.settings.known_reward else 0.0)
        upper = made.algorithm.certifier.bound_actions()[1][0]
        policy, best = upper.argmax(axis=1), np.vstack([upper.max(axis=1), np.zeros((1, 4))])
        worth, laws = np.zeros((6, 4)), np.zeros((5, 4, 4))
        for h in reversed(range(5)):
            for s, a in enumerate(policy[h]):
                laws[h, s] = counts[s, a] / n[s, a] if n[s, a] else np.eye(4)[worth[h + 1].argmin()]
                worth[h, s] = reward[s, a] + discount * laws[h, s] @ worth[h + 1]
        for h in range(5):
            for s in range(4):
                met, wanted = np.eye(4)[s], np.zeros((4, 2))
                for k in range(h, 5):
                    for i, a in enumerate(policy[k]):
                        wanted[i, a] += met[i] * (best[k, i] - reward[i, a] - discount * laws[k, i] @ best[k + 1])
                    met = discount * met @ laws[k]
                found = made.explain(s, h)
                shown = np.zeros((4, 2))
                for one in found.pairs:
                    shown[one.state, one.action] = one.width
                np.testing.assert_allclose(shown, wanted, atol=1e-6)
                assert found.estimate == pytest.approx(worth[h, s], abs=ALGEBRA * 10)

    @pytest.mark.parametrize("kind", ["successors", "dynamics"])
    def test_a_law_without_data_leads_to_the_worst_outcome_that_is_possible(self, kind):
        """Against backward induction on the estimated model, before any data and after a few steps."""
        rng = np.random.default_rng(5)
        if kind == "successors":
            mask = rng.random((5, 2, 5)) < 0.5
            mask[..., 0] |= ~mask.any(axis=2)
            law = rng.random((5, 2, 5)) * mask
            problem = FiniteMDP(law / law.sum(axis=2, keepdims=True), rng.random((5, 2)), 4, start=0, successors=mask)
        else:
            following, paid = rng.integers(5, size=(5, 2, 3)), rng.random((5, 2, 3)).round(2)
            problem = KnownDynamics(
                lambda s, a, w: (int(following[s, a, w]), float(paid[s, a, w])),
                **{"outcomes": 3, "n_states": 5, "n_actions": 2, "laws": np.arange(10).reshape(5, 2)},
                **{"law": rng.dirichlet(np.ones(3), size=10), "horizon": 4, "start": 0},
            )
        made = MatrixRL(problem, seed=0)
        for _ in range(2):
            for s in range(5):
                found = made.explain(s)
                [worth] = made.algorithm.certifier.estimate_policies([optimistic_policy(made)], Start.at(s))
                assert found.estimate == pytest.approx(worth, abs=ALGEBRA)
            made.learn(n_episodes=1)

    def test_the_largest_come_first_and_an_untried_pair_is_named(self):
        found = agent(3).explain(0)
        assert [one.width for one in found.pairs] == sorted((one.width for one in found.pairs), reverse=True)
        assert all(one.width > 0.0 for one in found.pairs)
        assert any(one.visits == 0 for one in found.pairs[:3])
        assert "tried 0 times" in str(found)


class TestActions:
    @pytest.mark.parametrize("seed", range(8))
    def test_bounds_are_those_of_the_tables_and_the_best_estimate_is_what_predict_plays(self, seed):
        made = witness.random_agent(np.random.default_rng(800 + seed))
        tables = made.action_tables(PlannedAhead(made.algorithm.advice(), made.n_episodes))
        for h in range(made.problem.task.horizon):
            obs = made.problem.observation(0)
            found = made.explain(obs, h)
            lower, upper = tables.lower[h, 0], tables.upper[h, 0]
            assert [one.lower for one in found.actions] == pytest.approx(lower[np.isfinite(lower)].tolist())
            assert [one.upper for one in found.actions] == pytest.approx(upper[np.isfinite(upper)].tolist())
            assert all(one.lower <= one.estimate <= one.upper for one in found.actions)
            best = max(one.estimate for one in found.actions)
            named = {one.action: one.estimate for one in found.actions}
            assert named[made.predict(obs, h)] == pytest.approx(best, abs=1e-6)
            assert found.action == made.problem.actions.decode(int(tables.policy[h, 0]))
            assert found.played.visits == made.visits[0, int(tables.policy[h, 0])]
            is_best = named[found.action] >= best - 1e-6
            assert found.purpose == ("earn" if is_best else "learn")

    def test_a_pair_that_looks_bad_but_was_not_tried_is_played_to_learn(self):
        found = agent(4, preset="optimistic")
        purposes = {found.explain(s, h).purpose for s in range(4) for h in range(8)}
        assert purposes == {"earn", "learn"}

    def test_the_open_episode_is_meant(self):
        made = agent()
        usual = 1 - np.array([[made.explain(s, h).action for s in range(4)] for h in range(8)])
        made.begin_episode(policy=usual)
        found = made.explain(1, 2)
        assert (found.purpose, found.action) == ("given", usual[2, 1])
        assert "the open episode" in str(found)

    def test_an_incumbent_that_is_played_for_want_of_budget_is_given(self):
        made = agent(2, incumbent=[0, 0, 0, 0], loss_budget=0.0)
        found = made.explain(1, 2)
        assert (found.purpose, found.action) == ("given", 0)
        assert "the loss budget does not pay for more" in str(found)
        made.begin_episode()
        assert made.explain(1, 2).purpose == "given"

    def test_an_own_plan_that_the_budget_pays_for_is_not_given(self):
        assert agent(2, incumbent=[1, 1, 1, 1], loss_budget=1e6).explain(1, 2).purpose != "given"

    def test_nothing_changes(self):
        one, other = agent(), agent()
        one.explain(0)
        one.learn(n_episodes=5)
        other.learn(n_episodes=5)
        np.testing.assert_array_equal(one.history.returns, other.history.returns)

    def test_a_ball_has_bounds_and_no_pairs(self):
        world = low_rank(n_states=6, n_actions=2, d=3, d_psi=3, horizon=4, seed=0)
        made = MatrixRL(world.mdp, phi=world.features.phi, psi=world.features.psi, set="normalised", seed=0)
        made.learn(n_episodes=20)
        found = made.explain(0)
        assert found.pairs is None
        assert found.estimate is None
        assert "no parts that belong to one pair" in str(found)

    def test_what_has_no_bounds_of_actions_says_so(self):
        with pytest.raises(ProtocolError, match="explain needs"):
            agent(planner="path").explain(0)

    def test_a_kernel_has_bounds_and_no_pairs(self):
        found = KernelMatrixRL("river-swim", seed=0).explain(0)
        assert len(found.actions) == 2
        assert found.pairs is None

    @pytest.mark.parametrize(("state", "stage"), [(9, 0), (0, 8), (0, -1), ("x", 0), (0, 1.5)])
    def test_bad_arguments(self, state, stage):
        with pytest.raises(InvalidInput, match=r"state|stage"):
            agent(2).explain(state, stage)


def test_names_are_those_of_the_problem():
    task = matrixrl.Task(np.zeros((2, 2)), 3, states=["low", "high"], actions=["wait", "order"], start="low")
    found = MatrixRL(task, seed=0).explain("low", 1)
    assert {one.action for one in found.actions} == {"wait", "order"}
    assert str(found).startswith("state low, stage 1: action wait")
    assert found.to_frame().columns.tolist() == ["action", "estimate", "lower", "upper", "visits"]
