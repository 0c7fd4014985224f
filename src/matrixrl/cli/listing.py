"""``matrixrl list``: what there is, by the names that every command takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import fields

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from matrixrl.agents import AGENTS, BASELINES, PRESETS, MatrixRLSettings
from matrixrl.core import RADII, SETS
from matrixrl.envs import CONTROL, ENVIRONMENTS
from matrixrl.lab.shipped import shipped_titles

__all__ = ["TOPICS", "print_listing"]

TOPICS = ["envs", "agents", "settings", "sets", "radii", "presets", "specs"]


def print_listing(console: Console, topics: Iterable[str]) -> None:
    """Print one table for each topic."""
    for topic in topics:
        table = Table(title=topic, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("name", style="bold cyan", no_wrap=True)
        table.add_column("what it is")
        for name, text in _rows(topic):
            table.add_row(name, text)
        console.print(table)
        console.print()


def _rows(topic: str) -> Iterable[tuple[str, str]]:
    if topic == "envs":
        for entry in ENVIRONMENTS.values():
            shown = ", ".join(f"{k}={v}" for k, v in entry.defaults().items())
            yield entry.name, f"{entry.summary}\n[dim]{entry.id}: {shown}[/]"
        for task in CONTROL.values():
            shown = f"sparse=False, noise=0.0, horizon={task.horizon}"
            yield task.name, f"{task.summary}\n[dim]control, {task.id}: {shown}[/]"
        yield (
            "gym:ID",
            "Any Gymnasium environment with a transition table (gym:FrozenLake-v1) or with vectors as observations",
        )
    elif topic == "agents":
        for name, agent in AGENTS.items():
            yield name, (inspect.getdoc(agent) or "").partition("\n")[0]
        for name, baseline in BASELINES.items():
            shown = ", ".join(f"{f.name}={f.default}" for f in fields(baseline.settings_class))
            words = (inspect.getdoc(baseline) or "").partition("\n")[0]
            yield name, f"{escape(words)}\n[dim]baseline: {escape(shown)}[/]"
    elif topic == "settings":
        text = inspect.getdoc(MatrixRLSettings) or ""
        for field in fields(MatrixRLSettings):
            found = re.search(rf"^\s*{field.name}: (.*?)(?=^\s*\w+: |\Z)", text, flags=re.MULTILINE | re.DOTALL)
            words = " ".join(found[1].split()) if found else ""
            yield f"{field.name}={field.default}", words
    elif topic == "sets":
        for name, kind in SETS.items():
            yield name, kind.summary
    elif topic == "radii":
        for name, radius in RADII.items():
            yield name, radius.summary
    elif topic == "presets":
        for name, settings in PRESETS.items():
            yield name, ", ".join(f"{k}={v}" for k, v in settings.items())
    else:
        for name, title in shipped_titles().items():
            yield name, f"{escape(title)}\n[dim]matrixrl compare {name}[/]"
