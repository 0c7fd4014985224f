"""Inspection of a problem before a long run: sizes, constants, regret bounds, cost and warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.algorithms.matrix_rl import SampledMatrixRL
from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL
from matrixrl.checks import fail
from matrixrl.core.dual import effective_dimension
from matrixrl.core.embedding import embedding, refuted_rewards
from matrixrl.core.regularity import first_informative, theorem_1_bound, theorem_2_bound, theorem_3_bound
from matrixrl.features import FunctionPhi
from matrixrl.play.simulation import Simulation
from matrixrl.problems import FiniteMDP

__all__ = ["Inspection", "inspect_problem"]

_EPISODES = (100, 1_000, 10_000, 100_000)
_MOST_WORK = 3 * 10**8  # largest P·d² for which d̃ is computed, which takes seconds
_SAMPLE = 5  # _SAMPLE + 1 episodes are played to estimate the cost


@dataclass(frozen=True)
class Inspection:
    """The result of `inspect_problem` and of ``matrixrl inspect``.

    Attributes:
        env: Name of the environment.
        sizes: S, A, H, d, d_psi, the number of blocks of features, and the number of pairs that are allowed if not all
            of them are.
        constants: Constants of Assumptions 2 and 2'; "known" is "exact", "given", "bound" or "estimated".
        embedding: Fraction of P that the features explain and largest residual, or None if P is too large.
        effective_dimension: d̃ of greedily chosen pairs ("chosen") and of the pairs visited in a few episodes
            ("visited"), or None if there are too many pairs.
        optimal_value: Optimal value V*(s0), in the environment's unit.
        bounds: For each number of episodes N, the regret bounds of the theorems, the explicit bound (None if nothing is
            proven for the settings), the largest possible regret NH and N·V*(s0), in the environment's unit.
        informative_from: Smallest N at which the explicit bound is below NH; None if nothing is proven.
        cost: Megabytes for each seed and for all seeds together, and seconds for 1,000 episodes of one seed.
        warnings: Warnings as sentences.
    """

    env: str
    sizes: dict[str, int]
    constants: dict[str, dict[str, Any]]
    embedding: dict[str, float] | None
    effective_dimension: dict[str, float] | None
    optimal_value: float
    bounds: list[dict[str, float | None]]
    informative_from: int | None
    cost: dict[str, float]
    warnings: list[str]

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def inspect_problem(
    env: str | gym.Env[Any, Any] | FiniteMDP,
    *,
    env_settings: dict[str, Any] | None = None,
    settings: dict[str, Any] | None = None,
    agent: str = "matrix-rl",
    n_episodes: Sequence[int] = _EPISODES,
    trust_code: bool = False,
) -> Inspection:
    """Return sizes, constants, regret bounds, cost and warnings of a known problem.

    A few episodes are played to estimate the cost.

    Args:
        env: Name of an environment, a Gymnasium environment, or an MDP.
        env_settings: Settings of the environment.
        settings: Settings of the agent.
        agent: Name of an agent that uses confidence sets.
        n_episodes: Numbers of episodes N for which the regret bounds are computed.
        trust_code: Whether names may import code.

    Raises:
        InvalidInput: The agent has no confidence set, or another argument is invalid.

    >>> found = inspect_problem("river-swim")
    >>> found.sizes["d"], found.embedding["explained"]
    (12, 1.0)
    """
    simulation = Simulation(
        env,
        n_episodes=_SAMPLE + 1,
        seeds=[0],
        agent=agent,
        env_settings=env_settings,
        settings=settings,
        trust_code=trust_code,
    )
    algorithm, mdp, features = simulation.algorithm, simulation.problem.mdp, simulation.problem.features
    if mdp is None:
        rule = "must have a transition table to be inspected"
        fail("env", rule, simulation.problem.name, f"Try matrixrl run {simulation.problem.name}.")
    if not isinstance(algorithm, (UCMatrixRL, SampledMatrixRL)):
        fail("agent", "must be a MatrixRL agent (its constants are inspected)", agent, "Pass agent='matrix-rl'.")
    evaluator = simulation.engine.evaluator
    assert evaluator is not None
    assert features is not None
    k, blocks = algorithm.model.confidence.regularity, algorithm.model.confidence.blocks
    fit = embedding(mdp.transitions, features, mdp.allowed)
    simulation.run()
    arrays = algorithm.learned().values()
    kept = not blocks.one_pair_each and not isinstance(features.phi, FunctionPhi)
    table = features.phi.d * mdp.n_states * mdp.n_actions * 8 if kept else 0
    cost = {
        "megabytes_per_seed": sum(a.nbytes for a in arrays) / 1e6 + mdp.n_states * mdp.horizon * 16 / 1e6,
        "megabytes_shared": (table + features.psi.d_psi * mdp.n_states * 8) / 1e6,
        "seconds_per_1000_episodes": float(simulation.clock.sum()) / simulation.done * 1000,
    }
    unit, optimum = mdp.task.unit, evaluator.optimal_value
    dims = _effective(simulation, max(n_episodes) * mdp.horizon)
    bounds = [_bounds(n, algorithm, unit, optimum, dims) for n in n_episodes]
    informative_from = first_informative(algorithm.claims.regret_bound, mdp.task.total_weight)
    sizes = simulation.problem.sizes | {"horizon": mdp.horizon, "blocks": blocks.count}
    constants: dict[str, dict[str, Any]] = {
        "C_M": {"value": k.c_core, "known": "given" if k.core_source == "given" else "bound from the features"},
        "C_phi": {"value": k.c_phi, "known": "exact"},
        "C_psi (Assumption 2)": {"value": k.c_psi_max_norm, "known": "exact"},
        "C_psi (Assumption 2')": {"value": k.c_psi, "known": "exact" if k.c_psi_is_exact else "bound"},
        "C_psi'": {"value": k.c_psi_inv, "known": "exact"},
    }
    sampled = isinstance(algorithm, SampledMatrixRL) and not algorithm.model.is_exact
    if sampled:
        for entry in constants.values():
            entry["known"] = f"estimated from {algorithm.settings.columns:,} columns"
    shown = None if fit is None else {"explained": fit.explained, "residual": fit.residual}
    return Inspection(
        env=simulation.problem.name,
        sizes=sizes,
        constants=constants,
        embedding=shown,
        effective_dimension=dims,
        optimal_value=optimum,
        bounds=bounds,
        informative_from=informative_from,
        cost=cost,
        warnings=_warnings(shown, bounds, informative_from, cost)
        + [words for words in (algorithm.model.confidence.left_out, _reward_warning(algorithm, mdp)) if words]
        + (["columns are sampled: constants and bounds are estimates, nothing is proven"] if sampled else []),
    )


def _reward_warning(algorithm: UCMatrixRL | SampledMatrixRL, mdp: FiniteMDP) -> str | None:
    """Return a warning if rewards are learned and are not linear in φ."""
    features = algorithm.problem.features
    if features is None or not algorithm.model.confidence.watches_rewards:
        return None
    return refuted_rewards(mdp.task.unit_reward, features.phi, mdp.allowed)


def _effective(simulation: Simulation, most: int) -> dict[str, float] | None:
    """Return d̃ (YW19 section 4) of at most `most` greedily chosen pairs, and of the pairs that were visited."""
    algorithm = simulation.algorithm
    if not isinstance(algorithm, UCMatrixRL):
        return None
    phi = algorithm.model.context.part.phi
    n_pairs = phi.n_states * phi.n_actions
    if n_pairs * phi.d**2 > _MOST_WORK:
        return None
    rows = phi.rows(np.arange(n_pairs)) / math.sqrt(algorithm.model.confidence.regularity.ridge)
    steps = simulation.done * algorithm.task.horizon
    visited = float(algorithm.model.logdets()[0] / math.log1p(steps)) if steps else 0.0
    return {"chosen": effective_dimension(rows, most=most), "visited": visited}


def _bounds(
    n: int, algorithm: UCMatrixRL | SampledMatrixRL, unit: float, optimum: float, dims: dict[str, float] | None
) -> dict[str, float | None]:
    k, horizon = algorithm.model.confidence.regularity, algorithm.model.confidence.horizon
    explicit, most = algorithm.claims.regret_bound(n), n * algorithm.problem.task.total_weight
    found: dict[str, float | None] = {
        "n_episodes": n,
        "theorem_1": unit * theorem_1_bound(k, horizon=horizon, n_episodes=n),
        "theorem_2": unit * theorem_2_bound(k, horizon=horizon, n_episodes=n),
    }
    if dims is not None:
        of_kernel = {"c_psi": k.c_psi, "norm": k.core_norm, "effective_dim": dims["chosen"]}
        found["theorem_3"] = unit * theorem_3_bound(**of_kernel, horizon=horizon, n_episodes=n)
    found["explicit"] = None if explicit is None else unit * min(explicit, most)
    return found | {"largest": unit * most, "learning_nothing": n * optimum}


def _warnings(
    fit: dict[str, float] | None,
    bounds: list[dict[str, float | None]],
    informative_from: int | None,
    cost: dict[str, float],
) -> list[str]:
    messages = []
    if fit is None:
        messages.append("P is too large: it was not checked whether the features represent it")
    elif fit["residual"] > 1e-6:
        messages.append(
            f"features explain {100 * fit['explained']:.3g} % of the transitions "
            f"(largest error {fit['residual']:.2g}): no guarantee holds, and the alarm may be raised"
        )
    if informative_from is not None and all(b["explicit"] == b["largest"] for b in bounds):
        messages.append(
            f"the explicit bound says nothing before N = {informative_from:.2g} (it is N·H); measured regret is far "
            "below it"
        )
    if cost["megabytes_per_seed"] > 1000:
        messages.append(f"each seed needs {cost['megabytes_per_seed'] / 1000:.1f} GB")
    if cost["seconds_per_1000_episodes"] > 600:
        messages.append(f"1,000 episodes take about {cost['seconds_per_1000_episodes'] / 60:.0f} minutes")
    return messages
