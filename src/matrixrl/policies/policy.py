"""A policy as plain data: a table of actions, the environment's numbers, and what is proven about it, and its files."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.archive import (
    atomic_write,
    check_entries,
    check_version,
    read_archive,
    read_json,
    refusing,
    write_archive,
)
from matrixrl.certificates import Certificate
from matrixrl.checks import fail, file_path, index, indices, integer, shown
from matrixrl.display import confidence, html_table, in_digits, printable
from matrixrl.errors import CheckpointError, InvalidInput
from matrixrl.extras import require_packages
from matrixrl.records import Guarantee, IntArray
from matrixrl.spaces import Codec, DiscreteCodec, cell_text, codec_from, read_space

__all__ = ["FORMAT", "VERSION", "Policy"]

FORMAT = "matrixrl policy"
"""Entry `format` of a file; docs/guides/deploy.md describes it."""
VERSION = 3
"""Entry `version` of a file; it is raised when a reader of the old one would misread the new one."""

_LARGEST_JSON = 64 << 20  # bytes; the text of small objects takes many times its size in memory
_LONGEST = 2000  # characters of a description
_BASES = (None, "model", "returns")
_NUMBER, _NONE = (int, float), type(None)
_ENTRIES: dict[str, Any] = {
    **{"format": str, "version": int, "digest": str, "description": str, "horizon": int, "n_states": int},
    **{"n_observed": int, "n_actions": int, "first_state": int, "first_action": int, "states": (dict, _NONE)},
    **{"actions": (dict, _NONE), "certificate": (dict, _NONE), "basis": (str, _NONE)},
}
_CERTIFICATE: dict[str, Any] = {
    **{"lower": _NUMBER, "upper": _NUMBER, "optimal_lower": (*_NUMBER, _NONE), "delta": _NUMBER},
    **{"guarantee": dict, "start": str, "estimate": (*_NUMBER, _NONE), "trivial": (list, _NONE), "about": str},
}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Policy:
    """A deterministic policy of a problem with numbered states.

    `table` counts states and actions from 0. `act` takes and returns elements of the environment's own spaces.

    Attributes:
        table: (H, S) Action of each stage and state, counted from 0; a copy that cannot be changed.
        n_actions: Number of actions A.
        description: Where the policy comes from, in words.
        first_state: Number of the environment's first state.
        first_action: Number of the environment's first action.
        states: Names of the states, as `Task` takes them, or numbers of observations that are arrays, tuples or
            dictionaries; None if they are whole numbers.
        actions: Names of the actions or numbers of them, likewise.
        n_unobserved: Number of states that are never observed, which are the last ones: 1 for an environment whose
            episodes may terminate, and whose end state was added to its states; else 0.
        certificate: Bounds on V*(s0) and on the value of the policy; None if there is none.
        basis: What the lower bound of the certificate comes from: `model` (the confidence set) or `returns` (what
            episodes of this policy earned); None if there is no certificate.
        is_stationary: Whether the actions are the same at all stages.

    >>> policy = Policy([[0, 1, 1], [0, 0, 1]], n_actions=2, description="two stages, three states")
    >>> policy.act(1, stage=0), policy.act(1, stage=1)
    (1, 0)
    >>> policy.act([0, 1, 2], stage=0)
    array([0, 1, 1])
    >>> Policy([[0, 1]], n_actions=2, states=["low", "high"], actions=["wait", "order"]).act("high")
    'order'
    """

    table: IntArray
    n_actions: int
    description: str = "a table that was given"
    first_state: int = 0
    first_action: int = 0
    states: Any = None
    actions: Any = None
    n_unobserved: int = 0
    certificate: Certificate | None = None
    basis: str | None = None
    is_stationary: bool = field(init=False)

    def __post_init__(self) -> None:
        remedy = "Give the number of actions of the environment."
        n_actions = integer("n_actions", self.n_actions, low=1, high=1 << 31, remedy=remedy)
        table = _checked_table(self.table, n_actions)
        for name in ("first_state", "first_action"):
            first = integer(name, getattr(self, name), low=-(1 << 31), high=1 << 31, remedy="Such as 0.")
            object.__setattr__(self, name, first)
        most = table.shape[1] - 1
        unobserved = integer("n_unobserved", self.n_unobserved, low=0, high=most, remedy="It is 0 or 1.")
        for name, size, first in (
            ("states", most + 1 - unobserved, self.first_state),
            ("actions", n_actions, self.first_action),
        ):
            object.__setattr__(self, name, _checked_codec(name, getattr(self, name), size, first))
        if not isinstance(self.description, str) or len(self.description) > _LONGEST:
            rule = f"must be text of at most {_LONGEST} characters"
            fail("description", rule, shown(self.description), "Shorten it.")
        if self.certificate is not None and not isinstance(self.certificate, Certificate):
            fail("certificate", "must be a Certificate or None", shown(self.certificate), "Leave it out.")
        if self.certificate is not None and not np.isfinite([self.certificate.lower, self.certificate.upper]).all():
            fail("certificate", "must have finite bounds", shown(self.certificate), "Leave it out.")
        if not isinstance(self.basis, (str, type(None))) or self.basis not in _BASES:
            fail("basis", "must be 'model', 'returns' or None", shown(self.basis), "Leave it out.")
        object.__setattr__(self, "table", table)
        object.__setattr__(self, "n_actions", n_actions)
        object.__setattr__(self, "n_unobserved", unobserved)
        object.__setattr__(self, "is_stationary", bool((table == table[0]).all()))

    @property
    def horizon(self) -> int:
        """Number of stages H."""
        return int(self.table.shape[0])

    @property
    def n_states(self) -> int:
        """Number of states S, those that are never observed included."""
        return int(self.table.shape[1])

    @property
    def n_observed(self) -> int:
        """Number of states that can be observed."""
        return self.n_states - self.n_unobserved

    @property
    def digest(self) -> str:
        """SHA-256 of the policy, its numbers, its description and its certificate, as files store it."""
        return _digest_of(self.entries(), self.table)

    @property
    def state_codec(self) -> Codec:
        """Numbers of the observations."""
        return DiscreteCodec(self.n_observed, self.first_state) if self.states is None else self.states

    @property
    def action_codec(self) -> Codec:
        """Numbers of the actions."""
        return DiscreteCodec(self.n_actions, self.first_action) if self.actions is None else self.actions

    def act(self, obs: Any, stage: Any = None) -> Any:
        """Return the action at an observation and a stage, as elements of the environment's spaces.

        Args:
            obs: An observation; where observations and actions are whole numbers, also an array of any shape of them.
            stage: Stage h, counted from 0; an array that broadcasts against `obs` for episodes at different stages. It
                may be left out if the policy is stationary.

        Returns:
            An action of the action space, or an array of them.

        Raises:
            InvalidInput: A state is not in the observation space, or a stage is not in 0 … H − 1.
        """
        if stage is None and not self.is_stationary:
            fail("stage", "must be given for a policy that depends on it", None, "Stages count from 0.")
        h = indices("stage", 0 if stage is None else stage, size=self.horizon, remedy="Stages count from 0.")
        remedy = "Give a state of observation_space."
        if self.states is not None or self.actions is not None:
            one = index("stage", h, size=self.horizon, remedy="Give one stage: spaces have several parts.")
            return self.action_codec.decode(int(self.table[one, self.state_codec.encode("obs", obs, remedy)]))
        s = indices("obs", obs, size=self.n_observed, first=self.first_state, remedy=remedy)
        try:
            actions = self.table[h, s - self.first_state] + self.first_action
        except IndexError:
            received = f"shapes {np.shape(h)} and {np.shape(s)}"
            fail("stage", "must be one number, or broadcast against obs", received, "Give one stage for each state.")
        return int(actions) if np.ndim(actions) == 0 else actions

    def __getitem__(self, key: Any) -> Any:
        """Return entries of the table."""
        return self.table[key]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> IntArray:
        """Return the table (H, S) as an array."""
        return np.array(self.table, dtype=dtype, copy=copy)

    def __eq__(self, other: object) -> bool:
        """Return whether another policy is the same in everything that files store."""
        return isinstance(other, Policy) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        sizes = f"{self.horizon} stages, {self.n_states} states, {self.n_actions} actions"
        return f"<Policy of {sizes}: {printable(self.description)}{self._proven()}>"

    def _repr_html_(self) -> str:
        rows: dict[str, object] = {
            "sizes": f"{self.horizon:,} stages, {self.n_states:,} states, {self.n_actions:,} actions",
            "depends on the stage": "no" if self.is_stationary else "yes",
        }
        if self.certificate is not None:
            rows["certificate"] = self._proven().removeprefix("; ")
        return html_table(f"Policy: {self.description}", rows)

    def _proven(self) -> str:
        """Return what the certificate says, in words."""
        shown_bounds = self.certificate
        if shown_bounds is None:
            return ""
        lower, gap = in_digits(shown_bounds.lower), in_digits(shown_bounds.gap)
        guess = "" if shown_bounds.estimate is None else f", estimated {in_digits(shown_bounds.estimate)}"
        start = f" (start: {printable(shown_bounds.start)})" if shown_bounds.start else ""
        if not shown_bounds.guarantee:
            reason = printable(shown_bounds.guarantee.reason)
            return f"; estimated, not proven, to earn at least {lower}{guess} ({reason}){start}"
        chance = confidence(shown_bounds.delta)
        words = f"; with probability {chance} it earns at least {lower} in an episode{guess}"
        return f"{words}, within {gap} of the best policy{start}"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a file that `load` reads: JSON for the suffix ``.json``, ``.npz`` for a smaller file.

        JSON has one line for each stage. An npz file holds the array ``table`` (H, S), in the smallest unsigned type,
        and the array ``header``, the bytes of a JSON text. Nothing that learns is needed to load either, and both can
        be read without matrixrl.

        Args:
            path: Path that ends in ``.json`` or ``.npz``.

        Raises:
            CheckpointError: The file cannot be written, or the table is too large for JSON.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "policy.json"
        >>> policy = Policy([[0, 1]], n_actions=2)
        >>> policy.save(path)
        >>> Policy.load(path) == policy
        True
        """
        target, head = file_path("path", path), {"digest": self.digest, **self.entries()}
        if target.endswith(".npz"):
            small = self.table.astype(np.min_scalar_type(int(self.table.max())))
            write_archive(target, FORMAT, head, {"table": small}, version=VERSION)
            return
        if not target.endswith(".json"):
            fail("path", "must end in .json or .npz", shown(target), "to_csv writes a CSV file, which is not loaded.")
        head = {"format": FORMAT, "version": VERSION, **head}
        lines = [f" {json.dumps(name)}: {json.dumps(value, allow_nan=False)}," for name, value in head.items()]
        rows = ",\n".join(f"  {json.dumps(row.tolist(), separators=(',', ':'))}" for row in self.table)
        data = "\n".join(["{", *lines, ' "table": [', rows, " ]", "}", ""]).encode("ascii")
        if len(data) > _LARGEST_JSON:  # never write what cannot be read
            size = f"{len(data):,} bytes, more than {_LARGEST_JSON:,}"
            raise CheckpointError(f"{target} would have {size}; save a table of this size as .npz")
        atomic_write(target, lambda temporary: temporary.write_bytes(data), parents=False)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the actions as CSV with the columns stage, state and action, in names or the environment's own numbers.

        States and actions with several parts have one column for each part, such as ``state.stock`` for named parts or
        ``state['stock'][0]``. Stages count from 0. States that are never observed are left out. A name with which a
        spreadsheet program would begin a formula is written after an apostrophe. The file has no certificate and is
        not loaded.
        """
        columns = self._columns(cell_text)
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
        data = text.getvalue().encode("utf-8")
        atomic_write(file_path("path", path), lambda temporary: temporary.write_bytes(data), parents=False)

    def to_frame(self) -> Any:
        """Return the actions as a data frame of pandas with the columns of `to_csv`.

        Raises:
            MissingExtra: pandas is not installed.

        >>> Policy([[0, 1]], n_actions=2, states=["low", "high"], actions=["wait", "order"]).to_frame()
           stage state action
        0      0   low   wait
        1      0  high  order
        """
        require_packages(["pandas"], extra="pandas", purpose="A data frame")
        import pandas as pd

        return pd.DataFrame(self._columns())

    def _columns(self, text: Callable[[Any], str] | None = None) -> dict[str, NDArray[Any]]:
        """Return one column for the stage and for each part of states and actions: (H·S,) each."""
        states, actions, observed = self.state_codec, self.action_codec, self.table[:, : self.n_observed]
        here = np.tile(np.arange(self.n_observed), self.horizon)
        named = zip(states.names("state"), states.columns(here, text), strict=True)
        played = zip(actions.names("action"), actions.columns(observed.ravel(), text), strict=True)
        return {"stage": np.repeat(np.arange(self.horizon), self.n_observed), **dict(named), **dict(played)}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Return the policy of a file that `save` wrote.

        Nothing is unpickled or executed. The digest of the file finds damage; it is no signature.

        Raises:
            CheckpointError: The file is missing, damaged, no policy, or of another format version.
        """
        source = file_path("path", path)
        entries, table = _read_file(Path(source))
        with refusing(source):
            check_entries("the policy", entries, _ENTRIES)
            if (entries["horizon"], entries["n_states"]) != table.shape:
                raise InvalidInput(f"the table must have {entries['horizon']} rows of {entries['n_states']} actions")
            names = ("n_actions", "description", "first_state", "first_action", "basis")
            policy = cls(
                table,
                **{name: entries[name] for name in names},
                states=None if entries["states"] is None else codec_from(entries["states"]),
                actions=None if entries["actions"] is None else codec_from(entries["actions"]),
                n_unobserved=entries["n_states"] - entries["n_observed"],
                certificate=_read_certificate(entries["certificate"]),
            )
        if policy.digest != entries["digest"]:
            raise CheckpointError(f"{source} is damaged or was changed: its digest is that of another policy")
        return policy

    def entries(self) -> dict[str, Any]:
        """Return everything but the table as plain data, as files store it, without format, version and digest."""
        certificate = None
        if self.certificate is not None:
            certificate = {name: getattr(self.certificate, name) for name in _CERTIFICATE}
            certificate["guarantee"] = self.certificate.guarantee.as_dict()
            certificate["trivial"] = None if self.certificate.trivial is None else list(self.certificate.trivial)
        return {
            "description": self.description,
            "horizon": self.horizon,
            "n_states": self.n_states,
            "n_observed": self.n_observed,
            "n_actions": self.n_actions,
            "first_state": self.first_state,
            "first_action": self.first_action,
            "states": None if self.states is None else self.states.description(),
            "actions": None if self.actions is None else self.actions.description(),
            "certificate": certificate,
            "basis": self.basis,
        }


def _checked_codec(name: str, given: Any, size: int, first: int) -> Codec | None:
    """Return the codec of names, or of elements with several parts; refuse one that does not fit the table."""
    if given is None:
        return None
    codec = read_space(name, given)
    if isinstance(codec, DiscreteCodec):
        fail(name, "must be names, the codec of a space with several parts, or None", shown(given), "Leave it out.")
    if codec.size != size or first != 0:
        fail(name, f"must number {size} elements from 0", f"{codec}, with {codec.size} from {first}", "Leave it out.")
    return codec


def _checked_table(value: Any, n_actions: int) -> IntArray:
    """Return a read-only copy of a table (H, S) of actions, as int64, so that sums with it do not overflow."""
    remedy = "Give table[h, s], the action at stage h in state s, counted from 0."
    try:
        given: NDArray[Any] = np.asarray(value)
    except (TypeError, ValueError):
        fail("table", "must be whole numbers of shape (H, S)", shown(value), remedy)
    if given.ndim != 2 or given.dtype.kind not in "iu" or not given.size or np.ma.is_masked(value):
        received = f"{given.dtype} of shape {given.shape}"
        fail("table", "must be whole numbers of shape (H, S)", received, remedy)
    if given.min() < 0 or given.max() >= n_actions:
        fail("table", f"must hold actions 0 … {n_actions - 1}", f"{given.min()} … {given.max()}", remedy)
    table = np.array(given, dtype=np.int64, order="C")
    table.flags.writeable = False
    return table


def _digest_of(entries: Mapping[str, Any], table: IntArray) -> str:
    """Return the SHA-256 of a policy as 64 hexadecimal digits, the same for JSON and npz files.

    It is the digest of the JSON text of the entries, with sorted names, without spaces and in ASCII, followed by the
    table as 64-bit little-endian integers, row by row.
    """
    text = json.dumps(dict(entries), sort_keys=True, separators=(",", ":"), allow_nan=False)
    found = hashlib.sha256(text.encode("ascii"))
    for row in table:
        found.update(row.astype("<i8").tobytes())
    return found.hexdigest()


def _read_file(source: Path) -> tuple[dict[str, Any], NDArray[Any]]:
    """Return the entries and the table of a file; what they say is not checked yet."""
    if not source.is_file():
        raise CheckpointError(f"{source} is not a file; give the path that was passed to save")
    try:
        with source.open("rb") as file:
            begin = file.read(2)
            text = begin if begin == b"PK" else begin + file.read(_LARGEST_JSON)
    except OSError as error:
        raise CheckpointError(f"{source} cannot be read ({error.strerror})") from error
    if text == b"PK":  # a zip file
        header, arrays = read_archive(source, FORMAT, version=VERSION)
        if set(arrays) != {"table"}:
            raise CheckpointError(f"{source} holds other arrays than header and table")
        return header, arrays["table"]
    if len(text) > _LARGEST_JSON:
        raise CheckpointError(f"{source} is larger than the {_LARGEST_JSON:,} bytes of a policy in JSON")
    header = read_json(text, FORMAT, str(source), part="text")
    check_version(header, str(source), VERSION)
    rows = header.pop("table", None)
    good = isinstance(rows, list) and len(rows) > 0 and all(isinstance(row, list) for row in rows)
    good = good and all(
        len(row) == len(rows[0]) and all(type(a) is int and 0 <= a < 1 << 31 for a in row) for row in rows
    )
    if not good:
        raise CheckpointError(f"{source} has a table that is not a list of rows of whole numbers, one for each state")
    return header, np.array(rows, dtype=np.int64)


def _read_certificate(entries: dict[str, Any] | None) -> Certificate | None:
    """Return the certificate of a file, or refuse one that nobody wrote."""
    if entries is None:
        return None
    check_entries("the certificate", entries, _CERTIFICATE)
    lower, upper, delta = (float(entries[name]) for name in ("lower", "upper", "delta"))
    best = None if entries["optimal_lower"] is None else float(entries["optimal_lower"])
    guess, trivial = entries["estimate"], entries["trivial"]
    known = [number for number in (best, guess) if number is not None]
    if trivial is not None:
        is_pair = len(trivial) == 2 and all(type(number) in _NUMBER for number in trivial)
        known += trivial if is_pair and trivial[0] <= trivial[1] else [np.nan]
    if not lower <= upper or not 0.0 <= delta <= 1.0 or not np.isfinite(known).all():
        rule = "a lower bound below the upper one, a probability delta, and finite numbers"
        raise InvalidInput(f"the certificate must have {rule}")
    return Certificate(
        upper,
        lower,
        delta,
        Guarantee(**entries["guarantee"]),
        optimal_lower=best,
        start=entries["start"],
        estimate=None if guess is None else float(guess),
        trivial=None if trivial is None else (float(trivial[0]), float(trivial[1])),
        about=entries["about"],
    )
