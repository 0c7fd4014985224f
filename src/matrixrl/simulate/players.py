"""From the name of an agent to the engine that plays, on a known finite MDP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from matrixrl.agents import (
    AGENTS,
    BASELINES,
    KernelMatrixRL,
    MatrixRLSettings,
    kernel_features_of,
    make_engine,
)
from matrixrl.algorithms.baselines import BaselineSettings
from matrixrl.algorithms.engines import Engine, Learner
from matrixrl.checks import choice
from matrixrl.features import Features
from matrixrl.problems import Task
from matrixrl.records import FloatArray
from matrixrl.simulate.results import plain_setting

__all__ = ["Player", "agent_names", "make_player", "resolve_settings"]

_KERNEL = ("points", "k_phi", "k_psi", "length_scale", "action_correlation")  # of kernel-matrix-rl, beside the others


@dataclass(frozen=True)
class Player:
    """An algorithm ready to play B replicas.

    Attributes:
        engine: plans and learns.
        certifier: the same engine where it can bound V* and its policy's value, else None.
        features: φ and ψ that it works with.
        settings: every setting, resolved, as plain data.
        delta: the probability with which its bounds may fail, where it has any.
    """

    engine: Learner
    certifier: Engine | None
    features: Features
    settings: dict[str, Any]
    delta: float


def agent_names() -> list[str]:
    """Return the names of all agents that play finite problems."""
    return [*AGENTS, *BASELINES]


def resolve_settings(agent: str, given: dict[str, Any]) -> tuple[MatrixRLSettings | BaselineSettings, dict[str, Any]]:
    """Return the checked settings of an agent, and those of its kernel, if any."""
    if choice("agent", agent, agent_names()) in BASELINES:
        return BASELINES[agent].settings_class.resolve(given), {}
    kernel = {key: given[key] for key in _KERNEL if key in given} if agent == KernelMatrixRL.name else {}
    return MatrixRLSettings.resolve({k: v for k, v in given.items() if k not in kernel}), kernel


def make_player(
    agent: str, task: Task, points: FloatArray | None, given: dict[str, Any], seeds: Sequence[int]
) -> Player:
    """Return the algorithm of that name for a task.

    Args:
        agent: a name of `agent_names`.
        task: what may be known of the problem.
        points: (S, p) where states lie, if the environment says.
        given: settings.
        seeds: one for each replica.
    """
    settings, kernel = resolve_settings(agent, given)
    plain = {**settings.as_dict(), **{key: plain_setting(value) for key, value in kernel.items()}}
    features = task.features
    if isinstance(settings, BaselineSettings):
        baseline = BASELINES[agent]
        where = {"points": points} if baseline.uses_points else {}
        learner = baseline(task, features, settings, seeds, **where)
        return Player(learner, None, features, plain, float(plain.get("delta", 0.0)))
    if agent == KernelMatrixRL.name:
        features = kernel_features_of(None, task.n_states, task.n_actions, **{"points": points, **kernel})
    engine = make_engine(task, features, settings, seeds, pseudo=features.psi.pseudo)
    return Player(engine, engine, features, plain, settings.delta)
