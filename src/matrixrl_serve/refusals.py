"""Errors of data that pydantic refused, in the words of the library."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from matrixrl.checks import shown
from matrixrl.errors import InvalidInput

__all__ = ["refusal"]

_RULES = {
    "missing": "must be given",
    "extra_forbidden": "is not known",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "int_parsing": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be finite",
    "string_type": "must be text",
    "list_type": "must be a list",
    "dict_type": "must be a table of keys",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "json_invalid": "must be valid JSON",
}
_REMEDIES = {
    "missing": "Add it.",
    "extra_forbidden": "Remove it, or correct its name.",
    "json_invalid": "Send one JSON object.",
}


def refusal(error: ValidationError, whole: str, known: list[str] | None = None) -> InvalidInput:
    """Return the first thing that is wrong as an `InvalidInput` that names the argument, the rule and what to do.

    Args:
        error: What pydantic raised.
        whole: Name of the data as a whole.
        known: Names of the keys, for the advice about one that is not known.
    """
    first = error.errors(include_url=False, include_context=True)[0]
    kind = first["type"]
    argument = _path(first["loc"]) or whole
    rule = _RULES.get(kind) or _limits(kind, first.get("ctx", {}), first["msg"])
    received = "nothing" if kind == "missing" else shown(first["input"])
    remedy = _REMEDIES.get(kind, "Correct it.")
    if kind == "extra_forbidden" and known:
        remedy = f"Known are {', '.join(known)}."
    refused = InvalidInput(f"{argument} {rule}; got {received}. {remedy}")
    refused.argument = argument
    return refused


def _path(place: tuple[Any, ...]) -> str:
    """Return the place of a value, such as ``requests[3].state``; tags of alternatives are left out."""
    words = ""
    for part in place:
        if isinstance(part, int):
            words += f"[{part}]"
        elif not _is_tag(part):
            words += f".{part}" if words else part
    return words


def _is_tag(part: str) -> bool:
    """Say whether a part of a place is one that pydantic made up for one of several types."""
    return "[" in part or part in {"int", "float", "str", "bool", "constrained-str", "constrained-int"}


def _limits(kind: str, context: dict[str, Any], message: str) -> str:
    """Return the rule of a limit in words; pydantic's own words for any other kind."""
    for name, words in (("ge", "at least"), ("gt", "more than"), ("le", "at most"), ("lt", "less than")):
        if name in context:
            return f"must be {words} {context[name]}"
    if "max_length" in context:
        return f"must have at most {context['max_length']} entries or characters"
    if "min_length" in context:
        return f"must have at least {context['min_length']} entries or characters"
    if kind == "literal_error":
        return f"must be one of {context['expected']}"
    if kind == "string_pattern_mismatch":
        return f"must match {context['pattern']}"
    return f"is invalid ({message.rstrip('.')})"
