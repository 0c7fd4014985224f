"""A finite MDP as a Gymnasium environment."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import choice, index
from matrixrl.errors import ProtocolError
from matrixrl.problems.finite import FiniteMDP, checked_mdp, draw_start
from matrixrl.records import BoolArray, FloatArray

__all__ = ["MDPEnv"]


class MDPEnv(gym.Env[np.int64, np.int64]):
    """A Gymnasium environment that plays a `FiniteMDP`; observations are state numbers.

    `reset` draws all uniform numbers of the episode: one for the first state and one for each step, or two for each
    step if rewards are noisy. The episodes of a seed therefore do not depend on when earlier episodes ended, nor on the
    number of replicas that are simulated together.

    Args:
        mdp: MDP to play, available as `env.unwrapped.mdp`; regret is computed with it.
        render_mode: None or "ansi".

    >>> from matrixrl.problems import tabular
    >>> env = MDPEnv(tabular(n_states=3, n_actions=2, horizon=2).mdp)
    >>> state, _ = env.reset(seed=1)
    >>> int(state), env.step(0)[3]
    (0, False)
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  # as Gymnasium declares it

    def __init__(self, mdp: FiniteMDP, *, render_mode: str | None = None) -> None:
        checked_mdp(mdp)
        if render_mode is not None:
            choice("render_mode", render_mode, self.metadata["render_modes"])
        self.mdp = mdp
        self.horizon = mdp.horizon
        self.render_mode = render_mode
        self.observation_space = spaces.Discrete(mdp.n_states)
        self.action_space = spaces.Discrete(mdp.task.n_own_actions)
        self._state = 0
        self._stage = mdp.horizon
        self._last: tuple[int, float] | None = None
        self._next_uniforms: FloatArray = np.empty(0)
        self._coins: FloatArray = np.empty(0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Start an episode and return its first state; `seed`, if given, restarts the random stream."""
        super().reset(seed=seed, options=options)
        first, self._next_uniforms, self._coins = self.mdp.episode_draws(
            self.np_random.random(self.mdp.draws_per_episode)
        )
        self._state = int(draw_start(self.mdp.task.start, first[None])[0])
        self._stage = 0
        self._last = None
        return np.int64(self._state), self._info()

    def step(self, action: np.int64 | int) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """Take an action; return next state, reward, terminated, truncated and info.

        The reward is the expected reward of the state and action, or a random one if the MDP has noisy rewards.
        """
        if self._stage >= self.horizon:
            raise ProtocolError("step was called outside an episode; call reset first")
        own = index("action", action, size=self.mdp.task.n_own_actions, remedy="Choose from action_space.")
        self.mdp.task.check_actions("action", np.array([self._state]), np.array([own]), self._stage)
        a = own if self.mdp.stages is None else int(self.mdp.stages.inner(own, self._stage))
        now = slice(self._stage, self._stage + 1)
        rewards, following = self.mdp.step(
            np.array([self._state]), np.array([a]), self._next_uniforms[now], self._coins[now]
        )
        self._stage += 1
        reward, self._state = float(rewards[0]), int(following[0])
        self._last = (own, reward)
        terminated = self._state == self.mdp.task.end_state
        truncated = not terminated and self._stage >= self.horizon
        if terminated:
            self._stage = self.horizon
        return np.int64(self._state), reward, terminated, truncated, self._info()

    def action_masks(self) -> BoolArray:
        """Return which actions are allowed in the current state: (A,)."""
        allowed, stages = self.mdp.allowed, self.mdp.stages
        if allowed is None:
            return np.ones(self.mdp.task.n_own_actions, dtype=np.bool_)
        return (allowed[self._state] if stages is None else allowed[self._state, stages.block(self._next)]).copy()

    @property
    def _next(self) -> int:
        """The stage to come, or the last one after the end of an episode."""
        return min(self._stage, self.horizon - 1)

    def _info(self) -> dict[str, Any]:
        """Return the stage and, if some actions are not allowed, the mask of the current state as Gymnasium has it."""
        masks = {} if self.mdp.allowed is None else {"action_mask": self.action_masks().astype(np.int8)}
        return {"stage": self._stage, **masks}

    def render(self) -> str | None:
        """Return a text picture of the current state in render mode "ansi", else None."""
        if self.render_mode is None:
            gym.logger.warn("render was called without a render mode; pass render_mode='ansi'.")
            return None
        last = "" if self._last is None else f"  (action {self._last[0]}, reward {self._last[1]:g})"
        return f"{self.picture(self._state)}{last}\n"

    def picture(self, state: int) -> str:
        """Return a text picture of one state; subclasses may override it."""
        return f"state {state} of {self.mdp.n_states}"
