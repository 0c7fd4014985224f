"""Events, states and actions in words; names are those of users, so pages that show them must escape them."""

from __future__ import annotations

from typing import Any

from matrixrl.display import in_digits
from matrixrl_serve.log import Event
from matrixrl_serve.problem import ServedProblem

__all__ = ["event_row", "label"]


def label(element: Any) -> str:
    """Return a state or an action as text.

    >>> label({"stock": 3, "day": "mon"}), label(3), label("wait")
    ('stock 3, day mon', '3', 'wait')
    """
    if isinstance(element, dict):
        return ", ".join(f"{name} {part}" for name, part in element.items())
    return str(element)


def event_row(event: Event, problem: ServedProblem) -> dict[str, Any]:
    """Return an event as plain data with a sentence about it."""
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "actor": event.actor,
        "episode": event.episode,
        "words": _WORDS.get(event.kind, _closed)(event, event.body, problem),
    }


def _created(_: Event, body: dict[str, Any], problem: ServedProblem) -> str:
    return f"service of {problem.file.name}, matrixrl {body['library']}"


def _opened(_: Event, body: dict[str, Any], __: ServedProblem) -> str:
    whose = {"plan": "its optimistic plan", "recommended": "the recommended policy", "incumbent": "the incumbent"}
    return f"plan {body['plan']}, {body['mode']}: follows {whose[body['follows']]}"


def _asked(event: Event, body: dict[str, Any], problem: ServedProblem) -> str:
    state = label(problem.states.decode(body["state"]))
    action = "the application decides" if body["action"] is None else label(problem.actions.decode(body["action"]))
    advised = body.get("advised")
    advice = "" if advised is None else f" (advised: {label(problem.actions.decode(advised))})"
    return f"step {event.step}, state {state}: {action}{advice}"


def _told(event: Event, body: dict[str, Any], problem: ServedProblem) -> str:
    state, action = label(problem.states.decode(body["state"])), label(problem.actions.decode(body["action"]))
    following = "the end" if body["next"] is None else f"state {label(problem.states.decode(body['next']))}"
    return f"step {event.step}, state {state}: {action} earned {in_digits(body['reward'])}, then {following}"


def _planned(_: Event, body: dict[str, Any], __: ServedProblem) -> str:
    shown = body["certificate"]
    bounds = f"{in_digits(shown['lower'])} to {in_digits(shown['upper'])}"
    return f"plan {body['plan']} from {body['episodes']} episodes: {bounds}"


def _mode(_: Event, body: dict[str, Any], __: ServedProblem) -> str:
    return f"from {body['from']} to {body['to']}: {body['reason']}"


def _alarm(_: Event, body: dict[str, Any], __: ServedProblem) -> str:
    return str(body["words"])


def _token(_: Event, body: dict[str, Any], __: ServedProblem) -> str:
    return f"{body['name']} ({', '.join(body['scopes'])}) was {body['what']}"


def _closed(_: Event, body: dict[str, Any], __: ServedProblem) -> str:
    reasons = {"complete": "after its last step", "request": "on request", "time_out": "no outcome in time"}
    return reasons[body["reason"]]


_WORDS = {
    "created": _created,
    "opened": _opened,
    "asked": _asked,
    "told": _told,
    "planned": _planned,
    "mode": _mode,
    "alarm": _alarm,
    "token": _token,
}
