"""Problem files: what a service decides about."""

from matrixrl.service.problem.file import MODES, Mode, ProblemFile, read_problem
from matrixrl.service.problem.served import LOGGED, ServedProblem
from matrixrl.service.problem.spaces import Space

__all__ = ["LOGGED", "MODES", "Mode", "ProblemFile", "ServedProblem", "Space", "read_problem"]
