"""An algorithm before it knows its problem: its name, its settings, and what a saved one is compared with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from matrixrl.problems import ContinuousTask, Problem
from matrixrl.references import describe
from matrixrl.settings import Settings, describe_settings, plain_value

if TYPE_CHECKING:
    from matrixrl.algorithms.base import Algorithm

__all__ = ["Configured", "Startable"]


class Startable(ABC):
    """An algorithm with its settings, before it knows its problem.

    Attributes:
        name: Name on the command line and in specs.
    """

    name: ClassVar[str] = "own agent"

    @abstractmethod
    def form_for(self, problem: Problem) -> Algorithm:
        """Return the algorithm that plays a problem, not started."""

    @abstractmethod
    def start(self, problem: Problem, seeds: Sequence[int]) -> Algorithm:
        """Return the algorithm, ready to play a problem with one replica for each seed."""

    @property
    def known_reward(self) -> bool | None:
        """Whether the agent is given the rewards; None if it learns them only where the problem has none."""
        return True

    def announce(self, n_episodes: int) -> None:  # noqa: B027  # most constants do not depend on N
        """Tell how many episodes will be played; an algorithm whose constants depend on N may use it."""


class Configured(Startable):
    """A startable algorithm whose settings are declared by a class.

    Attributes:
        settings_class: Declaration of its settings.
        settings: Its settings.
    """

    settings_class: ClassVar[type[Settings]] = Settings
    settings: Any = None

    def __init__(self, **settings: Any) -> None:
        self.settings = self.settings_class.resolve(settings)

    @property
    def known_reward(self) -> bool | None:
        """Whether the agent is given the rewards, as its setting says; None if the problem decides."""
        given = getattr(getattr(self, "settings", None), "known_reward", True)
        return None if given is None else bool(given)

    def decide_rewards(self, problem: Problem) -> None:
        """Replace the setting `known_reward`, if it was left to the problem, by whether the problem has rewards."""
        if self.known_reward is None:
            knows = isinstance(problem.task, ContinuousTask) or problem.task.knows_reward
            self.settings = replace(self.settings, known_reward=knows)

    def __repr__(self) -> str:
        settings = getattr(self, "settings", None)
        if not isinstance(settings, Settings):
            return f"{type(self).__name__}()"
        given = [
            f"{name}={getattr(settings, name)!r}"
            for name, value, _ in describe_settings(type(settings))
            if getattr(settings, name) != value
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def announce(self, n_episodes: int) -> None:
        """Set the setting `n_episodes`, if there is one and it was not given."""
        settings = getattr(self, "settings", None)
        if isinstance(settings, Settings) and "n_episodes" in settings.names() and settings.n_episodes is None:  # type: ignore[attr-defined]
            self.settings = replace(settings, n_episodes=n_episodes)  # type: ignore[call-arg]

    def _recipe(self) -> dict[str, Any]:
        """Return what a saved algorithm is compared with; before the start, as attributes change later."""
        own = vars(self)
        if "recipe" in own:
            return dict(own["recipe"])
        settings = own.get("settings")
        objects: dict[str, Any] = {}
        if isinstance(settings, Settings):
            left_out = getattr(settings, "IN_FEATURES", ())
            values = {name: getattr(settings, name) for name in settings.names() if name not in left_out}
            objects = {name: describe(value) for name, value in values.items() if plain_value(value) is not value}
        attributes = {name: describe(value) for name, value in own.items() if name != "settings"}
        return {"objects": objects, "attributes": attributes}
