"""The MDPs of the race: made here once, raced here as they are, and written as plain tables for the peers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from matrixrl.envs import make
from matrixrl.features import OneHotPhi
from matrixrl.problems import FiniteMDP, from_gymnasium, tabular
from matrixrl.problems.solution import optimal_q

sys.path.append(str(Path(__file__).resolve().parents[1]))
from sparse_planner import random_mdp


@dataclass(frozen=True)
class World:
    """One MDP and how long it is raced.

    Attributes:
        label: how tables call it.
        build: makes the MDP.
        n_episodes: N.
        large: whether batches are small and only the tuned baselines of ours race.
        linear: whether d is small enough for a peer that works with d × d matrices at each step.
        on_a_line: whether neighbours in the numbering are neighbours in the problem, so that kernels make sense.
    """

    label: str
    build: Callable[[], FiniteMDP]
    n_episodes: int
    large: bool = False
    linear: bool = True
    on_a_line: bool = False


def _river(n_states: int, horizon: int) -> World:
    return World(
        f"RiverSwim ({n_states}, {horizon})",
        lambda: from_gymnasium(make("river-swim", n_states=n_states, horizon=horizon)),
        1000,
        on_a_line=True,
    )


def _random(n_states: int, n_episodes: int) -> World:
    return World(
        f"random S={n_states}",
        lambda: tabular(n_states=n_states, n_actions=2, horizon=20, n_successors=5, seed=0).mdp,
        n_episodes,
        large=n_states >= 400,
        linear=n_states < 400,
    )


def _sparse(n_states: int, n_episodes: int) -> World:
    shape = {"n_actions": 4, "n_successors": 5, "horizon": 20}
    return World(f"random S={n_states:,}", lambda: random_mdp(n_states, seed=100, **shape), n_episodes)


# Raced by pace.py; their tables have the successors of each pair alone.
SIZES: dict[str, World] = {
    "size-100": _sparse(100, 1000),
    "size-1000": _sparse(1000, 500),
    "size-10000": _sparse(10_000, 200),
    "size-100000": _sparse(100_000, 1000),
}
WORLDS: dict[str, World] = {
    "river-4": _river(4, 20),
    "river-6": _river(6, 24),
    "river-12": _river(12, 48),
    "random-100": _random(100, 1000),
    "random-400": _random(400, 400),
    "random-1000": _random(1000, 200),
    "low-rank": World(
        "low-rank d=10, S=1000, A=10",
        lambda: from_gymnasium(make("linear-mdp", n_states=1000, n_actions=10, d=10, horizon=10)),
        200,
        large=True,
    ),
    "linear-lock": World("LinearLock d=21, S=48, A=4", lambda: from_gymnasium(make("linear-lock")), 1000),
    "four-rooms": World("FourRooms", lambda: from_gymnasium(make("four-rooms")), 500, on_a_line=True),
    "deep-sea": World("DeepSea (10)", lambda: from_gymnasium(make("deep-sea", size=10)), 1000, on_a_line=True),
}


def export(mdp: FiniteMDP, path: Path) -> None:
    """Write P, the rewards in [0, 1], H, the start and, where they are not one-hot, the features φ.

    Peers want rewards in [0, 1]; an affine change of the rewards of a fixed horizon changes no policy's rank.
    """
    states, actions = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    table = mdp.transitions.rows(states, actions).reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
    # Peers check their rows to 1e-15.
    tables = {"P": table / table.sum(axis=2, keepdims=True), "R": mdp.task.unit_reward, "start": mdp.task.start}
    phi = mdp.features.phi
    if not isinstance(phi, OneHotPhi):
        tables["phi"] = phi.rows(phi.pairs(states, actions)).reshape(mdp.n_states, mdp.n_actions, -1)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, H=mdp.horizon, **tables)


def export_sparse(mdp: FiniteMDP, path: Path) -> None:
    """Write what `export` does with the successors of each pair alone: their probabilities (S, A, K) are P."""
    lists = mdp.transitions.successors()
    lengths = np.diff(lists.firsts)
    places = np.minimum(np.arange(lists.most), lengths[:, None] - 1) + lists.firsts[:-1, None]
    chance = np.where(np.arange(lists.most) < lengths[:, None], lists.chance[places], 0.0)
    shape = (mdp.n_states, mdp.n_actions, lists.most)
    tables = {"P": chance.reshape(shape), "following": lists.states[places].reshape(shape)}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, H=mdp.horizon, R=mdp.task.unit_reward, start=mdp.task.start, **tables)


def gaps(mdp: FiniteMDP) -> np.ndarray:
    """Return V*_h(s) − Q*_h(s, a) in the environment's own unit: (H, S, A).

    Their sum along an episode has, whatever is played and also if the policy changes within the episode, the
    expectation V* − V^π: each term is what that step gave away for good.
    """
    q = optimal_q(mdp)
    return q.max(axis=2, keepdims=True) - q


def regret(gap: np.ndarray, states: np.ndarray, actions: np.ndarray) -> np.ndarray:
    """Return the regret of each episode played: states and actions (..., N, H) → (..., N)."""
    return gap[np.arange(gap.shape[0]), states, actions].sum(axis=-1)
