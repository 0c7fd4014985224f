"""Checkpoints: what the learner knows after some event, so that a start need not fold the whole log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.agents import MatrixRL, PlannedAhead
from matrixrl.archive import read_archive, refusing, write_archive
from matrixrl.errors import CheckpointError, InvalidInput
from matrixrl_serve.learner.learner import Learner
from matrixrl_serve.learner.publication import Publication
from matrixrl_serve.problem import ServedProblem
from matrixrl_serve.projection import Projection

__all__ = ["Checkpoints"]

_KIND, _VERSION = "matrixrl-service", 2
_KEPT = 2
_FOLDER = "checkpoints"


class Checkpoints:
    """The checkpoints in the directory of a service: two files each, the newest ones are kept.

    Args:
        folder: Directory of the service.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder / _FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)

    def save(self, learner: Learner, digest: str) -> int:
        """Write a checkpoint, and return the number of the event that it covers.

        Args:
            learner: The learner.
            digest: Digest of the last event that it was fed.
        """
        seq = learner.projection.seq
        learner.agent.save(self._path(seq, "agent"))
        arrays: dict[str, Any] = {"state": np.frombuffer(json.dumps(learner.to_plain()).encode(), dtype=np.uint8)}
        for version, publication in learner.plans.items():
            assert publication.ahead is not None
            plan = publication.ahead.plan.arrays()
            arrays |= {f"{version}_{name}": table for name, table in publication.arrays(plan).items()}
        header = {"seq": seq, "digest": digest, "problem": learner.problem.file.digest}
        write_archive(self._path(seq, "state"), _KIND, header, arrays, version=_VERSION)
        for old in self.numbers()[:-_KEPT]:
            self._path(old, "state").unlink(missing_ok=True)
            self._path(old, "agent").unlink(missing_ok=True)
        return seq

    def numbers(self) -> list[int]:
        """Return the numbers of the events that checkpoints cover, in order."""
        return sorted(int(path.stem) for path in self._folder.glob("*.state") if path.stem.isdigit())

    def files(self, seq: int) -> tuple[Path, Path]:
        """Return the files of a checkpoint: that of the agent, and that of everything else."""
        return self._path(seq, "agent"), self._path(seq, "state")

    def load(self, problem: ServedProblem, seq: int) -> tuple[Learner, str]:
        """Return the learner of a checkpoint, and the digest of the last event that it was fed.

        Raises:
            CheckpointError: The checkpoint is damaged, or of another problem.
        """
        header, arrays = self._read(problem, seq)
        with refusing(str(self._path(seq, "state"))):
            plain = json.loads(arrays.pop("state").tobytes())
            learner = Learner(problem)
            learner.agent = MatrixRL.load(self._path(seq, "agent"))
            learner.restore(plain, _publications(learner, plain["plans"], arrays))
            if learner.projection.seq != seq:
                raise InvalidInput("it is of another event")
            learner.projection.digest = str(header["digest"])
            return learner, str(header["digest"])

    def load_projection(self, problem: ServedProblem, seq: int) -> tuple[Projection, str]:
        """Return the projection of a checkpoint and the digest of its last event, for a process that does not learn."""
        header, arrays = self._read(problem, seq)
        with refusing(str(self._path(seq, "state"))):
            projection = Projection.from_plain(json.loads(arrays["state"].tobytes())["book"])
            projection.digest = str(header["digest"])
            return projection, projection.digest

    def _read(self, problem: ServedProblem, seq: int) -> tuple[dict[str, Any], dict[str, Any]]:
        path = self._path(seq, "state")
        header, arrays = read_archive(path, _KIND, version=_VERSION)
        with refusing(str(path)):
            if header.get("problem") != problem.file.digest or header.get("seq") != seq:
                raise InvalidInput("it is of another problem")
        return header, arrays

    def _path(self, seq: int, kind: str) -> Path:
        return self._folder / f"{seq:012d}.{kind}"


def _publications(learner: Learner, plans: list[dict[str, Any]], arrays: dict[str, Any]) -> dict[int, Publication]:
    """Return the plans of a checkpoint by their versions."""
    found = {}
    for entry in plans:
        version = entry["version"]
        own = {name.partition("_")[2]: table for name, table in arrays.items() if name.startswith(f"{version}_")}
        plan = {name.removeprefix("plan_"): table for name, table in own.items() if name.startswith("plan_")}
        ahead = PlannedAhead(learner.agent.algorithm.plan_from_arrays(plan), entry["planned_after"])
        tables = {name: table for name, table in own.items() if not name.startswith("plan_")}
        found[version] = Publication(version, ahead, report=entry["report"], **tables)
        if found[version].digest != entry["report"]["digest"]:
            raise CheckpointError(f"plan {version} is damaged")
    return found
