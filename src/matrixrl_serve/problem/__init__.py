"""Problem files: what a service decides about."""

from matrixrl_serve.problem.file import MODES, Mode, ProblemFile, read_problem
from matrixrl_serve.problem.served import LOGGED, ServedProblem

__all__ = ["LOGGED", "MODES", "Mode", "ProblemFile", "ServedProblem", "read_problem"]
