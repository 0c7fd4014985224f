"""What both forms of UC-MatrixRL share: settings, doubling, rare switching, what is proven."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from matrixrl.algorithms.base import Algorithm
from matrixrl.algorithms.matrix_rl.doubling import clock_of, restarts
from matrixrl.algorithms.matrix_rl.given_rewards import GivenRewards
from matrixrl.algorithms.matrix_rl.settings import MatrixRLSettings
from matrixrl.checks import fail
from matrixrl.core import Clock
from matrixrl.core.bounds import a_priori_bound
from matrixrl.core.embedding import refuted_assumption
from matrixrl.html_tables import confidence
from matrixrl.problems import Problem, Task
from matrixrl.records import BoolArray, FloatArray, Steps
from matrixrl.settings import Settings

__all__ = ["MatrixRLLearner"]

_NUMBERS = 1 << 24  # that are made of the steps of a log at once: 128 MB


class MatrixRLLearner(Algorithm):
    """Plans when det A_n has grown enough, forgets data where doubling restarts, and can certify its policy.

    Attributes:
        data_names: Attributes that `forget` replaces.
    """

    data_names: ClassVar[tuple[str, ...]] = ("design", "cross_moment", "reward_moment")

    overlap_is_proven: ClassVar[bool] = True  # docs/proofs.md, sections 3 and 7
    settings_class: ClassVar[type[Settings]] = MatrixRLSettings
    settings: MatrixRLSettings

    @abstractmethod
    def forget(self) -> None:
        """Start without data (Algorithm 1, line 4)."""

    @abstractmethod
    def logdets(self) -> FloatArray:
        """Return ln det(A_n / λ) of every replica: (B,)."""

    def sizes(self) -> FloatArray:
        """Return how much data there is: (B,) ln det(A_n / λ), or (B, m) numbers of which the growth of any counts."""
        return self.logdets()

    def has_grown(self, sizes: FloatArray, kept: FloatArray) -> BoolArray:
        """Return which sizes grew by 1 + κ since the last plan; `kept` is -∞ where there is none.

        Args:
            sizes: Sizes of the data, as `sizes` returns them.
            kept: Sizes at the last plan, of the same shape.
        """
        return sizes >= kept + math.log1p(self.settings.switch_growth)

    @property
    @abstractmethod
    def confidence(self) -> Any:
        """Set, radius and shares of δ; of the first replica, where each has its own."""

    @property
    def clock(self) -> Clock:
        """Number n of the episode to come, and N if it is known."""
        return clock_of(self.episode, self.settings.doubling, self.settings.n_episodes)

    def begin(self) -> None:
        """Start without a plan."""
        self.kept: Any = None
        """The plan that is being played."""
        self._kept_sizes: FloatArray = np.full(self.n_replicas, -np.inf)
        self._refutation: tuple[str | None] | None = None  # computed when a claim is asked for
        self.watch_given_rewards()

    def watch_given_rewards(self, *, may_watch: bool = True) -> None:
        """Start to compare observed rewards with given ones, where a user gave them without a transition table."""
        self.given = GivenRewards(
            self.problem,
            self.n_replicas,
            delta=self.delta,
            known_reward=bool(self.settings.known_reward),
            may_watch=may_watch,
        )
        """What observed rewards say about given ones."""

    def due(self) -> BoolArray:
        """Return which replicas plan again: those whose data grew by 1 + κ since their last plan: (B,).

        The size of the data is det A_n, or for counts the number of visits of any group.

        YW19 plans before every episode, κ = 0; Abbasi-Yadkori et al. 2011, section 5.1, bound the cost of κ > 0 by a
        factor √(1 + κ) of the widths.
        """
        if restarts(self.episode, self.settings.doubling):
            self.forget()
            self._kept_sizes = np.full(self.n_replicas, -np.inf)
        if self.settings.switch_growth == 0.0:
            return np.ones(self.n_replicas, dtype=np.bool_)
        due = self.grew()
        if due.any():
            sizes, (now, kept) = self.sizes(), self._now_and_kept()
            self._kept_sizes = np.where(due[:, None], now, kept).reshape(sizes.shape)
        return due

    def grew(self) -> BoolArray:
        """Return in which replicas some size of the data grew by 1 + κ since the last plan: (B,)."""
        grown: BoolArray = np.any(self.has_grown(*self._now_and_kept()), axis=1)
        return grown

    def _now_and_kept(self) -> tuple[FloatArray, FloatArray]:
        """Return the sizes of the data now and at the last plan, each (B, m)."""
        n = self.n_replicas
        now, kept = np.broadcast_arrays(self.sizes().reshape(n, -1), self._kept_sizes.reshape(n, -1))
        return now, kept

    def update(self, steps: Steps, plan: Any = None, *, n_episodes: int = 1) -> None:
        """Learn from one episode in each replica, or from several of a log.

        Data are forgotten before the first episode of an epoch that is learned from, also if no plan was made since the
        last epoch ended, because several episodes were open.
        """
        if restarts(self.episode, self.settings.doubling):
            if (self.logdets() > 0.0).any():  # no plan was made in the new epoch: the next one is due
                self._kept_sizes = np.full(self.n_replicas, -np.inf)
            self.forget()
        super().update(steps, plan, n_episodes=n_episodes)

    def undo(self, state: Mapping[str, NDArray[Any]], problem: Problem) -> None:
        """Go back to a state, with given rewards in the units that they had then."""
        if self.problem is not problem:
            self.given.rescale(problem)
        super().undo(state, problem)

    @property
    def steps_at_once(self) -> int:
        """Return a number of steps whose features take little memory: steps are added up."""
        return 1 if self.is_own else max(1, _NUMBERS // self.numbers_per_step)

    @property
    def numbers_per_step(self) -> int:
        """Number of numbers that `learn` makes of one step, at most: φ of every action, and ψ."""
        d, d_psi = self.problem.dimensions
        return 8 + self.problem.task.n_actions * d + d_psi

    def check_log(self) -> None:
        """Refuse to learn from logs if data are forgotten."""
        if self.settings.doubling == "restart":
            rule = "must be 'off' or 'keep' to learn from a log, as 'restart' forgets data"
            fail("doubling", rule, repr(self.settings.doubling), "Make the agent with doubling='keep'.")

    @property
    def log_guarantee(self) -> Literal[True]:
        """True: radii hold for all data, and a log only makes widths smaller (docs/proofs.md, section 14)."""
        return True

    def planning_memory(self) -> tuple[Any, ...]:
        """Return the plan that is played, the determinant it was made at, and the data, which a new epoch forgets."""
        return self.kept, self._kept_sizes, [getattr(self, name) for name in self.data_names]

    def restore_planning_memory(self, memory: tuple[Any, ...]) -> None:
        """Take back what `planning_memory` returned."""
        self.kept, self._kept_sizes, data = memory
        for name, value in zip(self.data_names, data, strict=True):
            setattr(self, name, value)

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the regret bound is proven for these settings, else why not."""
        words = self.proof
        if words is True and self.settings.explore_for == "certificate":
            return "explore_for='certificate': episodes are played to certify a policy, not to earn"
        return words

    @property
    def proof(self) -> Literal[True] | str:
        """True if `charged_bound` and the gaps of what is played bound regret (docs/proofs.md, 7.1), else why not."""
        if self.is_own:
            return f"{type(self).__name__} is a subclass of {self.name}, and the proof is not about its methods"
        claim = self.given.words() or self.confidence.guarantee
        return self.refutation() or self.rounding_words(regret=True) or True if claim is True else claim

    def rounding_words(self, *, regret: bool = False) -> str | None:
        """Return, in words, that rounding errors may matter; None if they are small, or bounds allow for them.

        Args:
            regret: Whether it is about the regret bound, which does not allow for them.
        """
        del regret
        return None

    @property
    def assumptions(self) -> str:
        """Assumptions of `guarantee` and of certificates, in words (docs/proofs.md, sections 3 to 6)."""
        if self.guarantee is not True and self.certificate_guarantee(False) is not True:
            return ""
        rewards = "" if not self.settings.known_reward else "the given rewards are the expected ones; "
        if self.confidence.watches_rewards:
            rewards = "learned rewards, mapped to [0, 1], have the mean φᵀθ* for some θ*; "
        return (
            f"with probability {confidence(self.delta)}, for all episodes at once, if P(s'|s,a) = φᵀM*ψ(s') for some "
            "M*; "
            f"{rewards}episodes are learned from in the order in which they were begun, all steps of each, and none is "
            "left out for what was observed in it; no action, and no decision to end an episode, depends on what was "
            "observed in episodes begun later"
        )

    def refutation(self) -> str | None:
        """Return why the assumptions are false where P and R are known, in words; None if they hold or are not known.

        Only what is claimed depends on it; what is learned does not.
        """
        if self._refutation is None:
            mdp, features = self.problem.mdp, self.problem.features
            if mdp is None or features is None:
                self._refutation = (None,)
            else:
                reward = mdp.task.unit_reward if self.confidence.watches_rewards else None
                self._refutation = (refuted_assumption(mdp.transitions, reward, features, mdp.allowed),)
        return self._refutation[0]

    def note_refutation(self, words: str) -> None:
        """Remember that the assumptions were refuted, by a saved agent that knew P and R."""
        self._refutation = (words,)

    @property
    def reward_words(self) -> str | None:
        """Why bounds do not hold as they are, as observed rewards say: outside the range, or not as given."""
        return super().reward_words or self.given.words()

    def alarm_words(self, first_alarm: str) -> str:
        """Return why nothing is proven after a misspecification alarm."""
        refuted = self.given.words()
        if refuted is not None:
            return refuted
        what = "P or the rewards" if self.confidence.watches_rewards else "P"
        return f"{first_alarm}: the features cannot represent {what} (or a δ event)"

    def regret_bound(self, n_episodes: int) -> float | None:
        """Return a number that the regret of N episodes exceeds with probability at most 2δ, known before any data.

        The radii may fail with probability δ, and as much is allowed for chance along the played steps
        (docs/proofs.md, section 7). It is in unit rewards, and None if no such bound is proven for these settings.
        With logs it is the bound for N and the logged episodes together (section 14).
        """
        return self.charged_bound(n_episodes) if self.guarantee is True else None

    def charged_bound(self, n_episodes: int, *, delay: int = 0) -> float | None:
        """Return R(N): the regret of N episodes is at most R(N) and the gaps of what was played (docs/proofs.md, 7.1).

        It may fail with probability 2δ, as `regret_bound`, which it is where the agent's own actions are played one
        episode after the other.

        Args:
            n_episodes: Number of episodes N.
            delay: Largest number of earlier episodes that a plan did not know of; 0 if no episodes overlap.
        """
        if self.proof is not True or self.settings.doubling == "restart":
            return None
        bound = self._bound_before_data(n_episodes + self.logged_episodes, delay)
        tail = self.problem.task.tail if isinstance(self.problem.task, Task) else 0.0
        return None if bound is None else bound + n_episodes * tail

    def _bound_before_data(self, n_episodes: int, delay: int) -> float | None:
        """Return the bound of docs/proofs.md, section 7, for played and logged episodes together."""
        return a_priori_bound(
            self.confidence,
            n_episodes=n_episodes,
            switch_growth=self.settings.switch_growth,
            path_delta=self.delta,
            delay=delay,
        )

    @property
    def is_own(self) -> bool:
        """Whether this is a user's own subclass, about which nothing is proven and which is not compiled."""
        return not type(self).__module__.startswith("matrixrl.")

    @property
    def certifies(self) -> bool:
        """Both forms bound V* and the value of their policy."""
        return True

    def certificate_guarantee(self, alarmed: bool) -> Literal[True] | str:
        """True if a certificate holds with probability 1 − δ at all times, else why not."""
        if self.is_own:
            return f"{type(self).__name__} is a subclass of {self.name}, and the proof is not about its methods"
        if alarmed:
            return MatrixRLLearner.alarm_words(self, "misspecification alarm")
        claim = self.given.words() or self.confidence.certificate_guarantee
        return self.refutation() or self.rounding_words() or True if claim is True else claim
