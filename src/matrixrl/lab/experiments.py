"""A whole experiment from Python: the same as ``matrixrl compare`` and ``matrixrl resume``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matrixrl.lab.analysis import EnvSummary, summarise
from matrixrl.lab.execution import Campaign, CampaignProgress, Observer, Outcome, make_executor
from matrixrl.lab.spec import read_spec, work_out
from matrixrl.lab.store import Store
from matrixrl.references import refuse_untrusted

__all__ = ["play", "run_experiment"]


def run_experiment(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    folder: str | os.PathLike[str],
    *,
    on: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    observers: Sequence[Observer] = (),
    progress: bool = False,
    trust_code: bool = False,
) -> list[EnvSummary]:
    """Run an experiment into a directory, or go on with it if it is there already, and return what it says.

    Args:
        spec: a TOML or YAML file, the name of a shipped spec, or the same as a dictionary.
        folder: of the results; one that holds another experiment is refused.
        on: serial, processes or ray.
        workers: how many at once; all cores by default.
        address: of a running Ray cluster.
        observers: told of every block, after it is stored.
        progress: Draw a live bar on standard error.
        trust_code: Whether the spec may import code (``package.module:Name``).

    >>> import tempfile
    >>> spec = {"name": "tiny", "episodes": 5, "seeds": 2}
    >>> spec |= {"env": [{"name": "river-swim"}], "agent": [{"name": "psrl"}, {"name": "random"}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (river,) = run_experiment(spec, folder, on="serial")
    >>> [agent.id for agent in river.agents], river.agents[0].episodes
    (['psrl', 'random'], 5)
    """
    file = read_spec(spec)
    experiment, where = work_out(file, trust_code=trust_code), Path(folder)
    is_there = Store.is_at(where, experiment)
    with Store.open_to_write(where) if is_there else Store.create(where, experiment, file.text, file.command) as store:
        play(
            store,
            on=on,
            workers=workers,
            address=address,
            observers=observers,
            progress=progress,
            trust_code=trust_code,
        )
        return summarise(store)


def play(
    store: Store,
    *,
    on: str = "processes",
    workers: int | None = None,
    address: str | None = None,
    observers: Sequence[Observer] = (),
    progress: bool = False,
    trust_code: bool = False,
) -> Outcome:
    """Play what a store still lacks; arguments as in `run_experiment`. An interrupt costs the blocks under way.

    Raises:
        UntrustedCode: A cell imports code, and `trust_code` is False.
    """
    for cell in store.experiment.cells:
        for reference in cell.references:
            refuse_untrusted(f"the experiment names {cell.id}, and", reference, trust_code=trust_code)
    campaign = Campaign(store, make_executor(on, workers, address), observers, trust_code=trust_code)
    with CampaignProgress(store.experiment.name, visible=progress) as bar:
        return campaign.run(bar.tick)
