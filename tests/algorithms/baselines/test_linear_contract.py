"""What all linear and kernel baselines promise beside the protocol: learning, honest guarantees, refusals."""

from __future__ import annotations

import numpy as np
import pytest

from algorithms.playing import Player, started
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.problems import FiniteMDP, RegretEvaluator, tabular
from matrixrl.records import Steps
from small_worlds import WORLDS

EPISODIC = ["rlsvi", "lsvi-ucb", "ucrl-vtr", "kernel-ucbvi"]
BANDITS = ["lin-ucb", "kernel-ucb"]


def agent_of(name, mdp, seeds, **settings):
    return started(name, mdp, seeds, **{"preset": "tuned", "n_episodes": 40, **settings})


def with_end():
    """Four states in a row; moving on from the third ends the episode."""
    table = np.zeros((4, 2, 4))
    for s in range(3):
        table[s, 0] = np.eye(4)[max(s - 1, 0)]
        table[s, 1] = 0.9 * np.eye(4)[s + 1] + 0.1 * np.eye(4)[s]
    table[3, :, 3] = 1.0
    reward = np.zeros((4, 2))
    reward[2, 1], reward[0, 0] = 1.0, 0.05
    return FiniteMDP(table, reward, horizon=6, end_state=3)


@pytest.mark.parametrize("name", EPISODIC)
def test_steps_after_the_end_are_not_counted(name):
    mdp = with_end()
    agents = [agent_of(name, mdp, [0], known_reward=False) for _ in range(2)]
    rng = np.random.default_rng(0)
    for _ in range(4):
        taken = np.array([[True, True, True, False, False, False]])
        states, actions, after = np.array([[0, 1, 2, 3, 3, 3]]), np.ones((1, 6), int), np.array([[1, 2, 3, 3, 3, 3]])
        for agent in agents:
            agent.plan()
        agents[0].update(Steps.of(states, actions, np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]), after, taken=taken))
        for array, high in ((states, 4), (actions, 2), (after, 4)):
            array[:, 3:] = rng.integers(0, high, (1, 3))
        agents[1].update(Steps.of(states, actions, np.array([[0.0, 0.0, 1.0, 9.0, 9.0, 9.0]]), after, taken=taken))
    for key, array in agents[0].state().items():
        np.testing.assert_array_equal(array, agents[1].state()[key])


@pytest.mark.parametrize("name", EPISODIC)
@pytest.mark.parametrize("known", [True, False])
def test_learns_to_reach_an_end(name, known):
    mdp = with_end()
    evaluator = RegretEvaluator(mdp)
    plans = Player(agent_of(name, mdp, [0, 1, 2, 3], known_reward=known)).episodes(150)
    lost = np.array([evaluator.regret(plan.policy) for plan in plans])
    assert lost[-50:].mean() < 0.02 * evaluator.optimal_value < lost[:2].mean()


def river():
    """RiverSwim in four states, without the registry: right is slow and pays 1 at the end, left pays 0.05 at once."""
    n = 4
    table = np.zeros((n, 2, n))
    for s in range(n):
        table[s, 0, max(s - 1, 0)] = 1.0
        table[s, 1, max(s - 1, 0)] += 0.1
        table[s, 1, s] += 0.5
        table[s, 1, min(s + 1, n - 1)] += 0.4
    reward = np.zeros((n, 2))
    reward[0, 0], reward[-1, 1] = 0.05, 1.0
    return FiniteMDP(table, reward, horizon=12)


@pytest.mark.parametrize("name", EPISODIC)
@pytest.mark.parametrize("known", [True, False])
def test_loses_far_less_than_random_play_on_a_river(name, known):
    mdp = river()
    evaluator = RegretEvaluator(mdp)
    plans = Player(agent_of(name, mdp, [0, 1, 2, 3], known_reward=known, n_episodes=150)).episodes(150)
    lost = sum(evaluator.regret(plan.policy).mean() for plan in plans)
    rng = np.random.default_rng(0)
    random = np.mean([evaluator.regret(rng.integers(0, 2, (4, 12, 4))).mean() for _ in range(50)]) * 150
    assert lost < 0.25 * random


NUMBERS = {
    "rlsvi": ("scale", "ridge"),
    "lsvi-ucb": ("scale", "ridge", "delta"),
    "ucrl-vtr": ("scale", "ridge", "delta"),
    "kernel-ucbvi": ("scale", "bandwidth", "beta", "lipschitz"),
    "lin-ucb": ("scale", "ridge", "delta", "norm"),
    "kernel-ucb": ("scale", "ridge", "delta", "length_scale"),
}


@pytest.mark.parametrize(("name", "setting"), [(name, key) for name, keys in NUMBERS.items() for key in keys])
def test_numbers_out_of_range_are_refused(name, setting):
    with pytest.raises(InvalidInput, match=f"^{setting} must be"):
        BASELINES[name](**{setting: -1.0})
    with pytest.raises(InvalidInput, match=f"^{setting} must be"):
        BASELINES[name](**{setting: "much"})


@pytest.mark.parametrize(
    ("name", "setting", "value", "error"),
    [
        ("rlsvi", "stages", "pool", UnknownName),
        ("rlsvi", "noise", "none", UnknownName),
        ("rlsvi", "clip", 1, InvalidInput),
        ("lsvi-ucb", "stages", "each", UnknownName),
        ("lsvi-ucb", "clip", "yes", InvalidInput),
        ("kernel-ucbvi", "stages", "each", UnknownName),
        ("lin-ucb", "radius", "valko", UnknownName),
        ("kernel-ucb", "radius", "oful", UnknownName),
        ("kernel-ucb", "action_correlation", 1.0, InvalidInput),
        ("ucrl-vtr", "preset", "best", UnknownName),
    ],
)
def test_words_that_mean_nothing_are_refused(name, setting, value, error):
    with pytest.raises(error, match=f"^{setting} must be"):
        BASELINES[name](**{setting: value})


def test_guarantees_are_claimed_only_where_a_theorem_covers_them():
    one_hot, mixed = WORLDS["tabular"](1).mdp, WORLDS["low rank"](1).mdp
    bandit = tabular(n_states=5, n_actions=3, horizon=1, seed=2).mdp
    paper = {"preset": "paper"}
    assert agent_of("rlsvi", one_hot, [0], **paper, known_reward=False).guarantee
    assert agent_of("ucrl-vtr", mixed, [0], **paper).guarantee
    assert agent_of("lin-ucb", bandit, [0], **paper).guarantee
    unproven = [
        agent_of("rlsvi", one_hot, [0], **paper, known_reward=True),
        agent_of("rlsvi", mixed, [0], **paper, known_reward=False),
        agent_of("rlsvi", one_hot, [0], **paper, known_reward=False, scale=0.5),
        agent_of("ucrl-vtr", one_hot, [0], **paper, known_reward=False),
        agent_of("lsvi-ucb", one_hot, [0], **paper),
        agent_of("kernel-ucbvi", one_hot, [0], **paper),
        agent_of("kernel-ucb", bandit, [0], **paper),
        *(agent_of(name, one_hot, [0]) for name in EPISODIC),
        *(agent_of(name, bandit, [0]) for name in BANDITS),
    ]
    for agent in unproven:
        assert not agent.guarantee
        assert len(agent.guarantee.reason) > 20
