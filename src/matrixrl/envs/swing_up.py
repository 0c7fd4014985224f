"""A cart that must swing its pole up and hold it, with a continuous force."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from matrixrl.checks import choice, integer
from matrixrl.extras import naming_the_extra
from matrixrl.records import FloatArray

__all__ = ["CartPoleSwingUp"]

_GRAVITY, _CART, _POLE, _HALF_LENGTH = 9.8, 1.0, 0.1, 0.5
_FORCE, _TRACK = 10.0, 3.0
_STEP, _PARTS = 0.04, 2  # seconds of a step, and of how many Euler steps it consists
_IMAGE = (600, 240)  # width and height of an image
_POLE_COLOUR, _HINGE_COLOUR = "#CA9865", "#8184CB"


class CartPoleSwingUp(gym.Env[FloatArray, FloatArray]):
    """Swing a pole up from hanging and hold it, by pushing the cart that carries it.

    Cart, pole and force are those of Gymnasium's CartPole, but the force is continuous, the pole hangs at the start and
    a step takes 0.04 s. An observation is position, speed, cosine and sine of the angle from upright, angular speed.
    The reward is ½(1 + cos θ)(1 − (x/3)²), and the episode ends without reward if the cart leaves the track, |x| > 3.

    Args:
        horizon: Steps in an episode.
        render_mode: "rgb_array" for images (the extra `video`), or None.

    >>> env = CartPoleSwingUp()
    >>> obs, _ = env.reset(seed=0)
    >>> bool(obs[2] < -0.9), env.step(np.array([1.0]))[1] < 0.1
    (True, True)
    """

    reward_range = (0.0, 1.0)
    metadata = {"render_modes": ["rgb_array"], "render_fps": round(1.0 / _STEP)}  # noqa: RUF012  # as Gymnasium has it

    def __init__(self, horizon: int = 150, *, render_mode: str | None = None) -> None:
        self.horizon = integer("horizon", horizon, low=1, remedy="Give a number of steps, such as 150.")
        self.render_mode = None if render_mode is None else choice("render_mode", render_mode, ["rgb_array"])
        most = np.array([_TRACK + 0.5, np.inf, 1.0, 1.0, np.inf])
        self.observation_space = spaces.Box(-most, most, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
        self._state, self._steps = np.zeros(4), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start with the pole hanging almost at rest."""
        super().reset(seed=seed, options=options)
        self._state = self.np_random.normal(0.0, 0.05, 4) + np.array([0.0, 0.0, np.pi, 0.0])
        self._steps = 0
        return self._observation(), {}

    def step(self, action: FloatArray) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Push the cart with a share of the largest force, from −1 to 1."""
        force = _FORCE * float(np.clip(np.asarray(action, dtype=np.float64).ravel()[0], -1.0, 1.0))
        x, speed, angle, turn = self._state
        for _ in range(_PARTS):
            total = _CART + _POLE
            push = (force + _POLE * _HALF_LENGTH * turn * turn * np.sin(angle)) / total
            lever = _HALF_LENGTH * (4.0 / 3.0 - _POLE * np.cos(angle) ** 2 / total)
            turning = (_GRAVITY * np.sin(angle) - np.cos(angle) * push) / lever
            speed += _STEP / _PARTS * (push - _POLE * _HALF_LENGTH * turning * np.cos(angle) / total)
            turn += _STEP / _PARTS * turning
            x += _STEP / _PARTS * speed
            angle += _STEP / _PARTS * turn
        self._state = np.array([x, speed, angle, turn])
        self._steps += 1
        is_out = abs(x) > _TRACK
        reward = 0.0 if is_out else float(0.5 * (1.0 + np.cos(angle)) * (1.0 - (x / _TRACK) ** 2))
        return self._observation(), reward, bool(is_out), self._steps >= self.horizon, {}

    def render(self) -> Any:
        """Return an image of track, cart and pole: (240, 600, 3); None without a render mode."""
        if self.render_mode is None:
            return None
        with naming_the_extra("video", "an image"):
            import pygame
        width, height = _IMAGE
        x, _, angle, _ = self._state
        scale = width / (2.0 * (_TRACK + 0.5))
        surface = pygame.Surface(_IMAGE)
        surface.fill("white")
        ground, middle = height * 0.6, width / 2.0
        pygame.draw.line(surface, "black", (0, ground), (width, ground), 2)
        for end in (-_TRACK, _TRACK):
            pygame.draw.line(
                surface, "red", (middle + scale * end, ground - 12), (middle + scale * end, ground + 12), 3
            )
        cart = pygame.Rect(0, 0, 50, 26)
        cart.center = (round(middle + scale * x), round(ground))
        pygame.draw.rect(surface, "black", cart)
        length = 2.0 * _HALF_LENGTH * scale
        tip = (cart.centerx + length * np.sin(angle), cart.centery - length * np.cos(angle))
        pygame.draw.line(surface, _POLE_COLOUR, cart.center, tip, 8)
        pygame.draw.circle(surface, _HINGE_COLOUR, cart.center, 6)
        return np.ascontiguousarray(pygame.surfarray.array3d(surface).transpose(1, 0, 2))

    def _observation(self) -> FloatArray:
        x, speed, angle, turn = self._state
        return np.array([x, speed, np.cos(angle), np.sin(angle), turn])
