"""Line numbers of the keys of TOML and YAML files, for error messages."""

from __future__ import annotations

import re
from typing import Any

import yaml

__all__ = ["KeyPath", "line_of", "toml_lines", "yaml_lines"]

KeyPath = tuple[str | int, ...]

_KEY = re.compile(r"([A-Za-z0-9_\-.\"']+)\s*=")


def toml_lines(text: str) -> dict[KeyPath, int]:
    r"""Return the line number, counted from 1, of every table and of every key at the start of a line.

    >>> toml_lines('episodes = 5\n[[agent]]\nname = "psrl"')[("agent", 0, "name")]
    3
    """
    found: dict[KeyPath, int] = {}
    counts: dict[KeyPath, int] = {}
    table: KeyPath = ()

    def full(dotted: str) -> KeyPath:
        """Return the path of a table header, in which arrays of tables refer to their latest entry."""
        path: KeyPath = ()
        for part in _parts(dotted):
            path = (*path, part)
            if path in counts:
                path = (*path, counts[path])
        return path

    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()  # every test below then takes time in proportion to the length of the line
        if (header := _header(line, "[[", "]]")) is not None:
            *parents, last = _parts(header)
            path = (*full(".".join(parents)), last) if parents else (last,)
            counts[path] = counts.get(path, -1) + 1
            table = (*path, counts[path])
        elif (header := _header(line, "[", "]")) is not None:
            table = full(header)
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
            continue
        else:
            continue
        found.setdefault(table, number)
    return found


def _header(line: str, opening: str, closing: str) -> str | None:
    """Return what is between the brackets of a line with a table header and no more than a comment, else None."""
    if not line.startswith(opening):
        return None
    inside, bracket, rest = line.removeprefix(opening).partition(closing)
    return inside if bracket and (not rest.strip() or rest.lstrip().startswith("#")) else None


def _parts(dotted: str) -> list[str]:
    return [part.strip().strip("\"'") for part in dotted.split(".")]


def yaml_lines(root: yaml.Node | None) -> tuple[dict[KeyPath, int], list[tuple[KeyPath, int]]]:
    """Return the line number of every key and entry of a YAML document, and the keys that appear twice."""
    found: dict[KeyPath, int] = {}
    twice: list[tuple[KeyPath, int]] = []

    def walk(node: yaml.Node | None, path: KeyPath) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                inner = (*path, str(key.value))
                if inner in found:
                    twice.append((inner, key.start_mark.line + 1))
                found[inner] = key.start_mark.line + 1
                walk(value, inner)
        elif isinstance(node, yaml.SequenceNode):
            for i, value in enumerate(node.value):
                found[(*path, i)] = value.start_mark.line + 1
                walk(value, (*path, i))

    walk(root, ())
    return found, twice


def line_of(lines: dict[KeyPath, int], path: tuple[Any, ...]) -> int | None:
    """Return the line number of the longest prefix of `path` that has one."""
    for length in range(len(path), 0, -1):
        if path[:length] in lines:
            return lines[path[:length]]
    return None
