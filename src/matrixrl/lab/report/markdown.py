"""The tables of the report as a Markdown file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matrixrl.archive.whole import write_whole
from matrixrl.lab.analysis import aggregate, summarise
from matrixrl.lab.palette import looks_of
from matrixrl.lab.report.tables import aggregate_table, final_table, table_notes
from matrixrl.lab.store import Store
from matrixrl.printable import printable

__all__ = ["write_table"]

_SPECIAL = r"\`*_{}<>#|~"


def write_table(store: Store, path: Path) -> Path:
    """Write one table for each environment and one for all of them together, as Markdown, and return the path.

    Footnotes of all tables are at the end.

    Args:
        store: Store, open for reading or writing.
        path: File to write; an existing file is replaced.
    """
    environments, experiment = summarise(store), store.experiment
    blocks = [f"# {_plain(experiment.title)}"]
    for env in environments:
        table = final_table(env, looks_of(experiment), experiment.episodes, len(experiment.seeds))
        rows = [
            [row["agent"] + (f" ({row['note']})" if row["note"] else ""), row["proof"]["label"]]
            + [f"{cell['value']} {cell['interval']}".rstrip() for cell in row["cells"]]
            for row in table["rows"]
        ]
        caption = table["caption"].replace(" Click on a heading to sort.", "")
        blocks += [f"## {_plain(env.id)}", _plain(caption), _table([text for text, _ in table["headings"]], rows)]
    together = aggregate(environments)
    if together is not None:
        found = aggregate_table(together)
        blocks += ["## All environments together", _plain(found["caption"]), _table(found["head"], found["rows"])]
    blocks += map(_plain, table_notes(environments))
    data = ("\n\n".join(blocks) + "\n").encode("utf-8", errors="backslashreplace")
    write_whole(path, lambda fresh: fresh.write_bytes(data))
    return path


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *([_plain(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join(f"\\{c}" if c in _SPECIAL else c for c in printable(text)).replace("](", "]\\(")
