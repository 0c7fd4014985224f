"""What all tabular baselines promise beside the protocol: exact counting, learning, honest guarantees, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.playing import Player, started
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.envs import make
from matrixrl.errors import InvalidInput
from matrixrl.problems import RegretEvaluator, tabular
from matrixrl.records import Steps

NAMES = ["random", "epsilon-greedy", "ucrl2", "psrl", "ucbvi", "q-learning"]
VARIANTS = [(name, {}) for name in NAMES]
VARIANTS += [
    ("ucbvi", {"bonus": "bernstein"}),
    ("ucrl2", {"replan": "doubling"}),
    ("epsilon-greedy", {"half_life": 5.0}),
]
EASY = tabular(n_states=4, n_actions=3, horizon=5, seed=2).mdp
LAKE = make("gym:FrozenLake-v1", horizon=12).unwrapped.mdp  # ends early: has an end state

each_variant = pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=[f"{n} {s}" for n, s in VARIANTS])
each_reward = pytest.mark.parametrize("known_reward", [True, False], ids=["known", "unknown"])


def agent_of(name, mdp, seeds, **settings):
    return started(name, mdp, seeds, **{"preset": "tuned", "n_episodes": 100, **settings})


@each_variant
def test_the_end_of_an_episode_is_worth_what_it_earns_and_never_counted(name, settings):
    agent = agent_of(name, LAKE, [1, 2], known_reward=False, **settings)
    plan = Player(agent).episodes(10)[-1]
    end = LAKE.task.end_state
    assert np.array_equal(plan.values[:, :, end], np.zeros((2, 13)))  # the lake pays from 0
    counts = agent.learned().get("counts", agent.learned().get("visits"))
    if counts is not None:
        visits = counts.reshape(2, -1, LAKE.n_states)
        assert 0 < visits.sum() < 2 * 10 * 12
        assert visits[:, :, end].sum() == 0


@each_variant
def test_steps_that_were_not_taken_teach_nothing(name, settings, rng):
    agent = agent_of(name, EASY, [1, 2], known_reward=False, **settings)
    Player(agent).episodes(5)
    learned = {key: array.copy() for key, array in agent.learned().items()}
    states, actions = rng.integers(4, size=(2, 5)), rng.integers(3, size=(2, 5))
    taken = np.zeros((2, 5), dtype=bool)
    agent.update(Steps.of(states, actions, np.zeros((2, 5)), states[:, ::-1], taken=taken))
    for key, array in agent.learned().items():
        np.testing.assert_array_equal(array, learned[key], key)


@pytest.mark.parametrize("name", NAMES[1:])
@each_reward
def test_it_learns_an_easy_problem(name, known_reward):
    evaluator = RegretEvaluator(EASY)

    def late_regret(agent):
        plans = Player(agent).episodes(160)
        return np.mean([evaluator.regret(plan.policy) for plan in plans[80:]])

    learned = late_regret(agent_of(name, EASY, range(8), known_reward=known_reward, n_episodes=160))
    assert learned < 0.35 * late_regret(agent_of("random", EASY, range(8)))


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("epsilon-greedy", {"epsilon": 1.5}, "epsilon must be finite and in"),
        ("epsilon-greedy", {"half_life": -1}, "half_life must be finite and in"),
        ("ucrl2", {"replan": "episodes"}, "Did you mean 'episode'"),
        ("ucrl2", {"scale": -1.0}, "scale must be finite and in"),
        ("ucrl2", {"delta": 0.0}, "delta must be finite and in"),
        ("psrl", {"prior": 0.0}, "prior must be finite and in"),
        ("psrl", {"reward_prior": float("nan")}, "reward_prior must be finite and in"),
        ("ucbvi", {"bonus": "bernstien"}, "Did you mean 'bernstein'"),
        ("ucbvi", {"cap": "none"}, "cap must be one of"),
        ("ucbvi", {"scale": "big"}, "scale must be a number"),
        ("q-learning", {"delta": 1.0}, "delta must be finite and in"),
        ("q-learning", {"cap": 3}, "cap must be one of"),
        ("random", {"epsilon": 0.1}, "(agent setting|argument) must be one of"),
        ("psrl", {"known_reward": 1}, "known_reward must be true or false"),
        ("ucbvi", {"n_episodes": 0}, "n_episodes must be at least 1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(name, settings, message):
    with pytest.raises(InvalidInput, match=message):
        BASELINES[name](**settings)


def test_only_what_a_paper_proves_is_called_proven():
    proven = {name: agent_of(name, EASY, [0], preset="paper").guarantee for name in NAMES}
    assert [name for name in NAMES if proven[name]] == ["ucbvi", "q-learning"]
    for name in ("ucbvi", "q-learning"):
        assert "scaled by" in agent_of(name, EASY, [0]).guarantee.reason
        agent = agent_of(name, EASY, [0], preset="paper", n_episodes=2)
        Player(agent).episodes(3)
        assert "more than the 2 episodes" in agent.guarantee.reason
        assert "n_episodes" in started(name, EASY).guarantee.reason
    assert "rewards as known" in agent_of("ucbvi", EASY, [0], preset="paper", known_reward=False).guarantee.reason


@pytest.mark.parametrize(("name", "key"), [("ucbvi", "q"), ("q-learning", "visits"), ("ucrl2", "kept_policy")])
def test_states_of_another_problem_are_refused(name, key):
    agent, other = agent_of(name, EASY, [0]), agent_of(name, LAKE, [0]).state()
    with pytest.raises(InvalidInput, match="must have shape"):
        agent._check_state({**agent.state(), key: other[key]})


def test_a_saved_plan_has_actions_of_the_problem():
    ucrl2 = agent_of("ucrl2", EASY, [0])
    policy = ucrl2.kept_policy + np.uint8(3)
    with pytest.raises(InvalidInput, match="actions that are allowed"):
        ucrl2.restore({**ucrl2.state(), "kept_policy": policy})
