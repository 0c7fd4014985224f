"""What is proven about UC-MatrixRL: regret bounds, certificates, and when they are withdrawn."""

from __future__ import annotations

from typing import Any

from matrixrl.algorithms.claims import Claims
from matrixrl.algorithms.plug_ins import is_plug_in
from matrixrl.core.embedding import refuted_assumption
from matrixrl.core.models import CountModel, OutcomeModel, RidgeModel
from matrixrl.core.sets import LikelihoodSet, MatrixSet, WeightedBall
from matrixrl.display import confidence
from matrixrl.features import Features
from matrixrl.problems import Task
from matrixrl.records import Guarantee

__all__ = ["MatrixRLClaims"]

_ORDER = (
    "episodes are learned from in the order in which they were begun, all steps of each, and none is left out for what "
    "was observed in it; no action, and no decision to end an episode, depends on what was observed in episodes begun "
    "later"
)


class MatrixRLClaims(Claims):
    """What is proven about a started UC-MatrixRL."""

    overlap_is_proven = True  # docs/proofs.md, sections 3 and 7
    certifies = True

    _algorithm: Any
    _refutation: tuple[str | None] | None = None  # computed when a claim is asked for

    @property
    def _model(self) -> Any:
        return self._algorithm.model

    @property
    def run_delta(self) -> float:
        """δ/(j(j + 1)) for the run j of an agent that begins again after a change (docs/proofs.md, 20)."""
        drift = getattr(self._algorithm, "drift", None)
        return self.delta if drift is None or not drift.restarts else self.delta / (drift.run * (drift.run + 1))

    @property
    def drift_words(self) -> str | None:
        """Why the assumption that nothing changes is refuted; None if it is not, or if the agent begins again."""
        drift = getattr(self._algorithm, "drift", None)
        return None if drift is None else drift.words()

    @property
    def _refuted_words(self) -> str | None:
        """Why given rewards, declared structure or that nothing changes are refuted; None if they are not."""
        words: str | None = self._algorithm._rewards.words() or self.drift_words
        if words is None and isinstance(self._model, CountModel) and self._model.declared is not None:
            return self._model.declared.words(self._algorithm.problem)
        return words

    @property
    def returns_delta(self) -> float:
        """Part of δ for bounds from the returns of frozen policies; 0 if there are none."""
        return float(self._model.confidence.returns_delta)

    @property
    def guarantee(self) -> Guarantee:
        """Whether the regret bound is proven for these settings."""
        if self._algorithm.settings.explore_for == "certificate":
            words = "explore_for='certificate': episodes are played to certify a policy, not to earn"
            return self._proof and Guarantee(False, words)
        if self._algorithm.settings.incumbent is not None:
            words = "incumbent=…: episodes that the loss budget does not pay for play it, and earn as much as it does"
            return self._proof and Guarantee(False, words)
        return self._proof

    @property
    def _proof(self) -> Guarantee:
        """Whether `bound` and the gaps of what is played are proven to bound regret (docs/proofs.md, 7.1)."""
        return (
            Guarantee.unless(self._own_words(), self._refuted_words)
            and self._model.confidence.guarantee
            and Guarantee.unless(self.refutation(), self._model.rounding_words(regret=True))
        )

    def _own_words(self) -> str | None:
        """Return why nothing is proven about a user's own subclass or model, or None."""
        algorithm = self._algorithm
        if is_plug_in(type(algorithm)):
            name = type(algorithm).__name__
            return f"{name} is a subclass of {algorithm.name}, and the proof is not about its methods"
        made_by = type(algorithm._set).make_model
        makers = MatrixSet.make_model, WeightedBall.make_model, LikelihoodSet.make_model
        if made_by in makers and type(algorithm.model) in (CountModel, OutcomeModel, RidgeModel):
            return None
        return f"{type(algorithm._set).__name__} makes a model of its own, and the proof is not about it"

    @property
    def charged_regret(self) -> Guarantee:
        """Whether `bound`, to which the gaps of what is played are added, is proven to bound regret."""
        return self._unless_withdrawn(self._proof)

    def bound(self, n_episodes: int, *, delay: int = 0) -> float | None:
        """Return R(N): the regret of N episodes is at most R(N) and the gaps of what was played (docs/proofs.md, 7.1).

        It may fail with probability 2δ, as `regret_bound`, which it is where the agent's own actions are played one
        episode after the other.

        Args:
            n_episodes: Number of episodes N.
            delay: Largest number of earlier episodes that a plan did not know of; 0 if no episodes overlap.
        """
        if not self._proof:
            return None
        both, growth = n_episodes + self._algorithm.logged.episodes, self._algorithm.settings.switch_growth
        region = self._model.confidence
        bound = region.regret_bound(both, switch_growth=growth, path_delta=self.run_delta, delay=delay)
        task = self._algorithm.problem.task
        tail = task.tail if isinstance(task, Task) else 0.0
        return None if bound is None else float(bound + n_episodes * tail)

    def regret_bound(self, n_episodes: int) -> float | None:
        """Return a number that the regret of N episodes exceeds with probability at most 2δ, known before any data.

        The radii may fail with probability δ, and as much is allowed for chance along the played steps
        (docs/proofs.md, section 7). It is in unit rewards, and None if no such bound is proven for these settings.
        With logs it is the bound for N and the logged episodes together (section 14).
        """
        if not self.guarantee:
            return None
        found, budget = self.bound(n_episodes), self._algorithm.budget
        if found is None or budget is None:
            return found
        # docs/proofs.md, 7.2: Λ <= α (Ω + H), and Ω is at most the surplus that R(N) allows for, twice that for balls
        both = n_episodes + self._algorithm.logged.episodes
        growth, ends = self._algorithm.settings.switch_growth, 1.0 if isinstance(self._model, CountModel) else 2.0
        if getattr(self._model.confidence, "deterministic", False):  # 9.9: H for each of the H steps of an episode
            ends = float(self._algorithm.frame.horizon)
        surplus = self._model.confidence.regret_bound(both, switch_growth=growth, path_delta=1.0)
        horizon, task = self._algorithm.frame.horizon, self._algorithm.task
        first = 0.0 if task.start_is_declared else horizon
        return float(found + budget.alpha * (ends * surplus + horizon) + first)

    def after_logs(self) -> Guarantee:
        """Radii hold for all data, and a log only makes widths smaller (docs/proofs.md, section 14)."""
        return Guarantee(True)

    @property
    def assumptions(self) -> str:
        """Assumptions of `guarantee` and of certificates, in words (docs/proofs.md, sections 3 to 6)."""
        if not self.guarantee and not self._certificate(False):
            return ""
        if isinstance(self._model, OutcomeModel):
            return self._words_of_dynamics
        structure = ""
        if isinstance(self._model, CountModel) and self._model.declared is not None:
            structure = f"the problem is as declared ({self._algorithm.problem.task.structure.words}); "
        laws = "P(s'|s,a) = φᵀM*ψ(s') for some M*"
        if isinstance(self._model, CountModel) and self._model.n_rows < self._model.groups.size:
            laws = "the pairs of a group, those with one feature φ, share their transition probabilities"
        rewards = "" if not self._algorithm.settings.known_reward else "the given rewards are the expected ones; "
        if self._model.confidence.watches_rewards:
            each = " by the range of their pair" * (self._algorithm.problem.task.reward_bounds is not None)
            rewards = f"learned rewards, mapped to [0, 1]{each}, have the mean φᵀθ* for some θ*; "
        return (
            f"with probability {confidence(self.delta)}, for all episodes at once, if {laws}; "
            f"{structure}{rewards}{_ORDER}"
        )

    @property
    def _words_of_dynamics(self) -> str:
        """Assumptions where dynamics are known (docs/proofs.md, section 19)."""
        return (
            f"with probability {confidence(self.delta)}, for all episodes at once, if every step leads where the given "
            "function of state, action and outcome says, and its outcome is drawn from the law of its state and action "
            "whatever came before; whether an outcome is reported where nothing depends on it follows from state and "
            f"action alone; {_ORDER}"
        )

    def refutation(self) -> str | None:
        """Return why the assumptions are false where P and R are known, in words; None if they hold or are not known.

        Only what is claimed depends on it; what is learned does not.
        """
        if self._refutation is None:
            mdp, features = self._algorithm.problem.mdp, self._algorithm.problem.features
            if mdp is None or features is None or isinstance(self._model, OutcomeModel):  # which made P itself
                self._refutation = (None,)
            else:
                if isinstance(self._model, CountModel):  # which relies on what follows from φ and ψ, not on all of it
                    features = Features(features.phi, self._model.psi)
                reward = mdp.task.mean_parts if self._model.confidence.watches_rewards else None
                self._refutation = (refuted_assumption(mdp.transitions, reward, features, mdp.allowed),)
        return self._refutation[0]

    def note_refutation(self, words: str) -> None:
        """Remember that the assumptions were refuted, by a saved agent that knew P and R."""
        self._refutation = (words,)

    @property
    def withdrawn(self) -> str | None:
        """Why bounds do not hold as they are, as observed rewards say: outside the range, or not as given."""
        return super().withdrawn or self._refuted_words

    def _certificate(self, alarmed: bool) -> Guarantee:
        """Return whether a certificate is proven to hold with probability 1 − δ at all times."""
        alarm = MatrixRLClaims.alarm_words(self, "misspecification alarm") if alarmed else None
        return (
            Guarantee.unless(self._own_words(), alarm, self._refuted_words)
            and self._model.confidence.certificate_guarantee
            and Guarantee.unless(self.refutation(), self._model.rounding_words(regret=False))
        )

    def alarm_words(self, first_alarm: str) -> str:
        """Return why nothing is proven after a misspecification alarm."""
        refuted = self._refuted_words
        if refuted is not None:
            return refuted
        if isinstance(self._model, OutcomeModel):
            return f"{first_alarm}: pairs that were declared to share a law of outcomes do not (or a δ event)"
        what = "P or the rewards" if self._model.confidence.watches_rewards else "P"
        return f"{first_alarm}: the features cannot represent {what} (or a δ event)"
