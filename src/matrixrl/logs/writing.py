"""Write the steps that an agent saw as CSV, Parquet or a Minari data set."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from matrixrl.archive.whole import write_whole
from matrixrl.checks import fail
from matrixrl.coding import BoxCodec, Codec
from matrixrl.logs.arrow_tables import import_parquet
from matrixrl.logs.minari_sets import PREFIX, write_minari
from matrixrl.logs.opening import PARQUET
from matrixrl.logs.step_log import StepLog, rows_differ
from matrixrl.problems import ContinuousTask, Problem
from matrixrl.records import BoolArray, IntArray

__all__ = ["write_log"]

_ROWS = 1 << 16  # that are written together
_ENDINGS = (".csv", *PARQUET)


def write_log(path: str, seen: StepLog, logged: BoolArray, problem: Problem, algorithm: str) -> None:
    """Write steps in the numbers of the environment; `read_log` reads the same steps.

    Args:
        path: File whose name ends in .csv or .parquet, or ``minari:`` and the name of a data set.
        seen: The steps.
        logged: (m,) Which of the episodes were logged, not played.
        problem: The problem.
        algorithm: Name of the algorithm that saw them.
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
        write_whole(target, lambda temporary: _write_csv(temporary, seen, logged, problem))
    else:
        import_parquet()
        write_whole(target, lambda temporary: _write_parquet(temporary, seen, logged, problem))


def _columns(seen: StepLog, logged: BoolArray, problem: Problem, first: int) -> dict[str, list[Any]]:
    """Return the columns of some episodes as lists; a next state that cannot be observed is None.

    Args:
        seen: The episodes.
        logged: (m,) Which of them were logged.
        problem: The problem.
        first: Number of the first of them.
    """
    last = np.zeros(seen.n_steps, dtype=np.bool_)
    last[seen.offsets[1:] - 1] = True
    following = _coordinates("next_state", seen.next_states, problem)
    hidden = _is_hidden(seen, problem)
    if hidden.any():
        following = {name: [None if h else x for x, h in zip(v, hidden, strict=True)] for name, v in following.items()}
    return {
        "episode": (seen.episodes + first).tolist(),
        "step": seen.stages.tolist(),
        **_coordinates("state", seen.states, problem),
        **_parts("action", problem.own_number(seen.actions), problem.actions),
        "reward": seen.rewards.tolist(),
        **following,
        "terminated": seen.ended.tolist(),
        "truncated": (last & ~seen.ended).tolist(),
        "source": np.where(np.repeat(logged, seen.lengths), "log", "played").tolist(),
    }


def _coordinates(role: str, states: NDArray[Any], problem: Problem) -> dict[str, list[Any]]:
    """Return states as one column, or as one for each coordinate, in the numbers of the environment."""
    if problem.states is not None:
        return _parts(role, states, problem.states)
    if states.ndim == 1:
        return {role: states.tolist()}
    flat = states.reshape(len(states), -1)
    return {f"{role}_{i}": flat[:, i].tolist() for i in range(flat.shape[1])}


def _parts(role: str, numbers: NDArray[Any], codec: Codec) -> dict[str, list[Any]]:
    """Return elements of a space as one column, or as one for each part."""
    values = codec.cells(_known(numbers, codec))
    if values.shape[1] == 1:
        return {role: values[:, 0].tolist()}
    return {f"{role}_{i}": values[:, i].tolist() for i in range(values.shape[1])}


def _known(numbers: NDArray[Any], codec: Codec) -> IntArray:
    """Return numbers of elements; an end state that is not observed becomes any element."""
    found: IntArray = np.minimum(numbers.astype(np.int64), codec.size - 1)
    return found


def _is_hidden(seen: StepLog, problem: Problem) -> BoolArray:
    """Return which next states are an end state that the environment does not show: (n,)."""
    if problem.kind != "finite":
        return np.zeros(seen.n_steps, dtype=np.bool_)
    hidden: BoolArray = seen.next_states >= problem.n_observed
    return hidden


def _write_csv(path: Path, seen: StepLog, logged: BoolArray, problem: Problem) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer, first = csv.writer(file), 0
        for part in seen.parts(_ROWS):
            columns = _columns(part, logged[first : first + part.n_episodes], problem, first)
            if first == 0:
                writer.writerow(columns)
            writer.writerows(zip(*columns.values(), strict=True))
            first += part.n_episodes


def _write_parquet(path: Path, seen: StepLog, logged: BoolArray, problem: Problem) -> None:
    arrow, parquet = import_parquet()
    state = arrow.int64() if np.issubdtype(seen.states.dtype, np.integer) else arrow.float64()
    kinds = {"reward": arrow.float64(), "terminated": arrow.bool_(), "truncated": arrow.bool_()}
    schema, writer, first = None, None, 0
    try:
        for part in seen.parts(_ROWS):
            columns = _columns(part, logged[first : first + part.n_episodes], problem, first)
            if writer is None:
                kinds |= {name: state for name in columns if name.startswith(("state", "next_state"))}
                if isinstance(problem.actions, BoxCodec):
                    kinds |= {name: arrow.float64() for name in columns if name.startswith("action")}
                kinds["source"] = arrow.string()
                schema = arrow.schema([(name, kinds.get(name, arrow.int64())) for name in columns])
                writer = parquet.ParquetWriter(path, schema)
            writer.write_table(arrow.table(columns, schema=schema))
            first += part.n_episodes
    finally:
        if writer is not None:
            writer.close()


def _write_minari(identifier: str, seen: StepLog, logged: BoolArray, problem: Problem, algorithm: str) -> None:
    broken = seen.follows[1:] & rows_differ(seen.states[1:], seen.next_states[:-1])
    if broken.any():
        what = f"episode {int(seen.episodes[1:][broken][0])}, where a step does not begin where the one before ended"
        fail("a Minari data set", "must have episodes without gaps", what, "Write CSV or Parquet instead.")
    write_minari(
        identifier,
        _minari_episodes(seen, logged, problem),
        observation_space=_observation_space(problem),
        action_space=_space_of(problem.actions),
        algorithm_name=algorithm,
        description=f"Episodes of {problem.name} that an agent of matrixrl played or learned from.",
    )


def _minari_episodes(seen: StepLog, logged: BoolArray, problem: Problem) -> Iterator[dict[str, Any]]:
    """Yield every episode as Minari has it; the stage of each observation and the source are in `infos`."""
    for part, was_logged in zip(seen.parts(1), logged.tolist(), strict=True):
        length = part.n_steps
        final = part.next_states[-1:]
        if _is_hidden(part, problem)[-1]:
            final = part.states[-1:]  # nothing follows a terminated step; Minari needs some observation
        observed: NDArray[Any] = np.concatenate([part.states, final])
        if problem.states is not None:
            observed = _as_written(observed, problem.states)
        truncated = np.zeros(length, dtype=np.bool_)
        truncated[-1] = not part.ended[-1]
        yield {
            "observations": observed,
            "actions": _as_written(problem.own_number(part.actions), problem.actions),
            "rewards": part.rewards,
            "terminations": part.ended,
            "truncations": truncated,
            "infos": {
                "stage": np.arange(length + 1) + int(part.firsts[0]),
                "logged": np.full(length + 1, was_logged),
            },
        }


def _as_written(numbers: NDArray[Any], codec: Codec) -> NDArray[Any]:
    """Return elements of a space as numbers (n,), as vectors (n, p) of their parts, or as arrays of a box."""
    values = codec.cells(_known(numbers, codec))
    if isinstance(codec, BoxCodec):
        return values.reshape(-1, *codec.shape)
    return values[:, 0] if values.shape[1] == 1 else values


def _space_of(codec: Codec) -> spaces.Space[Any]:
    """Return the space of what `_as_written` returns."""
    if isinstance(codec, BoxCodec):
        low, high = (np.array(bound, dtype=codec.dtype).reshape(codec.shape) for bound in (codec.low, codec.high))
        return spaces.Box(low, high, dtype=np.dtype(codec.dtype).type)
    if len(codec.sizes) == 1:
        return spaces.Discrete(codec.size, start=codec.firsts[0])
    return spaces.MultiDiscrete(list(codec.sizes), start=list(codec.firsts))


def _observation_space(problem: Problem) -> spaces.Space[Any]:
    """Return the space of the states as they are written."""
    if problem.states is not None:
        return _space_of(problem.states)
    if isinstance(problem.task, ContinuousTask):
        return spaces.Box(problem.task.low, problem.task.high, dtype=np.float64)
    return spaces.Box(-np.inf, np.inf, problem.state_shape, dtype=np.float64)
