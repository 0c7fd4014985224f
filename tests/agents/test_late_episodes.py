"""Episodes that end before one that was begun earlier: they wait, or they are learned from at once without a proof."""

from __future__ import annotations

import numpy as np
import pytest

from agents.helpers import RaiseOnce, assert_same_agent
from matrixrl import InvalidInput, MatrixRL, ProtocolError, Task, make
from matrixrl.records import Guarantee
from named_agents import AGENTS

HORIZON, END, VALUE = 8, 2, 3.5
CHANCE = "which data are learned from may depend on what was observed"


def coin_task():
    """State 0 ends the episode or leads to state 1, each with probability ½; state 1 pays 1 a step: V* = 3.5."""
    return Task([[0.0], [1.0], [0.0]], HORIZON, start=[1.0, 0.0, 0.0], end_state=END)


def small(**options):
    return MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 3}, seed=0, **options)


def play(episode, seed=0):
    rng = np.random.default_rng(seed)
    state = 0
    while not episode.is_finished:
        following = int(rng.integers(4))
        episode.observe(state, episode.act(state), 0.0, following)
        state = following


def misses(late, seed):
    """Return whether a certificate of one run is ever wrong.

    Coins are tossed in episodes that begin together. They are ended in an order that their outcomes decide: first those
    that are over, then the others from the last to the first.
    """
    agent, rng = MatrixRL(coin_task(), seed=0, delta=0.2, late_episodes=late), np.random.default_rng(seed)
    opened = [agent.begin_episode() for _ in range(40)]
    for episode in opened:
        episode.observe(0, 0, 0.0, *((0, True) if rng.random() < 0.5 else (1, False)))
    wrong = False
    for episode in [e for e in opened if e.is_finished] + [e for e in reversed(opened) if not e.is_finished]:
        looks = episode.is_finished or rng.random() < 0.2
        while not episode.is_finished:
            episode.observe(1, 0, 1.0, 1)
        episode.end()
        if looks and rng.random() < 0.3:
            found = agent.certificate()
            wrong |= not found.lower <= VALUE <= found.upper
    assert agent.n_waiting == 0
    assert agent.n_episodes == 40
    found = agent.certificate()
    assert bool(found.guarantee) == bool(agent.guarantee) == (late == "wait")
    return wrong


def test_an_order_of_ends_that_outcomes_decide_keeps_the_proof_only_if_episodes_wait():
    """δ = 0.2: more than 9 of 20 valid certificates would fail with probability below 0.001."""
    assert sum(misses("wait", seed) for seed in range(20)) <= 9
    assert sum(misses("learn", seed) for seed in range(5)) == 5


def test_the_order_of_the_ends_does_not_matter_if_episodes_wait():
    """Episodes that begin together teach the same, bit for bit, in whatever order they are ended."""
    agents = [small(preset="tuned") for _ in range(3)]
    for agent, order in zip(agents, (range(7), reversed(range(7)), (3, 5, 0, 6, 1, 4, 2)), strict=True):
        opened = [agent.begin_episode() for _ in range(7)]
        for i in order:
            play(opened[i], seed=i)
            opened[i].end()
        agent.learn(3)
    for other in agents[1:]:
        assert_same_agent(other, agents[0])


def test_the_life_of_an_episode_that_waits():
    agent = small()
    first, second, third = (agent.begin_episode() for _ in range(3))
    assert [episode.number for episode in agent.open_episodes] == [0, 1, 2]
    play(third)
    play(second)
    before = agent.algorithm.state()
    assert third.end() is second.end() is None
    assert (second.is_open, second.is_waiting, second.record) == (False, True, None)
    assert repr(second) == "<OpenEpisode 1 of matrix-rl, stage 3, waiting>"
    assert (agent.n_waiting, agent.n_episodes, agent.open_episodes) == (2, 0, (first,))
    np.testing.assert_array_equal(agent.algorithm.state()["next_times"], before["next_times"])
    for call in (lambda: second.act(0), lambda: second.observe(0, 0, 0.0, 0), second.end, second.time_out):
        with pytest.raises(ProtocolError, match="ended or abandoned; begin another one"):
            call()
    second.abandon()  # nothing happens
    assert agent.n_waiting == 2
    play(first)
    record = agent.end_episode()
    assert record is first.record
    assert [episode.record.index for episode in (first, second, third)] == [0, 1, 2]
    assert [episode.is_waiting for episode in (first, second, third)] == [False] * 3
    assert (agent.n_waiting, agent.n_episodes) == (0, 3)
    assert agent.guarantee


@pytest.mark.parametrize("steps", [0, 2])
def test_an_abandoned_episode_lets_those_after_it_be_learned_from(steps):
    agent = small()
    first, second = agent.begin_episode(), agent.begin_episode()
    for _ in range(steps):
        first.observe(0, first.act(0), 0.0, 0)
    play(second)
    second.end()
    assert agent.n_episodes == 0
    first.abandon()
    assert (agent.n_episodes, agent.n_waiting, second.record.index) == (1, 0, 0)
    assert bool(agent.guarantee) == (steps == 0)


def test_learning_at_once_withdraws_the_proof_in_words(tmp_path):
    agent = small(late_episodes="learn")
    first, second = agent.begin_episode(), agent.begin_episode()
    play(second)
    assert second.end().index == 0
    words = f"episode 1 was ended before one that was begun earlier: {CHANCE}"
    assert agent.guarantee == agent.certificate().guarantee == Guarantee(False, words)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a")
    assert (loaded.late_episodes, loaded.guarantee) == ("learn", Guarantee(False, words))
    play(first)
    assert first.end().index == 1
    in_order = small(late_episodes="learn")
    play(in_order.begin_episode())
    in_order.end_episode()
    assert in_order.guarantee


def test_other_treatments_are_refused():
    words = r"late_episodes must be one of wait, learn; got 'wat'. Did you mean 'wait'\?"
    with pytest.raises(InvalidInput, match=words):
        small(late_episodes="wat")


def test_an_episode_whose_turn_fails_is_learned_from_later(tmp_path):
    """An error of the algorithm leaves the episodes that wait where they are, in order."""
    agent = small()
    opened = [agent.begin_episode() for _ in range(3)]
    for i in (2, 1, 0):
        play(opened[i], seed=i)
    opened[2].end()
    opened[1].end()
    RaiseOnce(agent.algorithm, "learn", 2, error=MemoryError)
    with pytest.raises(MemoryError):
        opened[0].end()
    assert (agent.n_episodes, agent.n_waiting, opened[0].record.index) == (1, 2, 0)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a")
    for one in (agent, loaded):
        play(one.begin_episode(), seed=3)
        assert one.end_episode().index == 3
    counts = [one.algorithm.state()["next_times"] for one in (agent, loaded)]
    np.testing.assert_array_equal(*counts)
    assert counts[0].sum() == 12
    assert opened[2].record.index == 2


def test_overlapping_episodes_are_covered_by_the_proofs_of_matrix_rl_alone():
    """Theorems of other papers are about episodes that are played one after the other."""
    for kind, options in (
        (AGENTS["q-learning"], {"n_episodes": 9}),
        (AGENTS["ucbvi"], {"n_episodes": 9}),
        (MatrixRL, {}),
    ):
        agent = kind("river-swim", env_settings={"n_states": 4, "horizon": 3}, seed=0, **options)
        play(agent.begin_episode())
        agent.end_episode()
        assert agent.guarantee
        first, second = agent.begin_episode(), agent.begin_episode()
        for episode in (first, second):
            play(episode)
            episode.end()
        assert bool(agent.guarantee) == (kind is MatrixRL)
        if kind is not MatrixRL:
            assert "episodes overlapped, and the proof of" in agent.guarantee.reason


def test_episodes_are_found_by_their_number(tmp_path):
    agent = small()
    first, second, third = (agent.begin_episode() for _ in range(3))
    first.abandon()
    play(third)
    third.end()
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a")
    assert loaded.episode(1).stage == agent.episode(1).stage == second.stage
    for number, why in ((0, "ended or abandoned"), (2, "ended or abandoned"), (3, "never begun")):
        with pytest.raises(InvalidInput, match=f"must be that of an open episode; got {number}, which was {why}"):
            loaded.episode(number)
    with pytest.raises(InvalidInput, match="number must be at least 0"):
        loaded.episode(-1)
    assert loaded.begin_episode().number == 3


def test_an_episode_of_another_agent_is_refused():
    agent, other = small(), small()
    episode = other.begin_episode()
    agent.begin_episode()  # has the same number
    with pytest.raises(InvalidInput, match="begun by another agent"):
        agent.predict(0, episode=episode)


def test_posterior_samples_of_episodes_that_wait_stay_those_of_their_begin():
    """PSRL draws a plan for each episode: the order of the ends does not change what is drawn."""
    one, other = (AGENTS["psrl"](make("river-swim", n_states=4, horizon=3), seed=3) for _ in range(2))
    for agent, order in ((one, (0, 1, 2)), (other, (2, 0, 1))):
        opened = [agent.begin_episode() for _ in range(3)]
        for i in order:
            play(opened[i], seed=i)
            opened[i].end()
    assert_same_agent(other, one)
