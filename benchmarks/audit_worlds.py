"""Small problems of the audit: how they behave, and their exact values by dynamic programming of this file's own.

Nothing here uses a value, a plan or a random stream of matrixrl; only the constructors of problems are called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl import FiniteMDP, Task

__all__ = ["World", "WorldEnv", "simple_world"]


@dataclass(frozen=True)
class World:
    """A problem as it really is.

    Attributes:
        laws: (H, S, A, S + 1) Probability of each next state; the last column is the end of the episode.
        rewards: (H, S, A) Expected rewards in the environment's unit.
        allowed: (H, S, A) Allowed actions.
        start: (S,) Distribution of first states that certificates are about: as declared, else as episodes begin.
        begins: (S,) Distribution with which episodes begin; `start` unless the user chooses first states.
        reward_range: Declared range of rewards.
        noise: "" for rewards that are always the mean, "ends" for one end of the range, "spread" for any in between.
        discount: Factor of each step.
        endless: Whether an episode goes on after stage H with the same laws, and is only cut there.
        accuracy: As declared, for an endless problem.
        classes: Class of each stage; None if all stages share their laws.
        by_class: Whether tables are handed over once for each class, in the order of the class numbers.
        declares_start: Whether `start` is declared.
        time_out: Probability that a step times out, which `laws` and `rewards` contain.
    """

    laws: np.ndarray
    rewards: np.ndarray
    allowed: np.ndarray
    start: np.ndarray
    begins: np.ndarray
    reward_range: tuple[float, float] = (0.0, 1.0)
    noise: str = ""
    discount: float = 1.0
    endless: bool = False
    accuracy: float = 0.01
    classes: tuple[int, ...] | None = None
    by_class: bool = False
    declares_start: bool = True
    time_out: float = 0.0

    @property
    def horizon(self) -> int:
        """Number of stages H that are played."""
        return len(self.laws)

    @property
    def n_states(self) -> int:
        """Number of states S without the end."""
        return self.laws.shape[1]

    @property
    def n_actions(self) -> int:
        """Number of actions A."""
        return self.laws.shape[2]

    @property
    def ends(self) -> bool:
        """Whether an episode may end before its last stage."""
        return bool((self.laws[..., -1] > 0.0).any())

    @property
    def weight(self) -> float:
        """Σ γ^h over the played stages."""
        return float(sum(self.discount**h for h in range(self.horizon)))

    @property
    def tail(self) -> float:
        """Weight of the stages that are cut off."""
        return self.discount**self.horizon / (1.0 - self.discount) if self.endless else 0.0

    @property
    def most(self) -> float:
        """Largest possible difference of two values."""
        return (self.weight + self.tail) * (self.reward_range[1] - self.reward_range[0])

    def _q(self, h: int, following: np.ndarray) -> np.ndarray:
        """Return r + γ P V of stage h, (S, A)."""
        return self.rewards[h] + self.discount * self.laws[h, :, :, :-1] @ following

    @cached_property
    def optimal(self) -> tuple[np.ndarray, np.ndarray]:
        """Q* (H, S, A), −∞ where not allowed, and V* (H + 1, S); of infinitely many stages if it is endless."""
        values = np.zeros((self.horizon + 1, self.n_states))
        if self.endless:
            for _ in range(10_000):
                new = np.where(self.allowed[0], self._q(0, values[-1]), -np.inf).max(axis=1)
                done = np.abs(new - values[-1]).max() < 1e-13
                values[-1] = new
                if done:
                    break
        q = np.zeros(self.rewards.shape)
        for h in reversed(range(self.horizon)):
            q[h] = np.where(self.allowed[h], self._q(h, values[h + 1]), -np.inf)
            values[h] = q[h].max(axis=1)
        return q, values

    @cached_property
    def best(self) -> float:
        """V* of the start."""
        return float(self.start @ self.optimal[1][0])

    def value(self, policy: np.ndarray, start: np.ndarray | None = None) -> float:
        """Return the value of actions (H, S) or probabilities (H, S, A), with the smallest rewards after stage H."""
        values = np.zeros(self.n_states)
        for h in reversed(range(self.horizon)):
            q = self._q(h, values)
            chosen = policy[h, : self.n_states]
            values = q[np.arange(self.n_states), chosen] if policy.ndim == 2 else (chosen * q).sum(axis=1)
        return float((self.start if start is None else start) @ values) + self.tail * self.reward_range[0]

    def n_forbidden(self, policy: np.ndarray, known: np.ndarray | bool = True) -> int:
        """Return the number of entries of a policy that are not allowed in the states `known` (S,)."""
        if policy.ndim == 3:
            return int((policy[:, : self.n_states][~self.allowed] > 0.0).sum())
        chosen = np.take_along_axis(self.allowed, policy[:, : self.n_states, None], axis=2)[..., 0]
        return int((~chosen & known).sum())

    def any_policy(self, rng: np.random.Generator, width: int) -> np.ndarray:
        """Return a random policy of allowed actions: a table (H, width), or probabilities (H, width, A)."""
        chances = rng.random((self.horizon, width, self.n_actions)) + 1e-3
        chances[:, : self.n_states] *= self.allowed
        return chances.argmax(axis=2) if rng.random() < 0.5 else chances / chances.sum(axis=2, keepdims=True)

    def words(self) -> str:
        """Return sizes and peculiarities."""
        names = ("endless", "ends", "noise", "classes", "by_class", "time_out", "declares_start")
        shown = {name: value for name in names if (value := getattr(self, name))} | {"masks": not self.allowed.all()}
        starts = f"start {self.start.round(3).tolist()} begins {self.begins.round(3).tolist()}"
        return f"S={self.n_states} A={self.n_actions} H={self.horizon} γ={self.discount:g} {shown} {starts}"

    def lost(self, path: list[tuple[int, int]]) -> float:
        """Return what the actions of an episode gave away, Σ γ^h (V* − Q*): its mean is at most V* − V^π."""
        q, values = self.optimal
        return float(sum(self.discount**h * (values[h, s] - q[h, s, a]) for h, (s, a) in enumerate(path)))

    def first(self, rng: np.random.Generator) -> int:
        """Draw a first state."""
        return int(rng.choice(self.n_states, p=self.begins))

    def step(self, rng: np.random.Generator, h: int, s: int, a: int) -> tuple[float, int, bool, bool]:
        """Draw reward, next state, whether the episode ended, and whether the step timed out."""
        low, high = self.reward_range
        law, mean = self.laws[h, s, a], float(self.rewards[h, s, a])
        if self.time_out:
            if rng.random() < self.time_out:
                return 0.0, s, True, True
            law = law.copy()
            law[-1] -= self.time_out
            law, mean = law / law.sum(), mean / (1.0 - self.time_out)
        following = min(int(np.searchsorted(np.cumsum(law), rng.random(), side="right")), self.n_states)
        reward, u = mean, rng.random()
        if self.noise == "ends":
            reward = high if u < (mean - low) / (high - low) else low
        elif self.noise == "spread":
            reward = mean + (2.0 * u - 1.0) * min(mean - low, high - mean)
        ended = following == self.n_states
        return float(reward), s if ended else following, ended, False

    def _tables(self, table: np.ndarray) -> np.ndarray:
        """Return tables (H, …) as they are handed over: one, one for each class in its order, or all."""
        if self.classes is None:
            return table[0]
        if self.by_class:
            return table[[self.classes.index(c) for c in range(max(self.classes) + 1)]]
        return table

    def env_options(self, known_reward: bool) -> dict[str, Any]:
        """Return what an agent has to be told about the environment of this world."""
        options = {"reward_range": self.reward_range, "horizon": None if self.endless else self.horizon}
        return {**options, **self._timing(), **({"reward": self._tables(self.rewards)} if known_reward else {})}

    def _timing(self) -> dict[str, Any]:
        timing: dict[str, Any] = {"discount": self.discount} if self.discount < 1.0 else {}
        timing |= {"accuracy": self.accuracy} if self.endless else {}
        return timing | ({} if self.classes is None else {"stage_dependent": list(self.classes)})

    def task(self, known_reward: bool) -> Task:
        """Return the problem as somebody without a simulator declares it."""
        options: dict[str, Any] = {"reward_range": self.reward_range, "may_terminate": self.ends, **self._timing()}
        options |= {"start": self.start} if self.declares_start else {}
        options |= {} if self.allowed.all() else {"allowed": self._tables(self.allowed)}
        horizon = None if self.endless else self.horizon
        if known_reward:
            return Task(self._tables(self.rewards), horizon, **options)
        return Task(None, horizon, n_states=self.n_states, n_actions=self.n_actions, **options)

    def mdp(self) -> FiniteMDP:
        """Return the problem with its transition table; a last state is the end, where there is one."""
        width = self.n_states + self.ends
        laws = np.zeros((self.horizon, width, self.n_actions, width))
        laws[:, : self.n_states] = self.laws[..., :width]
        rewards = np.zeros((self.horizon, width, self.n_actions))
        rewards[:, : self.n_states] = self.rewards
        allowed = np.ones(rewards.shape, dtype=bool)
        allowed[:, : self.n_states] = self.allowed
        if self.ends:
            laws[:, -1, :, -1] = 1.0
        return FiniteMDP(
            self._tables(laws),
            self._tables(rewards),
            None if self.endless else self.horizon,
            reward_range=self.reward_range,
            start=np.append(self.start, [0.0] * self.ends),
            end_state=self.n_states if self.ends else None,
            noisy_rewards=self.noise == "ends",
            allowed=None if self.allowed.all() else self._tables(allowed),
            **self._timing(),
        )


class WorldEnv(gym.Env[int, int]):
    """A world as a Gymnasium environment without a table, which reports masks with the states that allow less."""

    def __init__(self, world: World) -> None:
        self.world, self.horizon = world, world.horizon
        self.observation_space = gym.spaces.Discrete(world.n_states)
        self.action_space = gym.spaces.Discrete(world.n_actions)
        self.paths: list[list[tuple[int, int]]] = []
        self.seen = np.zeros(world.n_states, dtype=bool)  # states whose mask was reported before an action

    def _info(self) -> dict[str, Any]:
        if self.world.allowed.all():
            return {}
        return {"action_mask": self.world.allowed[0, self.state].astype(np.int8)}

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:  # noqa: ARG002
        super().reset(seed=seed)
        self.stage, self.state = 0, self.world.first(self.np_random)
        self.paths.append([])
        return self.state, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        assert self.world.allowed[self.stage, self.state, action], f"forbidden action {action} in state {self.state}"
        self.seen[self.state] = True
        self.paths[-1].append((self.state, int(action)))
        reward, self.state, ended, _ = self.world.step(self.np_random, self.stage, self.state, int(action))
        self.stage += 1
        return self.state, reward, ended, False, self._info()


def simple_world(laws: Any, rewards: Any, horizon: int, **options: Any) -> World:
    """Return a world from tables (S, A, S) or (S, A, S + 1), or with an axis of stages, that begins in state 0.

    Args:
        laws: Probabilities of next states; what a row lacks to one is the probability of the end.
        rewards: (S, A) or (H, S, A) Expected rewards.
        horizon: Number of stages.
        options: Further attributes of `World`.
    """
    given = np.asarray(laws, dtype=float)
    n_states = given.shape[-3]
    given = given[..., :n_states]
    law = np.concatenate([given, np.maximum(1.0 - given.sum(axis=-1, keepdims=True), 0.0)], axis=-1)
    law[..., -1][law[..., -1] < 1e-9] = 0.0
    law = np.broadcast_to(law, (horizon, *law.shape[-3:])).copy()
    reward = np.broadcast_to(np.asarray(rewards, dtype=float), law.shape[:3]).copy()
    start = np.asarray(options.pop("start", np.eye(n_states)[0]), dtype=float)
    mask = np.broadcast_to(np.asarray(options.pop("allowed", True), dtype=bool), law.shape[:3]).copy()
    world = World(law, reward, mask, start, np.asarray(options.pop("begins", start), dtype=float))
    return replace(world, **options)
