"""The unit of work: some episodes of some seeds of one cell. A pure function, so that doing it twice does no harm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from matrixrl.agents import MatrixRLEngine
from matrixrl.core.bounds import a_priori_bound, theorem_2_bound
from matrixrl.lab.spec import Cell
from matrixrl.records import FloatArray
from matrixrl.simulate.control_play import play_control
from matrixrl.simulate.resume import can_resume, restore_simulation, save_simulation
from matrixrl.simulate.simulation import Simulation

__all__ = ["BlockResult", "Order", "play_block"]

_LARGEST_STATE = 256 << 20  # bytes; beyond it writing the state costs more than playing the block again
_BOUND_POINTS = 60


@dataclass(frozen=True)
class Order:
    """What to play.

    Attributes:
        key: (number of the cell, first seed): which task it belongs to.
        cell: agent and environment.
        seeds: played side by side.
        episodes: N of the whole run.
        first: the first episode of the block, counted from 0.
        count: episodes in it; all that are left are played where no state can be kept.
        certify: whether to certify every episode.
        state: where to go on from; None at the beginning.
    """

    key: tuple[int, int]
    cell: Cell
    seeds: tuple[int, ...]
    episodes: int
    first: int
    count: int
    certify: bool
    state: bytes | None


@dataclass(frozen=True)
class BlockResult:
    """What was played.

    Attributes:
        columns: (K, n) each; those that the agent has.
        state: where to go on from, or None if it was the last block.
        alarms: for each seed, in how many of the episodes the misspecification alarm was on.
        facts: of the cell; only with the first block.
        outcomes: of each seed; only with the last block.
    """

    columns: dict[str, FloatArray]
    state: bytes | None
    alarms: list[int]
    facts: dict[str, Any] | None
    outcomes: list[dict[str, Any]] | None


def play_block(order: Order) -> BlockResult:
    """Play the episodes of an order, on one thread."""
    with threadpool_limits(1):
        return _play_control(order) if order.cell.is_control else _play_finite(order)


def _play_finite(order: Order) -> BlockResult:
    last = order.first + order.count
    simulation = _simulation(order, last)
    if last < order.episodes and not _keeps_state(simulation):
        last = order.episodes  # nobody could go on from the middle
        simulation = _simulation(order, last)
    if order.state is not None:
        restore_simulation(simulation, order.state)
    facts = _facts(simulation, order) if order.first == 0 else None
    result = simulation.run(blas_threads=None)
    columns = {"regret": result.regret, "return": result.returns, "optimistic": result.upper}
    if simulation.certify:
        columns |= {"lower": result.certified[:, :, 0], "upper": result.certified[:, :, 1]}
    share = simulation.clock / len(order.seeds)
    columns["seconds"] = np.tile(share, (len(order.seeds), 1))
    alarms = [int(count) for count in result.alarms.sum(axis=1)]
    if last < order.episodes:
        return BlockResult(columns, save_simulation(simulation), alarms, facts, None)
    outcomes: list[dict[str, Any]] = []
    for k in range(len(order.seeds)):
        shown = result.certificate[k].as_dict() if result.certificate else None
        outcomes.append({"certificate": shown, "plans": result.plans[k]})
    return BlockResult(columns, None, alarms, facts, outcomes)


def _simulation(order: Order, last: int) -> Simulation:
    cell = order.cell
    return Simulation(
        cell.env,
        n_episodes=order.episodes,
        seeds=order.seeds,
        agent=cell.agent,
        settings=cell.settings,
        env_settings=cell.env_settings,
        certify=order.certify and _certifies(cell),
        window=range(order.first, last),
    )


def _keeps_state(simulation: Simulation) -> bool:
    size = sum(array.nbytes for array in simulation.engine.arrays().values())
    return size <= _LARGEST_STATE and can_resume(simulation)


def _certifies(cell: Cell) -> bool:
    return "set" in cell.settings  # MatrixRL and its kernel form; baselines have no confidence set of M


def _facts(simulation: Simulation, order: Order) -> dict[str, Any]:
    mdp, features = simulation.mdp, simulation.features
    arrays = simulation.engine.arrays().values()
    return {
        "horizon": mdp.horizon,
        "sizes": {
            "n_states": mdp.n_states,
            "n_actions": mdp.n_actions,
            "d": features.phi.d,
            "d_psi": features.psi.d_psi,
        },
        "optimal_value": simulation.judge.optimal_value,
        "earns_from_zero": mdp.task.reward_range[0] >= 0.0,
        "guarantee": simulation.engine.guarantee,
        "delta": simulation.player.delta,
        "kept_bytes_per_seed": sum(array.nbytes for array in arrays) / len(order.seeds),
        "bounds": _bounds(simulation),
    }


def _bounds(simulation: Simulation) -> dict[str, list[float]] | None:
    """Return at some N the bound of Theorem 2 (c = 1) and the explicit one behind it; None for a baseline."""
    engine = simulation.engine
    if not isinstance(engine, MatrixRLEngine):
        return None
    k, horizon, unit = engine.regularity, simulation.mdp.horizon, simulation.mdp.task.unit
    grid = np.unique(np.geomspace(1, simulation.total, min(simulation.total, _BOUND_POINTS)).astype(int)).tolist()
    delta = simulation.player.delta
    return {
        "episode": [float(n) for n in grid],
        "theorem_2": [unit * theorem_2_bound(k, horizon=horizon, n_episodes=n) for n in grid],
        "explicit": [unit * a_priori_bound(k, horizon=horizon, n_episodes=n, delta=delta) for n in grid],
    }


def _play_control(order: Order) -> BlockResult:
    cell = order.cell
    played = [
        play_control(cell.env, cell.env_settings, cell.agent, cell.settings, n_episodes=order.episodes, seed=seed)
        for seed in order.seeds
    ]
    first = played[0]
    facts = {
        "horizon": first.horizon,
        "sizes": {},
        "guarantee": first.guarantee,
        "kept_bytes_per_seed": float(np.mean([p.kept_bytes for p in played])),
    }
    columns = {"return": np.stack([p.returns for p in played]), "seconds": np.stack([p.seconds for p in played])}
    return BlockResult(columns, None, [0] * len(played), facts, [{} for _ in played])
