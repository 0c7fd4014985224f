"""The decision: a pure function of a published plan, the mode of the episode, and the question."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from matrixrl.checks import fail
from matrixrl.records import BoolArray
from matrixrl_serve.learner import Publication
from matrixrl_serve.problem import Mode, ServedProblem
from matrixrl_serve.projection import EpisodeState, Follows

__all__ = ["Decision", "decide", "followed", "narrowed"]


class Decision(NamedTuple):
    """Numbers of actions, counted from 0.

    Attributes:
        action: The answer; None if the incumbent decides and is not known.
        advised: In shadow mode, what the learner would do; else None.
    """

    action: int | None
    advised: int | None


def followed(mode: Mode, problem: ServedProblem) -> Follows:
    """Return whose actions the answers in a mode are."""
    if mode == "shadow":
        return "incumbent"
    return "plan" if mode == "live" and problem.file.explore else "recommended"


def decide(
    plan: Publication, problem: ServedProblem, episode: EpisodeState, stage: int, state: int, among: BoolArray | None
) -> Decision:
    """Return the decision of an episode at a stage and a state.

    Args:
        plan: The plan that the episode was opened with.
        problem: The problem.
        episode: The episode.
        stage: Stage h, counted from 0.
        state: The state.
        among: (A,) Actions that the request allows, as `narrowed` returns them.
    """
    if episode.follows != "incumbent":
        return Decision(plan.action(episode.follows, stage, state, among), None)
    advised = plan.action(followed("live", problem), stage, state, among)
    if problem.incumbent is None:
        return Decision(None, advised)
    usual = int(problem.incumbent[stage, state])
    return Decision(usual if among is None or among[usual] else None, advised)


def narrowed(problem: ServedProblem, state: int, stage: int, given: list[object] | None) -> BoolArray | None:
    """Return the actions (A,) of a request if they are fewer than those that are declared for the state, else None.

    Raises:
        InvalidInput: One of them is not declared.
    """
    if given is None:
        return None
    among, declared = problem.among("allowed", given), problem.allowed_at(state, stage)
    if declared is None:
        return None if among.all() else among
    if (among & ~declared).any():
        wrong = problem.actions.decode(int(np.flatnonzero(among & ~declared)[0]))
        fail("allowed", "must be among the actions that the problem file allows in the state", wrong, "Leave it out.")
    return None if np.array_equal(among, declared) else among
