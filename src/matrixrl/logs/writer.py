"""Write the steps that an agent saw as CSV, Parquet or a Minari data set."""

from __future__ import annotations

import csv
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from matrixrl.archive import atomic_write
from matrixrl.checks import fail
from matrixrl.logs.minari_data import PREFIX, dataset_folder, import_minari
from matrixrl.logs.step_log import StepLog, rows_differ
from matrixrl.logs.table import PARQUET, require_pyarrow
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.records import BoolArray, IntArray
from matrixrl.spaces import BoxCodec, Codec, PartsCodec, cell_text, name_text

__all__ = ["log_columns", "write_log"]

_ROWS = 1 << 16  # that are written together
_ENDINGS = (".csv", *PARQUET)


def write_log(path: str, seen: StepLog, logged: BoolArray, problem: Problem, algorithm: str) -> None:
    """Write steps that an algorithm saw in the numbers of the environment; `read_log` reads the same steps.

    Args:
        path: File whose name ends in .csv or .parquet, or ``minari:`` and the name of a data set.
        seen: The steps.
        logged: (m,) Which of the episodes were logged, not played.
        problem: The problem.
        algorithm: Name of the algorithm.
    """
    if path.startswith(PREFIX):
        _write_minari(path.removeprefix(PREFIX), seen, logged, problem, algorithm)
        return
    target = Path(path)
    ending = target.suffix.lower()
    if ending not in _ENDINGS:
        rule = f"must end in {', '.join(_ENDINGS)}, or begin with {PREFIX}"
        fail("path", rule, repr(path), "Such as 'episodes.csv'.")
    if ending == ".csv":
        atomic_write(target, lambda temporary: _write_csv(temporary, _columns(seen, logged, problem, cell_text)))
        return
    require_pyarrow()
    from pyarrow import parquet, table

    columns = table(_columns(seen, logged, problem, name_text))
    atomic_write(target, lambda temporary: parquet.write_table(columns, temporary))


def log_columns(log: StepLog, problem: Problem) -> dict[str, NDArray[Any]]:
    """Return the columns of a log in the numbers of the environment, as `read_log` takes them."""
    columns = _columns(log, np.ones(log.n_episodes, dtype=np.bool_), problem, name_text)
    del columns["source"]
    for name, column in columns.items():
        if isinstance(column, np.ma.MaskedArray):  # empty cells
            columns[name] = np.array(column.tolist(), dtype=object)
    return columns


def _columns(seen: StepLog, logged: BoolArray, problem: Problem, text: Callable[[Any], str]) -> dict[str, NDArray[Any]]:
    """Return the columns of all steps; a next state that cannot be observed is masked."""
    last = np.zeros(seen.n_steps, dtype=np.bool_)
    last[seen.offsets[1:] - 1] = True
    following, hidden = _cells("next_state", seen.next_states, problem, text), _is_hidden(seen, problem)
    if hidden.any():
        following = {name: np.ma.masked_array(column, hidden) for name, column in following.items()}
    return {
        "episode": seen.episodes,
        "step": seen.stages,
        **_cells("state", seen.states, problem, text),
        **_cells("action", seen.actions, problem, text),
        "reward": seen.rewards,
        **following,
        "terminated": seen.ended,
        "truncated": last & ~seen.ended,
        **_outcomes(seen, problem),
        "source": np.where(np.repeat(logged, seen.lengths), "log", "played"),
    }


def _outcomes(seen: StepLog, problem: Problem) -> dict[str, NDArray[Any]]:
    """Return the column of outcomes of a problem with known dynamics; one that was not seen is masked.

    There is none of censored outcomes, which follow from the other columns as far as they were seen.
    """
    dynamics = problem.task.dynamics
    if dynamics is None or seen.outcomes is None or dynamics.is_censored:
        return {}
    return {"outcome": np.ma.masked_array(dynamics.outcomes[seen.outcomes], seen.outcomes < 0)}


def _cells(role: str, numbers: NDArray[Any], problem: Problem, text: Callable[[Any], str]) -> dict[str, NDArray[Any]]:
    """Return states or actions as users have them: one column, or one for each coordinate or part."""
    codec = problem.actions if role == "action" else problem.states
    if codec is None:
        values = numbers.reshape(len(numbers), -1)
        return {role: values[:, 0]} if numbers.ndim == 1 else {f"{role}_{i}": c for i, c in enumerate(values.T)}
    columns = codec.columns(_observed(numbers, codec), text)
    if isinstance(codec, PartsCodec):
        return dict(zip(codec.names(role), columns, strict=True))
    return {role: columns[0]} if len(columns) == 1 else {f"{role}_{i}": c for i, c in enumerate(columns)}


def _elements(numbers: NDArray[Any], codec: Codec) -> NDArray[Any]:
    """Return elements of a space by the numbers of their parts (n, p)."""
    return codec.cells(_observed(numbers, codec))


def _observed(numbers: NDArray[Any], codec: Codec) -> IntArray:
    """Return numbers of elements; an end state that is not observed becomes any element."""
    return np.minimum(numbers.astype(np.int64), codec.size - 1)


def _is_hidden(seen: StepLog, problem: Problem) -> BoolArray:
    """Return which next states are an end state that the environment does not show: (n,)."""
    if problem.kind != "finite":
        return np.zeros(seen.n_steps, dtype=np.bool_)
    hidden: BoolArray = seen.next_states >= problem.n_observed
    return hidden


def _write_csv(path: Path, columns: dict[str, NDArray[Any]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for first in range(0, len(columns["reward"]), _ROWS):
            writer.writerows(zip(*(cells[first : first + _ROWS].tolist() for cells in columns.values()), strict=True))


def _write_minari(identifier: str, seen: StepLog, logged: BoolArray, problem: Problem, algorithm: str) -> None:
    """Write a new data set, such as ``river-swim/agent-v0``, into the local Minari folder, whole or not at all."""
    minari, folder = import_minari(), dataset_folder(identifier)
    from minari.data_collector import EpisodeBuffer

    broken = seen.follows[1:] & rows_differ(seen.states[1:], seen.next_states[:-1])
    if broken.any():
        what = f"episode {int(seen.episodes[1:][broken][0])}, where a step does not begin where the one before ended"
        fail("a Minari data set", "must have episodes without gaps", what, "Write CSV or Parquet instead.")
    observations: spaces.Space[Any] = spaces.Box(-np.inf, np.inf, problem.task.state_shape, dtype=np.float64)
    if problem.states is not None:
        observations = _space_of(problem.states)
    elif isinstance(problem.task, ContinuousTask):
        observations = spaces.Box(problem.task.low, problem.task.high, dtype=np.float64)
    if folder.exists():
        remedy = "Choose another name or version, or delete it with minari.delete_dataset."
        fail("path", "must be the name of a new Minari data set", repr(identifier), remedy)
    buffers = [EpisodeBuffer(**episode) for episode in _minari_episodes(seen, logged, problem)]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # Minari recommends an author and an address
            minari.create_dataset_from_buffers(
                identifier,
                buffers,
                observation_space=observations,
                action_space=_space_of(problem.actions),
                algorithm_name=algorithm,
                description=f"Episodes of {problem.name} that an agent of matrixrl played or learned from.",
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise


def _minari_episodes(seen: StepLog, logged: BoolArray, problem: Problem) -> Iterator[dict[str, Any]]:
    """Yield every episode as Minari has it; the stage of each observation and the source are in `infos`."""
    for part, was_logged in zip(seen.parts(1), logged.tolist(), strict=True):
        length = part.n_steps
        # Nothing follows a step that ended in a hidden state, but Minari needs some observation.
        final = (part.states if _is_hidden(part, problem)[-1] else part.next_states)[-1:]
        observed: NDArray[Any] = np.concatenate([part.states, final])
        truncated = np.zeros(length, dtype=np.bool_)
        truncated[-1] = not part.ended[-1]
        yield {
            "observations": observed if problem.states is None else _arrays(observed, problem.states),
            "actions": _arrays(part.actions, problem.actions),
            "rewards": part.rewards,
            "terminations": part.ended,
            "truncations": truncated,
            "infos": {
                "stage": np.arange(length + 1) + int(part.firsts[0]),
                "logged": np.full(length + 1, was_logged),
            },
        }


def _arrays(numbers: NDArray[Any], codec: Codec) -> NDArray[Any]:
    """Return elements of a space as numbers (n,), as vectors (n, p) of their parts, or as arrays of a box."""
    values = _elements(numbers, codec)
    if isinstance(codec, BoxCodec):
        return values.reshape(-1, *codec.shape)
    return values[:, 0] if values.shape[1] == 1 else values


def _space_of(codec: Codec) -> spaces.Space[Any]:
    """Return the space of what `_arrays` returns."""
    if isinstance(codec, BoxCodec):
        low, high = (np.array(bound, dtype=codec.dtype).reshape(codec.shape) for bound in (codec.low, codec.high))
        return spaces.Box(low, high, dtype=np.dtype(codec.dtype).type)
    if len(codec.sizes) == 1:
        return spaces.Discrete(codec.size, start=codec.firsts[0])
    return spaces.MultiDiscrete(list(codec.sizes), start=list(codec.firsts))
