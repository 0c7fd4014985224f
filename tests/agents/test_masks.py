"""Actions that are not always allowed, in ask and tell and in environments that report masks while they are played."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

from agents.helpers import assert_same_agent, interrupted_at
from continuum import line
from hostile import array_of, changed, members_of, npy
from matrixrl import CheckpointError, InvalidInput, MatrixRL, Task, evaluate, make, run_seeds
from matrixrl.core import greedy_plan
from matrixrl.core.greedy import lowest_first
from matrixrl.errors import ProtocolError
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation
from named_agents import AGENTS
from small_worlds import masked_mdp

BANDITS = ("lin-ucb", "kernel-ucb")
VECTOR_AGENTS = ("kernel-matrix-rl", "kernel-control", "random")
FINITE = [name for name in AGENTS if name not in (*BANDITS, "kernel-control")]


class Stairs(gym.Env):
    """Steps 3 to 7; action 5 waits, 6 goes up, 7 goes down. The info tells the mask; `lies` tells another one later."""

    observation_space = gym.spaces.Discrete(5, start=3)
    action_space = gym.spaces.Discrete(3, start=5)
    horizon = 6
    lies = False

    def __init__(self, *, by_method=False):
        self.by_method, self.visits = by_method, 0
        if by_method:
            self.action_masks = self.mask

    def mask(self):
        return np.array([1, self.state < 7, self.state > 3], dtype=np.int8)

    def info(self):
        self.visits += self.state == 4
        if self.lies and self.state == 4 and self.visits > 3:
            return {"action_mask": np.array([1, 0, 1])}
        return {} if self.by_method else {"action_mask": self.mask()}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 3
        return self.state, self.info()

    def step(self, action):
        assert self.mask()[action - 5], f"action {action} is not allowed in state {self.state}"
        up = self.np_random.random() < 0.9
        self.state += {5: 0, 6: int(up), 7: -1}[int(action)]
        return self.state, float(self.state == 6), False, False, self.info()


TABLE = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 0, 1]], dtype=bool)


def saved_array(data, name):
    return array_of(dict(members_of(data))[f"{name}.npy"])


def agent_of(name, **options):
    return AGENTS[name](Stairs(), **{"known_reward": False, "seed": 1, **options})


@pytest.mark.parametrize("by_method", [False, True])
@pytest.mark.parametrize("name", [*FINITE])
def test_masks_that_are_told_are_heeded_from_then_on(name, by_method):
    """The environment itself fails on an action that is not allowed."""
    agent = AGENTS[name](Stairs(by_method=by_method), known_reward=False, seed=1)
    agent.learn(20)
    told = agent.algorithm.masks.reported
    np.testing.assert_array_equal(told.allowed[:5][told.known[:5]], TABLE[told.known[:5]])
    assert told.known[0]
    plan = agent.algorithm.advice()
    assert agent.algorithm.frame.permits(agent.algorithm.policy_table(plan))
    assert not agent.guarantee


@pytest.mark.parametrize("settings", [{"set": "normalised"}, {}], ids=str)
def test_proofs_wait_for_masks_that_are_not_declared(settings):
    agent = agent_of("matrix-rl", **settings)
    agent.learn(1)
    assert agent.guarantee.reason == (
        "the environment reported allowed actions while it was played; a proof needs them declared (allowed=…)"
    )
    missing = int((~agent.algorithm.masks.reported.known).sum())
    assert 0 < missing < 5
    assert f"allowed actions of {missing} state" in agent.certificate().guarantee.reason
    agent.learn(400)
    assert agent.algorithm.masks.reported.known.all()
    assert agent.certificate().guarantee
    declared = agent_of("matrix-rl", allowed=TABLE, **settings)
    assert declared.guarantee
    assert declared.certificate().guarantee
    assert declared.algorithm.masks.reported is None
    for one in (
        agent.algorithm.model.confidence,
        declared.algorithm.model.confidence,
    ):  # K is that of the masks told, too
        assert one.blocks.count == 13 + 3
        assert getattr(one, "n_groups", 13) == 13


@pytest.mark.parametrize("name", FINITE)
@pytest.mark.parametrize("moment", [1, 4])
def test_a_saved_agent_remembers_the_masks_it_was_told(name, moment, tmp_path):
    whole, half = agent_of(name), agent_of(name)
    whole.learn(10)
    half.learn(moment)
    half.save(tmp_path / "half")
    loaded = AGENTS[name].load(tmp_path / "half", env=Stairs())
    assert_same_agent(loaded, half)
    loaded.learn(10 - moment)
    assert_same_agent(loaded, whole)


@pytest.mark.parametrize("name", ["matrix-rl", "ucrl2", "q-learning"])
def test_an_interrupted_episode_tells_nothing(name):
    whole, agent = agent_of(name), agent_of(name)
    whole.learn(5)
    for step in (2, 5):
        with interrupted_at(agent, step):
            agent.learn(1)
        assert agent.algorithm.masks.reported is None
    agent.learn(5)
    assert_same_agent(agent, whole)


@pytest.mark.parametrize("settings", [{"set": "normalised", "switch_growth": 0.5}, {"switch_growth": 0.5}], ids=str)
def test_a_plan_that_was_kept_is_made_again_when_a_mask_forbids_it(settings):
    agent = agent_of("matrix-rl", **settings)
    for _ in range(30):
        agent.learn(1)
        plan = agent.algorithm.plan()
        assert agent.algorithm.frame.permits(plan.policy)


def test_contradictory_masks_of_one_state_are_one_clear_error():
    Liar = type("Liar", (Stairs,), {"lies": True})
    agent = MatrixRL(Liar(), known_reward=False, seed=1)
    words = r"action mask must be the same at every visit of state 4; got \[5, 7\] after \[5, 6, 7\]\. If more than"
    with pytest.raises(InvalidInput, match=words):
        agent.learn(50)
    assert not agent.open_episodes
    with pytest.raises(InvalidInput, match=words):
        run_seeds(Liar(), n_episodes=50, seeds=1, known_reward=False)


def test_a_mask_that_forbids_what_is_declared_is_an_error_and_all_ignores_it():
    wider = TABLE.copy()
    wider[0] = True
    with pytest.raises(InvalidInput, match=r"info\['action_mask'\] must allow .*state 3"):
        MatrixRL(Stairs(), known_reward=False, seed=1, allowed=wider).learn(3)
    narrow = TABLE.copy()
    narrow[:, 0] = False  # no waiting: less than the environment allows
    agent = MatrixRL(Stairs(), known_reward=False, seed=1, allowed=narrow)
    agent.learn(5)
    assert agent.algorithm.masks.reported is None
    with pytest.raises(AssertionError, match="is not allowed in state"):
        MatrixRL(Stairs(), known_reward=False, seed=1, allowed="all").learn(20)


@pytest.mark.parametrize("bad", [np.zeros(3), np.ones(2), "yes", [1, 2, 1]])
def test_what_is_no_mask_is_refused(bad):
    env = Stairs()
    env.info = lambda: {"action_mask": bad}
    with pytest.raises(InvalidInput, match=r"info\['action_mask'\] must"):
        MatrixRL(env, known_reward=False, seed=1).learn(2)


def test_simulations_in_environments_heed_masks_and_resume():
    result = run_seeds(Stairs(), n_episodes=12, seeds=2, known_reward=False, agent="psrl")
    assert result.returns.shape == (2, 12)
    options = {"n_episodes": 8, "seeds": [4], "settings": {"known_reward": False}}
    whole = Simulation(Stairs(), **options).run()
    head = Simulation(Stairs(), window=range(3), **options)
    head.run()
    assert head.algorithm.masks.reported is not None
    tail = Simulation(Stairs(), window=range(3, 8), **options)
    restore_simulation(tail, save_simulation(head))
    np.testing.assert_array_equal(tail.run().returns, whole.returns[:, 3:])
    assert whole.guarantee == tail.result().guarantee


def test_masks_of_another_problem_in_a_file_are_refused(tmp_path):
    agent = agent_of("matrix-rl")
    agent.learn(3)
    agent.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    name = "learned_told_masks"
    told = saved_array(data, name)
    assert told.dtype == np.int8
    for bad in (told[:, :2], told.astype(np.float64)):
        (tmp_path / "bad").write_bytes(changed(data, {f"{name}.npy": npy(bad)}))
        with pytest.raises(CheckpointError, match="told_masks"):
            MatrixRL.load(tmp_path / "bad")
    declared = MatrixRL(Stairs(), known_reward=False, seed=1, allowed=TABLE)
    declared.learn(3)
    declared.save(tmp_path / "declared")
    (tmp_path / "bad").write_bytes(changed((tmp_path / "declared").read_bytes(), {f"{name}.npy": npy(told)}))
    with pytest.raises(CheckpointError, match="whose allowed actions are declared"):
        MatrixRL.load(tmp_path / "bad")


class Track(gym.Env):
    """A point on a line; one of the two actions is not allowed beyond the middle, and the info says so."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)
    horizon = 5

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = self.np_random.uniform(-0.5, 0.5)
        return np.array([self.place]), {"action_mask": self.mask()}

    def mask(self):
        return np.array([1, self.place < 0.0], dtype=np.int8)

    def step(self, action):
        assert self.mask()[action]
        self.place = float(np.clip(self.place + (0.3 if action else -0.3), -1.0, 1.0))
        return np.array([self.place]), float(self.place > 0.0), False, False, {"action_mask": self.mask()}


@pytest.mark.parametrize("name", ["kernel-matrix-rl", "random"])
def test_masks_of_vectors_are_heeded_at_every_request(name):
    assert AGENTS[name](Track(), seed=0).learn(6).n_episodes == 6


@pytest.mark.parametrize("mode", list(gym.vector.AutoresetMode))
@pytest.mark.parametrize("name", ["matrix-rl", "q-learning"])
def test_masks_of_many_sub_environments_are_heeded(name, mode, tmp_path):
    class Timed(Stairs):
        """Ends at a random step, at the latest with the horizon."""

        def reset(self, **options):
            self.left = self.horizon
            return super().reset(**options)

        def step(self, action):
            state, reward, ended, _, info = super().step(action)
            self.left -= 1
            ended = self.left > 0 and self.np_random.random() < 0.2
            return state, reward, ended, self.left == 0, info

    agent = AGENTS[name](Timed(), known_reward=False, seed=1)
    saved = []

    def save(_):
        agent.save(tmp_path / "open")  # episodes are open whose plans are older than some masks
        saved.append(len(AGENTS[name].load(tmp_path / "open").open_episodes))

    agent.learn(12, env=gym.vector.SyncVectorEnv([Timed] * 3, autoreset_mode=mode), callback=save)
    assert len(saved) == 12
    assert max(saved) > 0
    assert agent.algorithm.masks.reported.known[0]
    assert agent.algorithm.frame.permits(agent.algorithm.policy_table(agent.algorithm.advice()))


@pytest.mark.parametrize("settings", [{}, {"switch_growth": 0.5}], ids=str)
def test_a_plan_that_is_older_than_a_mask_is_saved_and_asked_on(settings, tmp_path):
    """The plan of an open episode stays as it is; only its answers heed the mask."""
    agent = agent_of("matrix-rl", **settings)
    episode = agent.begin_episode()
    planned = episode.act(4)
    agent.algorithm.masks.tell(1, np.arange(5, 8) != planned)  # state 4 is the second one
    agent.save(tmp_path / "open")
    loaded = MatrixRL.load(tmp_path / "open", env=Stairs())
    assert_same_agent(loaded, agent)
    answers = {one.act(4) for one in (episode, loaded.open_episodes[0])}
    assert len(answers) == 1
    assert planned not in answers
    with pytest.raises(InvalidInput, match="allowed must be among the actions"):
        loaded.open_episodes[0].act(4, allowed=[planned])


def test_masks_by_a_method_cannot_be_played_many_at_a_time():
    vector = gym.vector.SyncVectorEnv([lambda: Stairs(by_method=True)] * 2)
    with pytest.raises(InvalidInput, match="env must report masks"):
        MatrixRL(Stairs(by_method=True), known_reward=False, seed=1).learn(2, env=vector)


# Policies to deploy


def test_policies_to_deploy_and_to_compare_have_allowed_actions():
    mdp = masked_mdp(n_actions=3, seed=2)
    agent = MatrixRL(mdp, seed=0)
    agent.learn(30)
    for policy in (agent.policy, agent.greedy(), agent.recommend()):
        assert mdp.allowed[np.arange(5), policy.table].all()
    lowest = mdp.allowed.argmax(axis=1)
    uniform = mdp.allowed / mdp.allowed.sum(axis=1, keepdims=True)
    found = agent.compare(agent.greedy(), lowest)
    values = [evaluate(mdp, np.asarray(p))[0, 0] for p in (agent.greedy().table, np.tile(lowest, (4, 1)))]
    assert found.lower <= values[0] - values[1] <= found.upper
    assert np.isfinite([found.lower, found.upper]).all()
    mixed = agent.compare(uniform, lowest)
    assert np.isfinite([mixed.lower, mixed.upper]).all()
    for bad in (np.ones(5, dtype=int), np.full((5, 3), 1 / 3), lambda *_: 1):
        with pytest.raises(InvalidInput, match=r"incumbent must be .*allowed in state \d"):
            agent.compare(lowest, bad)


# Ask and tell


def declared_task():
    return Task(np.tile([0.1, 0.2, 0.3, 0.4], (4, 1)), 3, allowed=lambda s: [0, 1, 2] if s else [1, 2, 3])


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("settings", [{"set": "normalised"}, {}, {"set": "sandwich"}, {"ties": "estimate"}], ids=str)
def test_the_answer_is_the_best_of_the_request_by_q(settings, compiled, rng):
    agent = MatrixRL(masked_mdp(n_actions=4, seed=2, start=np.full(5, 0.2)), seed=0, compiled=compiled, **settings)
    agent.learn(10)
    algorithm, frame = agent.algorithm, agent.algorithm.frame
    q = np.empty((1, 4, 4, 5))
    greedy_plan(algorithm.model.bounds(algorithm.clock, "agent")[0], frame, lowest_first(4, 1), q_out=q)
    for _ in range(30):
        s = int(rng.integers(5))
        known = np.flatnonzero(frame.allowed[:, s])
        among = rng.choice(known, size=rng.integers(1, len(known) + 1), replace=False).tolist()
        episode = agent.begin_episode()
        planned = episode.act(s)
        answer = episode.act(s, allowed=among)
        assert answer == (planned if planned in among else max(among, key=lambda a, s=s: q[0, 0, a, s]))
        assert episode.act(s, allowed=among) == answer
        assert episode.act(s) == planned
        episode.abandon()


@pytest.mark.parametrize("name", [name for name in AGENTS if name != "kernel-control"])  # which has vectors, below
def test_every_agent_answers_requests(name):
    horizon = 1 if name in BANDITS else 4
    agent = AGENTS[name](masked_mdp(n_actions=4, horizon=horizon, seed=2, start=np.full(5, 0.2)), seed=0)
    agent.learn(4)
    episode = agent.begin_episode()
    before = agent.algorithm.state()
    for s in range(5):
        for action in np.flatnonzero(agent.algorithm.frame.allowed[:, s]):
            assert episode.act(s, allowed=[int(action)]) == action
            assert agent.act(s, allowed=np.arange(4) == action) == action
    after = agent.algorithm.state()
    moved = [key for key in before if not np.array_equal(before[key], after[key])]
    assert moved == (["streams"] if name == "random" else [])  # which draws its answers


@pytest.mark.parametrize("agent", [lambda name=name: AGENTS[name](Track(), seed=0) for name in VECTOR_AGENTS])
def test_vectors_and_functions_answer_requests(agent):
    one = agent()
    one.learn(2)
    assert [one.begin_episode().act([0.1], allowed=[a]) for a in (0, 1)] == [0, 1]
    task = MatrixRL(line(), columns=40, preset="tuned", seed=0)
    assert {task.begin_episode().act([0.2], allowed=[a]) for a in (0, 1)} == {0, 1}


def test_what_a_narrow_request_gives_up_is_in_the_regret_bound_and_no_certificate_changes(tmp_path):
    agent = MatrixRL(masked_mdp(n_actions=4, seed=2, start=1), seed=0, preset="optimistic")
    agent.learn(5)
    assert agent.guarantee
    episode = agent.begin_episode()
    allowed = np.flatnonzero(agent.algorithm.frame.allowed[:, 1]).tolist()
    episode.act(1, allowed=allowed)  # nothing less than what is declared
    assert agent.guarantee
    worst = min(allowed, key=lambda a: agent.action_tables(agent.plan_ahead()).scores[0, 1, a])
    assert episode.act(1, allowed=[worst]) == worst
    agent.save(tmp_path / "narrowed")
    for one in (agent, MatrixRL.load(tmp_path / "narrowed", agent.problem.env)):
        open_one = one.open_episodes[0]
        assert open_one.act(1, allowed=[worst]) == worst  # the same answer, also after a file
        shortfall = 2.0 * np.ptp(one.action_tables(one.plan_ahead()).scores[0, 1, allowed])  # rewards between -1 and 1
        open_one.observe(1, worst, float(one.problem.finite_task.reward[1, worst]), 0)
        left = 2.0 * float(one.algorithm.advice().values[0, 1, 0])
        open_one.end()  # after one step: all that was expected of the others is missing
        assert one.bound().gaps == pytest.approx(shortfall + left)
        assert shortfall > 0.0
        assert one.guarantee
        assert one.bound().total == pytest.approx(min(one.bound().a_priori + one.bound().gaps, 8.0 * one.n_episodes))
        assert one.certificate().guarantee


def test_an_episode_with_another_action_than_the_plans_has_no_regret():
    mdp = masked_mdp(n_actions=4, seed=2, start=1)
    agent = MatrixRL(mdp, seed=0)
    for narrow in (False, True):
        episode = agent.begin_episode()
        for _ in range(4):
            planned = episode.act(1)
            others = [a for a in np.flatnonzero(mdp.allowed[1]).tolist() if a != planned]
            action = episode.act(1, allowed=others) if narrow else planned
            episode.observe(1, action, 0.0, 1)
        assert (episode.end().regret is None) == narrow


@pytest.mark.parametrize(
    ("allowed", "words"),
    [
        ([0], r"allowed must be among the actions \[1, 2, 3\] that state 0 allows; got \[0\]"),
        ([0, 1], r"allowed must be among the actions \[1, 2, 3\] that state 0 allows; got \[0, 1\]"),
        ([], "allowed must hold at least one action; got none"),
        ([False] * 4, "allowed must allow at least one action"),
        ([True] * 3, "allowed must have one entry for each of 4 actions"),
        ([4], "allowed must be in 0 … 3; got 4"),
        (2, "allowed must be some actions; got 2"),
        ("12", "allowed must be some actions; got '12'"),
    ],
)
def test_other_requests_are_one_clear_error_and_change_nothing(allowed, words):
    agent = MatrixRL(declared_task(), seed=0)
    episode = agent.begin_episode()
    with pytest.raises(InvalidInput, match=words):
        episode.act(0, allowed=allowed)
    assert agent.guarantee
    assert episode._advised is None


def test_an_action_that_is_not_allowed_cannot_be_observed():
    agent = MatrixRL(declared_task(), seed=0)
    episode = agent.begin_episode()
    words = r"action must be one of \[0, 1, 2\], which state 2 allows; got 3\. Report an action that is allowed"
    with pytest.raises(InvalidInput, match=words):
        episode.observe(2, 3, 0.1, 1)
    assert episode.stage == 0
    episode.observe(2, 2, 0.1, 1)
    assert episode.stage == 1


def test_an_algorithm_without_q_says_so():
    from matrixrl import Agent
    from matrixrl.algorithms import Algorithm
    from matrixrl.records import Plan

    class First(Algorithm):
        name = "first"

        def begin(self):
            pass

        def make_plan(self):
            return Plan(np.zeros((1, 1, 0)), np.zeros((1, 2, 0)), np.zeros(1, dtype=np.int64))

        def learn(self, steps):
            pass

        def act(self, plan, stage, states, *, explore=True):
            return np.array([1])

        upper = policy_table = plan_from_arrays = None

    agent = Agent(declared_task(), First(), seed=0)
    episode = agent.begin_episode()
    assert episode.act(0, allowed=[1, 2]) == 1
    with pytest.raises(ProtocolError, match="first has no Q"):
        episode.act(0, allowed=[2, 3])


def test_saved_answers_to_requests_are_checked(tmp_path):
    agent = MatrixRL(declared_task(), seed=0)
    episode = agent.begin_episode()
    planned = episode.act(0)
    others = [a for a in (1, 2, 3) if a != planned]
    answer = episode.act(0, allowed=others)
    agent.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    assert MatrixRL.load(tmp_path / "good").open_episodes[0].act(0, allowed=others) == answer
    saved = {name: saved_array(data, f"episodes_{name}") for name in ("advised", "planned", "advised_among")}
    assert saved["advised"] == [answer]
    assert saved["planned"] == [planned]
    assert np.flatnonzero(saved["advised_among"][0]).tolist() == others
    everything = np.ones((1, 4), dtype=bool)
    for name, bad in (
        ("advised", [9]),
        ("planned", [9]),
        ("advised_among", everything[:, :2]),
        ("advised_among", everything.astype(float)),
    ):
        array = np.asarray(bad, dtype=np.int64) if isinstance(bad, list) else bad
        (tmp_path / "bad").write_bytes(changed(data, {f"episodes_{name}.npy": npy(array)}))
        with pytest.raises(CheckpointError, match="bad cannot be restored"):
            MatrixRL.load(tmp_path / "bad")


@pytest.mark.parametrize("name", ["matrix-rl", "ucrl2"])
def test_a_saved_policy_with_an_action_that_is_not_allowed_is_refused(name, tmp_path):
    settings = {"switch_growth": 0.5} if name == "matrix-rl" else {}
    agent = AGENTS[name](masked_mdp(seed=2), seed=0, **settings)
    agent.learn(4)
    agent.begin_episode()
    agent.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    for member in ("learned_kept_policy", "plan_0_policy"):
        policy = saved_array(data, member)
        policy[..., 0] = 1  # state 0 allows action 0 only
        (tmp_path / "bad").write_bytes(changed(data, {f"{member}.npy": npy(policy)}))
        with pytest.raises(CheckpointError):
            AGENTS[name].load(tmp_path / "bad")


def test_a_saved_class_of_stages_allows_an_action_in_every_state(tmp_path):
    mdp = masked_mdp(seed=2)
    agent = MatrixRL(mdp, seed=0, stage_dependent=[h % 2 for h in range(mdp.horizon)])
    agent.save(tmp_path / "good")
    data = (tmp_path / "good").read_bytes()
    allowed = saved_array(data, "problem_allowed")
    allowed[1, : mdp.n_actions] = False
    (tmp_path / "bad").write_bytes(changed(data, {"problem_allowed.npy": npy(allowed)}))
    with pytest.raises(CheckpointError, match="every class of stages"):
        MatrixRL.load(tmp_path / "bad")


def test_a_loaded_agent_has_its_mask_in_any_world(tmp_path):
    env = make("river-swim", n_states=4)
    agent = MatrixRL(env, seed=0, allowed=lambda s: [1] if s < 2 else [0, 1])
    agent.learn(5)
    agent.save(tmp_path / "a")
    for world in (None, make("river-swim", n_states=4)):
        loaded = MatrixRL.load(tmp_path / "a", env=world)
        assert loaded.problem.finite_task.n_pairs == 6
    assert_same_agent(loaded, agent)
    loaded.learn(5)
    agent.learn(5)
    assert_same_agent(loaded, agent)
