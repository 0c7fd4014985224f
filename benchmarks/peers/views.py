"""How a learner without episodes is connected to episodes of H steps: three views of one MDP.

A learner of statisticalrl receives (state, action, reward, next state) forever. An episodic MDP is a chain that goes
back to the start after every H steps; the views differ in what the learner receives then.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from runner import Simulator

Kind = Literal["restart", "jump", "stage"]
KINDS: tuple[Kind, ...] = ("restart", "jump", "stage")


class View:
    """The states that a learner is shown.

    - "restart": s. The last step of an episode is reported with its true next state, and the next step begins at the
      start: the loop of the package's own experiments. The data obey the law P of the chain.
    - "jump": s. The start is reported as the next state of the last step. The data obey no law of s alone.
    - "stage": the pair (h, s), with the start as the next state of the last step. This is an MDP, whose average reward
      is 1/H of the value of an episode. Only pairs that can be reached are numbered, because a state that cannot be
      reached makes the diameter infinite and the regret bounds of UCRL2 and its successors void.

    Args:
        kind: one of the above.
        transitions: P (S, A, S).
        start: the law of the first state (S,).
        horizon: H.
    """

    def __init__(self, kind: Kind, transitions: np.ndarray, start: np.ndarray, horizon: int) -> None:
        self.kind = kind
        n_states = len(start)
        self.numbers = np.tile(np.arange(n_states), (horizon, 1))
        self.n_states = n_states
        if kind == "stage":
            reached = reachable(transitions, start, horizon)
            self.n_states = int(reached.sum())
            self.numbers = np.where(reached, reached.cumsum().reshape(reached.shape) - 1, -1)

    def number(self, stage: int, state: int) -> int:
        """Return the state that the learner is shown at a stage."""
        return int(self.numbers[stage, state])


def reachable(transitions: np.ndarray, start: np.ndarray, horizon: int) -> np.ndarray:
    """Return which states can be reached at each stage: booleans (H, S)."""
    step = (transitions > 0.0).any(axis=1)
    reached = np.zeros((horizon, len(start)), dtype=bool)
    reached[0] = start > 0.0
    for stage in range(1, horizon):
        reached[stage] = step[reached[stage - 1]].any(axis=0)
    return reached


def play_episodes(learner: Any, simulator: Simulator, view: View, n_episodes: int) -> None:
    """Play episodes with a learner that has `reset(state)`, `play(state)` and `update(state, action, reward, next)`."""
    last: tuple[int, int, float] | None = None
    for _ in range(n_episodes):
        shown = view.number(0, simulator.begin_episode())
        if last is None:
            learner.reset(shown)
        elif view.kind == "restart":
            # UCRL2 and KL-UCRL take the previous state from their own list, not from the arguments of `update`.
            if hasattr(learner, "observations"):
                learner.observations[0][-1] = shown
        else:
            learner.update(*last, shown)
        for stage in range(simulator.horizon):
            action = int(learner.play(shown))
            reward = simulator.play(action)
            last = (shown, action, reward)
            if stage + 1 < simulator.horizon:
                shown = view.number(stage + 1, simulator.state)
                learner.update(*last, shown)
            elif view.kind == "restart":
                learner.update(*last, view.number(0, simulator.state))
