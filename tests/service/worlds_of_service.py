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


class Direct:
    """The decisions of a service, where each request has a transaction of its own."""

    def __init__(self, service):
        self._service = service

    def together(self, work, *arguments, **more):
        """Run a function of the decisions in one transaction."""
        return self._service.run(lambda: work(self._service.decisions, *arguments, **more))

    def __getattr__(self, name):
        found = getattr(self._service.decisions, name)
        if not callable(found) or isinstance(found, type):
            return found
        return lambda *arguments, **more: self._service.run(lambda: found(*arguments, **more))


def direct(service):
    """Return the decisions of a service, to be called from anywhere."""
    return Direct(service)


def served(service, clock, seconds):
    """Let a service run for some time, and return the names of the episodes that timed out in it."""
    before = set(direct(service).projection.episodes)
    for _ in range(int(seconds)):
        clock.now += 1.0
        direct(service).sweep()
    return before - set(direct(service).projection.episodes)


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
    if isinstance(decisions, Direct):  # in one transaction
        return decisions.together(play, rng, actor=actor, policy=policy, horizon=horizon, name=name)
    name = decisions.open(actor).episode if name is None else name
    state = 0
    for _ in range(horizon):
        answer = decisions.ask(actor, name, state=state)
        action = answer.action if policy is None else policy
        reward, following = outcome(rng, state, ["wait", "order"].index(action))
        decisions.tell(actor, name, reward=reward, next_state=following, action=action)
        state = following
    return name
