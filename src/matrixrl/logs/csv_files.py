"""CSV files as logs, read with the line number of every row."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

import numpy as np

from matrixrl.checks import fail, shown
from matrixrl.logs.cells import CellKind, Labels
from matrixrl.logs.source import Source, converted

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
        self._lines: list[int] = []
        with self._opened() as file:
            heading = file.readline(_LONGEST)
            self._separator = max(_SEPARATORS, key=heading.count)
            file.seek(0)
            self.columns = next(self._rows(file), [])
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

    def _rows(self, file: IO[str]) -> Iterator[list[str]]:
        """Yield the rows that are not blank; `_lines` gets the line of each one."""
        self._lines = []
        reader = csv.reader(_limited_lines(file, self._refuse_line), delimiter=self._separator, strict=True)
        try:
            for row in reader:
                if row:
                    self._lines.append(reader.line_num)
                    yield row
        except csv.Error as error:
            self._refuse_line(reader.line_num, "must be CSV", str(error), "Correct the line; quote cells with quotes.")

    def _refuse_line(self, line: int, rule: str, received: object, remedy: str) -> NoReturn:
        fail(f"{self.name}, line {line}", rule, received, remedy)

    def place(self, row: int) -> str:
        """Return the line of a row in words."""
        return f"line {self._lines[row + 1]}"  # the first row is the header

    def read(self, kinds: Mapping[str, CellKind]) -> dict[str, Any]:
        """Return some columns, converted piece by piece, so that the text of the file is never all in memory."""
        places = {column: self.columns.index(column) for column in kinds}
        pieces: dict[str, list[Any]] = {column: [] for column in kinds}
        labels = {column: Labels() for column, kind in kinds.items() if kind == "label"}
        with self._opened() as file:
            rows = self._rows(file)
            next(rows)
            first = 0
            while part := self._some(rows, first):
                for column, kind in kinds.items():
                    cells, refuse = [row[places[column]] for row in part], self.refuser(column, first)
                    if kind == "label":
                        labels[column].add(cells, refuse)
                    else:
                        pieces[column].append(converted(cells, kind, refuse))
                first += len(part)
        empty = {"number": np.zeros(0), "flag": np.zeros(0, dtype=np.bool_)}
        return {
            column: labels[column] if kind == "label" else np.concatenate([empty[kind], *pieces[column]])
            for column, kind in kinds.items()
        }

    def _some(self, rows: Iterator[list[str]], first: int) -> list[list[str]]:
        """Return some more rows, all as long as the header."""
        part: list[list[str]] = []
        wanted = len(self.columns)
        for row in rows:
            if len(row) != wanted:
                rule = f"must have {wanted} cells, as the header has"
                self.refuse(first + len(part), None, rule, f"{len(row)}: {shown(row)}", "Correct the line.")
            part.append(row)
            if len(part) == _ROWS:
                break
        return part


def _limited_lines(file: IO[str], refuse: Any) -> Iterator[str]:
    """Yield the lines of a file, none of which may be too long to be one of a log."""
    number = 0
    while line := file.readline(_LONGEST):
        number += 1
        if len(line) == _LONGEST:
            refuse(number, f"must have fewer than {_LONGEST:,} characters", "a longer line", "Check the file.")
        yield line
