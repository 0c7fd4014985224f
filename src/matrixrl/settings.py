"""Declarative settings: a frozen dataclass whose fields carry their check and their help text.

An algorithm declares its settings once, as fields. Defaults, presets, validation, listings and saved files follow from
that declaration.

>>> @dataclass(frozen=True)
... class Example(Settings):
...     scale: float = setting(1.0, "Factor of the bonus.", real(low=0.0))
>>> Example.resolve({"scale": 2}).scale
2.0
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self, TypeVar

from matrixrl.checks import choice, flag, integer, number, shown
from matrixrl.errors import InvalidInput, UnknownName
from matrixrl.references import reference_of

__all__ = [
    "ELSEWHERE",
    "Check",
    "Settings",
    "describe_settings",
    "flag",
    "one_of",
    "optional",
    "plain_value",
    "real",
    "setting",
    "whole",
]

T = TypeVar("T")
Check = Callable[[str, Any], Any]
"""(name of the setting, value) → the value to keep; raises `InvalidInput`."""

_DISCOUNT = "It belongs to the problem: pass discount=… to the agent, to run_seeds, or to FiniteMDP and Task."
ELSEWHERE = {
    "features": "Pass phi=… and psi=…, such as phi=features.phi and psi=features.psi.",
    "discount": _DISCOUNT,
    "gamma": _DISCOUNT,
    "algorithm": "Name another algorithm as the second argument of matrixrl.Agent, or as agent=… of run_seeds.",
}
"""Advice for names that users of other libraries expect."""

_RENAMED_PRESETS = {"guaranteed": "optimistic", "practical": "tuned"}

_REMEDY = "Leave it out for the value of the preset."


def setting(default: T, help: str, check: Check | None = None) -> T:  # the word that listings use
    """Declare one setting: its default, its help text and its check."""
    declared: T = field(default=default, metadata={"help": help, "check": check})
    return declared


def real(
    *, low: float = 0.0, high: float = 1e12, open_ends: bool = False, remedy: str = _REMEDY
) -> Callable[[str, Any], float]:
    """Return a check for a number in [low, high], or (low, high) with `open_ends`."""
    return lambda name, value: number(name, value, low=low, high=high, open_ends=open_ends, remedy=remedy)


def whole(*, low: int = 1, remedy: str = _REMEDY) -> Callable[[str, Any], int]:
    """Return a check for an integer of at least `low`."""
    return lambda name, value: integer(name, value, low=low, remedy=remedy)


def one_of(options: Iterable[str]) -> Callable[[str, Any], str]:
    """Return a check for a name among `options`."""
    return lambda name, value: choice(name, value, options)


def optional(check: Check) -> Check:
    """Return a check that accepts None as well."""
    return lambda name, value: None if value is None else check(name, value)


@dataclass(frozen=True)
class Settings:
    """Base of all settings.

    Attributes:
        PRESETS: Values of some settings by the name of a preset. A class with presets declares a field `preset`.
    """

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    def __post_init__(self) -> None:
        for declared in fields(self):
            check = declared.metadata.get("check")
            if check is not None:
                self.replace_value(declared.name, check(declared.name, getattr(self, declared.name)))
        self.check_together()

    def check_together(self) -> None:
        """Check rules that involve several settings; subclasses override it."""

    def replace_value(self, name: str, value: Any) -> None:
        """Replace a value during initialisation."""
        object.__setattr__(self, name, value)

    @classmethod
    def names(cls) -> list[str]:
        """Return the names of all settings."""
        return [f.name for f in fields(cls)]

    @classmethod
    def resolve(cls, given: Mapping[str, Any]) -> Self:
        """Start from the preset and let every explicit setting win; None means not given."""
        chosen = {key: value for key, value in given.items() if value is not None}
        for key in chosen:
            if key not in cls.names() and key in ELSEWHERE:
                raise UnknownName(f"{key} is not an agent setting; got {shown(chosen[key])}. {ELSEWHERE[key]}")
            choice("agent setting", key, cls.names())
        if not cls.PRESETS:
            return cls(**chosen)
        default = next(f.default for f in fields(cls) if f.name == "preset")
        given_preset = chosen.get("preset", default)
        if isinstance(given_preset, str) and given_preset in _RENAMED_PRESETS:
            raise UnknownName(f"preset {given_preset!r} is now called {_RENAMED_PRESETS[given_preset]!r}.")
        preset = choice("preset", given_preset, cls.PRESETS)
        return cls(**{**cls.PRESETS[preset], **chosen, "preset": preset})

    def as_dict(self) -> dict[str, Any]:
        """Return the settings as plain data; an object becomes its reference ``package.module:Name``."""
        return {name: plain_value(getattr(self, name)) for name in self.names()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Return the settings that `as_dict` wrote; every field must be there and none other."""
        names = set(cls.names())
        if set(data) != names:
            different = sorted(set(data) ^ names)
            raise InvalidInput(f"settings must be those of this version; got a difference in {different}.")
        return cls(**data)


def plain_value(value: Any) -> Any:
    """Return a setting as plain data: an object as its representation, or as its reference if that says nothing.

    >>> plain_value(0.5), plain_value(plain_value)
    (0.5, 'matrixrl.settings:plain_value')
    """
    if isinstance(value, (str, float, int, list, tuple, type(None))):
        return value
    shown = repr(value)
    if shown.startswith("<"):  # only an address
        return reference_of(value) or type(value).__qualname__
    return shown


def describe_settings(kind: type[Settings]) -> list[tuple[str, Any, str]]:
    """Return (name, default, help) of every setting, for listings and documentation."""
    return [(f.name, f.default, f.metadata.get("help", "")) for f in fields(kind)]
