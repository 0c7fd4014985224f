"""The state of a simulation between two episodes as bytes: whoever takes it goes on bit for bit."""

from __future__ import annotations

import numpy as np

from matrixrl.archive import pack, refusing, unpack
from matrixrl.checks import integer
from matrixrl.errors import InvalidInput
from matrixrl.simulate.simulation import Simulation

__all__ = ["can_resume", "restore_simulation", "save_simulation"]

_KIND = "matrixrl-simulation"


def can_resume(simulation: Simulation) -> bool:
    """Say whether the state of a simulation can be kept: sampled columns are saved for one replica only."""
    return simulation.player.settings.get("columns") is None or len(simulation.seeds) == 1


def save_simulation(simulation: Simulation) -> bytes:
    """Return what was learned and every random stream; the episodes themselves are not in it.

    >>> one = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=range(3))
    >>> _ = one.run()
    >>> other = Simulation("river-swim", n_episodes=6, seeds=[0, 1], window=range(3, 6))
    >>> restore_simulation(other, save_simulation(one))
    >>> other.run().regret.shape
    (2, 3)
    """
    engine = simulation.engine
    header = {
        "agent": simulation.agent,
        "seeds": simulation.seeds,
        "done": simulation.done,
        "world": simulation.mdp.signature(),
        "streams": engine.random_states(),
        "env": simulation.env_states(),
    }
    arrays = {**engine.arrays(), "plans_made": engine.plans, "alarmed": simulation.alarmed}
    return pack(_KIND, header, arrays)


def restore_simulation(simulation: Simulation, data: bytes) -> None:
    """Put a new simulation into the state that `save_simulation` returned; its window must begin there."""
    source = "the saved state"
    header, arrays = unpack(_KIND, data, source)
    engine = simulation.engine
    with refusing(source):
        if header["agent"] != simulation.agent or header["seeds"] != simulation.seeds:
            raise InvalidInput("it belongs to another agent or to other seeds")
        if not np.allclose(header["world"], simulation.mdp.signature(), rtol=1e-9, atol=1e-9):
            raise InvalidInput("it was learned in another MDP")
        done = integer("done", header["done"], low=0, remedy="It is damaged.")
        if done != simulation.window.start:
            raise InvalidInput(f"it stands after {done} episodes, the window begins at {simulation.window.start}")
        plans, alarmed = arrays.pop("plans_made"), arrays.pop("alarmed")
        if alarmed.shape != simulation.alarmed.shape or alarmed.dtype != np.bool_:
            raise InvalidInput("alarmed must be one flag for each seed")
        engine.check_arrays(arrays)
        engine.restore_arrays(arrays)
        engine.restore_random_states(header["streams"])
        engine.plans, engine.episode = plans, done
        simulation.restore_env_states(header["env"])
        simulation.done, simulation.alarmed = done, alarmed
