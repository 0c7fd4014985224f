"""Tables of ``matrixrl list``: names that the other commands accept."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from matrixrl.agents import KernelControl, KernelMatrixRL, MatrixRL
from matrixrl.algorithms import BASELINES, PRESETS, MatrixRLSettings
from matrixrl.checks import choice
from matrixrl.core import RADII, SANDWICH_SETS, SETS
from matrixrl.core.likelihood import LIKELIHOOD_SETS
from matrixrl.envs import CONTROL, ENVIRONMENTS
from matrixrl.lab.shipped import shipped_titles
from matrixrl.settings import describe_settings

__all__ = ["TOPICS", "print_listing"]

TOPICS = ["envs", "agents", "settings", "sets", "radii", "presets", "specs"]


def print_listing(wanted: str | None = None) -> None:
    """Print the table of a topic, or of all of them.

    Args:
        wanted: One of `TOPICS`; None prints all.
    """
    console = Console(emoji=False)
    for topic in TOPICS if wanted is None else [choice("topic", wanted, TOPICS)]:
        table = Table(title=topic, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("name", style="bold cyan", no_wrap=True)
        table.add_column("description")
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
            shown = ", ".join(f"{k}={v}" for k, v in task.defaults.items())
            yield task.name, f"{task.summary}\n[dim]control, {task.id}: {shown}[/]"
        yield (
            "gym:ID",
            "Any Gymnasium environment with a transition table (gym:FrozenLake-v1) or with vectors as observations",
        )
    elif topic == "agents":
        for agent in (MatrixRL, KernelMatrixRL, KernelControl):
            yield agent.name, (inspect.getdoc(agent) or "").partition("\n")[0]
        for name, baseline in BASELINES.items():
            shown = ", ".join(f"{key}={value}" for key, value, _ in describe_settings(baseline.settings_class))
            words = (inspect.getdoc(baseline) or "").partition("\n")[0]
            yield name, f"{escape(words)}\n[dim]baseline: {escape(shown)}[/]"
    elif topic == "settings":
        for key, value, text in describe_settings(MatrixRLSettings):
            yield f"{key}={value}", text
    elif topic == "sets":
        for name, kind in {**SETS, **SANDWICH_SETS}.items():
            yield name, kind.summary
        for name, likelihood in LIKELIHOOD_SETS.items():
            yield name, likelihood.summary
    elif topic == "radii":
        for name, radius in RADII.items():
            yield name, radius.summary
    elif topic == "presets":
        for name, settings in PRESETS.items():
            yield name, ", ".join(f"{k}={v}" for k, v in settings.items())
    else:
        for name, title in shipped_titles().items():
            yield name, f"{escape(title)}\n[dim]matrixrl compare {name}[/]"
