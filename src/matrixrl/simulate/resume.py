"""The state of a simulation between two episodes as bytes, from which another process goes on bit for bit."""

from __future__ import annotations

import numpy as np

from matrixrl.archive import pack, refusing, unpack
from matrixrl.checks import integer
from matrixrl.errors import InvalidInput
from matrixrl.problems import fingerprint, same_fingerprint
from matrixrl.records import FloatArray
from matrixrl.simulate.simulation import Simulation

__all__ = ["restore_simulation", "save_simulation"]

_KIND = "matrixrl-simulation"


def _print_of(simulation: Simulation) -> FloatArray:
    problem = simulation.problem
    return fingerprint(problem.task if problem.mdp is None else problem.mdp)


def save_simulation(simulation: Simulation) -> bytes:
    """Return what was learned and every random stream; the episodes themselves are not in it.

    >>> one = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=range(3))
    >>> _ = one.run()
    >>> other = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=range(3, 6))
    >>> restore_simulation(other, save_simulation(one))
    >>> other.run().regret.shape
    (2, 3)
    """
    header = {"agent": simulation.agent, "seeds": simulation.seeds, "done": simulation.done}
    arrays = {f"learned_{name}": array for name, array in simulation.algorithm.state().items()}
    arrays |= {
        "alarmed": simulation.alarmed,
        "world": simulation.world.to_array(),
        "fingerprint": _print_of(simulation),
    }
    return pack(_KIND, header, arrays)


def restore_simulation(simulation: Simulation, data: bytes) -> None:
    """Put a new simulation into the state that `save_simulation` returned; its window must begin there."""
    source = "the saved state"
    header, arrays = unpack(_KIND, data, source)
    with refusing(source):
        if header["agent"] != simulation.agent or header["seeds"] != simulation.seeds:
            raise InvalidInput("it belongs to another agent or to other seeds")
        if not same_fingerprint(arrays["fingerprint"], _print_of(simulation)):
            raise InvalidInput("it was learned in another problem")
        done = integer("done", header["done"], low=0, remedy="It is damaged.")
        if done != simulation.window.start:
            raise InvalidInput(f"it stands after {done} episodes, the window begins at {simulation.window.start}")
        alarmed = arrays["alarmed"]
        if alarmed.shape != simulation.alarmed.shape or alarmed.dtype != np.bool_:
            raise InvalidInput("alarmed must be one flag for each seed")
        prefix = "learned_"
        learned = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        if int(learned["episode"]) != done:
            raise InvalidInput(f"the algorithm learned from another number of episodes than {done}")
        simulation.algorithm.restore(learned)
        simulation.world.from_array(arrays["world"])
        simulation.done, simulation.alarmed = done, alarmed
