"""Colosseum's own PSRL and Q-learning: their settings, and the worker that plays them in another interpreter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from matrixrl.checks import fail
from scorecards.colosseum.rows import Row
from scorecards.workers import answers, interpreter_of, missing_packages

__all__ = ["THEIRS", "interpreter", "play_theirs"]

THEIRS: dict[str, dict[str, Any]] = {
    "colosseum psrl": {
        "agent": "PSRLEpisodic",
        "rewards_prior_prms": [0.41854463543357456, 1, 1, 1],
        "transitions_prior_prms": [0.32345772625210756],
    },
    "colosseum q-learning": {
        "agent": "QLearningEpisodic",
        "p": 0.05,
        "UCB_type": "bernstein",
        "c_1": 0.9415278732894797,
        "c_2": 0.013873778519317169,
        "min_at": 0.07263563483119442,
    },
}
"""Settings by the name of the column: the tuned ones of Colosseum's benchmark.

They are in its repository, in `colosseum/benchmark/cached_hyperparameters/agent_configs`. Rewards of PSRL have a normal
law with a normal-gamma prior, transitions a Dirichlet prior.
"""
HOW_TO_INSTALL = (
    "The package index has no Colosseum any more; benchmarks/scorecards/README.md lists the commands that install it "
    "from https://github.com/MichelangeloConserva/Colosseum."
)
_WORKER = "scorecards.colosseum.worker"


def interpreter(folder: Path) -> Path:
    """Return the interpreter of a virtual environment that has Colosseum and this library.

    Raises:
        InvalidInput: One of them is missing.
    """
    python = interpreter_of(folder)
    missing = missing_packages(python, ["colosseum", "matrixrl"])
    if missing:
        rule = "must be a virtual environment with the packages colosseum and matrixrl"
        fail("--env", rule, f"{folder} without {' and '.join(missing)}", HOW_TO_INSTALL)
    return python


def play_theirs(
    python: Path, paths: Sequence[Path], folder: Path, *, agents: Sequence[str], n_steps: int, n_seeds: int
) -> Iterator[tuple[str, str, Row | None]]:
    """Let a worker play what is missing, and yield as `play_tables` does.

    Args:
        python: Interpreter that has Colosseum.
        paths: Tables.
        folder: Where results are kept.
        agents: Names in `THEIRS`.
        n_steps: Steps of a run.
        n_seeds: Number of seeds.
    """
    order = {
        "paths": [str(path.resolve()) for path in paths],
        "folder": str(folder.resolve()),
        "agents": list(agents),
        "n_steps": n_steps,
        "n_seeds": n_seeds,
    }
    for told in answers(python, _WORKER, "run", order, package="Colosseum"):
        yield told["mdp"], told["agent"], Row(**told["row"]) if told["row"] else None
