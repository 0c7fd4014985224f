"""The state of a simulation between two episodes as bytes, from which another process goes on bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from matrixrl.archive import check_arrays, check_entries, pack, refusing, unpack
from matrixrl.errors import CheckpointError, InvalidInput
from matrixrl.play.simulation import Simulation
from matrixrl.problems import differing_fields, fingerprint, fingerprint_of_features
from matrixrl.references import code_of
from matrixrl.settings import Settings

__all__ = ["is_readable", "restore_simulation", "save_simulation"]

_KIND = "matrixrl-simulation"
_SOURCE = "the saved state"
_PREFIX = "learned_"


def _identity_of(simulation: Simulation) -> dict[str, Any]:
    """Return what a state belongs to, as plain data: the problem, the algorithm, what it was made with, the seeds."""
    algorithm, problem = simulation.algorithm, simulation.problem
    settings = algorithm.settings.as_dict() if isinstance(algorithm.settings, Settings) else {}
    recipe = getattr(algorithm, "made_with", {})
    left_out = set(getattr(algorithm.settings, "IN_FEATURES", ()))  # they are in the fingerprint of the features
    features = {} if problem.features is None else fingerprint_of_features(problem.features)
    identity = {
        "agent": simulation.agent,
        "algorithm": code_of(type(algorithm)),
        "seeds": simulation.seeds,
        "spaces": [str(problem.states), str(problem.actions)],
        "settings": {n: v for n, v in settings.items() if n not in {*recipe.get("objects", {}), *left_out}},
        "recipe": recipe,
        "fingerprint": fingerprint(problem) | {f"features {name}": value for name, value in features.items()},
    }
    found: dict[str, Any] = json.loads(json.dumps(identity))
    return found


def save_simulation(simulation: Simulation) -> bytes:
    """Return what was learned and every random stream; the episodes themselves are not in it.

    >>> one = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=range(3))
    >>> _ = one.run()
    >>> other = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=range(3, 6))
    >>> restore_simulation(other, save_simulation(one))
    >>> other.run().regret.shape
    (2, 3)
    """
    return pack(_KIND, _identity_of(simulation) | {"done": simulation.done}, _arrays_of(simulation))


def _arrays_of(simulation: Simulation) -> dict[str, Any]:
    return {
        **{f"{_PREFIX}{name}": array for name, array in simulation.algorithm.state().items()},
        "alarmed": simulation.ledger.alarmed,
        "least_upper": np.minimum(simulation.ledger.least_upper, np.finfo(np.float64).max),
        "world": simulation.world.to_array(),
    }


def is_readable(data: bytes) -> bool:
    """Return whether a state has the format of this version of matrixrl.

    >>> is_readable(b"a state of another version")
    False
    """
    try:
        unpack(_KIND, data, _SOURCE)
    except CheckpointError:
        return False
    return True


def restore_simulation(simulation: Simulation, data: bytes) -> None:
    """Put a new simulation into the state that `save_simulation` returned; its window must begin there.

    Raises:
        CheckpointError: The state is damaged, or of another agent, other settings, seeds, features or another problem.
    """
    header, arrays = unpack(_KIND, data, _SOURCE)
    with refusing(_SOURCE):
        mine = _identity_of(simulation) | {"done": simulation.window.start}
        check_entries(
            "the header", header, {name: type(v) for name, v in mine.items()} | {"format": str, "version": int}
        )
        differing = [name for name in mine if name != "fingerprint" and header[name] != mine[name]]
        differing += differing_fields(header["fingerprint"], mine["fingerprint"])
        if differing:
            raise InvalidInput(f"it belongs to a simulation that differs in {', '.join(differing)}")
        learned = {n.removeprefix(_PREFIX): arrays.pop(n) for n in list(arrays) if n.startswith(_PREFIX)}
        check_arrays(arrays, {n: array for n, array in _arrays_of(simulation).items() if not n.startswith(_PREFIX)})
        simulation.algorithm.restore(learned, from_file=True)
        simulation.world.from_array(arrays["world"])
        simulation.done, simulation.ledger.alarmed = header["done"], arrays["alarmed"]
        simulation.ledger.least_upper = arrays["least_upper"]
