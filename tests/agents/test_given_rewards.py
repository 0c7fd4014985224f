"""Given rewards that observed ones refute withdraw every proof: in words, for good, in every form of MatrixRL."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agents.helpers import assert_same_arrays
from hostile import array_of, changed, members_of, npy
from matrixrl import Agent, CheckpointError, FiniteMDP, KernelMatrixRL, MatrixRL, Task, make, run_seeds
from matrixrl.algorithms import UCMatrixRL
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl.problems import Problem, tabular
from named_agents import AGENTS
from worlds import Hidden, random_steps

REWARD = np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 0.0]])  # of Hidden
WRONG = np.array([[0.0, 0.0], [0.0, 0.6], [0.0, 0.0]])
FORMS = {
    "likelihood set": (MatrixRL, {}),
    "likelihood set, switching": (MatrixRL, {"switch_growth": 0.5}),
    "tuned": (MatrixRL, {"preset": "tuned"}),
    "ball": (MatrixRL, {"set": "normalised"}),
    "ball, restart": (AGENTS["doubling-matrix-rl"], {"set": "normalised"}),
    "sandwich": (MatrixRL, {"set": "sandwich"}),
    "compiled likelihood set": (MatrixRL, {"compiled": True}),
    "compiled ball": (MatrixRL, {"set": "normalised", "compiled": True}),
    "kernel": (KernelMatrixRL, {"length_scale": 0.1}),
    "columns": (MatrixRL, {"columns": 50, "phi": 2.0 * np.eye(8).reshape(4, 2, 8)}),
}
KINDS = {"likelihood set": {}, "ball": {"set": "normalised"}}


def hidden(form="likelihood set", reward=REWARD, **settings):
    """Return an agent on an environment without a table; episodes of six steps end in a third state."""
    make_agent, own = FORMS[form]
    return make_agent(Hidden(), reward=reward, horizon=6, **{"seed": 0, **own, **settings})


def told(agent, rewards, *, state=0, action=0):
    """Report one episode for each list of rewards, all steps of one pair."""
    states, chosen = agent.problem.states, agent.problem.actions.decode(action)
    obs = state if states is None else states.decode(state)
    for row in rewards:
        episode = agent.begin_episode()
        for paid in row:
            episode.observe(obs, chosen, paid, obs)
        episode.end()


def claims(agent):
    """Return all that an agent says about its proofs."""
    shown = [agent.guarantee, agent.certificate().guarantee]
    if agent.problem.kind == "finite" and agent.settings.columns is None:
        shown += [agent.recommend().certificate.guarantee, agent.regret_certificate().guarantee]
    return shown


def given_of(algorithm):
    """Return what compares observed rewards with given ones, on all states or on sampled columns."""
    return getattr(algorithm._rewards, "given", algorithm._rewards)


@pytest.mark.parametrize("form", FORMS)
def test_wrong_rewards_are_refuted_in_words_saved_and_never_taken_back(form, tmp_path):
    agent = hidden(form, reward=WRONG)
    before = agent.guarantee.reason
    agent.learn(60)
    words = agent.guarantee.reason
    assert "the given rewards are refuted: pair (state 1, action 1) was given 0.6 and earned 1 on average" in words
    assert before != words
    assert all(claim.reason == words for claim in claims(agent))
    assert agent.assumptions == ""
    agent.save(tmp_path / "a")
    later = type(agent).load(tmp_path / "a", Hidden())
    assert later.guarantee.reason == words
    assert_same_arrays(later.algorithm.state(), agent.algorithm.state())
    later.learn(40)
    assert later.guarantee.reason.startswith("the given rewards are refuted: pair (state 1, action 1)")
    alone = type(agent).load(tmp_path / "a")  # without the environment: ask and tell
    assert alone.guarantee.reason == words


@pytest.mark.parametrize("form", FORMS)
def test_right_rewards_are_not_refuted(form):
    agent = hidden(form)
    agent.learn(60)
    assert agent.guarantee == hidden(form).guarantee
    assert agent.certificate().guarantee
    assert len(given_of(agent.algorithm).state_dict()["given_codes"]) > 0  # and yet they were watched


@pytest.mark.parametrize("kind", KINDS)
def test_the_proof_ends_with_the_episode_that_refutes_and_the_next_ones_have_the_alarm(kind):
    agent = MatrixRL(Task(np.full((3, 2), 0.5), 2), **KINDS[kind], seed=0)
    refuted = []
    for _ in range(20):
        told(agent, [(0.9, 0.9)], state=2, action=1)
        refuted.append(not agent.guarantee)
    first = refuted.index(True)
    assert 2 < first < 10
    assert all(refuted[first:])
    assert agent.history.alarms.tolist() == [False] * (first + 1) + [True] * (19 - first)
    assert "state 2, action 1) was given 0.5 and earned 0.9 on average in 40 visits" in agent.guarantee.reason


def test_a_reward_outside_the_claim_of_zero_or_all_is_refuted_by_one_visit():
    for given, paid in ((0.0, 0.4), (1.0, 0.4)):
        agent = MatrixRL(Task(np.full((2, 1), given), 1), seed=0)
        told(agent, [(paid,)])
        assert f"was given {given:g} and earned 0.4 on average in 1 visit (or a δ event)" in agent.guarantee.reason


def test_words_are_in_the_numbers_and_the_unit_of_the_environment():
    """States count from 5, actions from 2, and rewards are in [−10, 30]."""

    class Offset(gym.Wrapper):
        observation_space = gym.spaces.Discrete(3, start=5)
        action_space = gym.spaces.Discrete(2, start=2)

    reward = np.full((3, 2), 10.0)
    agent = MatrixRL(Offset(Hidden()), reward=reward, reward_range=(-10.0, 30.0), horizon=2, seed=0)
    told(agent, [(20.0, 20.0)] * 30, state=1, action=0)
    assert "pair (state 6, action 2) was given 10 and earned 20 on average in 60 visits" in agent.guarantee.reason


def test_single_precision_is_no_difference():
    reward = np.array([[0.1, 1.0 / 3.0], [0.7, 0.0]])
    agent = MatrixRL(Task(reward, 5), seed=0)
    for _ in range(40):
        for state, action in np.ndindex(2, 2):
            told(agent, [[float(np.float32(reward[state, action]))] * 5], state=state, action=action)
    assert agent.guarantee


@pytest.mark.parametrize("kind", KINDS)
def test_noise_with_the_given_mean_is_right(kind):
    """The mean of 0 and 1 is ½; δ = 0.05 and one seed."""
    agent = MatrixRL(Task(np.full((2, 1), 0.5), 10), **KINDS[kind], seed=0)
    told(agent, (np.random.default_rng(1).random((100, 10)) < 0.5).astype(float))
    assert agent.guarantee
    told(agent, np.ones((30, 10)))  # and a drift is found
    assert "the given rewards are refuted" in agent.guarantee.reason


def test_the_first_refuted_pair_stays_whatever_comes_later():
    agent = MatrixRL(Task(np.full((3, 1), 0.5), 10), seed=0)
    told(agent, [[0.9] * 10] * 3, state=1)
    assert "state 1, action 0" in agent.guarantee.reason
    told(agent, [[0.1] * 10] * 12, state=1)  # the mean is below ½ by now
    told(agent, [[0.45, 0.55] * 5] * 30, state=1)
    told(agent, [[0.9] * 10] * 3, state=2)
    assert "state 1, action 0) was given 0.5 and earned 0.42 on average in 450 visits" in agent.guarantee.reason


@pytest.mark.parametrize("kind", KINDS)
def test_where_the_library_has_the_table_nothing_is_watched_until_it_is_gone(kind, tmp_path):
    mdp = FiniteMDP(np.eye(2)[:, None], [[0.5], [0.5]], 2, noisy_rewards=True)
    agent = MatrixRL(mdp, **KINDS[kind], seed=0)
    agent.learn(50)
    assert not given_of(agent.algorithm).is_on
    assert len(given_of(agent.algorithm).state_dict()["given_codes"]) == 0
    agent.save(tmp_path / "a")
    alone = MatrixRL.load(tmp_path / "a")
    told(alone, [(1.0, 1.0)] * 20)
    assert "earned 1 on average in 40 visits" in alone.guarantee.reason
    alone.save(tmp_path / "b")
    again = MatrixRL.load(tmp_path / "b", mdp)  # the table is back: what was found stays, nothing is added
    state = given_of(again.algorithm).state_dict()
    again.learn(5)
    assert again.guarantee == alone.guarantee
    assert_same_arrays(given_of(again.algorithm).state_dict(), state)


@pytest.mark.parametrize("kind", KINDS)
def test_logged_rewards_are_compared_too(kind):
    """A log of thirty steps is the same data as ask and tell."""
    rows = {"episode": np.repeat(np.arange(15), 2), "state": np.zeros(30, int), "action": np.zeros(30, int)}
    rows |= {"reward": np.full(30, 0.9), "next_state": np.zeros(30, int), "step": np.tile([0, 1], 15)}
    read, advised = (MatrixRL(Task(np.full((3, 2), 0.5), 2), **KINDS[kind], seed=0) for _ in range(2))
    read.learn_from(rows, verbose=False)
    told(advised, [(0.9, 0.9)] * 15)
    for name, array in given_of(advised.algorithm).state_dict().items():
        np.testing.assert_allclose(given_of(read.algorithm).state_dict()[name], array, rtol=1e-12)
    assert "was given 0.5 and earned 0.9 on average in 30 visits" in read.certificate().guarantee.reason


def test_learned_rewards_and_baselines_are_not_compared_with_anything():
    agent = hidden(known_reward=False, reward=None)
    agent.learn(5)
    assert not given_of(agent.algorithm).is_on
    assert not [name for name in agent.algorithm.learned() if name.startswith("given_")]
    baseline = Agent(Hidden(), "psrl", reward=WRONG, horizon=6, seed=0)
    before = baseline.guarantee
    baseline.learn(40)
    assert baseline.guarantee == before  # it claims nothing


def test_a_new_epoch_forgets_no_reward():
    agent = hidden("ball, restart")
    agent.learn(40)
    visits = given_of(agent.algorithm).state_dict()["given_data"][:, 0]
    assert visits.sum() == agent.history.lengths.sum()
    assert agent.algorithm.model.design.counts.sum() < visits.sum()


@pytest.mark.parametrize("kind", KINDS)
def test_simulations_of_an_environment_without_a_table_say_it_too(kind):
    options = {"horizon": 6, "n_episodes": 60, "seeds": 2, **KINDS[kind]}
    right = run_seeds(Hidden(), reward=REWARD, **options)
    assert right.guarantee
    assert right.withdrawn is None
    for settings in ({}, {"preset": "tuned"}, {"compiled": True}):
        found = run_seeds(Hidden(), reward=WRONG, **options, **settings)
        assert "the given rewards are refuted: pair (state 1, action 1)" in found.guarantee.reason
        assert found.guarantee.as_dict() == found.as_dict()["guarantee"]
        assert found.alarms.any(axis=1).all()


def test_a_joined_result_has_the_words_of_the_seed_that_refuted():
    """The first seed plays too few episodes to refute anything."""
    from matrixrl.play.results import join_results

    few, many = (run_seeds(Hidden(), reward=WRONG, horizon=6, n_episodes=n, seeds=1) for n in (1, 60))
    assert few.guarantee
    assert "refuted" in join_results([few, many]).guarantee.reason
    assert "refuted" in join_results([many, few]).guarantee.reason


@pytest.mark.parametrize("kind", KINDS)
def test_a_simulation_that_stops_and_goes_on_is_the_same(kind):
    def simulation(window):
        options = {"settings": dict(KINDS[kind]), "reward": WRONG, "horizon": 6}
        return Simulation(Hidden(), n_episodes=60, seeds=[3], window=window, **options)

    whole, first, rest = simulation(None), simulation(range(20)), simulation(range(20, 60))
    whole.run()
    first.run()
    restore_simulation(rest, save_simulation(first))
    rest.run()
    assert_same_arrays(rest.algorithm.state(), whole.algorithm.state())
    assert rest.result().guarantee == whole.result().guarantee
    assert "refuted" in whole.result().guarantee.reason


def test_replicas_are_watched_apart(rng):
    """Three replicas of one task; the second earns other rewards than were given."""
    world = tabular(n_states=4, n_actions=2, horizon=5, seed=0)
    task = Task(world.mdp.task.reward, 5)
    algorithm = UCMatrixRL().start(Problem.of(task), seeds=[0, 1, 2])
    for _ in range(40):
        steps = random_steps(world.mdp, rng, 3)
        steps.rewards[:] = task.reward[steps.states, steps.actions]
        steps.rewards[1] = 1.0 - steps.rewards[1]
        algorithm.plan()
        algorithm.update(steps)
    assert given_of(algorithm).alarm.tolist() == [False, True, False]
    assert algorithm.plan().empty.tolist() == [0, 1, 0]
    assert algorithm.certifier.certify(algorithm.plan()).empty.tolist() == [0, 1, 0]
    assert "refuted" in algorithm.guarantee.reason


def test_sampled_columns_that_are_estimates_watch_nothing():
    env = make("linear-mdp", n_states=40, d=4, horizon=3)
    task = Task(env.unwrapped.mdp.task.reward, 3, features=env.unwrapped.mdp.task.features)
    agent = MatrixRL(task, columns=20, seed=0)
    told(agent, [(0.0, 0.0, 0.0)])
    assert not given_of(agent.algorithm).is_on
    assert "estimates" in agent.guarantee.reason


# Files. Columns of given_data: visits, sum, and four gains of bets.


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """Return the bytes of two agents: rewards that are not refuted, and rewards that are."""
    made, path = {}, tmp_path_factory.mktemp("saved") / "a"
    for name, paid in (("right", 0.5), ("wrong", 1.0)):
        agent = MatrixRL(Task(np.full((3, 1), 0.5), 4), seed=0)
        told(agent, [[paid] * 4] * 5)
        assert bool(agent.guarantee) == (name == "right")
        agent.save(path)
        made[name] = path.read_bytes()
    return made


def edit(where, value):
    def change(array):
        array[where] = value
        return array

    return change


UNFIT = {
    "not a number": ("right", "given_data", edit((0, 2), np.nan)),
    "a pair that is not there": ("right", "given_codes", edit(0, 3)),
    "a negative pair": ("right", "given_codes", edit(0, -1)),
    "a list without data": ("right", "given_codes", lambda array: np.append(array, 2)),
    "numbers of another kind": ("right", "given_codes", lambda array: array.astype(np.float64)),
    "one number too many": ("right", "given_data", lambda array: np.append(array, [[0.0]], axis=1)),
    "a refuted pair of another problem": ("right", "given_refuted", edit(0, 77)),
}


@pytest.mark.parametrize("name", UNFIT)
def test_arrays_that_do_not_fit_are_refused(name, saved, tmp_path):
    which, array, change = UNFIT[name]
    member = f"learned_{array}.npy"
    edited = change(array_of(dict(members_of(saved[which]))[member]))
    (tmp_path / "a").write_bytes(changed(saved[which], {member: npy(edited)}))
    with pytest.raises(CheckpointError):
        MatrixRL.load(tmp_path / "a")


def test_the_files_themselves_load(saved, tmp_path):
    for which, data in saved.items():
        (tmp_path / "a").write_bytes(data)
        assert bool(MatrixRL.load(tmp_path / "a").guarantee) == (which == "right")
