"""The learner that grows with what it sees: numbers of boards, range of rewards, starts, plans on batches."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl.algorithms import make_algorithm
from matrixrl.envs import open_problem
from matrixrl.errors import InvalidInput
from matrixrl.problems import Task
from scorecards.numbered_states import GrowingLearner, RewardRange, StateNumbers, as_steps
from scorecards.probe import play_at_random
from scorecards.timesteps import reward_of
from stepped_worlds import Longer, Sea, Told

TUNED = {"preset": "tuned", "known_reward": False}


def played(env, n_episodes, seed=0):
    learner = GrowingLearner(env, "matrix-rl", TUNED, seed)
    return learner, [learner.play() for _ in range(n_episodes)]


def test_numbers_of_boards_are_those_of_a_list_of_all_boards_seen():
    rng = np.random.default_rng(0)
    boards, seen = StateNumbers(), []
    for _ in range(300):
        board = rng.integers(0, 2, size=(2, 3)).astype(np.float32)
        if not any(np.array_equal(board, other) for other in seen):
            seen.append(board)
        assert boards.number(board[:, ::1]) == next(k for k, other in enumerate(seen) if np.array_equal(board, other))
    assert len(boards) == len(seen) <= 64
    assert boards.number(np.asfortranarray(seen[7])) == 7


@pytest.mark.parametrize("rewards", [[-0.5, 0.25], [-0.5], [0.5, 2.0], [0.0, 1.0]])
def test_the_believed_range_has_the_unit_of_the_rewards(rewards):
    plain, scaled = RewardRange(), RewardRange()
    plain.add(rewards)
    scaled.add([1000.0 * r for r in rewards])
    np.testing.assert_allclose(scaled.believed(9), 1000.0 * np.array(plain.believed(9)), rtol=1e-12)
    low, high = plain.believed(9)
    assert low <= min(rewards) <= max(rewards) < high


def test_after_costs_alone_a_reward_is_hoped_for_that_pays_for_a_whole_episode():
    costs = RewardRange()
    costs.add([-0.1, 0.0])
    horizon = 20
    assert costs.believed(horizon)[1] > horizon * 0.1
    assert RewardRange().add([0.0]) is True
    nothing = RewardRange()
    nothing.add([0.0, 0.0])
    assert nothing.believed(5) == (0.0, 1.0)


def test_rescaled_rewards_are_explored_in_the_same_way():
    """Multiply all rewards by a power of two, which rounds nothing."""
    learner, returns = played(Sea(5), 40)
    other, scaled = played(Sea(5, scale=1024.0), 40)
    assert scaled == [1024.0 * r for r in returns]
    assert other.n_starts == learner.n_starts


def test_the_treasure_is_found_and_all_boards_are_numbered():
    size = 8
    learner, returns = played(Sea(size), 300)
    assert sum(r == pytest.approx(0.75) for r in returns[-50:]) >= 45
    assert len(learner.boards) == size * (size + 1) // 2 + 1  # the triangle, and the empty board at the end
    assert learner.horizon == size
    random = sum(sum(play_at_random(Sea(size), np.random.default_rng(k)).rewards) > 0.5 for k in range(300))
    assert random < 10  # 2⁻⁸ of the episodes


def test_longer_episodes_start_the_algorithm_again():
    learner, returns = played(Longer(6), 12)
    assert returns == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0, 6.0]
    assert learner.horizon == 6
    assert learner.n_starts == 6


def test_learning_episodes_together_gives_the_plan_of_learning_them_one_by_one():
    rng = np.random.default_rng(3)
    episodes = []
    for _ in range(30):
        states = rng.integers(0, 5, size=4)
        steps = zip(states[:-1], rng.integers(0, 2, size=3), rng.random(3), states[1:], strict=True)
        episodes.append([(*map(int, (s, a)), float(r), int(n), k == 2) for k, (s, a, r, n) in enumerate(steps)])
    task = Task(n_states=5, n_actions=2, horizon=3, may_terminate=True)
    one, all_ = (
        make_algorithm("matrix-rl", TUNED).start(open_problem(task, None, known_reward=False), [7]) for _ in "ab"
    )
    for episode in episodes:
        one.update(as_steps(episode, 5))
    all_.update(as_steps([step for episode in episodes for step in episode], 5), n_episodes=30)
    np.testing.assert_array_equal(one.policy_table(one.plan()), all_.policy_table(all_.plan()))
    assert one.episode == all_.episode == 30
    assert task.end_state == 5
    assert as_steps(episodes[0], 5).next_states[0, -1] == 5


def test_episodes_that_were_seen_before_are_learned_from():
    env = Sea(4)
    seen = [play_at_random(env, np.random.default_rng(k)) for k in range(5)]
    learner = GrowingLearner(env, "matrix-rl", TUNED, 0, seen)
    boards = {board.tobytes() for episode in seen for board in episode.observations}
    assert len(learner.boards) == len(boards)
    assert learner.horizon == 4
    learner.play()
    assert learner.n_starts == 1


def test_a_discount_inside_an_episode_is_refused():
    assert reward_of(Told(np.zeros(1), 2.0, 1.0)) == 2.0
    assert reward_of(Told(np.zeros(1), 2.0, 0.0, True)) == 2.0
    with pytest.raises(InvalidInput, match="discount must be 1"):
        reward_of(Told(np.zeros(1), 2.0, 0.9))
