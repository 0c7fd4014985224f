"""A finite learner for an environment that declares nothing: states, horizon and rewards grow with the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from matrixrl.algorithms import Algorithm, make_algorithm
from matrixrl.envs import open_problem
from matrixrl.problems import Task
from matrixrl.records import IntArray, Steps
from scorecards.probe import Seen
from scorecards.timesteps import SteppedEnv, TimeStep, number_of_actions, reward_of

__all__ = ["GrowingLearner", "RewardRange", "StateNumbers"]

_FEWEST_STATES = 16
_MARGIN = 0.1  # of the largest reward, above it: what was never tried is better than the best that was seen
Step = tuple[int, int, float, int, bool]
"""State, action, reward, next state, whether the episode terminated."""


class StateNumbers:
    """Numbers of observations, in the order in which they were first seen.

    >>> boards = StateNumbers()
    >>> [boards.number(np.array(board)) for board in ([[1, 0]], [[0, 1]], [[1, 0]])]
    [0, 1, 0]
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, observation: Any) -> int:
        """Return the number of an observation; a new one gets the next number."""
        key = np.ascontiguousarray(observation).tobytes()
        return self._numbers.setdefault(key, len(self._numbers))


class RewardRange:
    """The range of rewards that is believed in: what was seen, and a little more.

    It reaches from the smallest reward seen to the largest plus a tenth of the largest size. While no reward above zero
    was seen, one is hoped for that pays for a whole episode of the largest costs, so that what was never tried is worth
    any detour. All of this is in units of the rewards, so rescaled rewards are explored in the same way.
    """

    def __init__(self) -> None:
        self.low, self.high = np.inf, -np.inf

    def add(self, rewards: Sequence[float]) -> bool:
        """Take note of rewards, and return whether the range grew."""
        low, high = min(self.low, *rewards), max(self.high, *rewards)
        grew = (low, high) != (self.low, self.high)
        self.low, self.high = low, high
        return grew

    def believed(self, horizon: int) -> tuple[float, float]:
        """Return the range of an episode of so many steps."""
        if self.low == self.high == 0.0:
            return 0.0, 1.0
        if self.high <= 0.0:
            return self.low, -2.0 * horizon * self.low
        return min(self.low, 0.0), self.high + _MARGIN * max(abs(self.low), self.high)


class GrowingLearner:
    """Plays a finite algorithm in an environment of dm_env of which only the number of actions is known.

    Observations are numbered when they are first seen. When there are more of them than the algorithm was started for,
    an episode is longer, or a reward is outside the range, the algorithm is started again and learns from all steps so
    far. A plan is kept until some pair was visited twice as often as when it was made: the data of the episodes between
    are learned from together, which changes no plan.

    Args:
        env: Environment.
        agent: Name of an algorithm.
        settings: Its settings.
        seed: Seed of all random streams.
        episodes: Episodes that were played before, at random.
    """

    def __init__(
        self, env: SteppedEnv, agent: str, settings: dict[str, Any], seed: int, episodes: Sequence[Seen] = ()
    ) -> None:
        self._env, self._agent, self._settings, self._seed = env, agent, settings, seed
        self._n_actions = number_of_actions(env)
        self._rng = np.random.default_rng(seed)
        self.boards = StateNumbers()
        self.range = RewardRange()
        self.horizon, self.n_states, self.n_starts = 0, _FEWEST_STATES, 0
        self._algorithm: Algorithm | None = None
        self._episodes: list[list[Step]] = []
        self._learned = 0  # number of episodes that the algorithm learned from
        self._table: IntArray = np.zeros((0, 0), dtype=np.int64)
        self._visits: dict[tuple[int, int], int] = {}
        self._planned_visits: dict[tuple[int, int], int] = {}
        self._is_due = False
        for seen in episodes:
            self._take(self._numbered(seen))

    def _numbered(self, seen: Seen) -> list[Step]:
        """Return the steps of an episode that was seen."""
        states = [self.boards.number(observation) for observation in seen.observations]
        last = len(seen.actions) - 1
        parts = enumerate(zip(states[:-1], seen.actions, seen.rewards, states[1:], strict=True))
        return [(*part, k == last) for k, part in parts]

    def play(self) -> float:
        """Play and learn one episode, and return the sum of its rewards."""
        if self._is_due:
            self._plan()
        step: TimeStep = self._env.reset()
        state = self.boards.number(step.observation)
        steps: list[Step] = []
        while not step.last():
            action = self._act(len(steps), state)
            step = self._env.step(action)
            following, reward = self.boards.number(step.observation), reward_of(step)
            steps.append((state, action, reward, following, step.last()))
            state = following
        self._take(steps)
        return sum(reward for _, _, reward, _, _ in steps)

    def _act(self, stage: int, state: int) -> int:
        """Return the action of the plan, or a random one where there is none."""
        horizon, n_states = self._table.shape
        if stage < horizon and state < n_states:
            return int(self._table[stage, state])
        return int(self._rng.integers(self._n_actions))

    def _take(self, steps: list[Step]) -> None:
        """Keep an episode, and note whether it asks for a new start or a new plan."""
        self._episodes.append(steps)
        for state, action, *_ in steps:
            pair = state, action
            self._visits[pair] = visits = self._visits.get(pair, 0) + 1
            self._is_due |= visits >= 2 * self._planned_visits.get(pair, 0)
        grew = self.range.add([reward for _, _, reward, _, _ in steps])
        if grew or len(steps) > self.horizon or len(self.boards) > self.n_states:
            self.horizon = max(self.horizon, len(steps))
            while len(self.boards) > self.n_states:
                self.n_states *= 2
            self._algorithm, self._is_due = None, True

    def _plan(self) -> None:
        """Learn from the episodes since the last plan, and plan."""
        if self._algorithm is None:
            self._algorithm = self._start()
            self._learned = 0
        algorithm, end = self._algorithm, self.n_states
        new = self._episodes[self._learned :]
        most = max(1, algorithm.steps_at_once // self.horizon)
        for first in range(0, len(new), most):
            part = new[first : first + most]
            algorithm.update(as_steps([step for episode in part for step in episode], end), n_episodes=len(part))
        self._learned = len(self._episodes)
        self._table = algorithm.policy_table(algorithm.plan())[0]
        self._planned_visits, self._is_due = dict(self._visits), False

    def _start(self) -> Algorithm:
        """Return the algorithm, started without data."""
        task = Task(
            n_states=self.n_states,
            n_actions=self._n_actions,
            horizon=self.horizon,
            reward_range=self.range.believed(self.horizon),
            may_terminate=True,
        )
        problem = open_problem(task, None, known_reward=False)
        self.n_starts += 1
        return make_algorithm(self._agent, self._settings).start(problem, [self._seed + self.n_starts])


def as_steps(steps: Sequence[Step], end_state: int) -> Steps:
    """Return steps of one or more episodes as a record, with the end state after the last step of each."""
    states, actions, rewards, following, ended = (np.array(column)[None] for column in zip(*steps, strict=True))
    return Steps.of(states, actions, rewards, np.where(ended, end_state, following), ended)
