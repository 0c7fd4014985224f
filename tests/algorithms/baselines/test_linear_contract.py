"""What every linear and kernel baseline owes to its callers, whatever it computes."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms.baselines import BASELINES
from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.problems import FiniteMDP, RegretEvaluator, low_rank, tabular
from worlds import WORLDS

EPISODIC = ["rlsvi", "lsvi-ucb", "ucrl-vtr", "kernel-ucbvi"]
BANDITS = ["lin-ucb", "kernel-ucb"]
SMALL = {
    "tabular": lambda: WORLDS["tabular"](1).mdp,
    "low rank": lambda: WORLDS["low rank"](1).mdp,
    "tabular bandit": lambda: tabular(n_states=5, n_actions=3, horizon=1, seed=2).mdp,
    "low rank bandit": lambda: low_rank(n_states=8, n_actions=3, d=3, horizon=1, seed=2, noisy_rewards=True).mdp,
}
CASES = [(agent, world) for agent in EPISODIC for world in ("tabular", "low rank")]
CASES += [(agent, world) for agent in BANDITS for world in ("tabular bandit", "low rank bandit")]


def engine_of(agent, mdp, seeds, **settings):
    made = BASELINES[agent].settings_class.resolve({"preset": "tuned", "n_episodes": 40, **settings})
    return BASELINES[agent](mdp.task, mdp.task.features, made, seeds)


def worlds_of(seeds):
    return [np.random.default_rng([seed, 77]) for seed in seeds]


def play(engine, mdp, rngs, plan=None):
    """Play one episode; return the plan and what was seen."""
    plan = engine.next_plan() if plan is None else plan
    n, horizon = len(rngs), mdp.horizon
    uniforms = np.stack([rng.random((2, horizon)) for rng in rngs])
    states = np.zeros((n, horizon + 1), dtype=np.int64)
    states[:, 0] = [rng.choice(mdp.n_states, p=mdp.task.start) for rng in rngs]
    actions = np.zeros((n, horizon), dtype=np.int64)
    for h in range(horizon):
        actions[:, h] = plan.policy[np.arange(n), h, states[:, h]]
        states[:, h + 1] = mdp.transitions.sample(states[:, h], actions[:, h], uniforms[:, 0, h])
    before, after = states[:, :-1], states[:, 1:]
    end = mdp.task.end_state
    weights = np.ones((n, horizon)) if end is None else (before != end).astype(float)
    engine.update(before, actions, after, weights, mdp.earn(before, actions, uniforms[:, 1]) * weights)
    return plan


@pytest.mark.parametrize(("agent", "world"), CASES)
@pytest.mark.parametrize("known", [True, False])
def test_replicas_in_a_batch_play_as_they_would_alone(agent, world, known):
    mdp, seeds = SMALL[world](), [3, 5, 8]
    together, rngs = engine_of(agent, mdp, seeds, known_reward=known), worlds_of(seeds)
    plans = [play(together, mdp, rngs) for _ in range(12)]
    for b, seed in enumerate(seeds):
        alone, rng = engine_of(agent, mdp, [seed], known_reward=known), worlds_of([seed])
        for plan in plans:
            single = play(alone, mdp, rng)
            np.testing.assert_array_equal(single.policy[0], plan.policy[b])
            np.testing.assert_allclose(single.values[0], plan.values[b], atol=1e-9)


@pytest.mark.parametrize(("agent", "world"), CASES)
@pytest.mark.parametrize("preset", ["paper", "tuned"])
def test_saved_and_restored_goes_on_bit_for_bit(agent, world, preset):
    mdp, seeds = SMALL[world](), [2, 4]
    first = engine_of(agent, mdp, seeds, preset=preset, known_reward=False)
    rngs = worlds_of(seeds)
    for _ in range(6):
        play(first, mdp, rngs)
    plan = first.next_plan()  # saved while an episode is under way: the hardest moment
    saved, streams = first.arrays(), first.random_states()
    second = engine_of(agent, mdp, [91, 92], preset=preset, known_reward=False)
    second.check_arrays(saved)
    second.restore_arrays(saved)
    second.restore_random_states(streams)
    twin = [np.random.default_rng() for _ in seeds]
    for rng, other in zip(twin, rngs, strict=True):
        rng.bit_generator.state = other.bit_generator.state
    play(first, mdp, rngs, plan)
    play(second, mdp, twin, plan)
    for _ in range(5):
        one, two = play(first, mdp, rngs), play(second, mdp, twin)
        np.testing.assert_array_equal(one.policy, two.policy)
        np.testing.assert_array_equal(one.values, two.values)
    for name, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[name])


@pytest.mark.parametrize(("agent", "world"), CASES)
def test_an_abandoned_plan_leaves_no_trace(agent, world):
    mdp = SMALL[world]()
    engine, rngs = engine_of(agent, mdp, [1, 2]), worlds_of([1, 2])
    for _ in range(3):
        play(engine, mdp, rngs)
    state, before = engine.planning_state(), engine.arrays()
    first = engine.next_plan()
    engine.restore_planning(state)
    for name, array in engine.arrays().items():
        np.testing.assert_array_equal(array, before[name])
    second = engine.next_plan()
    np.testing.assert_array_equal(first.policy, second.policy)
    np.testing.assert_array_equal(first.values, second.values)


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


@pytest.mark.parametrize("agent", EPISODIC)
def test_steps_after_the_end_are_not_counted(agent):
    mdp = with_end()
    engines = [engine_of(agent, mdp, [0], known_reward=False) for _ in range(2)]
    rng = np.random.default_rng(0)
    for _ in range(4):
        weights = np.array([[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]])
        states, actions, after = np.array([[0, 1, 2, 3, 3, 3]]), np.ones((1, 6), int), np.array([[1, 2, 3, 3, 3, 3]])
        for engine in engines:
            engine.next_plan()
        engines[0].update(states, actions, after, weights, np.array([[0.0, 0.0, 1.0, 0.0, 0.0, 0.0]]))
        for array, high in ((states, 4), (actions, 2), (after, 4)):
            array[:, 3:] = rng.integers(0, high, (1, 3))
        engines[1].update(states, actions, after, weights, np.array([[0.0, 0.0, 1.0, 9.0, 9.0, 9.0]]))
    for name, array in engines[0].arrays().items():
        np.testing.assert_array_equal(array, engines[1].arrays()[name])


@pytest.mark.parametrize("agent", EPISODIC)
@pytest.mark.parametrize("known", [True, False])
def test_learns_to_reach_an_end(agent, known):
    mdp = with_end()
    judge, seeds = RegretEvaluator(mdp), [0, 1, 2, 3]
    engine, rngs = engine_of(agent, mdp, seeds, known_reward=known), worlds_of(seeds)
    lost = np.array([judge.regret(play(engine, mdp, rngs).policy) for _ in range(150)])
    assert lost[-50:].mean() < 0.02 * judge.optimal_value < lost[:2].mean()


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


@pytest.mark.parametrize("agent", EPISODIC)
@pytest.mark.parametrize("known", [True, False])
def test_loses_far_less_than_random_play_on_a_river(agent, known):
    mdp, seeds = river(), [0, 1, 2, 3]
    judge = RegretEvaluator(mdp)
    engine, rngs = engine_of(agent, mdp, seeds, known_reward=known, n_episodes=150), worlds_of(seeds)
    lost = sum(judge.regret(play(engine, mdp, rngs).policy).mean() for _ in range(150))
    rng = np.random.default_rng(0)
    random = np.mean([judge.regret(rng.integers(0, 2, (4, 12, 4))).mean() for _ in range(50)]) * 150
    assert lost < 0.25 * random


NUMBERS = {
    "rlsvi": ("scale", "ridge"),
    "lsvi-ucb": ("scale", "ridge", "delta"),
    "ucrl-vtr": ("scale", "ridge", "delta"),
    "kernel-ucbvi": ("scale", "bandwidth", "beta", "lipschitz"),
    "lin-ucb": ("scale", "ridge", "delta", "norm"),
    "kernel-ucb": ("scale", "ridge", "delta", "length_scale"),
}


@pytest.mark.parametrize(("agent", "setting"), [(agent, name) for agent, names in NUMBERS.items() for name in names])
def test_numbers_out_of_range_are_refused(agent, setting):
    with pytest.raises(InvalidInput, match=f"^{setting} must be"):
        BASELINES[agent].settings_class.resolve({setting: -1.0})
    with pytest.raises(InvalidInput, match=f"^{setting} must be"):
        BASELINES[agent].settings_class.resolve({setting: "much"})


@pytest.mark.parametrize(
    ("agent", "setting", "value", "error"),
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
def test_words_that_mean_nothing_are_refused(agent, setting, value, error):
    with pytest.raises(error, match=f"^{setting} must be"):
        BASELINES[agent].settings_class.resolve({setting: value})


def test_guarantees_are_claimed_only_where_a_theorem_covers_them():
    one_hot, mixed = SMALL["tabular"](), SMALL["low rank"]()
    bandit = SMALL["tabular bandit"]()
    paper = {"preset": "paper"}
    assert engine_of("rlsvi", one_hot, [0], **paper, known_reward=False).guarantee is True
    assert engine_of("ucrl-vtr", mixed, [0], **paper).guarantee is True
    assert engine_of("lin-ucb", bandit, [0], **paper).guarantee is True
    words = [
        engine_of("rlsvi", one_hot, [0], **paper, known_reward=True),
        engine_of("rlsvi", mixed, [0], **paper, known_reward=False),
        engine_of("rlsvi", one_hot, [0], **paper, known_reward=False, scale=0.5),
        engine_of("ucrl-vtr", one_hot, [0], **paper, known_reward=False),
        engine_of("lsvi-ucb", one_hot, [0], **paper),
        engine_of("kernel-ucbvi", one_hot, [0], **paper),
        engine_of("kernel-ucb", bandit, [0], **paper),
        *(engine_of(agent, one_hot, [0]) for agent in EPISODIC),
        *(engine_of(agent, bandit, [0]) for agent in BANDITS),
    ]
    for engine in words:
        assert isinstance(engine.guarantee, str)
        assert len(engine.guarantee) > 20
