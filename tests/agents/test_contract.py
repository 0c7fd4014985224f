"""What every agent does alike, on every problem that its mathematics reaches."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from agents.contract import (
    BANDITS,
    CASES,
    SEED,
    VECTORS,
    WORLDS,
    Case,
    can_end,
    env_stream,
    first_obs,
    play_by_hand,
    play_randomly,
    random_obs,
    recorded_actions,
    recorded_plans,
)
from agents.helpers import RaiseOnce, assert_same_agent, assert_same_arrays, assert_same_history
from continuum import line
from covering import covering
from matrixrl import Agent, InvalidInput, KernelMatrixRL, MatrixRL, ProtocolError, make
from matrixrl.algorithms import ALGORITHMS
from named_agents import AGENTS, BASELINE_AGENTS, predicted
from tolerances import ALGEBRA

every_case = pytest.mark.parametrize("case", CASES, ids=str)
CERTIFYING = ("matrix-rl", "doubling-matrix-rl", "kernel-matrix-rl")
WITH_MODEL = (*CERTIFYING, "epsilon-greedy", "lsvi-ucb", "psrl", "rlsvi", "ucbvi", "ucrl2")


def own_world(name):
    """Return the name of a world that an agent can learn."""
    return "one step" if name in BANDITS else "cart-pole" if name in VECTORS else "river-swim"


def test_every_algorithm_has_an_agent_and_every_agent_is_here():
    assert set(AGENTS) == set(ALGORITHMS) == {case.agent for case in CASES}
    assert len(AGENTS) == 16
    assert all(kind.name == name for name, kind in AGENTS.items())


@every_case
def test_ask_and_tell_by_hand_is_learn(case):
    learner, advisor = case.build(), case.build()
    played = recorded_actions(learner)
    learner.learn(7)
    assert play_by_hand(advisor, 7) == played
    assert_same_agent(advisor, learner)
    assert env_stream(advisor) == env_stream(learner)


@every_case
def test_learn_a_then_b_is_learn_a_plus_b(case):
    whole, parts = case.build(), case.build()
    whole.learn(7)
    for count in (1, 2, 4):
        parts.learn(count)
    assert_same_agent(parts, whole)


def go_on(agent, seed):
    """Finish what is open in the order of its age, play more by hand, and learn in the environment."""
    rng = np.random.default_rng(seed)
    actions = []
    for episode in agent.open_episodes:
        actions.append(play_randomly(agent, episode, rng))
        episode.end()
    episode = agent.begin_episode()
    actions.append(play_randomly(agent, episode, rng))
    episode.end()
    agent.learn(3)
    return actions


def nothing(agent):
    del agent


def some_episodes(agent):
    agent.learn(4)


def within_an_episode(agent):
    agent.learn(3)
    episode = agent.begin_episode()
    play_randomly(agent, episode, np.random.default_rng(1), most=3)


def with_two_open(agent):
    agent.learn(3)
    first = agent.begin_episode()
    play_randomly(agent, first, np.random.default_rng(1), most=1)
    second = agent.begin_episode()
    play_randomly(agent, second, np.random.default_rng(2), most=4)
    assert len(agent.open_episodes) == 2


def with_one_ended_while_another_is_open(agent):
    agent.learn(1)
    first, second = agent.begin_episode(), agent.begin_episode()
    play_randomly(agent, second, np.random.default_rng(1), most=2)
    play_randomly(agent, first, np.random.default_rng(2))
    first.end()


def with_some_waiting(agent):
    agent.learn(1)
    episodes = [agent.begin_episode() for _ in range(4)]
    for seed, i in enumerate((2, 1, 3)):
        play_randomly(agent, episodes[i], np.random.default_rng(seed), most=2)
        if i != 1:
            assert episodes[i].end() is None
    assert (agent.n_waiting, len(agent.open_episodes)) == (2, 2)
    play_randomly(agent, episodes[0], np.random.default_rng(3), most=1)


def before_the_first_step(agent):
    agent.begin_episode()


def after_the_last_step(agent):
    agent.learn(1)
    episode, obs = agent.begin_episode(), first_obs(agent, np.random.default_rng(1))
    if can_end(agent):
        episode.observe(obs, episode.act(obs), 0.5, obs, terminated=True)
    else:
        play_randomly(agent, episode, np.random.default_rng(1))
    assert episode.is_finished


MOMENTS = [
    after_the_last_step,
    nothing,
    some_episodes,
    within_an_episode,
    with_two_open,
    with_one_ended_while_another_is_open,
    with_some_waiting,
    before_the_first_step,
]


@pytest.mark.parametrize(
    ("case", "moment"),
    covering(product(CASES, MOMENTS), lambda row: (*row[0].factors, row[1])),
    ids=lambda value: value.__name__ if value in MOMENTS else str(value),
)
def test_a_saved_agent_goes_on_bit_for_bit(case, moment, tmp_path):
    agent = case.build()
    moment(agent)
    agent.save(tmp_path / "a")
    loaded = case.kind.load(tmp_path / "a", case.env())
    assert_same_agent(loaded, agent)
    assert [(e.number, e.stage, e.is_open, e.is_finished) for e in loaded.open_episodes] == [
        (e.number, e.stage, e.is_open, e.is_finished) for e in agent.open_episodes
    ]
    assert loaded.n_waiting == agent.n_waiting
    assert go_on(loaded, seed=5) == go_on(agent, seed=5)
    assert_same_agent(loaded, agent)
    assert env_stream(loaded) == env_stream(agent)


@every_case
def test_a_question_that_was_asked_before_a_save_has_the_same_answer_after_it(case, tmp_path):
    """One decision a day: the process ends between the advice and what came of it."""
    steady, nightly = case.build(), case.build()
    rng = np.random.default_rng(3)
    for _ in range(2):
        ours, theirs = steady.begin_episode(), nightly.begin_episode()
        obs = first_obs(steady, rng)
        while not ours.is_finished:
            action = ours.act(obs)
            assert theirs.act(obs) == action
            nightly.save(tmp_path / "a")
            nightly = case.kind.load(tmp_path / "a", nightly.problem.env if case.world != "functions" else case.env())
            (theirs,) = nightly.open_episodes
            assert theirs.act(obs) == action
            following, reward = random_obs(steady, rng), float(rng.random())
            for episode in (ours, theirs):
                episode.observe(obs, action, reward, following)
            obs = following
        assert_same_records(ours.end(), theirs.end())
    assert_same_agent(nightly, steady)


def assert_same_records(one, other):
    for name in ("index", "episode_return", "length", "regret", "upper", "alarm"):
        np.testing.assert_equal(getattr(one, name), getattr(other, name), err_msg=name)


def check_deployment(case, agent):
    """Give out the greedy policy and compare it with itself, or say why not."""
    if case.agent not in WITH_MODEL:
        with pytest.raises(ProtocolError, match="has no estimated model"):
            agent.greedy()
        return
    chosen = agent.greedy()
    assert chosen.table.shape == agent.policy.table.shape
    assert (chosen.certificate is not None) == agent.algorithm.claims.certifies == (case.agent in CERTIFYING)
    if case.agent not in CERTIFYING or "columns" in case.settings:
        with pytest.raises(ProtocolError, match=r"needs certificates|without sampled columns"):
            agent.compare(chosen, chosen)
        return
    shown = agent.compare(chosen, chosen)
    rest = agent.problem.finite_task.unit * agent.problem.finite_task.tail  # of steps that endless policies go on with
    assert (shown.lower, shown.upper) == pytest.approx((-rest, rest), abs=0.0 if rest == 0.0 else 1e-12)
    assert shown.guarantee == chosen.certificate.guarantee


@every_case
def test_predict_and_policy_change_nothing(case):
    agent = case.build()
    agent.learn(3)
    agent.begin_episode()
    before, stream = agent.algorithm.state(), env_stream(agent)
    rng = np.random.default_rng(0)
    asked = [(random_obs(agent, rng), h) for h in range(agent.problem.task.horizon)]
    answers = [agent.predict(obs, h) for obs, h in asked]
    assert answers == [agent.predict(obs, h) for obs, h in asked]
    if agent.problem.kind == "finite":
        assert answers == [predicted(agent).act(obs, h) for obs, h in asked]
        assert agent.policy.table.shape == (agent.problem.task.horizon, agent.problem.task.n_states)
        assert f"{case.agent} on {agent.problem.name}, 3 episodes" in agent.policy.description
        check_deployment(case, agent)
    (episode,) = agent.open_episodes
    assert agent.predict(asked[0][0], episode=episode) == answers[0]
    if case.agent in CERTIFYING and agent.algorithm.claims.certifies:
        agent.certificate()
    assert_same_arrays(agent.algorithm.state(), before)
    assert env_stream(agent) == stream


@every_case
def test_predict_follows_all_finished_episodes(case):
    """An answer that was kept is dropped when data come in."""
    curious, plain = case.build(), case.build()
    advice_of(curious)
    for agent in (curious, plain):
        agent.learn(6)
    assert advice_of(curious) == advice_of(plain)


@pytest.mark.parametrize(
    ("case", "error", "finished"),
    covering(product(CASES, [KeyboardInterrupt, RuntimeError], [0, 2]), lambda row: (*row[0].factors, *row[1:])),
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_an_episode_that_breaks_off_leaves_no_trace(case, error, finished):
    whole, agent = case.build(), case.build()
    whole.learn(finished + 4)
    if finished:
        agent.learn(finished)
    before, advice = agent.algorithm.state(), advice_of(agent)
    history, stream = agent.history, env_stream(agent) if finished else None
    step = 1 if agent.problem.task.horizon == 1 else 3
    RaiseOnce(agent.problem.env.unwrapped, "step", step, error)
    with pytest.raises(error):
        agent.learn(1)
    assert agent.open_episodes == ()
    assert_same_arrays(agent.algorithm.state(), before)
    assert_same_history(agent.history, history)
    assert advice_of(agent) == advice
    assert not finished or env_stream(agent) == stream
    agent.learn(4)
    if issubclass(error, Exception) and whole.guarantee:  # it may be due to what was observed
        assert "ended in an error" in agent.guarantee.reason
        agent._selection = None
    assert_same_agent(agent, whole)


def advice_of(agent):
    rng = np.random.default_rng(0)
    return [agent.predict(random_obs(agent, rng), h) for h in range(agent.problem.task.horizon)]


@every_case
def test_an_open_episode_keeps_its_plan_while_others_are_learned_from(case):
    """New steps, far from the old ones: inducing points, units and values all move, but not under the open plan."""
    agent = case.build()
    plans, algorithm = recorded_plans(agent), agent.algorithm
    rng = np.random.default_rng(0)
    for _ in range(2):
        play_randomly(agent, agent.begin_episode(), rng)
        agent.end_episode()
    first, second = agent.begin_episode(), agent.begin_episode()
    plan = plans[-1]
    places = [np.asarray(agent.problem.state("obs", random_obs(agent, rng))) for _ in range(8)]

    def answers():
        horizon = agent.problem.task.horizon
        actions = [int(algorithm.act(plan, h, s[None], explore=False)[0]) for h in range(horizon) for s in places]
        return actions, [float(algorithm.upper(plan, s[None])[0]) for s in places]

    before, state = answers(), algorithm.state()
    features = algorithm.n_features() if case == Case("kernel-matrix-rl", "cart-pole") else None
    scale = 50.0 if agent.problem.kind == "continuous" else 1.0
    while not first.is_finished:
        obs, following = (random_obs if first.stage else first_obs)(agent, rng), random_obs(agent, rng)
        if scale > 1.0:
            obs, following = scale * obs, scale * following
        first.observe(obs, first.act(obs), 0.5, following)
    first.end()
    if agent.algorithm.name != "random":
        assert any(
            (algorithm.state()[name] != state[name]).any() for name in state if shaped_alike(algorithm, state, name)
        )
    if case == Case("kernel-matrix-rl", "cart-pole"):
        assert algorithm.n_features() != features
        assert (algorithm.state()["0_seen"] > state["0_seen"]).any()
    np.testing.assert_equal(answers(), before)
    play_randomly(agent, second, rng)
    assert second.end().index == 3


def shaped_alike(algorithm, state, name):
    return algorithm.state()[name].shape == state[name].shape


@pytest.mark.parametrize(
    ("case", "late"), covering(product(CASES, ["wait", "learn"]), lambda row: (*row[0].factors, row[1])), ids=str
)
def test_many_open_episodes_are_updates_of_the_algorithm(case, late):
    """Up to fifty at once, begun at different times, told step by step in turns, against the algorithm itself.

    Updates come in the order of the ends, or in the order of the begins as soon as all earlier ones are closed.
    """
    count = 25 if case.world in ("river-swim", "one step") else 6
    agent, other = case.build(late_episodes=late), case.build().algorithm
    rng = np.random.default_rng(2)
    episodes, plans, told, ended = {}, {}, {}, {}

    def begin(names):
        for i in names:
            episodes[i], plans[i], told[i] = agent.begin_episode(), other.plan(), []

    def tell(n_steps):
        for _ in range(n_steps):
            for i in rng.permutation([i for i, episode in episodes.items() if not episode.is_finished]):
                obs = (random_obs if episodes[i].stage else first_obs)(agent, rng)
                following, reward = random_obs(agent, rng), float(rng.random())
                stage, action = episodes[i].stage, episodes[i].act(obs)
                state = np.asarray(agent.problem.state("obs", obs))
                inner = int(other.act(plans[i], stage, state[None])[0])
                assert inner == agent.problem.action("action", action, stage)
                episodes[i].observe(obs, action, reward, following)
                told[i].append((state, inner, reward, np.asarray(agent.problem.state("obs", following))))

    def end(names):
        for i in names:
            ended[i] = episodes.pop(i)
            record = ended[i].end()
            turn = [i] if late == "learn" else [k for k in sorted(ended) if k < min(episodes, default=2 * count)]
            for k in turn:
                index = other.episode
                other.update(steps_of(told[k]), plans[k])
                closed = ended.pop(k)
                assert closed.record.index == index
                earned = sum(agent.problem.task.discount**h * step[2] for h, step in enumerate(told[k]))
                assert closed.record.episode_return == pytest.approx(earned, abs=1e-12)
            assert record is (closed.record if late == "learn" else None) or turn[0] == i
            assert (agent.n_episodes, agent.n_waiting) == (other.episode, len(ended))

    begin(range(count))
    tell(2)
    end(rng.permutation(count)[: count // 3])
    begin(range(count, 2 * count))
    tell(1)
    words = f"act was called while {len(episodes)} episodes are open; call it on one of them"
    with pytest.raises(ProtocolError, match=words):
        agent.act(random_obs(agent, rng))
    end(rng.permutation(list(episodes)))
    assert_same_arrays(agent.algorithm.state(), other.state())
    assert agent.n_episodes == 2 * count
    assert agent.open_episodes == () == tuple(ended)


def steps_of(told):
    from matrixrl.records import Steps

    states, actions, rewards, following = (np.array(part)[None] for part in zip(*told, strict=True))
    return Steps.of(states, actions, rewards, following)


@pytest.mark.parametrize("name", AGENTS)
def test_certificates_where_there_are_some(name):
    agent = AGENTS[name](WORLDS[own_world(name)](), seed=SEED)
    if name in CERTIFYING:
        history = agent.learn(3, certify=True)
        assert np.isfinite(history.certified).all()
        assert agent.certificate().lower <= agent.certificate().upper
        return
    with pytest.raises(InvalidInput, match=f"certify must be left out for {name}, which has no certificates"):
        agent.learn(1, certify=True)
    with pytest.raises(InvalidInput, match=f"until_gap must be left out for {name}, which has no certificates; got 1"):
        agent.learn(1, until_gap=1.0)
    with pytest.raises(ProtocolError, match=f"{name} has no certificates; matrix-rl"):
        agent.certificate()
    assert agent.n_episodes == 0


HAVE_LOOPS = [c for c in CASES if c.agent in CERTIFYING and c.world not in ("functions", "mountain-car", "cart-pole")]


@pytest.mark.parametrize("case", [case for case in CASES if case not in HAVE_LOOPS], ids=str)
def test_compiled_loops_are_refused_where_there_are_none(case):
    words = f"for an agent without compiled loops; got {case.agent}"
    if case.agent == "matrix-rl":  # functions of states
        words = "with sampled columns"
    with pytest.raises(InvalidInput, match=f"compiled must be left out {words}"):
        case.build(compiled=True)
    case.build(compiled=False).learn(1)


@pytest.mark.slow  # the first of them loads the loops
@pytest.mark.parametrize("case", HAVE_LOOPS, ids=str)
def test_compiled_agents_play_the_same_episodes(case, tmp_path):
    """Plans differ in the rounding of sums only, and `compiled` is remembered by a file unless `load` is told."""
    pytest.importorskip("numba")
    compiled, plain = case.build(compiled=True), case.build(compiled=False)
    compiled.learn(5)
    plain.learn(5)
    np.testing.assert_array_equal(compiled.history.returns, plain.history.returns)
    np.testing.assert_allclose(compiled.history.upper, plain.history.upper, atol=ALGEBRA)
    compiled.save(tmp_path / "a")
    assert case.kind.load(tmp_path / "a").algorithm.compiled is True
    assert case.kind.load(tmp_path / "a", compiled=False).algorithm.compiled is False


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (
            lambda: AGENTS["psrl"](make("cart-pole")),
            "numbered states for psrl.*vectors.*KernelControl learns from vectors",
        ),
        (
            lambda: AGENTS["psrl"]("cart-pole"),
            "numbered states for psrl; got cart-pole, with vectors as observations",
        ),
        (lambda: MatrixRL(make("mountain-car")), "for matrix-rl.*vectors as observations.*KernelControl"),
        (
            lambda: AGENTS["lin-ucb"](make("river-swim")),
            "horizon must be 1 for lin-ucb, a bandit.*Use lsvi-ucb",
        ),
        (lambda: AGENTS["kernel-ucb"]("river-swim"), "horizon must be 1 for kernel-ucb, a bandit.*Use lsvi-ucb"),
        (lambda: KernelMatrixRL(line()), "numbered states for kernel-matrix-rl.*functions of states.*Use MatrixRL"),
        (lambda: AGENTS["psrl"](line()), "numbered states for psrl.*functions of states.*Use MatrixRL"),
        (lambda: AGENTS["random"](line()), "numbered states or vectors as states for random.*Use MatrixRL"),
        (lambda: KernelMatrixRL(make("cart-pole"), preset="optimistic"), "preset must be 'tuned' for vectors"),
        (lambda: MatrixRL(line()), "columns must be given for a task whose states are not enumerated"),
    ],
)
def test_where_the_mathematics_does_not_go_the_error_names_what_to_do(build, words):
    with pytest.raises(InvalidInput, match=words):
        build()


@pytest.mark.parametrize("name", [name for name in BASELINE_AGENTS if name not in ("random", *BANDITS)])
def test_no_tabular_baseline_takes_vectors_or_functions(name):
    for world in ("cart-pole", "functions"):
        with pytest.raises(InvalidInput, match=f"problem must have numbered states for {name}; got"):
            AGENTS[name](WORLDS[world]())


@pytest.mark.parametrize("name", AGENTS)
def test_every_agent_is_an_agent_with_its_algorithm(name, tmp_path):
    """`Agent(problem, algorithm)` and `Agent.load` are the general form of the named classes."""
    world = own_world(name)
    named = AGENTS[name](WORLDS[world](), seed=SEED)
    general = Agent(WORLDS[world](), ALGORITHMS[name](), seed=SEED)
    named.learn(3)
    general.learn(3)
    assert_same_agent(general, named)
    named.save(tmp_path / "a")
    needed = [WORLDS[world]()] if name in VECTORS else []  # others can be told what happened
    assert_same_agent(Agent.load(tmp_path / "a", *needed), named)
    general.save(tmp_path / "b")
    assert_same_agent(Agent.load(tmp_path / "b", WORLDS[world]()), named)
