"""What all baselines share: settings with two presets, full episodes of unit rewards, and saving of their models."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from matrixrl.algorithms.base import Arrays
from matrixrl.algorithms.finite import FiniteAlgorithm
from matrixrl.algorithms.possible import Shapes
from matrixrl.problems import Problem
from matrixrl.records import Steps
from matrixrl.settings import Settings, flag, one_of, optional, real, setting, whole

__all__ = ["NON_NEGATIVE", "POSITIVE", "PROBABILITY", "STEPS_AT_ONCE", "Baseline", "BaselineSettings", "Presets"]

Presets = Mapping[str, Mapping[str, Any]]
"""Values of settings by the name of a preset."""

POSITIVE = real(open_ends=True)
"""Check for a number above 0."""

NON_NEGATIVE = real()
"""Check for a number of at least 0."""

STEPS_AT_ONCE = 1 << 16
"""Number of steps of a log that a baseline adds at once, where it adds them up."""

PROBABILITY = real(high=1.0, open_ends=True)
"""Check for a probability strictly between 0 and 1."""


@dataclass(frozen=True)
class BaselineSettings(Settings):
    """Settings of every baseline."""

    preset: str = setting(
        "paper",
        'Named choice of constants: "paper" for those of the paper, "tuned" for those of docs/baselines.md.',
        one_of(("paper", "tuned")),
    )
    known_reward: bool | None = setting(
        None,
        "Whether the algorithm is given the rewards; otherwise it learns them. By default it learns them where the "
        "problem has none.",
        optional(flag),
    )
    n_episodes: int | None = setting(
        None,
        "Number of episodes N, used where the constants of the paper depend on it.",
        optional(whole(remedy="Give N or leave it out.")),
    )

    PRESETS: ClassVar[Presets] = {"paper": {}, "tuned": {}}


class Baseline(FiniteAlgorithm):
    """An algorithm of another paper.

    A subclass implements `begin`, `make_plan` and `learn_episode`.

    Attributes:
        learned_parts: Attributes that hold a model, with methods `arrays` and `restore`, which copies what it keeps;
            they are saved together with the arrays of `learned_names`.
        stages_are_proven: Whether what is proven holds for laws that depend on the stage.
    """

    settings_class = BaselineSettings
    learned_parts: ClassVar[tuple[str, ...]] = ()
    stages_are_proven: ClassVar[bool] = False

    @abstractmethod
    def learn_episode(self, steps: Steps) -> None:
        """Learn from one episode.

        Args:
            steps: H steps in each replica, whose rewards are in [0, 1], and 0 for a step that was not taken.
        """

    def departs(self) -> str | None:
        """Return, in words, how the problem departs from those of the proof of the paper; None if it does not."""
        if self.task.discount < 1.0:
            return "the proof of the paper is about rewards that are not discounted"
        if self.task.stages is not None and not self.stages_are_proven:
            return "the proof of the paper is about laws that all stages share"
        return None

    def learn(self, steps: Steps) -> None:
        """Learn from one episode of up to H steps, with rewards in the environment's unit."""
        full = steps.padded(self.task.horizon)
        self.learn_episode(replace(full, rewards=self.to_unit(full.rewards) * full.weights))

    def learned_shapes(self, problem: Problem, n_replicas: int) -> Shapes:
        """Return the shapes of what `learned` returns; subclasses add theirs."""
        del problem, n_replicas
        return {}

    def learned(self) -> Arrays:
        """Return what was learned, as named arrays."""
        arrays = super().learned()
        for part in self.learned_parts:
            arrays.update(getattr(self, part).arrays())
        return arrays

    def load_learned(self, arrays: Arrays) -> None:
        """Take back what `learned` returned; the shapes were checked."""
        for part in self.learned_parts:
            own = getattr(self, part)
            own.restore({name: arrays[name] for name in own.arrays()})
        super().load_learned(arrays)
