"""Run experiments from Python, as ``matrixrl compare`` and ``matrixrl resume`` do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from matrixrl.errors import ExperimentFailed
from matrixrl.progress import EpisodeProgress
from matrixrl.references import refuse_untrusted
from matrixrl.settings import flag
from matrixrl_lab.analysis import EnvSummary, summarise
from matrixrl_lab.execution import Campaign, Executor, Observer, Outcome, make_executor
from matrixrl_lab.spec import Experiment, read_spec, work_out
from matrixrl_lab.store import Store

__all__ = ["check_trust", "play", "run_experiment"]

_SHOWN_FAILURES = 3


def run_experiment(
    spec: str | os.PathLike[str] | Mapping[str, Any],
    folder: str | os.PathLike[str],
    *,
    on: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    observers: Sequence[Observer] = (),
    progress: bool = False,
    trust_code: bool = False,
    raise_on_failure: bool = True,
) -> list[EnvSummary]:
    """Run an experiment, or continue it if the directory holds it already, and return a summary.

    Args:
        spec: A TOML or YAML file, the name of a shipped spec, or a dictionary with the same keys.
        folder: Directory of the results.
        on: Executor: serial, processes or ray; the spec's key `executor` by default.
        workers: Number of blocks that are played at the same time; the number of cores by default.
        address: Address of a running Ray cluster.
        observers: Objects that receive every block after it was stored.
        progress: Whether to show progress on standard error: a bar, or lines if it is not a terminal.
        trust_code: Whether the spec may import code (``package.module:Name``).
        raise_on_failure: Whether to raise `ExperimentFailed` if a cell failed; if False, the summary of its agent has
            `final` None. Finished cells are stored in both cases.

    Returns:
        One summary for each environment.

    Raises:
        ExperimentFailed: A cell failed; the message names it and the reason.
        SpecError: The spec is not valid.
        StoreError: The directory holds another experiment, or cannot be written.

    >>> import tempfile
    >>> spec = {"name": "tiny", "episodes": 5, "seeds": 2}
    >>> spec |= {"env": [{"name": "river-swim"}], "agent": [{"name": "psrl"}, {"name": "random"}]}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     (river,) = run_experiment(spec, folder, on="serial")
    >>> [agent.id for agent in river.agents], river.agents[0].episodes
    (['psrl', 'random'], 5)
    """
    flag("raise_on_failure", raise_on_failure)
    file = read_spec(spec)
    experiment, where = work_out(file, trust_code=trust_code), Path(folder)
    is_there = Store.is_at(where, experiment)
    if not is_there:
        Store.check_free(where, experiment)
    executor = make_executor(on or experiment.executor, workers, address)  # before a store is created
    with closing(executor):
        opened = Store.open_to_write(where) if is_there else Store.create(where, experiment, file.text, file.command)
        with opened as store:
            outcome = play(store, executor=executor, observers=observers, progress=progress, trust_code=trust_code)
            if outcome.failed and raise_on_failure:
                raise ExperimentFailed(_failure_words(store, outcome))
            return summarise(store)


def _failure_words(store: Store, outcome: Outcome) -> str:
    """Return which cells failed, why, and how to see more of it."""
    reasons: dict[int, tuple[tuple[int, ...], str]] = {}
    for number, seeds, reason in outcome.failed:
        reasons.setdefault(number, (seeds, reason))
    shown = [
        f"{store.experiment.cells[number].id} (seed {seeds[0]}): {reason}"
        for number, (seeds, reason) in reasons.items()
    ]
    more = "" if len(shown) <= _SHOWN_FAILURES else f"; and {len(shown) - _SHOWN_FAILURES} more"
    cell = store.experiment.cells[outcome.failed[0][0]]
    return (
        f"{len(reasons)} of {len(store.experiment.cells)} cells failed: {'; '.join(shown[:_SHOWN_FAILURES])}{more}. "
        f"What was finished is in {store.folder}; run the experiment again to repeat the others. For a traceback call "
        f"matrixrl.run_seeds({cell.env!r}, agent={cell.agent!r}, seeds=[{outcome.failed[0][1][0]}], …) with the "
        "settings of that cell, or pass raise_on_failure=False for the summary of the cells that did not fail."
    )


def check_trust(experiment: Experiment, *, trust_code: bool) -> None:
    """Raise `UntrustedCode` if an experiment imports code and `trust_code` is False."""
    for cell in experiment.cells:
        for reference in cell.references:
            refuse_untrusted("the reference", reference, trust_code=trust_code)


def play(
    store: Store,
    *,
    on: str | None = None,
    workers: int | None = None,
    address: str | None = None,
    executor: Executor | None = None,
    observers: Sequence[Observer] = (),
    progress: bool = False,
    trust_code: bool = False,
) -> Outcome:
    """Play all episodes that a store does not have; a KeyboardInterrupt loses only the blocks in progress.

    Args:
        store: Store, opened for writing.
        on: Executor; that of the spec the store was created with by default.
        workers: As in `run_experiment`.
        address: As in `run_experiment`.
        executor: Executor in place of the one that `on`, `workers` and `address` describe; it is closed at the end.
        observers: As in `run_experiment`.
        progress: As in `run_experiment`.
        trust_code: As in `run_experiment`.

    Raises:
        UntrustedCode: A cell imports code, and `trust_code` is False.
    """
    check_trust(store.experiment, trust_code=trust_code)
    chosen = executor or make_executor(on or store.experiment.executor, workers, address)
    campaign = Campaign(store, chosen, observers, trust_code=trust_code)
    with EpisodeProgress(store.experiment.name, campaign.total, visible=progress) as bar:

        def tick(now: Campaign) -> None:
            note = f"{now.tasks_done}/{now.tasks} tasks" + (f", {now.failures} failed" if now.failures else "")
            bar.advance(note, now.stored - bar.done)

        return campaign.run(tick)
