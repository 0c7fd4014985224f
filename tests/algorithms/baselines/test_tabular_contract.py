"""What all tabular baselines promise: replicas that share nothing, exact resumption, learning, clear refusals."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms.baselines import BASELINES
from matrixrl.envs import make
from matrixrl.errors import InvalidInput
from matrixrl.problems import RegretEvaluator, draw_start, tabular
from matrixrl.seeding import generator
from tolerances import EXACT

NAMES = ["random", "epsilon-greedy", "ucrl2", "psrl", "ucbvi", "q-learning"]
VARIANTS = [(name, {}) for name in NAMES]
VARIANTS += [
    ("ucbvi", {"bonus": "bernstein"}),
    ("ucrl2", {"replan": "doubling"}),
    ("epsilon-greedy", {"half_life": 5.0}),
]
EASY = tabular(n_states=4, n_actions=3, horizon=5, seed=2).mdp
LAKE = make("gym:FrozenLake-v1", horizon=12).unwrapped.mdp  # ends early: has an end state
NOISY = make("river-swim", n_states=4, horizon=8, noisy_rewards=True).unwrapped.mdp

each_variant = pytest.mark.parametrize(("name", "settings"), VARIANTS, ids=[f"{n} {s}" for n, s in VARIANTS])
each_world = pytest.mark.parametrize("mdp", [EASY, LAKE, NOISY], ids=["easy", "lake", "noisy"])
each_reward = pytest.mark.parametrize("known_reward", [True, False], ids=["known", "unknown"])


def make_engine(name, mdp, seeds, **settings):
    kind = BASELINES[name]
    chosen = kind.settings_class.resolve({"preset": "tuned", "n_episodes": 100, **settings})
    return kind(mdp.task, mdp.task.features, chosen, list(seeds))


class Play:
    """Episodes of an engine in a world; every seed has its own luck, wherever it plays."""

    def __init__(self, engine, mdp):
        self.engine, self.mdp = engine, mdp
        self.luck = [generator(seed, "env") for seed in engine.seeds]

    def episodes(self, n):
        return [self.episode() for _ in range(n)]

    def episode(self):
        engine, task, n = self.engine, self.mdp.task, self.engine.n_replicas
        plan = engine.next_plan()
        uniforms = np.stack([rng.random((2, task.horizon + 1)) for rng in self.luck])
        states = np.empty((n, task.horizon + 1), dtype=np.int64)
        actions = np.empty((n, task.horizon), dtype=np.int64)
        states[:, 0] = draw_start(task.start, uniforms[:, 0, 0])
        for h in range(task.horizon):
            actions[:, h] = plan.policy[np.arange(n), h, states[:, h]]
            states[:, h + 1] = self.mdp.transitions.sample(states[:, h], actions[:, h], uniforms[:, 0, h + 1])
        before = states[:, :-1]
        weights = np.ones(before.shape) if task.end_state is None else (before != task.end_state).astype(float)
        rewards = self.mdp.earn(before, actions, uniforms[:, 1, 1:]) * weights
        engine.update(before, actions, states[:, 1:], weights, rewards)
        return plan


@each_variant
@each_world
@each_reward
def test_replicas_together_play_as_each_would_alone(name, settings, mdp, known_reward):
    seeds = [3, 11, 5]
    together = make_engine(name, mdp, seeds, known_reward=known_reward, **settings)
    plans = Play(together, mdp).episodes(12)
    for b, seed in enumerate(seeds):
        alone = make_engine(name, mdp, [seed], known_reward=known_reward, **settings)
        for own, shared in zip(Play(alone, mdp).episodes(12), plans, strict=True):
            np.testing.assert_array_equal(own.policy[0], shared.policy[b])
            np.testing.assert_allclose(own.values[0], shared.values[b], atol=EXACT)
        assert alone.plans[0] == together.plans[b] > 0
        assert alone.guarantee == together.guarantee


@each_variant
@each_world
def test_saved_and_restored_it_goes_on_bit_for_bit(name, settings, mdp, tmp_path):
    engine = make_engine(name, mdp, [1, 2], known_reward=False, **settings)
    play = Play(engine, mdp)
    play.episodes(9)
    np.savez(tmp_path / "learned.npz", **engine.arrays())
    streams = engine.random_states()
    other = make_engine(name, mdp, [7, 8], known_reward=False, **settings)  # its own streams are replaced
    with np.load(tmp_path / "learned.npz", allow_pickle=False) as saved:
        learned = dict(saved)
    assert all(np.isfinite(array).all() for array in learned.values())
    other.check_arrays(learned)
    other.restore_arrays(learned)
    other.restore_random_states(streams)
    other.episode = engine.episode
    resumed = Play(other, mdp)
    resumed.luck = [generator(seed, "sampling") for seed in (1, 2)]
    play.luck = [generator(seed, "sampling") for seed in (1, 2)]
    for first, second in zip(play.episodes(6), resumed.episodes(6), strict=True):
        assert np.array_equal(first.policy, second.policy)
        assert np.array_equal(first.values, second.values)
    for key, array in engine.arrays().items():
        assert np.array_equal(array, other.arrays()[key]), key


@each_variant
def test_a_plan_that_was_taken_back_leaves_no_trace(name, settings):
    engine = make_engine(name, EASY, [1, 2], known_reward=False, **settings)
    Play(engine, EASY).episodes(5)
    learned = {key: array.copy() for key, array in engine.arrays().items()}
    streams, state = engine.random_states(), engine.planning_state()
    first = engine.next_plan()
    if settings.get("replan") != "doubling":  # whose last plan may still be good
        assert engine.random_states() != streams
    engine.restore_planning(state)
    assert engine.random_states() == streams
    for key, array in engine.arrays().items():
        assert np.array_equal(array, learned[key]), key
    second = engine.next_plan()
    assert np.array_equal(first.policy, second.policy)
    assert np.array_equal(first.values, second.values)


@each_variant
def test_the_end_of_an_episode_is_worth_what_it_earns_and_never_counted(name, settings):
    engine = make_engine(name, LAKE, [1, 2], known_reward=False, **settings)
    plan = Play(engine, LAKE).episodes(10)[-1]
    end = LAKE.task.end_state
    assert np.array_equal(plan.values[:, :, end], np.zeros((2, 13)))  # the lake pays from 0
    counts = engine.arrays().get("counts", engine.arrays().get("visits"))
    if counts is not None:
        visits = counts.reshape(2, -1, LAKE.n_states)
        assert 0 < visits.sum() < 2 * 10 * 12
        assert visits[:, :, end].sum() == 0


@each_variant
def test_steps_that_were_not_taken_teach_nothing(name, settings, rng):
    engine = make_engine(name, EASY, [1, 2], known_reward=False, **settings)
    Play(engine, EASY).episodes(5)
    learned = {key: array.copy() for key, array in engine.arrays().items()}
    states, actions = rng.integers(4, size=(2, 5)), rng.integers(3, size=(2, 5))
    engine.update(states, actions, states[:, ::-1], np.zeros((2, 5)), np.zeros((2, 5)))
    for key, array in engine.arrays().items():
        np.testing.assert_array_equal(array, learned[key], key)


@pytest.mark.parametrize("name", NAMES[1:])
@each_reward
def test_it_learns_an_easy_problem(name, known_reward):
    judge = RegretEvaluator(EASY)

    def late_regret(engine):
        plans = Play(engine, EASY).episodes(160)
        return np.mean([judge.regret(plan.policy) for plan in plans[80:]])

    learned = late_regret(make_engine(name, EASY, range(8), known_reward=known_reward, n_episodes=160))
    assert learned < 0.35 * late_regret(make_engine("random", EASY, range(8)))


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
        ("random", {"epsilon": 0.1}, "agent setting must be one of"),
        ("psrl", {"known_reward": 1}, "known_reward must be true or false"),
        ("ucbvi", {"n_episodes": 0}, "n_episodes must be at least 1"),
    ],
)
def test_bad_settings_are_refused_in_one_sentence(name, settings, message):
    with pytest.raises(InvalidInput, match=message):
        BASELINES[name].settings_class.resolve(settings)


def test_only_what_a_paper_proves_is_called_proven():
    proven = {name: make_engine(name, EASY, [0], preset="paper").guarantee is True for name in NAMES}
    assert [name for name in NAMES if proven[name]] == ["ucbvi", "q-learning"]
    for name in ("ucbvi", "q-learning"):
        assert "scaled by" in make_engine(name, EASY, [0]).guarantee
        engine = make_engine(name, EASY, [0], preset="paper", n_episodes=2)
        Play(engine, EASY).episodes(3)
        assert "more than the 2 episodes" in engine.guarantee
        anytime = BASELINES[name].settings_class.resolve({})
        assert "n_episodes" in BASELINES[name](EASY.task, EASY.task.features, anytime, [0]).guarantee
    assert "rewards as known" in make_engine("ucbvi", EASY, [0], preset="paper", known_reward=False).guarantee


@pytest.mark.parametrize(("name", "key"), [("ucbvi", "q"), ("q-learning", "visits"), ("ucrl2", "kept_policy")])
def test_arrays_of_another_problem_are_refused(name, key):
    arrays = make_engine(name, LAKE, [0]).arrays()
    with pytest.raises(InvalidInput, match="must have shape"):
        make_engine(name, EASY, [0]).check_arrays({**make_engine(name, EASY, [0]).arrays(), key: arrays[key]})


def test_impossible_arrays_are_refused():
    visits = make_engine("q-learning", EASY, [0])
    with pytest.raises(ValueError, match="negative"):
        visits.restore_arrays({**visits.arrays(), "visits": visits.visits - 1.0})
    ucrl2 = make_engine("ucrl2", EASY, [0])
    policy = ucrl2.arrays()["kept_policy"] + np.uint8(3)
    with pytest.raises(ValueError, match="actions that do not exist"):
        ucrl2.restore_arrays({**ucrl2.arrays(), "kept_policy": policy})
