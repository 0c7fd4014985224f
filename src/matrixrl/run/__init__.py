"""Environment × agent → episodes, for many seeds at once, with exact regret."""

from matrixrl.run.control import ControlResult, ControlRun
from matrixrl.run.files import OutputDirectory
from matrixrl.run.inspection import Inspection, inspect_problem
from matrixrl.run.results import RunResult
from matrixrl.run.simulation import Simulation, run_seeds

__all__ = [
    "ControlResult",
    "ControlRun",
    "Inspection",
    "OutputDirectory",
    "RunResult",
    "Simulation",
    "inspect_problem",
    "run_seeds",
]
