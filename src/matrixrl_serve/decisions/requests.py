"""Answers to requests from memory; what happened is appended to the log."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, TypeVar

import numpy as np

from matrixrl.checks import choice, fail
from matrixrl_serve.decisions.answers import ActionBounds, Answer, Closed, Opened, Recorded
from matrixrl_serve.decisions.checks import check_state, checked_outcome, step_to_ask, step_to_tell
from matrixrl_serve.decisions.decision import decide, followed, narrowed
from matrixrl_serve.decisions.memory import EpisodeMemory
from matrixrl_serve.errors import Conflict, NotFound
from matrixrl_serve.learner import Publication
from matrixrl_serve.learner.outcomes import is_declared
from matrixrl_serve.log import Draft, Event, EventLog, Kind, Writer
from matrixrl_serve.problem import MODES, Mode, ServedProblem
from matrixrl_serve.projection import Asked, EpisodeState, Projection, Told

__all__ = ["Decisions"]

Repeated = TypeVar("Repeated", Opened, Answer, Recorded, Closed)
_LONGEST_TICK = 5.0  # seconds between two sweeps that count as time in which outcomes could be reported


class Decisions:
    """Answers from the published plans and the open episodes; never waits for a plan.

    Requests that change something are made in a transaction of the writer, and acknowledged once that is durable.

    Args:
        problem: The problem.
        projection: What the log says.
        plans: Published plans by their versions, with those of all open episodes and the newest one.
        log: The log, to look up what is over.
        writer: Its writer.
        timer: Function that returns seconds of a clock that never jumps, by which episodes time out.
    """

    def __init__(
        self,
        problem: ServedProblem,
        projection: Projection,
        plans: MutableMapping[int, Publication],
        log: EventLog,
        writer: Writer,
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.problem, self.plans = problem, plans
        self._timer, self._last_sweep = timer, (timer(), writer.seq)
        self._served = 0.0  # seconds in which outcomes could be reported
        self._waiting: dict[str, tuple[tuple[int, ...], float]] = {}  # what open episodes wait for, and since when
        self._log, self._writer = log, writer
        self._memory = EpisodeMemory(projection, log, writer)
        self._lock = threading.RLock()
        self.n_repeated = 0
        self._unused: set[int] = set()  # versions of plans that no episode had when the last one was published
        self._actions = [problem.actions.decode(a) for a in range(problem.actions.size)]

    @property
    def projection(self) -> Projection:
        """What the log says so far."""
        return self._memory.projection

    @property
    def newest(self) -> Publication:
        """The newest published plan."""
        with self._lock:  # `publish` changes both
            return self.plans[self.projection.plan]

    def open(self, actor: str, *, episode: str | None = None, key: str | None = None) -> Opened:
        """Open an episode.

        Args:
            actor: Who asks.
            episode: Name of the episode; a random one by default.
            key: Idempotency key.
        """
        with self._lock:
            known = self._opened_before(actor, episode, key)
            if known is not None:
                return self._repeat(Opened(**self._opened(known), repeated=True))
            name = episode if episode is not None else secrets.token_hex(8)
            mode = self.projection.mode
            body = {"plan": self.newest.version, "mode": mode, "follows": followed(mode, self.problem)}
            self._memory.append([Draft("opened", actor, body, name, key=key)])
            return Opened(**self._opened(self.projection.episodes[name]))

    def _opened(self, episode: EpisodeState) -> dict[str, Any]:
        return {
            "episode": episode.id,
            "plan": episode.plan,
            "mode": episode.mode,
            "follows": episode.follows,
            "horizon": self.problem.horizon,
        }

    def _opened_before(self, actor: str, name: str | None, key: str | None) -> EpisodeState | None:
        """Return the episode that the same request opened before; refuse a name or a key that another one used."""
        used = None if key is None else self._memory.opened_with(actor, key)
        if used is not None:
            if name is not None and used != name:
                raise Conflict(f"the idempotency key was used to open episode {used}")
            return self._memory.find(used)
        if name is None:
            return None
        try:
            known = self._memory.find(name)
        except NotFound:
            return None
        if key is None and known.actor == actor and not known.steps and known.closed is None:
            return known  # the same request again, before anything came of it
        raise Conflict(f"episode {name} was opened before; choose another name, or leave it out")

    def ask(
        self,
        actor: str,
        name: str,
        *,
        state: Any,
        allowed: list[Any] | None = None,
        step: Any = None,
        key: str | None = None,
    ) -> Answer:
        """Return the decision of an episode; the same question gets the same answer.

        Args:
            actor: Who asks.
            name: Name of the episode.
            state: The state.
            allowed: Actions that are allowed just now, if they are fewer than those of the problem file.
            step: Number of the step, counted from 0; see `step_to_ask`.
            key: Idempotency key.
        """
        with self._lock:
            episode, problem = self._memory.find(name), self.problem
            number = step_to_ask(episode, step, key, problem.horizon)
            at = problem.state("state", state)
            among = narrowed(problem, at, number, allowed)
            listed = None if among is None else tuple(np.flatnonzero(among).tolist())
            known = episode.steps[number].asked if number < len(episode.steps) else None
            if known is not None:
                if (known.state, known.allowed) != (at, listed):
                    what = "another state" if known.state != at else "other allowed actions"
                    raise Conflict(f"step {number} of episode {name} was asked for with {what}; give the next step")
                return self._repeat(self._answer(episode, number, known, repeated=True))
            self._check_open(episode)
            check_state(problem, episode, number, at)
            if number < len(episode.steps):
                raise Conflict(f"the outcome of step {number} of episode {name} was reported before it was asked for")
            found = decide(self.plans[episode.plan], problem, episode, number, at, among)
            body: dict[str, Any] = {"state": at, "action": found.action, "plan": episode.plan, "propensity": 1.0}
            body |= ({} if listed is None else {"allowed": list(listed)}) | (
                {} if found.advised is None else {"advised": found.advised}
            )
            self._memory.append([Draft("asked", actor, body, name, number, key)])
            asked = episode.steps[number].asked
            assert asked is not None
            return self._answer(episode, number, asked)

    def _answer(self, episode: EpisodeState, step: int, asked: Asked, *, repeated: bool = False) -> Answer:
        plan = self.plans.get(episode.plan)
        why = None
        if plan is not None:
            every = zip(self._actions, *plan.bounds(step, asked.state), strict=True)
            bounds = [ActionBounds(action, low, high) for action, low, high in every]
            among = bounds if asked.allowed is None else [bounds[a] for a in asked.allowed]
            why = tuple([one for one in among if one.lower == one.lower])  # not NaN  # twice as fast
        return Answer(
            episode.id,
            step,
            None if asked.action is None else self._actions[asked.action],
            episode.plan,
            episode.mode,
            1.0,
            None if asked.advised is None else self._actions[asked.advised],
            why,
            repeated,
        )

    def tell(
        self,
        actor: str,
        name: str,
        *,
        reward: Any,
        next_state: Any = None,
        terminated: Any = False,
        state: Any = None,
        action: Any = None,
        step: Any = None,
        key: str | None = None,
    ) -> Recorded:
        """Record the outcome of a step; outcomes may come late, in any order, and more than once.

        The episode ends by itself with its last outcome.

        Args:
            actor: Who reports.
            name: Name of the episode.
            reward: Reward of the step.
            next_state: State after the step; may be left out if the next step was asked for.
            terminated: Whether the step ended the episode.
            state: State before the step, for a step that was not asked for.
            action: Action that was played, if it is not the one that was answered.
            step: Number of the step, counted from 0; by default the first one without an outcome.
            key: Idempotency key.
        """
        given = {
            "state": state,
            "action": action,
            "reward": reward,
            "next_state": next_state,
            "terminated": terminated,
        }
        with self._lock:
            episode = self._memory.find(name)
            number = step_to_tell(episode, step, key, self.problem.horizon)
            known = episode.steps[number].told if number < len(episode.steps) else None
            told = checked_outcome(self.problem, episode, number, given)
            if known is not None:
                if known != told:
                    raise Conflict(f"step {number} of episode {name} was reported with another outcome")
                return self._repeat(Recorded(name, number, episode.closed is not None, repeated=True))
            self._check_open(episode)
            drafts = [Draft("told", actor, _outcome(told), name, number, key)]
            if self._completes(episode, number, told):
                drafts.append(Draft("ended", actor, {"reason": "complete"}, name))
            self._memory.append(drafts)
            return Recorded(name, number, len(drafts) > 1)

    def _completes(self, episode: EpisodeState, number: int, told: Told) -> bool:
        others = (step.told for k, step in enumerate(episode.steps) if k != number)
        last = max(number, len(episode.steps) - 1)
        if any(one is None for one in others):
            return False
        final = told if last == number else episode.steps[last].told
        return last == self.problem.horizon - 1 or (final is not None and final.terminated)

    def end(self, actor: str, name: str, *, key: str | None = None) -> Closed:
        """End an episode before its horizon; all questions must have an outcome."""
        with self._lock:
            episode = self._memory.find(name)
            if episode.closed is None:
                if not episode.steps:
                    raise Conflict(f"episode {name} has no steps; abandon it")
                if episode.first_missing < len(episode.steps):
                    missing = f"the outcome of step {episode.first_missing} of episode {name} is missing"
                    raise Conflict(f"{missing}; report it, let it time out, or abandon the episode")
            return self._close(actor, episode, "ended", {"reason": "request"}, key)

    def abandon(self, actor: str, name: str, *, key: str | None = None) -> Closed:
        """Forget an episode; what is proven ends if it was asked for an action (docs/proofs.md, section 3)."""
        with self._lock:
            return self._close(actor, self._memory.find(name), "abandoned", {"reason": "request"}, key)

    def time_out(self, actor: str, name: str, *, key: str | None = None) -> Closed:
        """Close an episode whose outcomes do not come; missing ones pay the default reward, if there is one."""
        with self._lock:
            episode = self._memory.find(name)
            if episode.closed is None and self.problem.file.time_out is None:
                fail("time_out", "must be in the problem file", "nothing", "Add time_out = seconds, or abandon.")
            return self._close(actor, episode, _timed_out(episode, self.problem), {"reason": "request"}, key)

    def sweep(self) -> None:
        """Close all episodes that are overdue by the time-out of the problem file; call it about once a second.

        Only time counts in which this process could have taken an outcome: neither a time at which the service was down
        nor one at which its log could not be written, whatever the clock says. So the time begins again with a start.
        """
        limit = self.problem.file.time_out
        if limit is None:
            return
        with self._lock:
            self._count_served()
            drafts, waiting = [], {}
            for episode in self.projection.episodes.values():
                what = episode.waits_for
                known = self._waiting.get(episode.id)
                since = known[1] if known is not None and known[0] == what else self._served
                waiting[episode.id] = what, since
                if self._served - since >= limit:
                    body = {"reason": "time_out", "waited": self._served - since}
                    drafts.append(Draft(_timed_out(episode, self.problem), "clock", body, episode.id))
            self._waiting = waiting
            if drafts:
                self._memory.append(drafts)

    def _count_served(self) -> None:
        """Count the time since the last sweep, if the log took meanwhile what was on its way to it then."""
        (before, taken), now = self._last_sweep, self._timer()
        if self._writer.error is None and self._writer.durable >= taken:
            self._served += min(now - before, _LONGEST_TICK)
        self._last_sweep = now, self._writer.seq

    def _close(self, actor: str, episode: EpisodeState, kind: Kind, body: dict[str, Any], key: str | None) -> Closed:
        if episode.closed is not None:
            if episode.closed != kind:
                raise Conflict(f"episode {episode.id} is over: it was {_words(episode.closed)}")
            return self._repeat(Closed(episode.id, episode.closed, episode.n_told, repeated=True))
        self._memory.append([Draft(kind, actor, body, episode.id, key=key)])
        return Closed(episode.id, kind, episode.n_told)

    def set_mode(self, actor: str, mode: Any, reason: str = "request") -> Mode:
        """Change the mode of the episodes that are opened from now on, and return it."""
        with self._lock:
            wanted: Mode = choice("mode", mode, MODES)  # type: ignore[assignment]
            if wanted != self.projection.mode:
                change = {"from": self.projection.mode, "to": wanted, "reason": reason}
                self._memory.append([Draft("mode", actor, change)])
            return wanted

    def publish(self, publication: Publication, drafts: Sequence[Draft]) -> None:
        """Append the events of a new plan, unless that was done, and answer from it from now on."""
        with self._lock:
            if publication.version <= self.projection.plan:
                return
            kept = [draft for draft in drafts if draft.kind != "mode" or draft.body["from"] == self.projection.mode]
            # What was unused once may be used again if the transaction that closed its last episode was undone.
            used = {episode.plan for episode in self.projection.episodes.values()} | {self.projection.plan}
            unused = set(self.plans) - used
            for version in unused & self._unused:
                del self.plans[version]
            self._unused = unused
            self.plans[publication.version] = publication
            self._memory.append(kept)

    def note(self, drafts: Sequence[Draft]) -> None:
        """Append events that are about no episode, such as those of tokens."""
        with self._lock:
            self._memory.append(drafts)

    def follow(self, events: Sequence[Event]) -> None:
        """Take events that another process appended."""
        with self._lock:
            self._memory.follow(events)

    def start_again(self, projection: Projection) -> None:
        """Forget everything, and go on from what the log says."""
        with self._lock:
            self._memory = EpisodeMemory(projection, self._log, self._writer)

    def find(self, name: str) -> EpisodeState:
        """Return an episode, open or over.

        Raises:
            NotFound: There is none.
        """
        with self._lock:
            return self._memory.find(name)

    def _check_open(self, episode: EpisodeState) -> None:
        if episode.closed is not None:
            raise Conflict(f"episode {episode.id} is over: it was {_words(episode.closed)}")

    def _repeat(self, answer: Repeated) -> Repeated:
        """Count and return an answer that was given before."""
        self.n_repeated += 1
        return answer


def _outcome(told: Told) -> dict[str, Any]:
    return {
        "state": told.state,
        "action": told.action,
        "reward": told.reward,
        "next": told.following,
        "terminated": told.terminated,
    }


def _timed_out(episode: EpisodeState, problem: ServedProblem) -> Kind:
    """Return how an overdue episode is closed.

    An episode without a question is forgotten, and one without a missing outcome ends. One with a missing outcome times
    out if that is an outcome that the problem declares; else it is abandoned, which withdraws what is proven.
    """
    if not episode.steps:
        return "abandoned"
    if episode.first_missing == len(episode.steps):
        return "ended"
    return "timed_out" if is_declared(episode, problem) else "abandoned"


def _words(kind: str) -> str:
    return kind.replace("_", " ")
