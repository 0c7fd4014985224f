"""Results of single runs as small JSON files, so that an interrupted scorecard continues."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matrixrl.archive import write_atomically
from matrixrl.errors import StoreError

__all__ = ["keep", "once", "read_kept"]


def keep(path: Path, result: dict[str, Any]) -> None:
    """Write a result; an interrupt leaves a whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(result).encode())


def once(path: Path, asked: dict[str, Any], play: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the row that was kept for a question, or play it and keep it.

    Args:
        path: File of the result.
        asked: All that determines the row; a file that answers another question is replaced.
        play: Function that returns the row.
    """
    kept = read_kept(path)
    if kept is None or kept["asked"] != asked:
        kept = {"asked": asked, "row": play()}
        keep(path, kept)
    row: dict[str, Any] = kept["row"]
    return row


def read_kept(path: Path) -> dict[str, Any] | None:
    """Return a result that was kept, or None if there is none.

    Raises:
        StoreError: The file is not one that `keep` wrote.
    """
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StoreError(f"{path} is not a result of a scorecard ({error}); delete it to run it again") from error
    if not isinstance(found, dict) or "asked" not in found:
        raise StoreError(f"{path} is not a result of a scorecard; delete it to run it again")
    return found
