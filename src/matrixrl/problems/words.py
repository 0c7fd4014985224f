"""Tasks and MDPs in words and as tables."""

from __future__ import annotations

import numpy as np

from matrixrl.features import Features
from matrixrl.html_tables import Described
from matrixrl.problems.stages import Stages
from matrixrl.records import BoolArray, FloatArray

__all__ = ["TaskInWords"]


class TaskInWords(Described):
    """The sizes of a task in words, and what else there is to know about it."""

    horizon: int
    discount: float
    is_endless: bool
    end_is_added: bool
    knows_reward: bool
    reward_range: tuple[float, float]
    start: FloatArray
    end_state: int | None
    stages: Stages | None
    allowed: BoolArray | None
    features: Features

    @property
    def n_observed(self) -> int:
        """Number of states that can be observed."""
        raise NotImplementedError

    @property
    def n_own_actions(self) -> int:
        """Number of actions A that a user chooses from."""
        raise NotImplementedError

    @property
    def sizes_in_words(self) -> str:
        """Sizes, how laws depend on the stage, and how rewards are discounted."""
        end = " and the end state" * self.end_is_added
        words = f"{self.n_observed:,} states{end}, {self.n_own_actions:,} actions, {self.horizon:,} steps"
        if self.stages is not None:
            count = self.stages.n_classes
            each = "at every stage" if count == self.horizon else f"in {count} classes of stages"
            words += f", laws of their own {each}"
        if self.discount < 1.0:
            words += f", discount {self.discount:g}"
        if self.is_endless:
            words += f" forever: the steps that are cut off weigh {self.discount**self.horizon:.2g} of all"
        return words

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.sizes_in_words}"

    def _facts(self) -> dict[str, object]:
        low, high = self.reward_range
        starts = np.flatnonzero(self.start)
        facts: dict[str, object] = {
            "rewards": f"{low:g} to {high:g}" + ("" if self.knows_reward else ", to be learned"),
            "first state": int(starts[0]) if len(starts) == 1 else f"one of {len(starts):,}, at random",
        }
        if self.end_state is not None:
            facts["end state"] = self.end_state
        if self.allowed is not None:
            facts["allowed pairs"] = f"{np.count_nonzero(self.allowed):,} of {self.allowed.size:,}"
        return facts | {"features": self.features}
