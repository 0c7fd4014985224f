"""Text files that a user wrote: limits before a parser sees them, and one kind of error."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from matrixrl.errors import SpecError

__all__ = ["parse_toml", "read_text"]

_LONGEST_KEY = 32  # parts of a dotted key; the parser of TOML takes quadratic time and memory in them
_PARTS = re.compile(r"""[\w"'-]+|\.|[^\w\s."'-]+""")


def read_text(path: Path, largest: int, what: str) -> str:
    """Return the text of a file.

    Args:
        path: The file.
        largest: Largest number of bytes.
        what: What the file is, for messages.

    Raises:
        SpecError: The file cannot be read, is larger, or is not text in UTF-8.
    """
    try:
        if path.stat().st_size > largest:
            raise SpecError(f"{path} is larger than {largest} bytes, the limit for {what}")
        return path.read_text(encoding="utf-8-sig")  # some editors write a byte order mark
    except UnicodeDecodeError as error:
        raise SpecError(f"{path} is not text in UTF-8 ({error.reason} at byte {error.start})") from error
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:  # a name with a null character
        raise SpecError(f"cannot read {str(path)!r}: {error}") from error


def parse_toml(source: str, text: str) -> dict[str, Any]:
    """Return the tables of a TOML file.

    Args:
        source: Name of the file in error messages.
        text: Its text.

    Raises:
        SpecError: It is not valid, nested too deeply, or has a number or a key that is too long.

    >>> parse_toml("spec.toml", "episodes = 5")
    {'episodes': 5}
    """
    for number, line in enumerate(text.splitlines(), start=1):
        if line.count(".") >= _LONGEST_KEY and _longest_key(line) > _LONGEST_KEY:
            raise SpecError(f"{source}:{number} has a key of more than {_LONGEST_KEY} parts; 3 are enough")
    try:
        return tomllib.loads(text)
    except RecursionError as error:
        raise SpecError(f"{source} is not valid TOML: its arrays or tables are nested too deeply") from error
    except ValueError as error:  # a number of thousands of digits is a plain ValueError
        raise SpecError(f"{source} is not valid TOML: {error}") from error


def _longest_key(line: str) -> int:
    """Return the largest number of words that dots join, a.b.c…, in a line."""
    longest, parts, joined = 0, 0, True
    for found in _PARTS.finditer(line):
        if found[0] == ".":
            joined = True
        else:
            parts, joined = parts + 1 if joined else 1, False
        longest = max(longest, parts)
    return longest
