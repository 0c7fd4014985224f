"""The contract of `Algorithm` for every baseline: replicas, resuming, rewinding, short episodes, settings."""

from __future__ import annotations

import io
from dataclasses import fields, replace

import numpy as np
import pytest

from algorithms.playing import Player, environment_streams, started
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.envs import make
from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.problems import ContinuousTask, Problem, low_rank, tabular
from matrixrl.records import Steps
from small_worlds import WORLDS
from tolerances import ALGEBRA, EXACT

MDPS = {
    "easy": tabular(n_states=4, n_actions=3, horizon=5, seed=2).mdp,
    "lake": make("gym:FrozenLake-v1", horizon=12).unwrapped.mdp,  # ends early: has an end state
    "noisy": make("river-swim", n_states=4, horizon=8, noisy_rewards=True).unwrapped.mdp,
    "tabular": WORLDS["tabular"](1).mdp,
    "low rank": WORLDS["low rank"](1).mdp,
    "tabular bandit": tabular(n_states=5, n_actions=3, horizon=1, seed=2).mdp,
    "low rank bandit": low_rank(n_states=8, n_actions=3, d=3, horizon=1, seed=2, noisy_rewards=True).mdp,
}
COUNTING = [(name, {}) for name in ("random", "epsilon-greedy", "ucrl2", "psrl", "ucbvi", "q-learning")]
COUNTING += [
    ("ucbvi", {"bonus": "bernstein"}),
    ("ucrl2", {"replan": "doubling"}),
    ("epsilon-greedy", {"half_life": 5.0}),
]
REGRESSING = ["rlsvi", "lsvi-ucb", "ucrl-vtr", "kernel-ucbvi"]
BANDITS = ["lin-ucb", "kernel-ucb"]
CASES = [
    (name, settings, world) for name, settings in COUNTING for world in ("easy", "lake", "noisy", "tabular bandit")
]
CASES += [(name, {}, world) for name in REGRESSING for world in ("tabular", "low rank", "lake")]
CASES += [(name, {}, world) for name in REGRESSING for world in ("tabular bandit", "low rank bandit")]
CASES += [(name, {}, world) for name in BANDITS for world in ("tabular bandit", "low rank bandit")]
FIRST = {name: (name, settings, world) for name, settings, world in reversed(CASES)}  # one case of each baseline

each_case = pytest.mark.parametrize(("name", "settings", "world"), CASES, ids=[f"{n} {s} {w}" for n, s, w in CASES])
each_baseline = pytest.mark.parametrize(("name", "settings", "world"), FIRST.values(), ids=FIRST.keys())
each_preset = pytest.mark.parametrize("preset", ["paper", "tuned"])
each_reward = pytest.mark.parametrize("known_reward", [True, False], ids=["known", "unknown"])


def agent_of(name, world, seeds=(1, 2), **settings):
    return started(name, MDPS[world], seeds, **{"preset": "tuned", "n_episodes": 40, **settings})


def played(name, world, episodes, **settings):
    agent = agent_of(name, world, known_reward=False, **settings)
    player = Player(agent)
    player.episodes(episodes)
    return agent, player


def assert_same_plan(first, second):
    for key, array in first.arrays().items():
        np.testing.assert_array_equal(array, second.arrays()[key], key)


def assert_same_state(first, second):
    assert first.keys() == second.keys()
    for key, array in first.items():
        np.testing.assert_array_equal(array, second[key], key)


def test_every_baseline_is_tested():
    assert set(FIRST) == set(BASELINES)


@each_case
@each_reward
def test_replicas_together_play_as_each_would_alone(name, settings, world, known_reward):
    seeds = [3, 11, 5]
    together = agent_of(name, world, seeds, known_reward=known_reward, **settings)
    plans = Player(together).episodes(12)
    for b, seed in enumerate(seeds):
        alone = agent_of(name, world, [seed], known_reward=known_reward, **settings)
        for own, shared in zip(Player(alone).episodes(12), plans, strict=True):
            np.testing.assert_array_equal(own.policy[0], shared.policy[b])
            tolerance = EXACT if (name, settings) in COUNTING else ALGEBRA
            np.testing.assert_allclose(own.values[0], shared.values[b], atol=tolerance)
        assert alone.n_plans[0] == together.n_plans[b] > 0
        assert alone.guarantee == together.guarantee


@each_case
@each_preset
def test_saved_and_restored_it_goes_on_bit_for_bit(name, settings, world, preset):
    first, player = played(name, world, 6, preset=preset, **settings)
    plan = first.plan()  # saved while an episode is being played, the hardest moment
    file = io.BytesIO()
    np.savez(file, **first.state())
    file.seek(0)
    with np.load(file, allow_pickle=False) as saved:
        state = dict(saved)
    assert all(np.isfinite(array).all() for array in state.values())
    second = agent_of(name, world, [91, 92], preset=preset, known_reward=False, **settings)  # its streams are replaced
    second.restore(state)
    resumed = Player(second)
    player.streams, resumed.streams = environment_streams([7, 8]), environment_streams([7, 8])
    player.episode(plan)
    resumed.episode(plan)
    for _ in range(5):
        assert_same_plan(player.episode()[0], resumed.episode()[0])
    assert_same_state(first.state(), second.state())


@each_case
def test_a_plan_that_was_rewound_leaves_no_trace(name, settings, world):
    agent, _ = played(name, world, 5, **settings)
    before, undo = agent.state(), agent.mark()
    first = agent.plan()
    if settings.get("replan") != "doubling":  # which may keep its last plan and draw nothing
        assert (agent.state()["streams"] != before["streams"]).any()
    undo()
    assert_same_state(agent.state(), before)
    assert_same_plan(agent.plan(), first)


@each_case
def test_advice_changes_nothing_and_can_be_asked_again(name, settings, world):
    agent, player = played(name, world, 5, **settings)
    undo = agent.mark()
    expected, after = agent.plan(), agent.state()
    undo()
    before = agent.state()
    advice = agent.advice()
    assert_same_state(agent.state(), before)
    assert_same_plan(agent.advice(), advice)
    assert_same_plan(agent.plan(), expected)
    assert_same_state(agent.state(), after)
    agent.advice()  # while an episode is being played
    assert_same_state(agent.state(), after)
    player.episode(expected)


@each_baseline
def test_a_state_is_a_snapshot(name, settings, world):
    agent, player = played(name, world, 3, **settings)
    state = agent.state()
    kept = {key: array.copy() for key, array in state.items()}
    player.episodes(3)
    assert_same_state(state, kept)
    agent.restore(state)
    player.episodes(3)
    assert_same_state(state, kept)


@each_baseline
def test_states_that_do_not_fit_are_refused(name, settings, world):
    agent, _ = played(name, world, 3, **settings)
    fresh, state = agent_of(name, world, agent.seeds, **settings), agent.state()
    fresh._check_state(state)
    for key, array in state.items():
        wrong = [{**state, key: np.stack([array, array])}, {k: v for k, v in state.items() if k != key}]
        if array.dtype.kind == "f" and array.size:
            wrong.append({**state, key: np.full_like(array, np.nan)})
        for odd in (*wrong, {**state, key: array.astype(np.float32)}, {**state, "other": np.zeros(2)}):
            with pytest.raises(InvalidInput):
                fresh._check_state(odd)


@each_case
def test_a_short_episode_is_one_whose_last_steps_were_not_taken(name, settings, world, rng):
    mdp = MDPS[world]
    agents = [agent_of(name, world, [4], known_reward=False, **settings) for _ in range(3)]
    players = [Player(agent) for agent in agents]
    for _ in range(4):
        plans = [agent.plan() for agent in agents]
        full = players[0].steps(plans[0])
        k = mdp.horizon // 2
        short = Steps(*(None if (a := getattr(full, f.name)) is None else a[:, :k] for f in fields(Steps)))
        taken = full.taken & (np.arange(mdp.horizon) < k)
        noise = replace(
            full,
            states=np.where(taken, full.states, rng.integers(mdp.n_states, size=taken.shape)),
            actions=np.where(taken, full.actions, rng.integers(mdp.n_actions, size=taken.shape)),
            next_states=np.where(taken, full.next_states, rng.integers(mdp.n_states, size=taken.shape)),
            rewards=np.where(taken, full.rewards, 9.0),
            taken=taken,
        )
        for agent, steps in zip(agents, (short, short.padded(mdp.horizon), noise), strict=True):
            agent.update(steps)
    for agent in agents[1:]:
        assert_same_state(agent.state(), agents[0].state())


@each_baseline
def test_one_configuration_starts_any_number_of_times(name, settings, world):
    configured = BASELINES[name](**settings)
    problem = Problem.of(MDPS[world])
    first, second = configured.start(problem, [0]), configured.start(problem, [0])
    Player(first).episodes(3)
    assert not hasattr(configured, "problem")
    assert (first.episode, second.episode) == (3, 0)
    assert_same_state(second.state(), configured.start(problem, [0]).state())


@each_baseline
def test_plans_act_by_their_table_and_are_saved(name, settings, world):
    agent, _ = played(name, world, 3, **settings)
    task = MDPS[world].task
    plan, states = agent.plan(), np.array([1, task.n_states - 1])
    for h in range(task.horizon):
        actions = agent.act(plan, h, states, explore=False)
        assert actions.tolist() == [agent.policy_table(plan)[b, h, s] for b, s in enumerate(states)]
    np.testing.assert_array_equal(agent.upper(plan), task.to_own_unit(plan.values[:, 0] @ task.start))
    np.testing.assert_array_equal(agent.upper(plan, states), task.to_own_unit(plan.values[[0, 1], 0, states]))
    alone = agent_of(name, world, [5], **settings)
    plan = alone.plan()
    arrays = plan.arrays()
    assert_same_plan(alone.plan_from_arrays(arrays), plan)
    with pytest.raises(InvalidInput, match="does not fit"):
        alone.plan_from_arrays({**arrays, "policy": arrays["policy"] + task.n_actions})


@each_baseline
def test_only_random_play_learns_from_vectors(name, settings, world):
    task = ContinuousTask(1, np.zeros(1), np.ones(1), n_actions=2, horizon=1, reward_range=None, max_return=None)
    if name == "random":
        assert started(name, Problem(task)).n_replicas == 1
        return
    with pytest.raises(InvalidInput, match=f"^problem must have numbered states for {name}"):
        started(name, Problem(task))


SETTINGS = [(name, field) for name, kind in BASELINES.items() for field in fields(kind.settings_class)]
WRONG = {"float": [-1.0, "much", float("nan")], "int": [-1, 1.5], "str": ["none of these"], "bool": [1, "yes"]}


@pytest.mark.parametrize(("name", "field"), SETTINGS, ids=[f"{name} {field.name}" for name, field in SETTINGS])
def test_every_setting_is_explained_and_checked(name, field):
    text = field.metadata["help"]
    assert text[0].isupper()
    assert text.endswith(".")
    assert len(text.split()) >= 3
    kind = field.type.removesuffix(" | None")
    for value in WRONG[kind]:
        with pytest.raises(UnknownName if kind == "str" else InvalidInput, match=f"^{field.name} must be"):
            BASELINES[name](**{field.name: value})


@pytest.mark.parametrize("name", BASELINES)
@each_preset
def test_settings_that_were_left_out_are_those_of_the_preset(name, preset):
    settings = BASELINES[name](preset=preset, n_episodes=None).settings
    for key, value in settings.PRESETS[preset].items():
        assert getattr(settings, key) == value
    assert type(settings).from_dict(settings.as_dict()) == settings


@pytest.mark.parametrize("name", BASELINES)
def test_unknown_settings_are_refused(name):
    with pytest.raises(UnknownName, match=r"^agent setting must be one of .*Did you"):
        BASELINES[name](presets="paper")
