"""TensorBoard curves of a running experiment: one run for each agent, one curve for each environment."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from matrixrl.measurement import held
from matrixrl.records import FloatArray, IntArray
from matrixrl_lab.analysis.statistics import grid_of
from matrixrl_lab.event_files import open_writer
from matrixrl_lab.execution.blocks import BlockResult, Order
from matrixrl_lab.store import Store

__all__ = ["CURVE_POINTS", "TensorBoardObserver"]

CURVE_POINTS = 200
_UNSAFE = re.compile(r"[^-\w.]+", re.ASCII)
_LONGEST_NAME = 100


@dataclass
class _Curve:
    """Curve of a cell that is not completely written.

    Attributes:
        values: (K, m) cumulative regret, or return, of each seed at the m steps; NaN if it is not known yet.
        carried: (K,) cumulative regret of the episodes in `values`.
        episodes: (K,) number of episodes of each seed in `values`.
        written: Number of steps that are written.
    """

    values: FloatArray
    carried: FloatArray
    episodes: IntArray
    written: int = 0

    def add(self, places: list[int], series: FloatArray, steps: IntArray, *, cumulate: bool) -> None:
        """Add the next n episodes of the seeds at given rows.

        Args:
            places: Rows of the K' seeds in `values`.
            series: (K', n) regret or return of each episode.
            steps: (m,) episodes at which the curve is written.
            cumulate: Whether to write cumulative sums.
        """
        for k, row in zip(places, series, strict=True):
            first = int(self.episodes[k])
            values = self.carried[k] + np.cumsum(row) if cumulate else row
            inside = np.flatnonzero((steps > first) & (steps <= first + len(row)))
            self.values[k, inside] = values[steps[inside] - first - 1]
            self.episodes[k] += len(row)
            if cumulate and len(row):
                self.carried[k] = values[-1]

    def ready(self, places: list[int] | None = None) -> list[tuple[int, float]]:
        """Return index and mean over seeds of the steps that are not written and known for all given seeds."""
        values = self.values if places is None else self.values[places]
        found = []
        if len(values):
            for i in range(self.written, values.shape[1]):
                mean = float(values[:, i].mean())
                if math.isnan(mean):
                    break
                found.append((i, mean))
        self.written += len(found)
        return found


class TensorBoardObserver:
    """Write the mean over seeds of cumulative regret, or of returns, while blocks are stored.

    A step is written when all seeds of the cell have played it. Curves of cells with failed seeds are completed by
    `close` from the other seeds. Earlier episodes are read from the store, so a resumed campaign writes complete
    curves, which replace those of earlier runs.

    Args:
        folder: Log directory of TensorBoard.
        store: Store of the campaign, which must stay open until `close`.

    Raises:
        MissingExtra: tensorboardX is not installed.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._store = store
        experiment = store.experiment
        self._steps: IntArray = grid_of(experiment.episodes, CURVE_POINTS).astype(int)
        self._place = {seed: k for k, seed in enumerate(experiment.seeds)}
        agents = _safe_names(cell.agent_id for cell in experiment.cells)
        self._tags = _safe_names(cell.env_id for cell in experiment.cells)
        self._curves: dict[int, _Curve] = {}
        self._left = set(range(len(experiment.cells)))
        self._writers: dict[str, Any] = {}
        for agent, name in agents.items():
            self._writers[agent] = open_writer(folder / name, purge=True)
        unfinished = {row.cell for row in store.runs() if row.status != "done"}
        for number in sorted(self._left - unfinished):
            self._load(number)
            self._write(number)

    def block(self, order: Order, result: BlockResult) -> None:
        """Add a stored block to the curve of its cell and write the steps that are complete."""
        number, places = order.key[0], [self._place[seed] for seed in order.seeds]
        curve = self._curves.get(number)
        if curve is None or (curve.episodes[places] != order.first).any():
            self._load(number)  # includes this block, which is stored already
        else:
            series = result.columns[order.cell.measure]
            if order.cell.measure == "regret":
                series = held(series, order.regret_every, order.first)
            curve.add(places, series, self._steps, cumulate=order.cell.measure == "regret")
        self._write(number)

    def _load(self, number: int) -> None:
        """Read all episodes of a cell from the store."""
        cell, seeds = self._store.experiment.cells[number], self._store.experiment.seeds
        written = self._curves[number].written if number in self._curves else 0
        shape = len(seeds), len(self._steps)
        curve = _Curve(np.full(shape, np.nan), np.zeros(len(seeds)), np.zeros(len(seeds), dtype=int), written)
        for k, seed in enumerate(seeds):  # one by one, because seeds may have different numbers of episodes
            series = self._store.read(number, cell.measure, [seed])
            curve.add([k], series, self._steps, cumulate=cell.measure == "regret")
        self._curves[number] = curve

    def _write(self, number: int, places: list[int] | None = None) -> None:
        cell, curve = self._store.experiment.cells[number], self._curves[number]
        tag = f"{'return' if cell.measure == 'return' else 'cumulative_regret'}/{self._tags[cell.env_id]}"
        for i, mean in curve.ready(places):
            self._writers[cell.agent_id].add_scalar(tag, mean, int(self._steps[i]), display_name=cell.env_id)
        if curve.written == len(self._steps):
            self._left.discard(number)
            del self._curves[number]

    def close(self) -> None:
        """Complete the curves of cells with failed seeds from the other seeds, and close the files."""
        try:
            rows = self._store.runs() if self._left else []
            failed = {row.cell for row in rows if row.status == "failed"}
            for number in sorted(self._left & failed):
                well = [self._place[r.seed] for r in rows if r.cell == number and r.status != "failed"]
                if number not in self._curves:
                    self._load(number)
                self._write(number, well)
        finally:
            self._left = set()
            for writer in self._writers.values():
                writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _safe_names(ids: Iterable[str]) -> dict[str, str]:
    """Return a distinct name for each id that is valid in file names and tags.

    >>> _safe_names(["psrl a=1", "psrl a_1", "../x", "é"])
    {'psrl a=1': 'psrl_a_1', 'psrl a_1': 'psrl_a_1-2', '../x': '_x', 'é': '_'}
    """
    names: dict[str, str] = {}
    taken: set[str] = set()
    for text in dict.fromkeys(ids):
        base = _UNSAFE.sub("_", text)[:_LONGEST_NAME].lstrip(".") or "_"
        name, again = base, 1
        while name.lower() in taken:  # some file systems ignore case
            again += 1
            name = f"{base}-{again}"
        taken.add(name.lower())
        names[text] = name
    return names
