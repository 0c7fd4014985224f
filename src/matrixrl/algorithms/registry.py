"""Algorithms by name, as objects, or by reference to a user's own class."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from matrixrl.algorithms.base import Algorithm
from matrixrl.algorithms.matrix_rl.kernel import DefaultStarter, KindStarter, Startable
from matrixrl.checks import choice, fail, shown
from matrixrl.core import ConfidenceSet, Radius
from matrixrl.errors import InvalidInput
from matrixrl.references import code_of, is_reference, load_reference
from matrixrl.settings import Settings

__all__ = [
    "OBJECT_SETTINGS",
    "algorithm_class",
    "known_reward",
    "make_algorithm",
    "saved_class",
    "setting_names",
    "split_features",
    "with_objects",
]

_OBJECT_CLASSES: dict[str, type[Any]] = {"set": ConfidenceSet, "radius": Radius}
_FEATURE_SETTINGS = ("phi", "psi", "psi_pinv")
OBJECT_SETTINGS = ("set", "radius", "kernel", "transformer", "k_phi", "k_psi", "points")
"""Settings that may be objects, which no file holds."""


def make_algorithm(
    agent: str | Startable | type[Startable] | None,
    settings: Mapping[str, Any] | None = None,
    *,
    trust_code: bool = False,
) -> Startable:
    """Return an algorithm that is not started yet.

    Args:
        agent: A name of `ALGORITHMS`, an algorithm, its class, or ``package.module:Name`` of one; None chooses
            MatrixRL, or KernelControl for vectors.
        settings: Settings for a name or a class; an algorithm has its own.
        trust_code: Whether text may import code.

    >>> make_algorithm("psrl", {"preset": "tuned"}).settings.prior
    0.5
    """
    given = with_objects(settings or {}, trust_code=trust_code)
    if isinstance(agent, Startable):
        if given:
            rule = "must be left out for an agent that is already made"
            fail(next(iter(given)), rule, sorted(given), "Make it with them.")
        return copy.deepcopy(agent)
    made = DefaultStarter if agent is None else algorithm_class(agent, trust_code=trust_code)
    try:
        return made(**given)
    except TypeError as error:
        raise InvalidInput(f"agent {agent!r} cannot be made with settings {sorted(given)} ({error})") from error


def algorithm_class(agent: str | type[Startable], *, trust_code: bool = False) -> type[Startable]:
    """Return the class that a name or a reference stands for."""
    found: Any = load_reference("agent", str(agent), trust_code=trust_code) if is_reference(agent) else agent
    if not isinstance(found, type) or not issubclass(found, Startable):
        from matrixrl.algorithms.named import ALGORITHMS  # imports all algorithms

        if isinstance(agent, str) and found is agent:
            return ALGORITHMS[choice("agent", agent, ALGORITHMS)]
        name = getattr(found, "name", None)
        if isinstance(found, type) and name in ALGORITHMS:
            return ALGORITHMS[name]  # an agent class stands for its algorithm
        rule = "must be a name, an algorithm or a subclass of matrixrl.algorithms.Algorithm"
        fail("agent", rule, shown(agent), "See matrixrl list agents.")
    return found


def known_reward(unstarted: Startable) -> bool | None:
    """Return whether an agent is given the rewards; None if it learns them only where the problem has none."""
    if isinstance(unstarted, KindStarter):
        return unstarted.settings.get("known_reward")
    given: bool | None = getattr(unstarted.settings, "known_reward", True)
    return given


def setting_names(agent: Any) -> set[str]:
    """Return the names of all settings of an algorithm, a name or a class; no names for what is none of them."""
    kind = DefaultStarter if agent is None else agent
    if isinstance(agent, str):
        from matrixrl.algorithms.named import ALGORITHMS  # imports all algorithms

        kind = ALGORITHMS.get(agent)
    return {name for form in _forms_of(kind) for name in getattr(form, "settings_class", Settings).names()}


def _forms_of(kind: Any) -> Iterable[Any]:
    """Return the algorithms that an unstarted agent, or its class, may become."""
    is_choice = isinstance(kind, KindStarter) or (isinstance(kind, type) and issubclass(kind, KindStarter))
    return kind.forms().values() if is_choice else [kind]


def saved_class(code: str) -> type[Algorithm] | None:
    """Return the class of the library that a file names as ``package.module:Name``, or None for a user's own."""
    from matrixrl.algorithms.named import ALGORITHMS  # imports all algorithms

    forms = (form for kind in ALGORITHMS.values() for form in _forms_of(kind))
    return next((form for form in forms if code_of(form) == code), None)


def with_objects(settings: Mapping[str, Any], *, trust_code: bool) -> dict[str, Any]:
    """Return settings in which references ``package.module:Name`` became objects: classes are called without arguments.

    Text may import code only if `trust_code` says so.
    """
    made = dict(settings)
    for name in OBJECT_SETTINGS:
        value = made.get(name)
        if is_reference(value):
            found = load_reference(name, str(value), trust_code=trust_code)
            made[name] = _instance(name, str(value), found) if isinstance(found, type) else found
    return made


def split_features(settings: Mapping[str, Any] | None, *, trust_code: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide the settings of a spec into those of the algorithm and the feature maps `phi`, `psi` and `psi_pinv`."""
    rest, maps = dict(settings or {}), {}
    for name in _FEATURE_SETTINGS:
        if name in rest:
            value = rest.pop(name)
            maps[name] = load_reference(name, value, trust_code=trust_code) if is_reference(value) else value
    return rest, maps


def _instance(name: str, reference: str, found: type[Any]) -> Any:
    """Return an object of a class that a setting refers to."""
    wanted = _OBJECT_CLASSES.get(name, object)
    if not issubclass(found, wanted):
        fail(name, f"must be a subclass of {wanted.__name__}, or an object of one", repr(reference), "Subclass it.")
    try:
        return found()
    except TypeError as error:
        remedy = "Refer to an object instead, such as one made at the end of its module."
        raise InvalidInput(f"{name} {reference!r} cannot be made without arguments ({error}). {remedy}") from error
