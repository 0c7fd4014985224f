"""Many seeds of any algorithm on any problem: NumPy, compiled loops, results."""

from matrixrl.play.files import OutputDirectory
from matrixrl.play.inspection import Inspection, inspect_problem
from matrixrl.play.results import RunResult
from matrixrl.play.runs import SeedRuns, run_seeds
from matrixrl.play.simulation import Simulation

__all__ = [
    "Inspection",
    "OutputDirectory",
    "RunResult",
    "SeedRuns",
    "Simulation",
    "inspect_problem",
    "run_seeds",
]
