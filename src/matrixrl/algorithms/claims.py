"""What is proven about an algorithm on its problem, and what data or the environment withdrew."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from matrixrl.core.start import START_SHARE
from matrixrl.problems import Task
from matrixrl.records import Guarantee

if TYPE_CHECKING:
    from matrixrl.algorithms.base import Algorithm

__all__ = ["Claims"]


class Claims:
    """What is proven about a started algorithm; that of an algorithm which proves at most what it declares.

    Attributes:
        overlap_is_proven: Whether `guarantee` also holds for episodes that are planned before earlier ones were learned
            from.
        certifies: Whether the algorithm can bound V* and the value of its policy.
    """

    overlap_is_proven: ClassVar[bool] = False
    certifies: ClassVar[bool] = False

    def __init__(self, algorithm: Algorithm) -> None:
        self._algorithm = algorithm

    @property
    def delta(self) -> float:
        """The probability with which bounds may fail, where there are any."""
        return float(getattr(self._algorithm.settings, "delta", 0.0))

    @property
    def run_delta(self) -> float:
        """Part of δ of the run that the data belong to, if data are forgotten after a change; else δ."""
        return self.delta

    @property
    def model_delta(self) -> float:
        """δ without the part for the distribution of first states, which there is where none is declared."""
        task = self._algorithm.problem.task
        estimated = isinstance(task, Task) and not task.start_is_declared
        return self.run_delta - (START_SHARE * self.run_delta if estimated else 0.0)

    @property
    def returns_delta(self) -> float:
        """Part of δ for bounds from the returns of frozen policies; 0 if there are none."""
        return 0.0

    @property
    def guarantee(self) -> Guarantee:
        """Whether a regret bound is proven for these settings."""
        return Guarantee(False, f"{self._algorithm.name} has no proof here")

    @property
    def assumptions(self) -> str:
        """Assumptions of `guarantee` and of certificates, in words; empty if nothing is proven."""
        return ""

    def refutation(self) -> str | None:
        """Return why the assumptions are false where P and R are known, in words; else None."""
        return None

    def note_refutation(self, words: str) -> None:  # most algorithms claim nothing that could be refuted
        """Remember that the assumptions were refuted, by a saved agent that knew P and R."""

    @property
    def withdrawn(self) -> str | None:
        """Why bounds do not hold as they are, as observed rewards say; else None."""
        (count, first), given = self._algorithm._outside, self._algorithm.problem.task.reward_range
        if not count or given is None:
            return None
        what = "1 reward" if count == 1 else f"{count} rewards"
        return (
            f"{what} outside the declared range [{given[0]:g}, {given[1]:g}] (the first in episode {first}) "
            f"{'was' if count == 1 else 'were'} clipped: the bounds hold for the clipped rewards, not for those earned"
        )

    @property
    def regret(self) -> Guarantee:
        """`guarantee` of the algorithm, or why data or masks that the environment reported withdrew it."""
        return self._unless_withdrawn(Guarantee.of(self._algorithm))

    @property
    def charged_regret(self) -> Guarantee:
        """Whether `bound`, to which the gaps of what is played are added, is proven to bound regret."""
        return self.regret

    def _unless_withdrawn(self, claim: Guarantee) -> Guarantee:
        return Guarantee.unless(self.withdrawn) and claim and Guarantee.unless(self._algorithm.masks.regret_words())

    def bound(self, n_episodes: int, *, delay: int = 0) -> float | None:
        """Return R(N), to which the gaps of what is played are added, in unit rewards; None if none is proven.

        Args:
            n_episodes: Number of episodes N.
            delay: Largest number of earlier episodes that a plan did not know of; 0 if no episodes overlap.
        """
        del n_episodes, delay
        return None

    def after_logs(self) -> Guarantee:
        """Return whether the regret bound is also proven for episodes that are played after a log."""
        name, logged = self._algorithm.name, f"{self._algorithm.logged.episodes:,} logged episodes"
        return Guarantee(False, f"the proof is about what {name} played, and {logged} were added")

    def certificate(self, alarmed: bool) -> Guarantee:
        """Return whether a certificate is proven to hold with probability 1 − δ, or why data withdrew it.

        Args:
            alarmed: Whether the misspecification alarm was raised.
        """
        algorithm = self._algorithm
        is_new = algorithm.episode == algorithm.logged.episodes
        return (
            Guarantee.unless(self.withdrawn)
            and self._certificate(alarmed)
            and Guarantee.unless(algorithm.masks.certificate_words(is_new=is_new))
        )

    def _certificate(self, alarmed: bool) -> Guarantee:
        """Return whether a certificate is proven for these settings."""
        del alarmed
        return Guarantee(False, f"{self._algorithm.name} has no certificates")

    def alarm_words(self, first_alarm: str) -> str:
        """Return why nothing is proven after a misspecification alarm."""
        return f"{first_alarm}: the features cannot represent P (or a δ event)"
