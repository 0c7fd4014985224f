"""Many seeds of any algorithm on any problem: NumPy, compiled loops, results. One agent needs the modules alone."""

from typing import TYPE_CHECKING

from matrixrl.extras import later_names

if TYPE_CHECKING:
    from matrixrl.play.files import OutputDirectory
    from matrixrl.play.inspection import Inspection, inspect_problem
    from matrixrl.play.results import RunResult
    from matrixrl.play.simulation import Simulation, run_seeds

__all__ = ["Inspection", "OutputDirectory", "RunResult", "Simulation", "inspect_problem", "run_seeds"]

__getattr__ = later_names(
    __name__,
    {
        **{"Inspection": "inspection", "OutputDirectory": "files", "RunResult": "results"},
        **{"Simulation": "simulation", "inspect_problem": "inspection", "run_seeds": "simulation"},
    },
)
