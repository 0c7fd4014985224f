"""A policy as plain data: a table of actions, the environment's numbers, and what is proven about it."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.archive import refusing
from matrixrl.checks import fail, file_path, index, indices, integer, number, shown
from matrixrl.coding import Codec, DiscreteCodec, codec_from
from matrixrl.errors import CheckpointError, InvalidInput
from matrixrl.html_tables import confidence, html_table
from matrixrl.policies.files import digest_of, read_policy, write_csv, write_json, write_numpy
from matrixrl.printable import printable
from matrixrl.records import Certificate, IntArray

__all__ = ["Policy"]

_LONGEST = 2000  # characters of a description or of the words of a guarantee
_BASES = (None, "model", "returns")


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
        states: Numbers of observations that are arrays, tuples or dictionaries; None if they are whole numbers.
        actions: Numbers of actions, likewise.
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
    """

    table: IntArray
    n_actions: int
    description: str = "a table that was given"
    first_state: int = 0
    first_action: int = 0
    states: Codec | None = None
    actions: Codec | None = None
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
        _check_codec("states", self.states, most + 1 - unobserved, self.first_state)
        _check_codec("actions", self.actions, n_actions, self.first_action)
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
        return digest_of(self.entries(), self.table)

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
        """Return the policy as a table, as notebooks show it."""
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
        lower, gap = f"{shown_bounds.lower:.4g}", f"{shown_bounds.gap:.4g}"
        start = f" (start: {printable(shown_bounds.start)})" if shown_bounds.start else ""
        if shown_bounds.guarantee is not True:
            return f"; estimated, not proven, to earn at least {lower} ({printable(shown_bounds.guarantee)}){start}"
        chance = confidence(shown_bounds.delta)
        words = f"; with probability {chance} it earns at least {lower} in an episode, within {gap} of the best policy"
        return words + start

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the policy to a file that `load` reads: JSON for the suffix ``.json``, ``.npz`` for a smaller file.

        Nothing that learns is needed to load it, and both formats can be read without matrixrl.

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
        target = file_path("path", path)
        if target.endswith(".json"):
            write_json(target, self.entries(), self.table)
        elif target.endswith(".npz"):
            write_numpy(target, self.entries(), self.table)
        else:
            fail("path", "must end in .json or .npz", shown(target), "to_csv writes a CSV file, which is not loaded.")

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write the policy as JSON to a file of any name; `load` reads it."""
        write_json(file_path("path", path), self.entries(), self.table)

    def to_numpy(self, path: str | os.PathLike[str]) -> None:
        """Write the policy as an npz file of any name; `load` and ``numpy.load(path, allow_pickle=False)`` read it.

        It holds the array ``table`` (H, S), in the smallest unsigned type, and the array ``header``, the bytes of a
        JSON text.
        """
        write_numpy(file_path("path", path), self.entries(), self.table)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the actions as CSV with the columns stage, state and action, in the environment's own numbers.

        States and actions with several parts have one column for each part, such as ``state['stock'][0]``. Stages count
        from 0. States that are never observed are left out. The file has no certificate and is not loaded.
        """
        states, actions = self.state_codec, self.action_codec
        names = ["stage", *states.names("state"), *actions.names("action")]
        played = [actions.values(action) for action in range(self.n_actions)]
        observed = [states.values(state) for state in range(self.n_observed)]
        rows = (
            [stage, *observed[state], *played[action]]
            for stage, row in enumerate(self.table[:, : self.n_observed].tolist())
            for state, action in enumerate(row)
        )
        write_csv(file_path("path", path), names, rows)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Policy:
        """Return the policy of a file that `save`, `to_json` or `to_numpy` wrote.

        Nothing is unpickled or executed. The digest of the file finds damage; it is no signature.

        Raises:
            CheckpointError: The file is missing, damaged, no policy, or of another format version.
        """
        source = file_path("path", path)
        entries, table = read_policy(source)
        with refusing(source):
            policy = cls(
                table,
                n_actions=entries["n_actions"],
                description=entries["description"],
                first_state=entries["first_state"],
                first_action=entries["first_action"],
                states=None if entries["states"] is None else codec_from(entries["states"]),
                actions=None if entries["actions"] is None else codec_from(entries["actions"]),
                n_unobserved=_unobserved(entries, table),
                certificate=_read_certificate(entries["certificate"]),
                basis=entries["basis"],
            )
        if policy.digest != entries["digest"]:
            raise CheckpointError(f"{source} is damaged or was changed: its digest is that of another policy")
        return policy

    def entries(self) -> dict[str, Any]:
        """Return everything but the table as plain data, as files store it, without format, version and digest."""
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
            "certificate": _certificate_entries(self.certificate),
            "basis": self.basis,
        }


def _check_codec(name: str, codec: Codec | None, size: int, first: int) -> None:
    """Refuse numbers of elements with several parts that do not fit the table."""
    if codec is None:
        return
    if not isinstance(codec, Codec) or isinstance(codec, DiscreteCodec):
        fail(name, "must be the codec of a space with several parts, or None", shown(codec), "Leave it out.")
    if codec.size != size or first != 0:
        fail(name, f"must number {size} elements from 0", f"{codec}, with {codec.size} from {first}", "Leave it out.")


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


def _certificate_entries(found: Certificate | None) -> dict[str, Any] | None:
    """Return a certificate as plain data."""
    if found is None:
        return None
    names = ("lower", "upper", "optimal_lower", "delta", "guarantee", "start")
    entries = {name: getattr(found, name) for name in names}
    if not found.start:  # files of earlier versions do not name a start
        del entries["start"]
    return entries


def _read_certificate(entries: Any) -> Certificate | None:
    """Return the certificate of a file, or refuse one that nobody wrote."""
    if entries is None:
        return None
    needed = {"lower", "upper", "optimal_lower", "delta", "guarantee"}
    if not isinstance(entries, dict) or set(entries) not in (needed, needed | {"start"}):
        raise InvalidInput("the certificate must have lower, upper, optimal_lower, delta and guarantee")
    start = entries.get("start", "")
    if not isinstance(start, str) or len(start) > _LONGEST or ("start" in entries and not start):
        raise InvalidInput("the start of the certificate must be words")
    lower, upper = (number(name, entries[name], remedy="It is damaged.") for name in ("lower", "upper"))
    if lower > upper:
        raise InvalidInput("the lower bound of the certificate must not exceed the upper one")
    optimal = entries["optimal_lower"]
    if optimal is not None:
        optimal = number("optimal_lower", optimal, remedy="It is damaged.")
    delta = number("delta", entries["delta"], low=0.0, high=1.0, remedy="It is damaged.")
    guarantee = entries["guarantee"]
    if guarantee is not True and not (isinstance(guarantee, str) and 0 < len(guarantee) <= _LONGEST):
        raise InvalidInput("the guarantee of the certificate must be true or words")
    return Certificate(upper=upper, lower=lower, delta=delta, guarantee=guarantee, optimal_lower=optimal, start=start)


def _unobserved(entries: dict[str, Any], table: IntArray) -> int:
    """Return how many states are never observed; refuse sizes that are not those of the table."""
    sizes = [integer(name, entries[name], low=1, remedy="It is damaged.") for name in ("horizon", "n_states")]
    if tuple(sizes) != table.shape:
        raise InvalidInput(f"the table must have shape {tuple(sizes)}; got {table.shape}")
    return sizes[1] - integer("n_observed", entries["n_observed"], low=1, high=sizes[1], remedy="It is damaged.")
