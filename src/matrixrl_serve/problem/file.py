"""The problem file: what a service decides about, as a TOML file that is checked when it is read."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from matrixrl.checks import fail, shown
from matrixrl.errors import InvalidInput, SpecError
from matrixrl.text_files import parse_toml, read_text
from matrixrl_serve.refusals import refusal

__all__ = ["MODES", "Mode", "ProblemFile", "read_problem"]

Mode = Literal["shadow", "live", "frozen"]
MODES: tuple[Mode, ...] = ("shadow", "live", "frozen")
"""Shadow logs what it would do, live decides and learns, frozen serves the recommended policy and learns nothing."""

_LARGEST_FILE = 1 << 24
_TABLES = ("allowed", "groups", "rewards", "incumbent")


class ProblemFile(BaseModel):
    """The keys of a problem file.

    Tables may be written in the file or be the name of a CSV file of numbers beside it, such as ``groups =
    "groups.csv"``; one row for each state.

    Attributes:
        name: Name of the problem.
        states: Number of states, their names, or a table of parts with a number or names each.
        actions: Likewise.
        horizon: Number of decisions in an episode; left out if episodes are endless and discounted.
        discount: Factor γ of each step.
        accuracy: Share of the largest value that may be cut off from endless episodes.
        reward_range: Smallest and largest reward of a step.
        rewards: Known rewards, one row of A numbers for each state; learned if left out.
        start: First state, if all episodes begin in one.
        may_terminate: Whether episodes may end before the horizon; implied by a time-out.
        allowed: Actions that are allowed in each state: rows of A booleans, or of actions, each named once. A table of
            A columns that are all 0 or 1 is a table of booleans; with two actions that are numbered it is refused
            unless some row shows which of the two is meant. A request may allow fewer.
        groups: One row of A numbers for each state; pairs with the same number share what is learned.
        stage_dependent: Whether laws differ between stages, or the class of each stage.
        preset: Preset of the learner: budget, optimistic or tuned.
        delta: Probability with which anything that is called proven may fail.
        settings: Other settings of MatrixRL, such as ``explore_for`` or ``switch_growth``.
        time_out: Seconds after which an outcome counts as missing; never if left out.
        default_reward: Reward of a step whose outcome is missing, which makes a time-out an outcome of its own; where
            `rewards` are known, the known one is paid whatever number is given here. Without it the episode of a
            missing outcome is abandoned, and what is proven ends.
        mode: Mode of a new service: shadow, live or frozen.
        explore: Whether live episodes follow the optimistic plan; if not, they follow the recommended policy.
        incumbent: Policy in use: one action for each state, or a row of them for each stage; or "logged" if it is only
            known from what the application reports.
        promote: Whether shadow becomes live once the recommended policy is proven to be better than the incumbent.
        seed: Seed of the learner.

    >>> ProblemFile(states=3, actions=["wait", "order"], horizon=5).mode
    'live'
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    name: str = Field("problem", min_length=1, max_length=100)
    states: Any
    actions: Any
    horizon: int | None = None
    discount: float = 1.0
    accuracy: float = 0.01
    reward_range: list[float] = Field([0.0, 1.0], min_length=2, max_length=2)
    rewards: Any = None
    start: Any = None
    may_terminate: bool = False
    allowed: Any = None
    groups: Any = None
    stage_dependent: Any = None
    preset: Literal["budget", "optimistic", "tuned"] = "budget"
    delta: float = Field(0.05, gt=0.0, lt=1.0)
    settings: dict[str, Any] = {}
    time_out: float | None = Field(None, gt=0.0)
    default_reward: float | None = None
    mode: Mode = "live"
    explore: bool = True
    incumbent: Any = None
    promote: bool = False
    seed: int = Field(0, ge=0, lt=2**63)

    @property
    def digest(self) -> str:
        """SHA-256 of everything that the file says, tables included."""
        text = json.dumps(self.model_dump(), sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(text.encode()).hexdigest()


def read_problem(path: str | os.PathLike[str]) -> ProblemFile:
    """Return the problem of a TOML file.

    Raises:
        SpecError: The file cannot be read, or a key or a value is not allowed.
    """
    source = Path(path)
    data = parse_toml(str(source), _text(source))
    try:
        for key in _TABLES:
            if isinstance(data.get(key), str) and data[key].endswith(".csv"):
                data[key] = _table(key, source.parent / data[key])
        return checked(data)
    except InvalidInput as error:
        raise SpecError(f"{source}: {error}") from error


def checked(data: dict[str, Any]) -> ProblemFile:
    """Return the problem of plain data, or refuse it in the words of the library."""
    for key, value in data.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            rule = "must be made of finite numbers, text, true, false, lists and tables"
            fail(key, rule, f"{shown(value)} ({error})", "Correct it.")
    try:
        return ProblemFile.model_validate(data)
    except ValidationError as error:
        raise refusal(error, "the problem", list(ProblemFile.model_fields)) from error


def _text(path: Path) -> str:
    return read_text(path, _LARGEST_FILE, "a problem file")


def _table(key: str, path: Path) -> list[list[float]]:
    """Return the numbers of a CSV file without a header, whole ones as int."""
    rows: list[list[float]] = []
    lines = csv.reader(_text(path).splitlines())
    try:
        rows.extend([_cell(cell.strip()) for cell in row] for row in lines)
    except (ValueError, csv.Error):
        rule = "must be a file of numbers, or of true and false"
        fail(key, rule, f"line {lines.line_num} of {path.name}", "Remove headers and names.")
    return rows


def _cell(text: str) -> float:
    """Return a number, a whole one as int, or a boolean."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("+-").isdigit() else float(text)
