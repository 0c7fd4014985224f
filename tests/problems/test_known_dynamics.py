"""`KnownDynamics`: what it accepts and refuses, and the environment that plays it."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

import matrixrl
from matrixrl import InvalidInput, KnownDynamics, MatrixRL
from matrixrl.problems import OutcomeTables

LAW = np.array([0.4, 0.3, 0.2, 0.1])


def shop_step(stock, order, demand):
    sold = min(stock + order, demand)
    return stock + order - sold, 4.0 * sold - 2.0 * order


def shop(step=shop_step, **options) -> KnownDynamics:
    """Return a shop of at most five pieces that loses the demand that it cannot meet."""
    given = {
        "outcomes": 4,
        "n_states": 6,
        "n_actions": 3,
        "horizon": 7,
        "start": 2,
        "allowed": lambda stock: range(min(3, 6 - stock)),
    }
    return KnownDynamics(step, **given | options)


def vector_step(stock, order, demand):
    sold = np.minimum(stock + order, demand)
    return stock + order - sold, 4.0 * sold - 2.0 * order


def same(one: KnownDynamics, other: KnownDynamics) -> bool:
    mine, others = one.dynamics.arrays(), other.dynamics.arrays()
    return all(np.array_equal(mine[name], others[name]) for name in mine)


class TestTables:
    def test_every_entry_is_what_step_answers(self):
        problem = shop()
        for s in range(6):
            for a in range(min(3, 6 - s)):
                for w in range(4):
                    assert problem.transition(s, a, w) == (*shop_step(s, a, w), False)
        assert problem.reward_range == (-4.0, 12.0)

    def test_vectorized(self):
        assert same(shop(), shop(vector_step, vectorized=True))

    def test_step_is_not_called_for_actions_that_are_not_allowed(self):
        asked = set()

        def step(stock, order, demand):
            asked.add((stock, order))
            return shop_step(stock, order, demand)

        shop(step)
        assert asked == {(s, a) for s in range(6) for a in range(min(3, 6 - s))}

    def test_states_of_several_parts(self):
        def step(state, order, demand):
            stock, day = state
            following, reward = shop_step(stock, order, demand)
            return (following, (day + 1) % 2), reward

        def together(state, order, demand):
            stock, day = state
            following, reward = vector_step(stock, order, demand)
            return (following, (day + 1) % 2), reward

        options = {"n_states": None, "states": (6, 2), "start": (2, 0), "allowed": None}
        options |= {"allowed": lambda state: range(min(3, 6 - int(state[0]))), "laws": lambda state, _order: state[1]}
        one, other = shop(step, **options), shop(together, vectorized=True, **options)
        assert same(one, other)
        assert one.dynamics.n_laws == 2
        following, reward, _ = one.transition((2, 0), 1, 2)
        assert (following.tolist(), reward) == ([1, 1], 6.0)
        space = spaces.MultiDiscrete([6, 2])
        assert same(one, shop(step, **options | {"states": space}))

    def test_values_of_outcomes(self):
        problem = KnownDynamics(
            lambda s, _a, growth: (s, growth), outcomes=[0.5, 1.0, 2.0], n_states=1, n_actions=1, horizon=1
        )
        assert problem.transition(0, 0, 2.0) == (0, 2.0, False)
        with pytest.raises(InvalidInput, match="outcome must be one of the 3 outcomes"):
            problem.transition(0, 0, 3.0)

    def test_termination_leads_to_an_end_state(self):
        problem = shop(lambda s, a, w: (*shop_step(s, a, w), w == 3))
        assert problem.end_state == 6
        assert (problem.dynamics.next_states[:, :6, 3][problem.allowed.T[:, :6]] == 6).all()
        assert problem.transition(1, 0, 3)[2]
        low, high = problem.reward_range
        assert low <= 0.0 <= high

    def test_outcomes_may_be_huge(self):
        problem = shop(outcomes=[1e300, 0.0, 1.0, 2.0], step=lambda s, _a, w: (s, min(w, 3.0)))
        assert problem.transition(0, 0, 1e300) == (0, 3.0, False)

    def test_rewards_that_differ_by_rounding_are_one(self):
        rewards = [0.3, 0.1 + 0.2, 0.1 * 3, 0.6 - 0.3]
        assert len(set(rewards)) > 1
        known = shop(step=lambda s, a, w: (s, rewards[w] if a == 0 else float(w)))
        assert not known.dynamics.matters[0, :6].any()
        assert known.dynamics.matters[1, :5].all()

    def test_a_law_that_only_forbidden_pairs_have(self):
        allowed = np.ones((6, 3), dtype=bool)
        allowed[:, 2] = False
        laws = np.tile([0, 0, 1], (6, 1))
        known = shop(step=clipped, allowed=allowed, laws=laws, law=[LAW, LAW[::-1]])
        assert known.dynamics.n_laws == 2
        agent = MatrixRL(known, seed=0)
        agent.learn(n_episodes=5)
        assert agent.algorithm.model.confidence.n_groups == 1  # β_D counts those that matter


def counting():
    calls = []

    def step(stock, order, demand):
        calls.append(0)
        return shop_step(stock, order, demand)[0], float(len(calls) % 5)

    return step


BAD = {
    "a state outside": (lambda _s, _a, _w: (9, 0.0), {}, "the next state of step.*must be in 0 … 5"),
    "a state outside, together": (lambda s, _a, _w: (s + 9, 0.0 * s), {"vectorized": True}, "the next state of step"),
    "no pair": (lambda _s, _a, _w: 3, {}, "must return a next state and a reward"),
    "no pair, together": (lambda _s, _a, _w: 3, {"vectorized": True}, "step must return arrays"),
    "another length": (lambda s, _a, _w: (s[:1], 0.0 * s), {"vectorized": True}, "the next states of step must be"),
    "no number": (lambda s, _a, _w: (s, "much"), {}, "the reward of step.*must be a finite number"),
    "no finite number": (lambda s, _a, _w: (s, 0.0 * s + np.inf), {"vectorized": True}, "the reward of step"),
    "no flag": (lambda s, _a, _w: (s, 0.0, "yes"), {}, "terminated of step"),
    "hidden state": (counting(), {}, "must depend on state, action and outcome alone"),
    "chance": (lambda s, _a, _w: (s, np.random.default_rng().random()), {}, "must depend on state"),
    "a range that is too small": (shop_step, {"reward_range": (0.0, 5.0)}, "reward_range must contain every reward"),
    "one law of two": (shop_step, {"law": [LAW, LAW]}, "law must have shape"),
    "no distribution": (shop_step, {"law": 2.0 * LAW}, "law"),
    "laws of another shape": (shop_step, {"laws": np.zeros((2, 2), dtype=int)}, "laws must have shape"),
    "laws that are no numbers": (shop_step, {"laws": lambda _s, _a: "rain"}, "laws must be whole numbers"),
    "laws of rows of different lengths": (shop_step, {"laws": [[0, 1], [0]]}, "laws must have rows of equal length"),
    "a law of rows of different lengths": (shop_step, {"law": [[0.5, 0.5], [1.0]]}, "law must have rows of equal"),
    "outcomes of different lengths": (shop_step, {"outcomes": [[1], [1, 2]]}, "outcomes must be an array of numbers"),
    "one number for a vector": (
        lambda _s, _a, _w: (0, 1.0),
        {"vectorized": True, "n_states": None, "states": (3, 2), "start": None, "allowed": None},
        "the next states of step must have 2 parts",
    ),
    "equal outcomes": (shop_step, {"outcomes": [1, 1, 2]}, "outcomes must be different"),
    "no outcome": (shop_step, {"outcomes": 0}, "outcomes must be at least 1"),
    "no states": (shop_step, {"n_states": None}, "n_states or states must be given"),
    "states twice": (shop_step, {"states": (6,)}, "n_states or states must be given"),
    "no sizes": (shop_step, {"n_states": None, "states": "many"}, "states must be the number of values"),
    "no step": (3, {}, "step"),
    "too few arguments": (lambda s, _a: (s, 0.0), {}, "step"),
    "an environment that is none": (shop_step, {"env": "gym"}, "env must be a Gymnasium environment"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused(name):
    step, options, words = BAD[name]
    with pytest.raises(InvalidInput, match=words):
        shop(step, **options)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"set": "normalised"}, "set must be a likelihood set for known dynamics"),
        ({"columns": 3}, "set must be a likelihood set"),
        ({"phi": np.eye(18).reshape(6, 3, 18)}, "phi cannot be changed"),
        ({"reward": np.zeros((6, 3))}, "reward cannot be changed"),
        ({"stage_dependent": True}, "stage_dependent cannot be changed"),
        ({"horizon": 3}, "horizon cannot be changed"),
    ],
)
def test_options_of_agents_that_do_not_fit(options, words):
    with pytest.raises(InvalidInput, match=words):
        MatrixRL(shop(law=LAW), seed=0, **options)


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays: {"outcome_states": arrays["outcome_states"] + 6},
        lambda arrays: {"outcome_laws": arrays["outcome_laws"] - 1},
        lambda arrays: {"outcome_rewards": arrays["outcome_rewards"][..., :2]},
        lambda arrays: {"outcomes": arrays["outcomes"][:0]},
    ],
)
def test_damaged_tables_of_a_file_are_refused(change):
    problem = shop()
    arrays = problem.dynamics.arrays()
    sizes = problem.n_states, problem.n_actions, problem.reward_range
    assert OutcomeTables.from_arrays(arrays, *sizes).n_outcomes == 4
    with pytest.raises(InvalidInput, match="tables of known dynamics"):
        OutcomeTables.from_arrays(arrays | change(arrays), *sizes)


class TestEnvironment:
    def test_is_one_of_gymnasium(self):
        check_env(shop(law=LAW, allowed=None, step=clipped).make_env(), skip_render_check=True)

    @pytest.mark.parametrize("name", ["mdp", "make_env"])
    def test_agents_play_it_where_episodes_terminate(self, name, tmp_path):
        problem = shop(lambda s, a, w: (*clipped(s, a, w), w == 3), law=LAW, allowed=None)
        given = problem.mdp if name == "mdp" else problem.make_env()
        agent = MatrixRL(given, seed=0, known_reward=False)
        agent.learn(n_episodes=30)
        assert min(agent.history.lengths) < 7
        agent.save(tmp_path / "agent")
        again = MatrixRL.load(tmp_path / "agent")
        assert again.n_episodes == 30
        assert str(again.certificate()) == str(agent.certificate())

    def test_needs_a_law(self):
        with pytest.raises(InvalidInput, match="law must be given to simulate"):
            shop().make_env()

    def test_states_of_several_parts_are_observed_as_such(self):
        def step(state, order, demand):
            following, reward, ended = *clipped(state[0], order, demand), demand == 3
            return (following, (state[1] + 1) % 2), reward, ended

        env = shop(step, n_states=None, states=(6, 2), start=(2, 0), allowed=None, law=LAW).make_env()
        obs, _ = env.reset(seed=0)
        assert obs.tolist() == [2, 0]
        assert env.observation_space.contains(obs)
        terminated = False
        while not terminated:
            obs, _, terminated, truncated, info = env.step(1)
            assert env.observation_space.contains(obs)
            assert terminated == (info["outcome"] == 3)
            if truncated:
                obs, _ = env.reset()

    def test_an_environment_of_a_user_reports_outcomes(self):
        class Silent(gym.Wrapper):
            def step(self, action):
                *found, _ = self.env.step(action)
                return *found, {}

        law = {"law": LAW}
        for wrapped, words in ((lambda env: env, None), (Silent, "outcome must be reported, as several")):
            problem = shop(env=wrapped(shop(**law).make_env()))
            agent = MatrixRL(problem, seed=0)
            if words is None:
                agent.learn(n_episodes=3)
                assert agent.n_episodes == 3
            else:
                with pytest.raises(InvalidInput, match=words):
                    agent.learn(n_episodes=3)

    def test_spaces_must_be_those_of_the_problem(self):
        env = matrixrl.make("river-swim")
        with pytest.raises(InvalidInput, match="env must have the spaces"):
            MatrixRL(shop(env=env, horizon=20), seed=0)


def clipped(stock, order, demand):
    """Return `shop_step` of an order of which only so much is delivered as there is room for."""
    return shop_step(stock, min(order, 5 - stock), demand)


def test_laws_that_only_forbidden_pairs_use_have_their_row():
    """A table has a row for each law that is numbered, one of which no allowed pair uses."""
    allowed = np.array([[True, False], [True, False]])
    made = {"outcomes": 2, "n_states": 2, "n_actions": 2, "horizon": 2, "allowed": allowed, "laws": [[0, 1], [0, 1]]}
    known = KnownDynamics(lambda _s, _a, w: (w, 0.0), law=[[0.5, 0.5], [1.0, 0.0]], **made)
    assert MatrixRL(known, seed=0).learn(2).returns.tolist() == [0.0, 0.0]
    with pytest.raises(InvalidInput, match="law must"):
        KnownDynamics(lambda _s, _a, w: (w, 0.0), law=[[0.5, 0.5]], **made)
