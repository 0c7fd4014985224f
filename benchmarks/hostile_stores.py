"""Damaged and hand-edited stores: no reader may print another result or end in a foreign error.

python benchmarks/hostile_stores.py [HOW_MANY]

Every damaged store is read by four readers: show, export, report and resume. A reader must give exactly what it gives
for the undamaged store, or raise a `MatrixRLError`.
"""

from __future__ import annotations

import contextlib
import io
import re
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from rich.console import Console

from matrixrl.errors import MatrixRLError
from matrixrl_lab.analysis import summarise
from matrixrl_lab.analysis.summary import contents
from matrixrl_lab.execution import Campaign, make_executor
from matrixrl_lab.experiments import play
from matrixrl_lab.export import export
from matrixrl_lab.report import write_report
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store
from matrixrl_lab.store.schema import FILE
from matrixrl_lab.tables import print_show, print_summary

SPEC = {
    "name": "hostile",
    "episodes": 40,
    "seeds": 3,
    "block": 10,
    "batch": 2,
    "certify": True,
    "env": [{"name": "river-swim", "settings": {"n_states": 4}}],
    "agent": [{"name": "matrix-rl", "settings": {"preset": "tuned"}}, {"name": "psrl"}],
}
SAME, REFUSED, SILENT, FOREIGN = "same", "refused", "silent", "foreign"


class _Stop(Exception):
    """Raised to stop a campaign in the middle."""


class _StopAfter:
    def __init__(self, count: int) -> None:
        self._left = count

    def block(self, order: object, result: object) -> None:
        del order, result
        self._left -= 1
        if self._left == 0:
            raise _Stop


def make_stores(folder: Path) -> dict[str, Path]:
    """Make a finished store and one whose campaign was stopped."""
    experiment = work_out(read_spec(SPEC))
    for name, stop in (("finished", 10**9), ("stopped", 6)):
        with Store.create(folder / name, experiment, "spec", "hostile.toml") as store, contextlib.suppress(_Stop):
            Campaign(store, make_executor("serial"), [_StopAfter(stop)]).run()
    return {name: folder / name for name in ("finished", "stopped")}


def show(folder: Path) -> str:
    with Store.open_to_read(folder) as store:
        held, summary = contents(store), summarise(store)
    text = io.StringIO()
    console = Console(file=text, width=250)
    print_show(console, {**held, "megabytes": 0.0})
    print_summary(console, summary)
    return text.getvalue()


def export_csv(folder: Path) -> str:
    with Store.open_to_read(folder) as store:
        export(store, folder / "all.csv", "csv")
    return (folder / "all.csv").read_text()


def report(folder: Path) -> str:
    with Store.open_to_read(folder) as store:
        page = write_report(store, folder / "report.html").read_text()
    return re.sub(r"<time.*?</time>", "", page[page.index("<body") :], flags=re.DOTALL)


def resume(folder: Path) -> str:
    with Store.open_to_write(folder) as store:
        failed = play(store, on="serial").failed
        held = contents(store)
        summaries = [
            (agent.id, agent.final, agent.gap, agent.guarantee) for e in summarise(store) for agent in e.agents
        ]
    return repr((failed, held["rows"], held["cells"], held["versions"], summaries))


READERS: dict[str, Callable[[Path], str]] = {"show": show, "export": export_csv, "report": report, "resume": resume}


def outcome(read: Callable[[Path], str], folder: Path, wanted: str) -> tuple[str, str]:
    """Read a copy of a damaged store; return what happened and the message."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "s"
        shutil.copytree(folder, copy)
        try:
            found = read(copy)
        except MatrixRLError as error:
            return REFUSED, str(error)
        except Exception as error:  # noqa: BLE001  # what the script looks for
            return FOREIGN, f"{type(error).__name__}: {error}"
    return (SAME, "") if found == wanted else (SILENT, "another result")


def flip(data: bytearray, rng: np.random.Generator) -> None:
    data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))


def flip_used(data: bytearray, rng: np.random.Generator) -> None:
    """Flip a bit of a byte that is not zero: most bytes of a small store are unused."""
    used = np.flatnonzero(np.frombuffer(bytes(data), dtype=np.uint8))
    data[int(rng.choice(used))] ^= 1 << int(rng.integers(8))


def noise(data: bytearray, rng: np.random.Generator) -> None:
    first = int(rng.integers(len(data) - 64))
    data[first : first + 64] = rng.bytes(64)


def zero(data: bytearray, rng: np.random.Generator) -> None:
    first = 512 * int(rng.integers(len(data) // 512))
    data[first : first + 512] = bytes(512)


def cut(data: bytearray, rng: np.random.Generator) -> None:
    del data[int(rng.integers(len(data))) :]


def swap_pages(data: bytearray, rng: np.random.Generator) -> None:
    size = int.from_bytes(data[16:18], "big")
    i, j = (size * int(k) for k in rng.choice(len(data) // size, 2, replace=False))
    data[i : i + size], data[j : j + size] = data[j : j + size], data[i : i + size]


def repeat_page(data: bytearray, rng: np.random.Generator) -> None:
    size = int.from_bytes(data[16:18], "big")
    i, j = (size * int(k) for k in rng.choice(len(data) // size, 2, replace=False))
    data[i : i + size] = data[j : j + size]


def extend(data: bytearray, rng: np.random.Generator) -> None:
    data += rng.bytes(int(rng.integers(1, 40_000)))


DAMAGES: dict[str, Callable[[bytearray, np.random.Generator], None]] = {
    "one bit": flip,
    "one bit of a used byte": flip_used,
    "64 random bytes": noise,
    "512 zero bytes": zero,
    "cut": cut,
    "two pages swapped": swap_pages,
    "a page twice": repeat_page,
    "more bytes at the end": extend,
}

EDITS = {
    "regret of a block": "UPDATE blocks SET data = zeroblob(80) WHERE series = 'regret' AND run = 1 AND first = 0",
    "wall times": "UPDATE blocks SET data = zeroblob(80) WHERE series = 'seconds' AND run = 1",
    "certificates": "UPDATE blocks SET data = zeroblob(80) WHERE series = 'lower' AND run = 2",
    "returns": "UPDATE blocks SET data = zeroblob(80) WHERE series = 'return'",
    "a shorter block": "UPDATE blocks SET data = zeroblob(72) WHERE run = 1 AND first = 0",
    "a block of 7 bytes": "UPDATE blocks SET data = zeroblob(7) WHERE run = 1 AND first = 0",
    "a longer block": "UPDATE blocks SET data = zeroblob(8000) WHERE run = 1 AND first = 0",
    "a huge block": "UPDATE blocks SET data = zeroblob(20000000) WHERE run = 1 AND first = 0 AND series = 'regret'",
    "counts of blocks": "UPDATE blocks SET count = 11 WHERE run = 1",
    "huge counts": "UPDATE blocks SET count = 9000000000000000000 WHERE run = 1",
    "negative counts": "UPDATE blocks SET count = -10 WHERE run = 1",
    "a block moved": "UPDATE blocks SET first = 5 WHERE run = 1 AND first = 10",
    "a block in the middle deleted": "DELETE FROM blocks WHERE run = 1 AND first = 10",
    "the last blocks deleted": "DELETE FROM blocks WHERE first = 30",
    "blocks of one seed deleted": "DELETE FROM blocks WHERE run = 2",
    "all blocks deleted": "DELETE FROM blocks",
    "one series deleted": "DELETE FROM blocks WHERE series IN ('lower', 'upper')",
    "blocks of two seeds exchanged": "UPDATE blocks SET run = -1 WHERE run = 1; "
    "UPDATE blocks SET run = 1 WHERE run = 2; UPDATE blocks SET run = 2 WHERE run = -1",
    "blocks of two series exchanged": "UPDATE blocks SET series = 'x' WHERE series = 'regret'; "
    "UPDATE blocks SET series = 'regret' WHERE series = 'return'; "
    "UPDATE blocks SET series = 'return' WHERE series = 'x'",
    "an unknown series": "UPDATE blocks SET series = 'rewards' WHERE series = 'optimistic'",
    "status": "UPDATE runs SET status = 'failed' WHERE run = 1",
    "episodes of a run": "UPDATE runs SET episodes = 20 WHERE run = 1",
    "negative episodes": "UPDATE runs SET episodes = -1 WHERE run = 1",
    "more episodes": "UPDATE runs SET episodes = 4000000000 WHERE run = 1",
    "seeds of runs": "UPDATE runs SET seed = 77 WHERE run = 1",
    "cells of runs": "UPDATE runs SET cell = 5 WHERE run = 1",
    "a run deleted": "DELETE FROM runs WHERE run = 1",
    "outcome that is no JSON": "UPDATE runs SET outcome = '{' WHERE run = 1",
    "outcome that is a list": "UPDATE runs SET outcome = '[1]' WHERE run = 1",
    "outcome with other keys": """UPDATE runs SET outcome = '{"certificate": 3, "plans": "x"}' WHERE run = 1""",
    "outcome changed": "UPDATE runs SET outcome = replace(outcome, '1', '2')",
    "a reason": "UPDATE runs SET reason = 'because' WHERE run = 1",
    "facts that are no JSON": "UPDATE cells SET facts = '{' WHERE cell = 0",
    "facts that are a list": "UPDATE cells SET facts = '[]' WHERE cell = 0",
    "facts without V*": "UPDATE cells SET facts = '{}' WHERE cell = 0",
    "facts deleted": "UPDATE cells SET facts = NULL WHERE cell = 0",
    "another guarantee": """UPDATE cells SET facts = json_set(facts, '$.guarantee', json('{}'))""",
    "another V*": "UPDATE cells SET facts = json_set(facts, '$.optimal_value', 99.0)",
    "a cell deleted": "DELETE FROM cells WHERE cell = 0",
    "name": """UPDATE meta SET value = replace(value, '"hostile"', '"friendly"') WHERE key = 'experiment'""",
    "title": """UPDATE meta SET value = json_set(value, '$.title', 'Other') WHERE key = 'experiment'""",
    "executor": """UPDATE meta SET value = json_set(value, '$.executor', 'ray') WHERE key = 'experiment'""",
    "experiment of another type": "UPDATE meta SET value = '[1, 2]' WHERE key = 'experiment'",
    "experiment with a key more": "UPDATE meta SET value = json_set(value, '$.more', 1) WHERE key = 'experiment'",
    "deeply nested experiment": "UPDATE meta SET value = hex(zeroblob(2000)) WHERE key = 'experiment'",
    "seeds of the experiment": "UPDATE meta SET value = json_set(value, '$.seeds', 3) WHERE key = 'experiment'",
    "versions that are no JSON": "UPDATE meta SET value = 'x' WHERE key = 'versions'",
    "versions that are a list": "UPDATE meta SET value = '[]' WHERE key = 'versions'",
    "other versions": "UPDATE meta SET value = json_set(value, '$.numpy', '0.1') WHERE key = 'versions'",
    "source": "UPDATE meta SET value = 'other' WHERE key = 'source'",
    "command": "UPDATE meta SET value = 'other.toml' WHERE key = 'command'",
    "a command that is no shell text": """UPDATE meta SET value = 'x "' WHERE key = 'command'""",
    "an empty command": "UPDATE meta SET value = ' ' WHERE key = 'command'",
    "a key deleted": "DELETE FROM meta WHERE key = 'versions'",
    "format 99": "UPDATE meta SET value = '99' WHERE key = 'format'",
    "format 1": "UPDATE meta SET value = '1' WHERE key = 'format'",
    "format 2": "UPDATE meta SET value = '2' WHERE key = 'format'",
    "format x": "UPDATE meta SET value = 'x' WHERE key = 'format'",
    "a huge format": "UPDATE meta SET value = hex(zeroblob(5000)) WHERE key = 'format'",
    "states that are no archive": "UPDATE states SET data = x'00'",
    "states one bit shorter": "UPDATE states SET data = substr(data, 1, length(data) - 1)",
    "states of another episode": "UPDATE states SET episodes = 30",
    "states deleted": "DELETE FROM states",
    "table blocks dropped": "DROP TABLE blocks",
    "table runs dropped": "DROP TABLE runs",
    "table meta dropped": "DROP TABLE meta",
    "table cells dropped": "DROP TABLE cells",
    "table states dropped": "DROP TABLE states",
    "a column renamed": "ALTER TABLE runs RENAME COLUMN outcome TO result",
    "a table renamed": "ALTER TABLE blocks RENAME TO block",
    "NULL where numbers are": "CREATE TABLE t AS SELECT * FROM runs; DROP TABLE runs; ALTER TABLE t RENAME TO runs; "
    "UPDATE runs SET episodes = NULL",
    "text where numbers are": "CREATE TABLE t AS SELECT * FROM runs; DROP TABLE runs; ALTER TABLE t RENAME TO runs; "
    "UPDATE runs SET episodes = 'many'",
    "text where data are": "CREATE TABLE t AS SELECT * FROM blocks; DROP TABLE blocks; ALTER TABLE t RENAME TO blocks; "
    "UPDATE blocks SET data = 'text'",
    "NULL where data are": "CREATE TABLE t AS SELECT * FROM blocks; DROP TABLE blocks; ALTER TABLE t RENAME TO blocks; "
    "UPDATE blocks SET data = NULL",
    "numbers where text is": "CREATE TABLE t AS SELECT * FROM meta; DROP TABLE meta; ALTER TABLE t RENAME TO meta; "
    "UPDATE meta SET value = 7 WHERE key = 'source'",
    "bytes that are no UTF-8": "UPDATE runs SET reason = CAST(x'ff' AS TEXT)",
    "rows twice": "CREATE TABLE t AS SELECT * FROM runs UNION ALL SELECT * FROM runs; DROP TABLE runs; "
    "ALTER TABLE t RENAME TO runs",
}


def edit(folder: Path, text: str) -> bool:
    """Change the file of a store by SQL; return whether anything changed."""
    with contextlib.closing(sqlite3.connect(folder / FILE)) as database:
        before = database.total_changes
        database.executescript(text)
        is_schema = text.startswith(("DROP", "ALTER", "CREATE"))
        return is_schema or database.total_changes > before


def hostile(stores: dict[str, Path], how_many: int, scratch: Path, seed: int = 0) -> Iterator[tuple[str, str, Path]]:
    """Yield (kind of damage, base store, folder) of damaged stores; the folder is only valid until the next one."""
    rng = np.random.default_rng(seed)
    target = scratch / "hostile"
    for i in range(how_many):
        kind = list(DAMAGES)[i % len(DAMAGES)]
        base = "stopped" if (i // len(DAMAGES)) % 4 == 3 else "finished"
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(stores[base], target)
        data = bytearray((target / FILE).read_bytes())
        DAMAGES[kind](data, rng)
        (target / FILE).write_bytes(data)
        yield kind, base, target
    for name, text in EDITS.items():
        shutil.rmtree(target, ignore_errors=True)
        base = "stopped" if name.startswith("states") else "finished"
        shutil.copytree(stores[base], target)
        if edit(target, text):
            yield f"edit: {name}", base, target


def wanted_of(stores: dict[str, Path]) -> dict[tuple[str, str], str]:
    """Return what every reader gives for the undamaged stores."""
    found = {}
    for base, folder in stores.items():
        for name, read in READERS.items():
            with tempfile.TemporaryDirectory() as scratch:
                shutil.copytree(folder, Path(scratch) / "s")
                found[base, name] = read(Path(scratch) / "s")
    return found


def main(how_many: int) -> int:
    """Read damaged stores and print a table of what happened; return the number of wrong outcomes."""
    counts: dict[str, Counter[str]] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        stores = make_stores(Path(scratch))
        wanted = wanted_of(stores)
        for kind, base, folder in hostile(stores, how_many, Path(scratch)):
            group = "hand-edited" if kind.startswith("edit: ") else kind
            for name, read in READERS.items():
                what, words = outcome(read, folder, wanted[base, name])
                counts.setdefault(group, Counter())[what] += 1
                counts.setdefault("all", Counter())[what] += 1
                if what in (SILENT, FOREIGN):
                    wrong += 1
                    print(f"{what}: {kind} of the {base} store, {name}: {words[:200]}", flush=True)
    print(f"\n{'damage':28}{SAME:>9}{REFUSED:>9}{SILENT:>9}{FOREIGN:>9}")
    for group, found in counts.items():
        print(f"{group:28}" + "".join(f"{found[what]:9,}" for what in (SAME, REFUSED, SILENT, FOREIGN)))
    return wrong


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 300) > 0)
