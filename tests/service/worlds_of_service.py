"""Small problems, and applications that play them through a service."""

from __future__ import annotations

import numpy as np

from matrixrl_serve.problem import ProblemFile


def shop(**changes):
    """Return a problem of three states and two actions, three steps long."""
    keys = {"states": 3, "actions": ["wait", "order"], "horizon": 3, "start": 0, "seed": 1, "time_out": 60.0}
    return ProblemFile(**(keys | changes))


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


def served(service, clock, seconds):
    """Let a service run for some time, and return the names of the episodes that timed out in it."""
    before = set(service.decisions.projection.episodes)
    for _ in range(int(seconds)):
        clock.now += 1.0
        service.decisions.sweep()
        service.writer.settle()
    return before - set(service.decisions.projection.episodes)


P = np.array(
    [
        [[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]],
        [[0.5, 0.4, 0.1], [0.2, 0.3, 0.5]],
        [[0.3, 0.3, 0.4], [0.1, 0.2, 0.7]],
    ]
)
"""Law of the shop: (S, A, S)."""


def outcome(rng, state, action):
    """Return the reward and the next state of a step of the shop."""
    following = int(rng.choice(3, p=P[state, action]))
    reward = float(rng.random() < (0.2 + 0.3 * state if action == 0 else 0.3 * state))
    return reward, following


def play(decisions, rng, *, actor="local", policy=None, horizon=3, name=None):
    """Play one episode through a decisions; `policy` is what an application does in shadow mode."""
    name = decisions.open(actor).answer.episode if name is None else name
    state = 0
    for _ in range(horizon):
        answer = decisions.ask(actor, name, state=state).answer
        action = answer.action if policy is None else policy
        reward, following = outcome(rng, state, ["wait", "order"].index(action))
        decisions.tell(actor, name, reward=reward, next_state=following, action=action)
        state = following
    return name
