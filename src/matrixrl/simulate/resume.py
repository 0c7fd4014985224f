"""The state of a simulation between two episodes as bytes, from which another process goes on bit for bit."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.archive import pack, refusing, unpack
from matrixrl.checks import integer
from matrixrl.errors import CheckpointError, InvalidInput
from matrixrl.printable import printable
from matrixrl.problems.fingerprint import (
    Parts,
    differences,
    fingerprint_parts,
    join_parts,
    parts_of_features,
    parts_of_points,
)
from matrixrl.records import FloatArray
from matrixrl.references import code_of, same_code
from matrixrl.settings import Settings
from matrixrl.simulate.simulation import Simulation

__all__ = ["is_readable", "restore_simulation", "save_simulation"]

_KIND = "matrixrl-simulation"
_ENTRIES = {"format", "version", "agent", "code", "settings", "recipe", "seeds", "spaces", "done"}
_PREFIX = "learned_"


def _print_of(simulation: Simulation) -> Parts:
    """Return the fingerprint of the problem, of its features and of the coordinates of its states."""
    problem = simulation.problem
    parts = fingerprint_parts(problem.task if problem.mdp is None else problem.mdp)
    if problem.features is not None:
        parts |= parts_of_features(problem.features)
    if problem.points is not None:
        parts |= parts_of_points(problem.points)
    return parts


def _spaces_of(simulation: Simulation) -> dict[str, str]:
    """Return the spaces of observations and actions in words, which tell how they are numbered."""
    problem = simulation.problem
    return {"observation space": str(problem.states), "action space": str(problem.actions)}


def _identity_of(simulation: Simulation) -> dict[str, Any]:
    """Return what a state belongs to, as plain data: the algorithm, what it was made with, and the seeds."""
    algorithm = simulation.algorithm
    settings = algorithm.settings.as_dict() if isinstance(algorithm.settings, Settings) else {}
    recipe = getattr(algorithm, "recipe", {})
    left_out = set(getattr(algorithm.settings, "IN_FEATURES", ()))  # they are in the fingerprint of the features
    plain = {name: value for name, value in settings.items() if name not in {*recipe.get("objects", {}), *left_out}}
    found: dict[str, Any] = json.loads(
        json.dumps({"agent": simulation.agent, "settings": plain, "recipe": recipe, "seeds": simulation.seeds})
    )
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
    header = _identity_of(simulation) | {
        "code": code_of(type(simulation.algorithm)),
        "spaces": _spaces_of(simulation),
        "done": simulation.done,
    }
    arrays = {f"{_PREFIX}{name}": array for name, array in simulation.algorithm.state().items()}
    arrays |= {
        "alarmed": simulation.alarmed,
        "least_upper": np.minimum(simulation.least_upper, np.finfo(np.float64).max),
        "world": simulation.world.to_array(),
        "fingerprint": join_parts(_print_of(simulation)),
    }
    return pack(_KIND, header, arrays)


def is_readable(data: bytes) -> bool:
    """Return whether a state has the format of this version of matrixrl.

    >>> is_readable(b"a state of another version")
    False
    """
    try:
        unpack(_KIND, data, "the saved state")
    except CheckpointError:
        return False
    return True


def restore_simulation(simulation: Simulation, data: bytes) -> None:
    """Put a new simulation into the state that `save_simulation` returned; its window must begin there.

    Raises:
        CheckpointError: The state is damaged, impossible, or of another agent, other settings, seeds, features or
            another problem.
    """
    source = "the saved state"
    header, arrays = unpack(_KIND, data, source)
    with refusing(source):
        if set(header) != _ENTRIES:
            raise InvalidInput(f"its header must have the entries {sorted(_ENTRIES)}")
        _check_identity(simulation, header)
        _check_problem(simulation, header["spaces"], arrays.pop("fingerprint"))
        _check_settings(simulation, header)
        done = integer("done", header["done"], low=0, remedy="It is damaged.")
        if done != simulation.window.start:
            raise InvalidInput(f"it stands after {done} episodes, the window begins at {simulation.window.start}")
        alarmed, world = arrays.pop("alarmed"), arrays.pop("world")
        if alarmed.shape != simulation.alarmed.shape or alarmed.dtype != np.bool_:
            raise InvalidInput("alarmed must be one flag for each seed")
        least = arrays.pop("least_upper")
        if least.shape != alarmed.shape or least.dtype != np.float64 or np.isnan(least).any():
            raise InvalidInput("least_upper must be one number for each seed")
        learned = _learned(arrays)
        if learned["episode"].shape != () or int(learned["episode"]) != done:
            raise InvalidInput(f"the algorithm learned from another number of episodes than {done}")
        simulation.algorithm.restore(learned)
        simulation.world.from_array(world)
        simulation.done, simulation.alarmed, simulation.least_upper = done, alarmed, least


def _check_identity(simulation: Simulation, header: dict[str, Any]) -> None:
    mine = _identity_of(simulation)
    if header["agent"] != mine["agent"] or header["seeds"] != mine["seeds"]:
        raise InvalidInput("it belongs to another agent or to other seeds")
    if not same_code(header["code"], code_of(type(simulation.algorithm))):
        raise InvalidInput(f"it belongs to another algorithm, {str(header['code'])[:80]}")


def _check_problem(simulation: Simulation, spaces: Any, fingerprint: FloatArray) -> None:
    """Refuse another problem or other features, and say what differs."""
    mine = _spaces_of(simulation)
    if not isinstance(spaces, dict) or set(spaces) != set(mine):
        raise InvalidInput(f"spaces must be {sorted(mine)}")
    pairs = {name: (printable(spaces[name])[:200], mine[name][:200]) for name in mine}
    words = differences(fingerprint, _print_of(simulation), pairs)
    if words:
        raise InvalidInput(f"it was learned in another problem, or with other features: {words}")


def _check_settings(simulation: Simulation, header: dict[str, Any]) -> None:
    mine = _identity_of(simulation)
    if header["settings"] != mine["settings"] or header["recipe"] != mine["recipe"]:
        raise InvalidInput("it belongs to an agent with other settings")


def _learned(arrays: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    unknown = sorted(name for name in arrays if not name.startswith(_PREFIX))
    if unknown:
        raise InvalidInput(f"it holds arrays that no simulation has: {unknown[:5]}")
    return {name.removeprefix(_PREFIX): array for name, array in arrays.items()}
