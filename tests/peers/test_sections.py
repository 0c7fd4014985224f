"""The reports of several races in one file."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"


def test_a_report_replaces_only_its_own_section(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PEERS))
    put_section = importlib.import_module("sections").put_section
    path = tmp_path / "results.md"
    put_section(path, "# One\n\nold\n\n## Part\n")
    put_section(path, "# Two\n\ntext\n")
    both = "# One\n\nold\n\n## Part\n\n# Two\n\ntext\n"
    assert path.read_text() == both
    put_section(path, "# One\n\nnew\n")
    assert path.read_text() == "# One\n\nnew\n\n# Two\n\ntext\n"
    put_section(path, "# One\n\nold\n\n## Part\n")
    assert path.read_text() == both


def test_the_committed_results_have_all_races() -> None:
    headings = [line for line in (PEERS / "RESULTS.md").read_text().splitlines() if line.startswith("# ")]
    assert headings == [
        "# Against average-reward learners",
        "# Large state sets and many episodes",
        "# A problem with features",
        "# Pace and regret by size",
    ]
