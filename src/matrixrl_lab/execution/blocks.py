"""Blocks, the units of work: some episodes of some seeds of one cell, played by a pure function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from matrixrl.algorithms import UCMatrixRL
from matrixrl.core.regularity import first_informative, theorem_2_bound
from matrixrl.play.resume import restore_simulation, save_simulation
from matrixrl.play.simulation import Simulation
from matrixrl.records import FloatArray
from matrixrl_lab.spec import Cell

__all__ = ["BlockResult", "Order", "play_block"]

_LARGEST_STATE = 256 << 20  # bytes; writing a larger state takes longer than playing the run again
_BOUND_POINTS = 60


@dataclass(frozen=True)
class Order:
    """Description of one block.

    Attributes:
        key: Index of the cell and first seed, which identify the task that the block belongs to.
        cell: Agent and environment.
        seeds: Seeds that are played together.
        episodes: Number of episodes N of the whole run.
        first: First episode of the block, counted from 0.
        count: Number of episodes; if the state is too large to store, all remaining episodes are played.
        certify: Whether to certify every episode.
        regret_every: Regret is measured in every so many episodes; 0 measures none.
        state: State of the simulation after the previous block; None for the first block.
        trust_code: Whether the cell may import code.
    """

    key: tuple[int, int]
    cell: Cell
    seeds: tuple[int, ...]
    episodes: int
    first: int
    count: int
    certify: bool
    state: bytes | None
    trust_code: bool = False
    regret_every: int = 1


@dataclass(frozen=True)
class BlockResult:
    """Result of one block.

    Attributes:
        columns: Series by name, shape (K, n) each, for K seeds and n episodes.
        state: State of the simulation after the block; None after the last block.
        alarms: For each seed, the number of episodes with a misspecification alarm.
        facts: Properties of the cell (horizon, sizes, V*, guarantee); only for the first block.
        outcomes: For each seed, the final certificate and the number of plans; only for the last block.
    """

    columns: dict[str, FloatArray]
    state: bytes | None
    alarms: list[int]
    facts: dict[str, Any] | None
    outcomes: list[dict[str, Any]] | None


def play_block(order: Order) -> BlockResult:
    """Play the episodes of an order with one thread of linear algebra."""
    with threadpool_limits(1):
        return _play(order)


def _play(order: Order) -> BlockResult:
    last = order.first + order.count
    simulation = _simulation(order, last)
    if last < order.episodes and _state_bytes(simulation) > _LARGEST_STATE:
        last = order.episodes  # without a stored state, another block could not continue
        simulation = _simulation(order, last)
    if order.state is not None:
        restore_simulation(simulation, order.state)
    result = simulation.run(blas_threads=None)
    facts = _facts(simulation, order) if order.first == 0 else None
    columns = {"return": result.returns, "seconds": result.seconds}
    if order.cell.measure == "regret":
        columns |= {"regret": result.regret, "optimistic": result.upper}
    if simulation.certify:
        columns |= {"lower": result.certified[:, :, 0], "upper": result.certified[:, :, 1]}
    alarms = [int(count) for count in result.alarms.sum(axis=1)]
    if last < order.episodes:
        return BlockResult(columns, save_simulation(simulation), alarms, facts, None)
    outcomes: list[dict[str, Any]] = []
    for k in range(len(order.seeds)):
        shown = result.certificate[k].as_dict() if result.certificate else None
        outcomes.append({"certificate": shown, "plans": result.n_plans[k]})
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
        certify=order.certify and cell.certifies,
        window=range(order.first, last),
        trust_code=order.trust_code,
        measure_regret=order.regret_every or False,
    )


def _state_bytes(simulation: Simulation) -> int:
    """Return the size of what the algorithm has learned, in bytes."""
    return sum(array.nbytes for array in simulation.algorithm.learned().values())


def _facts(simulation: Simulation, order: Order) -> dict[str, Any]:
    problem, algorithm = simulation.problem, simulation.algorithm
    facts: dict[str, Any] = {
        "horizon": problem.task.horizon,
        "sizes": problem.sizes if problem.kind == "finite" else {},
        "guarantee": algorithm.guarantee.as_dict(),
        "kept_bytes_per_seed": _state_bytes(simulation) / len(order.seeds),
    }
    if simulation.optimal_value is not None:
        low, _ = problem.task.reward_range or (-1.0, 0.0)
        facts |= {"optimal_value": simulation.optimal_value, "earns_from_zero": low >= 0.0}
        facts |= {"delta": algorithm.claims.delta, "bounds": _bounds(simulation)}
    return facts


def _bounds(simulation: Simulation) -> dict[str, Any] | None:
    """Return the bounds of Theorem 2 (c = 1) and of its explicit form at some N; None for other algorithms.

    The explicit bound is None where nothing is proven. `informative_from` is the smallest N at which it is below NH.
    """
    algorithm = simulation.algorithm
    if not isinstance(algorithm, UCMatrixRL):
        return None
    task = simulation.problem.finite_task
    k, horizon, unit, most = algorithm.model.confidence.regularity, task.horizon, task.unit, task.total_weight
    grid = np.unique(np.geomspace(1, simulation.total, min(simulation.total, _BOUND_POINTS)).astype(int)).tolist()
    explicit = [min(value, n * most) for n in grid if (value := algorithm.claims.regret_bound(n)) is not None]
    return {
        "episode": [float(n) for n in grid],
        "theorem_2": [unit * theorem_2_bound(k, horizon=horizon, n_episodes=n) for n in grid],
        "explicit": None if len(explicit) < len(grid) else [unit * value for value in explicit],
        "largest": [unit * n * most for n in grid],
        "informative_from": first_informative(algorithm.claims.regret_bound, most),
    }
