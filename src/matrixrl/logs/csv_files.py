"""CSV files as logs, read with the line number of every row."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import IO, Any

import numpy as np

from matrixrl.checks import fail, shown
from matrixrl.logs.cells import CellKind, Labels
from matrixrl.logs.source import Source, converted
from matrixrl.records import IntArray

__all__ = ["CsvFile"]

_ROWS = 1 << 15  # that are converted together
_LONGEST = 1 << 20  # characters of a line
_SEPARATORS = (",", ";", "\t")


class CsvFile(Source):
    """A CSV file in UTF-8 with a header; cells are separated by commas, semicolons or tabs.

    Args:
        path: Path of the file.

    Raises:
        InvalidInput: The file cannot be read, is empty, is not text in UTF-8, or has no header.
    """

    def __init__(self, path: Path) -> None:
        self.name = path.name
        self._path = path
        self._lines: list[IntArray] = []
        with self._opened() as file:
            self._check_lines(file)
            heading = file.readline()
            self._separator = max(_SEPARATORS, key=heading.count)
            file.seek(0)
            self.columns = next(self._parts(file, 1), [[]])[0]
        if not any(column.strip() for column in self.columns):
            rule = "must have a header with the names of its columns in the first line"
            fail(self.name, rule, "an empty line" if heading else "an empty file", "Write the names into line 1.")

    @contextmanager
    def _opened(self) -> Iterator[IO[str]]:
        try:
            with self._path.open(encoding="utf-8-sig", newline="") as file:
                yield file
        except OSError as error:
            fail("log", "must be a file that can be read", f"{self._path} ({error.strerror})", "Check the path.")
        except UnicodeDecodeError as error:
            remedy = "Save the file as UTF-8."
            fail(self.name, "must be text in UTF-8", f"a byte {error.object[error.start]:#04x} that is not", remedy)

    def _check_lines(self, file: IO[str]) -> None:
        """Refuse bytes that are not text, and a line that is too long to be one of a log; go back to the beginning."""
        line = 1
        while block := file.read(_LONGEST):
            ends = block.count("\n") or block.count("\r")
            if not ends and len(block) == _LONGEST:
                rule = f"must have fewer than {_LONGEST:,} characters"
                fail(f"{self.name}, line {line}", rule, "a longer line", "Check the file.")
            line += ends
        file.seek(0)

    def _parts(self, file: IO[str], most: int) -> Iterator[list[list[str]]]:
        """Yield the rows that are not blank, some at a time; `_lines` gets the lines of each part."""
        self._lines = []
        reader = csv.reader(file, delimiter=self._separator, strict=True)
        while True:
            before = reader.line_num
            try:
                part = list(islice(reader, most))
            except csv.Error as error:
                rule, remedy = "must be CSV", "Correct the line; cells that hold quotes or separators are quoted."
                fail(f"{self.name}, line {reader.line_num}", rule, str(error), remedy)
            if not part:
                return
            lines = np.arange(before + 1, before + 1 + len(part))
            if reader.line_num != lines[-1]:  # some cells have more than one line
                lines = before + np.cumsum([1 + sum(cell.count("\n") for cell in row) for row in part])
            if not all(part):
                filled = [i for i, row in enumerate(part) if row]
                part, lines = [part[i] for i in filled], lines[filled]
            self._lines.append(lines)
            if part:
                yield part

    def place(self, row: int) -> str:
        """Return the line of a row in words."""
        return f"line {np.concatenate(self._lines)[row + 1]}"  # the first row is the header

    def read(self, kinds: Mapping[str, CellKind]) -> dict[str, Any]:
        """Return some columns, converted piece by piece, so that the text of the file is never all in memory."""
        places = {column: self.columns.index(column) for column in kinds}
        pieces: dict[str, list[Any]] = {column: [] for column in kinds}
        labels = {column: Labels() for column, kind in kinds.items() if kind == "label"}
        with self._opened() as file:
            first = -1  # the header
            for part in self._parts(file, _ROWS):
                self._check_width(part, first)
                rows = part[1:] if first < 0 else part
                first = max(first, 0)
                for column, kind in kinds.items():
                    cells, refuse = list(map(itemgetter(places[column]), rows)), self.refuser(column, first)
                    if kind == "label":
                        labels[column].add(cells, refuse)
                    else:
                        pieces[column].append(converted(cells, kind, refuse))
                first += len(rows)
        empty = {"number": np.zeros(0), "flag": np.zeros(0, dtype=np.bool_)}
        return {
            column: labels[column] if kind == "label" else np.concatenate([empty[kind], *pieces[column]])
            for column, kind in kinds.items()
        }

    def _check_width(self, part: list[list[str]], first: int) -> None:
        """Refuse the first row that is not as long as the header."""
        wanted = len(self.columns)
        if set(map(len, part)) == {wanted}:
            return
        row = next(i for i, cells in enumerate(part) if len(cells) != wanted)
        received = f"{len(part[row])}: {shown(part[row])}"
        self.refuse(first + row, None, f"must have {wanted} cells, as the header has", received, "Correct the line.")
