"""UC-MatrixRL for a number of episodes N that is not known, by doubling (YW19, Section 3.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from matrixrl.algorithms.matrix_rl.algorithm import KeptPlan, UCMatrixRL
from matrixrl.algorithms.matrix_rl.claims import MatrixRLClaims
from matrixrl.algorithms.matrix_rl.settings import PRESETS, MatrixRLSettings
from matrixrl.checks import fail
from matrixrl.core import Clock
from matrixrl.interrupts import uninterrupted
from matrixrl.logs import StepLog
from matrixrl.problems.problem import Kind
from matrixrl.records import Steps
from matrixrl.settings import Settings, flag, one_of, setting

__all__ = ["DoublingMatrixRL", "DoublingSettings", "doubling_clock"]


@dataclass(frozen=True)
class DoublingSettings(MatrixRLSettings):
    """Settings of MatrixRL with doubling."""

    preset: str = setting("optimistic", "As in matrix-rl; the paper's plan by default.", one_of(PRESETS))
    keep_data: bool = setting(
        False, "Keep the data at each doubling of N, so that only N changes; the paper forgets them.", flag
    )

    def check_together(self) -> None:
        """Refuse sampled columns, and planning on the path."""
        if self.planner != "sweep":
            fail("planner", "must be 'sweep' with doubling", repr(self.planner), "Leave it out.")
        super().check_together()
        self.refuse_incumbent("doubling")
        if self.drift != "off":
            fail("drift", "must be 'off' with doubling", repr(self.drift), "Use MatrixRL.")
        if self.columns is not None:
            fail("columns", "must be left out with doubling", self.columns, "Leave it out.")


def doubling_clock(episode: int, *, keep_data: bool) -> Clock:
    """Return n, counted from 1 since the data begin, the N of its epoch, and the run, for the episode to come.

    Epochs have 2, 4, 8, … episodes. If data are forgotten, every epoch is a run with its own data and its own N, which
    has the part δ/(j(j + 1)) of δ; the parts of all runs add up to δ. If they are kept, all epochs are one run, N is
    the total number of episodes at the end of the epoch, and a radius that holds for all n at once has all of δ.

    >>> [tuple(doubling_clock(5, keep_data=keep))[:3] for keep in (False, True)]
    [(4, 4, 2), (6, 6, 0)]
    >>> [doubling_clock(n, keep_data=True).n_episodes for n in range(8)]
    [2, 2, 6, 6, 6, 6, 14, 14]
    """
    run = (episode // 2 + 1).bit_length()  # epoch j begins with episode 2^j − 2
    first = 2**run - 2
    if keep_data:
        return Clock(episode + 1, first + 2**run)
    return Clock(episode + 1 - first, 2**run, run)


class DoublingClaims(MatrixRLClaims):
    """What is proven about doubling: certificates, and optimism in every run."""

    def bound(self, n_episodes: int, *, delay: int = 0) -> float | None:
        """Return R(N) if data are kept: no explicit bound is proven for runs that forget them."""
        return super().bound(n_episodes, delay=delay) if self._algorithm.settings.keep_data else None


class DoublingMatrixRL(UCMatrixRL):
    """UC-MatrixRL with N = 2, 4, 8, … one after the other; the data are forgotten after each epoch (the paper's).

    >>> from matrixrl import run_seeds
    >>> run_seeds("river-swim", agent=DoublingMatrixRL(radius="theorem"), n_episodes=6, seeds=2).returns.shape
    (2, 6)
    """

    name = "doubling-matrix-rl"
    kinds: ClassVar[tuple[Kind, ...]] = ("finite",)
    settings_class: ClassVar[type[Settings]] = DoublingSettings
    settings: DoublingSettings
    _claims_class = DoublingClaims

    @property
    def clock(self) -> Clock:
        """Number n of the episode to come in its run, and N of the epoch."""
        return doubling_clock(self.episode, keep_data=self.settings.keep_data)

    def update(self, steps: Steps, plan: Any = None, *, n_episodes: int = 1) -> None:
        """Learn from one episode in each replica, and forget all data after the last one of an epoch."""
        with uninterrupted():
            super().update(steps, plan, n_episodes=n_episodes)
            if not self.settings.keep_data and self.clock.episode == 1:
                for model in self._models:
                    model.forget()
                self._rewards.forget()
                self.kept = KeptPlan()

    def update_from_log(self, log: StepLog) -> None:
        """Refuse to learn from logs if data are forgotten."""
        if not self.settings.keep_data:
            rule = "must be True to learn from a log: else its data would be forgotten"
            fail("keep_data", rule, False, "Make the agent with keep_data=True.")
        super().update_from_log(log)
