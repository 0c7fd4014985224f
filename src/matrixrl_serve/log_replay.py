"""Replay: compute every plan and every decision of a log again, and compare them with what it says."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from matrixrl.errors import StoreError
from matrixrl.threads import limited_threads
from matrixrl_serve.decisions.decision import decide, followed
from matrixrl_serve.learner import Learner
from matrixrl_serve.learner.restore import Follower
from matrixrl_serve.log import Event, EventLog
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import Projection, misfit
from matrixrl_serve.service import problem_of

__all__ = ["Replayed", "replay"]


@dataclass(frozen=True)
class Replayed:
    """What a replay found.

    Attributes:
        n_events: Number of events.
        n_decisions: Number of decisions that were made again.
        n_plans: Number of plans that were made again.
        difference: The first difference, in words; None if all are equal bit for bit.
    """

    n_events: int
    n_decisions: int
    n_plans: int
    difference: str | None


def replay(data: str | os.PathLike[str]) -> Replayed:
    """Make all plans and decisions of a log again, from its first event on and without checkpoints.

    Args:
        data: Directory of a service, which may be running, or address of a database.
    """
    log = EventLog(data, create=False)
    try:
        log.check()
        found = problem_of(log)
        if found is None:
            raise StoreError(f"{log.data} holds no service")
        problem = ServedProblem(found)
        follower, projection, decisions, difference = Follower(Learner(problem)), Projection(found.mode), 0, None
        with limited_threads(1):
            for event in log.read():
                try:
                    if event.kind == "asked":
                        decisions += 1
                        difference = difference or _decided_otherwise(event, projection, follower.learner, problem)
                    elif event.kind == "opened":
                        difference = difference or _opened_otherwise(event, projection, problem)
                except (LookupError, TypeError, ValueError) as error:
                    raise misfit(event) from error
                projection.apply(event)
                follower.take(event)
                difference = difference or follower.difference
            follower.finish()
        return Replayed(projection.seq, decisions, follower.n_plans, difference or follower.difference)
    finally:
        log.close()


def _decided_otherwise(event: Event, projection: Projection, learner: Learner, problem: ServedProblem) -> str | None:
    """Return how a decision differs from the one that is made again; None if it is equal."""
    body, episode = event.body, projection.episodes[str(event.episode)]
    plan = learner.plans.get(episode.plan)
    if plan is None or body["plan"] != episode.plan:
        return f"event {event.seq} answers from plan {body['plan']}, and its episode has plan {episode.plan}"
    among = None
    if "allowed" in body:
        among = np.zeros(problem.actions.size, dtype=np.bool_)
        among[body["allowed"]] = True
    assert event.step is not None
    again = decide(plan, problem, episode, event.step, body["state"], among)
    if (again.action, again.advised) != (body["action"], body.get("advised")):
        return f"event {event.seq} answers {body['action']}, and its plan says {again.action}"
    return None


def _opened_otherwise(event: Event, projection: Projection, problem: ServedProblem) -> str | None:
    body = event.body
    if (body["plan"], body["mode"], body["follows"]) != (
        projection.plan,
        projection.mode,
        followed(projection.mode, problem),
    ):
        return f"event {event.seq} opens an episode with another plan or mode than the newest ones"
    return None
