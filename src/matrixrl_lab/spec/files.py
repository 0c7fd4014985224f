"""Read specs from TOML, YAML or dictionaries; error messages name the file, the line and the key."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import yaml
from pydantic import ValidationError

from matrixrl.checks import choice
from matrixrl.errors import SpecError
from matrixrl.text_files import parse_toml, read_text
from matrixrl_lab.shipped import shipped_specs, shipped_text
from matrixrl_lab.spec.line_numbers import KeyPath, line_of, toml_lines, yaml_lines
from matrixrl_lab.spec.models import Spec

__all__ = ["SpecFile", "read_spec"]

_LARGEST_FILE = 1 << 20
_SUFFIXES = (".toml", ".yaml", ".yml")


@dataclass(frozen=True)
class SpecFile:
    """A validated spec and the file it was read from.

    Attributes:
        source: Name of the file in error messages.
        spec: The validated spec.
        lines: Line number of each key.
        text: Text of the file.
        options: Options of the command line that override keys of the file.
        suffix: .toml or .yaml (JSON is YAML too).
    """

    source: str
    spec: Spec
    lines: dict[KeyPath, int]
    text: str
    options: str = ""
    suffix: str = ".toml"

    @property
    def command(self) -> str:
        """Arguments of ``matrixrl compare`` that run the spec again: the name to save the text under, and options."""
        return f"{self.spec.name}{self.suffix} {self.options}".strip()

    def fail(self, path: tuple[Any, ...], message: str) -> NoReturn:
        """Raise a `SpecError` about the key at `path`."""
        raise _error(self.source, self.lines, path, message)


def read_spec(
    given: str | os.PathLike[str] | Mapping[str, Any], overrides: Mapping[str, Any] | None = None
) -> SpecFile:
    """Read and validate a spec.

    Args:
        given: Path of a .toml, .yaml or .yml file, a name of `shipped_specs`, or a dictionary with the same keys.
        overrides: Top-level keys that replace those of the file, such as episodes.

    Raises:
        SpecError: The file cannot be read, or a key or a value is not allowed.

    >>> read_spec("quick").spec.name
    'quick'
    """
    source, text, data, lines = _load(given)
    if not isinstance(data, dict):
        raise SpecError(f"{source}: a spec must be a table of keys; got {type(data).__name__}. See matrixrl list.")
    changes = dict(overrides or {})
    try:
        spec = Spec.model_validate({**data, **changes})
    except ValidationError as error:
        raise _from_pydantic(source, lines, error) from error
    options = " ".join(f"--{key} {value}" for key, value in changes.items())
    suffix = ".toml" if source.endswith(".toml") else ".yaml"
    return SpecFile(source, spec, lines, text, options, suffix)


def _load(given: str | os.PathLike[str] | Mapping[str, Any]) -> tuple[str, str, Any, dict[KeyPath, int]]:
    """Return the name in error messages, the text, the parsed data, and the line numbers of the keys."""
    if isinstance(given, Mapping):
        try:
            text = json.dumps(given, indent=1, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise SpecError(f"spec must contain plain numbers and text only ({error})") from error
        return "spec", text, json.loads(text), {}
    path = Path(given)
    if path.suffix not in _SUFFIXES:
        name = choice("spec", str(given), shipped_specs())
        text = shipped_text(name)
        return f"{name}.toml", text, *_parse_toml(f"{name}.toml", text)
    text = read_text(path, _LARGEST_FILE, "a spec")
    parse = _parse_toml if path.suffix == ".toml" else _parse_yaml
    return str(path), text, *parse(str(path), text)


def _parse_toml(source: str, text: str) -> tuple[Any, dict[KeyPath, int]]:
    return parse_toml(source, text), toml_lines(text)


class _PlainLoader(yaml.SafeLoader):
    """Loader of YAML without aliases: a few of them in each other stand for more entries than memory can hold."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            problem = f"the alias *{event.anchor} is not allowed in a spec; write the value out"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        return super().compose_node(parent, index)


def _parse_yaml(source: str, text: str) -> tuple[Any, dict[KeyPath, int]]:
    try:
        loader = _PlainLoader(text)
        root = loader.get_single_node()
        lines, twice = yaml_lines(root)
        data = None if root is None else loader.construct_document(root)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:  # the first covers no bad dates
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f":{mark.line + 1}"
        problem = getattr(error, "problem", None) or (str(error) if isinstance(error, ValueError) else "")
        raise SpecError(f"{source}{where} is not valid YAML: {problem or 'it cannot be parsed'}") from error
    if twice:
        path, line = twice[0]
        raise SpecError(f"{source}:{line}: {_dotted(path)} appears twice. Keep one of them.")
    return data, lines


def _from_pydantic(source: str, lines: dict[KeyPath, int], error: ValidationError) -> SpecError:
    """Return the first error of pydantic as a `SpecError` in the form of `matrixrl.checks`."""
    # A misspelt key is reported before the key that is missing because of it.
    first = sorted(error.errors(), key=lambda e: e["type"] == "missing")[0]
    path = tuple(first["loc"])
    try:
        received = repr(first.get("input"))
    except RecursionError:  # lists in lists, deeper than Python can show
        received = f"a deeply nested {type(first['input']).__name__}"
    short = received if len(received) <= 60 else received[:57] + "…"
    words = {
        "extra_forbidden": "is not a key of a spec",
        "missing": "must be given",
    }.get(first["type"])
    if first["type"] == "extra_forbidden":
        known = list(Spec.model_fields) if len(path) == 1 else ["name", "id", "settings", "sweep"]
        return _error(source, lines, path, f"{words}; a key there is one of {', '.join(known)}.")
    if words is not None:
        return _error(source, lines, path, f"{words}.")
    rule = first["msg"].removeprefix("Value error, ").removeprefix("Input ").replace("should", "must")
    rule = rule[0].lower() + rule[1:]
    return _error(source, lines, path, f"{rule}; got {short}.")


def _error(source: str, lines: dict[KeyPath, int], path: tuple[Any, ...], message: str) -> SpecError:
    line = line_of(lines, path)
    where = source if line is None else f"{source}:{line}"
    return SpecError(f"{where}: {_dotted(path)}: {message}")


def _dotted(path: tuple[Any, ...]) -> str:
    """Return a path as text, with entries counted from 1.

    >>> _dotted(("agent", 1, "name"))
    'agent 2, name'
    """
    shown = ""
    for part in path:
        shown += f" {part + 1}" if isinstance(part, int) else f"{', ' if shown else ''}{part}"
    return shown
