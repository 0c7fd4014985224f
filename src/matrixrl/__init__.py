"""matrixrl: reinforcement learning that explores with a proof and learns from few episodes.

The names below are the public surface; everything else is reached through its module. They are imported when they are
first used, so that ``import matrixrl`` costs little more than importing Gymnasium.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module
from pathlib import PurePath as _PurePath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matrixrl.agents import Agent, KernelControl, KernelMatrixRL, MatrixRL, compare_returns
    from matrixrl.certificates import Certificate
    from matrixrl.envs import make
    from matrixrl.envs import open_problem as Problem  # read like a class, as threading.Lock is
    from matrixrl.errors import CheckpointError, InvalidInput, MatrixRLError, ProtocolError
    from matrixrl.features import Features, one_hot, tensor_product
    from matrixrl.play import run_seeds
    from matrixrl.policies import Comparison, Policy
    from matrixrl.problems import (
        FiniteMDP,
        FunctionalTask,
        KnownDynamics,
        MDPEnv,
        Task,
        evaluate,
        from_gymnasium,
        solve,
    )
    from matrixrl.records import Guarantee

__version__ = "0.2.0"

_MODULES = {
    name: module
    for module, names in {
        "agents": ("Agent", "KernelControl", "KernelMatrixRL", "MatrixRL", "compare_returns"),
        "envs": ("make",),
        "errors": ("CheckpointError", "InvalidInput", "MatrixRLError", "ProtocolError"),
        "features": ("Features", "one_hot", "tensor_product"),
        "policies": ("Comparison", "Policy"),
        "problems": (
            *("FiniteMDP", "FunctionalTask", "KnownDynamics", "MDPEnv", "Task"),
            *("evaluate", "from_gymnasium", "solve"),
        ),
        "certificates": ("Certificate",),
        "records": ("Guarantee",),
        "play": ("run_seeds",),
    }.items()
    for name in names
}

_PACKAGES = ("agents", "algorithms", "core", "envs", "features", "play", "plots", "policies", "problems")

__all__ = [
    "Agent",
    "Certificate",
    "CheckpointError",
    "Comparison",
    "Features",
    "FiniteMDP",
    "FunctionalTask",
    "Guarantee",
    "InvalidInput",
    "KernelControl",
    "KernelMatrixRL",
    "KnownDynamics",
    "MDPEnv",
    "MatrixRL",
    "MatrixRLError",
    "Policy",
    "Problem",
    "ProtocolError",
    "Task",
    "compare_returns",
    "evaluate",
    "from_gymnasium",
    "make",
    "one_hot",
    "run_seeds",
    "solve",
    "tensor_product",
]

_is_script = [_PurePath(name).stem for name in _sys.argv[:1]] == ["matrixrl"]
_modules = [name for flag, name in zip(_sys.orig_argv, _sys.orig_argv[1:], strict=False) if flag == "-m"]
_is_command = _is_script or bool({"matrixrl", "matrixrl.check"}.intersection(_modules))
if not _is_command:  # a command imports Gymnasium when it needs it, so that its help is printed at once
    import matrixrl.envs as _envs  # noqa: F401  # registers the environments


def __getattr__(name: str) -> Any:
    if name == "Problem":
        return import_module("matrixrl.envs").open_problem
    if name in _MODULES:
        return getattr(import_module(f"matrixrl.{_MODULES[name]}"), name)
    if name in _PACKAGES:  # so that matrixrl.algorithms.FiniteAlgorithm needs no import of its own
        return import_module(f"matrixrl.{name}")
    raise AttributeError(f"module 'matrixrl' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES, *_PACKAGES, "Problem"])
