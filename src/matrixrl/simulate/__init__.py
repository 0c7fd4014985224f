"""Environment × agent → episodes, for many seeds at once, with exact regret."""

from matrixrl.simulate.control import ControlResult, ControlRun
from matrixrl.simulate.files import OutputDirectory
from matrixrl.simulate.inspection import Inspection, inspect_problem
from matrixrl.simulate.results import RunResult
from matrixrl.simulate.simulation import Simulation, run_seeds

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
