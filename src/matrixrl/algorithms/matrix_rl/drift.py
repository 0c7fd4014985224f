"""Changes of transition probabilities and of rewards: what was noticed, in words, and restarts (docs/proofs.md, 20)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from matrixrl.checks import shown
from matrixrl.core.drift import NAMES, ChangeEvidence
from matrixrl.core.models import CountModel, OutcomeModel
from matrixrl.errors import InvalidInput
from matrixrl.features import LatentPsi
from matrixrl.records import BoolArray, FloatArray, IntArray

if TYPE_CHECKING:
    from matrixrl.problems import Problem

__all__ = ["Change", "DriftWatch"]

_KINDS = ("laws", "rewards")
_LEVELS = 32  # parts of the range of rewards, to the ends of which rewards are rounded
_SHOWN = 3  # outcomes, or pairs, that are named in words


@dataclass(frozen=True, slots=True)
class Change:
    """A change of the problem that the data prove, unless the event of probability δ has happened.

    When it happened and by how much are estimates.

    Attributes:
        what: "transition probabilities", "probabilities of outcomes" (of known dynamics), "mean reward", or "mean
            reward above the least one" of pairs that have different ranges of rewards.
        pairs: States and actions that share what has changed, as users name them.
        since: Number of episodes that had been played before the change, estimated; 0 for one in a log.
        noticed: Number of episodes that had been played when it was noticed.
        before: Estimated probability of each outcome before the change, or mean reward, of rewards that are rounded to
            a 32nd of their range.
        after: The same after the change, until it was noticed.
        visits: Number of visits that these two are estimated from.
        words: All of it in one sentence.

    >>> Change("mean reward", ((0, 1),), 40, 60, 0.5, 0.1, (400.0, 90.0), "the mean reward of … changed")
    the mean reward of … changed
    """

    what: str
    pairs: tuple[tuple[Any, Any], ...]
    since: int
    noticed: int
    before: dict[Any, float] | float
    after: dict[Any, float] | float
    visits: tuple[float, float]
    words: str

    def __str__(self) -> str:
        return self.words

    __repr__ = __str__


class _Found(NamedTuple):
    """A change as numbers: kind, row, episodes before and at the alarm, and counts of outcomes."""

    kind: int
    row: int
    since: int
    noticed: int
    outcomes: IntArray
    before: FloatArray
    after: FloatArray


class DriftWatch:
    """Looks for changes in the data of one replica, and counts the runs of an agent that begins again.

    Args:
        problem: The problem.
        model: Model whose groups and outcomes are watched.
        delta: Probability δ with which anything may ever be found though nothing changes.
        restarts: Whether the agent begins again after a change.

    Attributes:
        run: Number of the run that the data belong to, counted from 1.
        is_due: Whether a change was found and the agent is to begin again.
        found: What was found, the oldest first.
    """

    def __init__(self, problem: Problem, model: CountModel, *, delta: float, restarts: bool) -> None:
        self._problem, self._groups, self._latent = problem, model.groups, model.psi
        self._is_outcome, self._learns_reward = isinstance(model, OutcomeModel), not model.context.known_reward
        self.restarts, self.is_due = restarts, False
        self.found: list[_Found] = []
        part = delta / (1 + self._learns_reward)
        self._evidence = [ChangeEvidence(model.n_rows, model.psi.d_psi, part)]
        if self._learns_reward:
            self._evidence.append(ChangeEvidence(model.n_rows, _LEVELS + 1, part))

    @property
    def run(self) -> int:
        """Number of the run that the data belong to, counted from 1."""
        return self._evidence[0].run

    @property
    def alarm(self) -> bool:
        """Whether data from before and after a change are used together."""
        return bool(self.found) and not self.restarts

    def add(self, rows: IntArray, outcomes: IntArray, rewards: FloatArray, weights: FloatArray, episode: int) -> None:
        """Add the steps of an episode, each (1, T), after so many played episodes, and note what has changed."""
        observed = [(rows, outcomes, weights)]
        if self._learns_reward:
            observed.append((rows, np.rint(_LEVELS * rewards).astype(np.int64), weights))
        n_before = len(self.found)
        for kind, (evidence, steps) in enumerate(zip(self._evidence, observed, strict=True)):
            for row, data, since, before in evidence.add(episode, *steps):
                outcomes_of = np.array(list(data.columns), dtype=np.int64)
                self.found.append(_Found(kind, row, since, episode, outcomes_of, before, data.total - before))
        self.is_due = self.is_due or (self.restarts and len(self.found) > n_before)

    def restart(self) -> None:
        """Begin the next run, without data."""
        self.is_due = False
        for evidence in self._evidence:
            evidence.forget()

    @property
    def changes(self) -> tuple[Change, ...]:
        """What has changed, the oldest first."""
        return tuple(self._change(one) for one in self.found)

    def words(self) -> str | None:
        """Return why data from before and after a change prove nothing together; None if they are not used together."""
        if not self.alarm:
            return None
        more = f", and {len(self.found) - 1} more (see agent.changes)" if len(self.found) > 1 else ""
        return f"{self._change(self.found[0]).words}{more} (or a δ event)"

    def _change(self, found: _Found) -> Change:
        n_before, n_after = float(found.before.sum()), float(found.after.sum())
        pairs, of_pairs = self._pairs(found.row)
        before: dict[Any, float] | float
        after: dict[Any, float] | float
        if _KINDS[found.kind] == "rewards":
            what, least, width = self._range(found.row)
            paid = least + width * found.outcomes / _LEVELS
            before, after = (float(paid @ part / part.sum()) for part in (found.before, found.after))
            by = f"{before:.4g} → {after:.4g}"
        else:
            what = "probabilities of outcomes" if self._is_outcome else "transition probabilities"
            names = [self._name(int(one)) for one in found.outcomes]
            of_each = found.before / n_before, found.after / n_after
            before, after = (dict(zip(names, part.tolist(), strict=True)) for part in of_each)
            by = self._differences(names, *of_each)
        when = "in the logs" if not found.noticed else f"after about episode {found.since:,}"
        noticed = f", noticed after episode {found.noticed:,}" if found.noticed else ""
        words = (
            f"the {what} of {of_pairs} changed {when}{noticed}: {by} "
            f"(estimated from {n_before:,.0f} and {n_after:,.0f} visits)"
        )
        return Change(what, pairs, found.since, found.noticed, before, after, (n_before, n_after), words)

    def _differences(self, names: list[Any], before: FloatArray, after: FloatArray) -> str:
        """Return the outcomes whose probabilities differ most, in words."""
        largest = np.argsort(-np.abs(after - before), kind="stable")[:_SHOWN]
        kind = "outcome" if self._is_outcome else "next state"
        words = [f"{kind} {shown(names[i])} {before[i]:.2f} → {after[i]:.2f}" for i in largest.tolist()]
        if self._is_outcome:  # outcomes are numbers
            values = np.array(names, dtype=np.float64)
            words.insert(0, f"mean outcome {before @ values:.4g} → {after @ values:.4g}")
        return ", ".join(words)

    def _name(self, outcome: int) -> Any:
        """Return an outcome as users name it."""
        problem = self._problem
        if self._is_outcome:
            assert problem.finite_task.dynamics is not None
            return problem.finite_task.dynamics.outcomes[outcome].item()
        if isinstance(self._latent, LatentPsi):
            return f"latent {outcome}"
        if problem.states is None or outcome >= problem.states.size:
            return "the end" if outcome == problem.finite_task.end_state else outcome
        return problem.states.decode(outcome)

    def _range(self, row: int) -> tuple[str, float, float]:
        """Return what is learned of the rewards of a group, in words, with its smallest value and its width."""
        task = self._problem.finite_task
        if task.reward_bounds is None:
            return "mean reward", task.reward_range[0], task.unit
        low, high = (side[self._own(row).T] for side in task.reward_bounds)
        width = float((high - low).max(initial=0.0))
        if np.ptp(low) > 0.0:
            return "mean reward above the least one", 0.0, width
        return "mean reward", float(low[0]), width

    def _own(self, row: int) -> BoolArray:
        """Return the allowed pairs of a group: (A, S)."""
        problem, task = self._problem, self._problem.finite_task
        is_own: BoolArray = self._groups == row
        if problem.allowed_by_action is not None:
            is_own = is_own & problem.allowed_by_action
        if task.end_state is not None:
            is_own[:, task.end_state] = False
        return is_own

    def _pairs(self, row: int) -> tuple[tuple[tuple[Any, Any], ...], str]:
        """Return the allowed pairs of a group as users name them, and in words."""
        problem, task = self._problem, self._problem.finite_task
        at = np.argwhere(self._own(row).T)
        decode = (lambda s: s) if problem.states is None else problem.states.decode
        pairs = tuple((decode(s), problem.env_action(a)) for s, a in at.tolist())
        each = []
        for s, a in at[:_SHOWN].tolist():
            stage = int(np.flatnonzero((task.choices[:, 0] <= a) & (a < task.choices[:, 1]))[0])
            each.append(f"{problem.place(s, stage)}, action {shown(problem.env_action(a))}")
        if len(pairs) == int(np.count_nonzero(self._groups >= 0)) or len(pairs) > _SHOWN:
            law = f"law {row}, which {len(pairs):,} pairs share," if self._is_outcome else ""
            return pairs, law or f"{each[0]} and {len(pairs) - 1:,} other pairs"
        return pairs, " and ".join(each)

    def state_dict(self) -> dict[str, NDArray[Any]]:
        """Return everything as named arrays, for saving."""
        arrays: dict[str, NDArray[Any]] = {
            f"drift_{kind}_{name}": array
            for kind, evidence in zip(_KINDS, self._evidence, strict=False)
            for name, array in evidence.arrays().items()
        }
        none = [np.zeros(0, dtype=np.int64)]
        numbers = [(*one[:4], len(one.outcomes)) for one in self.found]
        return arrays | {
            "drift_run": np.array([self.run, self.is_due], dtype=np.int64),
            "drift_found": np.array(numbers, dtype=np.int64).reshape(-1, 5),
            "drift_outcomes": np.concatenate(none + [one.outcomes for one in self.found]),
            "drift_counts": np.concatenate(
                [np.zeros(0), *(one.before for one in self.found), *(one.after for one in self.found)]
            ),
        }

    def load_state_dict(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take back what `state_dict` returned."""
        numbers, outcomes, counts = (arrays[f"drift_{name}"] for name in ("found", "outcomes", "counts"))
        run, is_due = arrays["drift_run"].tolist()
        lengths = numbers[:, 4]
        sizes = np.array([[one.n_rows, one.n_outcomes] for one in self._evidence])
        fits = (
            run >= 1
            and bool((numbers >= 0).all() and (lengths > 0).all() and (numbers[:, 0] < len(sizes)).all())
            and bool((numbers[:, 1] < sizes[numbers[:, 0], 0]).all())
            and len(outcomes) == lengths.sum()
            and len(counts) == 2 * lengths.sum()
            and bool(((outcomes >= 0) & (outcomes < np.repeat(sizes[numbers[:, 0], 1], lengths))).all())
        )
        if not fits:
            raise InvalidInput("the changes that were found must be those of this problem")
        cuts, half = np.cumsum(lengths)[:-1], len(outcomes)
        of_each = (np.split(part.copy(), cuts) for part in (outcomes, counts[:half], counts[half:]))
        self.found = [_Found(*one[:4], *own) for one, *own in zip(numbers.tolist(), *of_each, strict=False)]
        self.is_due = bool(is_due)
        for kind, evidence in zip(_KINDS, self._evidence, strict=False):
            evidence.restore({name: arrays[f"drift_{kind}_{name}"] for name in NAMES})
            evidence.run = run
