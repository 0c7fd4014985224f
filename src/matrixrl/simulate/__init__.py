"""Many seeds of any algorithm on any problem: NumPy, compiled loops, results."""

from matrixrl.simulate.files import OutputDirectory
from matrixrl.simulate.inspection import Inspection, inspect_problem
from matrixrl.simulate.results import RunResult
from matrixrl.simulate.running import SeedRuns, run_seeds
from matrixrl.simulate.simulation import Simulation

__all__ = [
    "Inspection",
    "OutputDirectory",
    "RunResult",
    "SeedRuns",
    "Simulation",
    "inspect_problem",
    "run_seeds",
]
