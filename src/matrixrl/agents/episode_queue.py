"""Overlapping, late and timed-out episodes: those that were begun and not yet learned from."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from matrixrl.agents import ask_and_tell
from matrixrl.agents.episodes import Advised, OpenEpisode
from matrixrl.archive import Arrays, check_arrays
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.history import Episode
from matrixrl.interrupts import uninterrupted
from matrixrl.play.rollout import Finished
from matrixrl.problems import FunctionalTask, Task
from matrixrl.problems.action_masks import action_list

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["LATE_EPISODES", "EpisodeQueue"]

LATE_EPISODES = ("wait", "learn")
"""Treatment of an episode that ends before one that was begun earlier."""
_STEPS = ("states", "actions", "rewards", "next_states")
_ROWS: dict[str, Any] = {  # arrays with one entry for each episode
    **dict.fromkeys(("number", "planned_after", "plan", "length", "advised", "planned"), np.int64),
    **dict.fromkeys(("terminated", "off_plan", "waiting", "certifying", "given"), np.bool_),
    "asked_at": np.float64,  # time of the last question, or NaN
}
_OUTCOMES = "outcomes"  # of a problem with known dynamics
_OPTIONAL, _ASKED = ("advised_states", "advised_among", *_STEPS, _OUTCOMES), ("asked_at",)
_NO_ADVICE = -1  # "advised" and "planned" of an episode whose last question was followed by a step


class EpisodeQueue:
    """The episodes that were begun by `Agent.begin_episode` and not yet learned from, in the order of their begin.

    Learning in the order in which episodes were begun keeps every proof (docs/proofs.md, section 3), so an episode that
    is ended before one that was begun earlier waits, unless late episodes are learned from at once.

    Attributes:
        n_begun: Number of episodes that were begun; the number of the next one.
        late: Treatment of late episodes.
        delay: Largest number of episodes that were learned from between the begin of an episode and its own turn.
        n_time_outs: Number of episodes that timed out.
    """

    def __init__(self, agent: Agent, late: str) -> None:
        self._agent, self.late = agent, late
        self.n_begun = self.delay = self.n_time_outs = 0
        self._open: dict[int, OpenEpisode] = {}
        self._waiting: list[tuple[int, OpenEpisode]] = []  # a heap

    @property
    def open(self) -> tuple[OpenEpisode, ...]:
        """Open episodes in the order of their begin."""
        return tuple(self._open.values())

    @property
    def n_open(self) -> int:
        """Number of open episodes."""
        return len(self._open)

    @property
    def waiting(self) -> tuple[OpenEpisode, ...]:
        """Ended episodes that were not learned from yet, in the order of their begin."""
        return tuple(episode for _, episode in sorted(self._waiting, key=lambda pair: pair[0]))

    @property
    def n_waiting(self) -> int:
        """Number of episodes that wait."""
        return len(self._waiting)

    def find(self, number: int) -> OpenEpisode | None:
        """Return the open episode with a number, or None."""
        return self._open.get(number)

    def only(self, call: str) -> OpenEpisode:
        """Return the only open episode; refuse a call if there are none or several."""
        if not self._open:
            raise ProtocolError(f"{call} was called outside an episode; call begin_episode first")
        if len(self._open) > 1:
            raise ProtocolError(f"{call} was called while {len(self._open)} episodes are open; call it on one of them")
        return self.open[0]

    def add(self, episode: OpenEpisode) -> None:
        """Add an open episode, begun after all others."""
        self._open[episode.number] = episode
        self.n_begun = max(self.n_begun, episode.number + 1)

    def wait(self, episode: OpenEpisode) -> None:
        """Let an open episode wait until all episodes that were begun before it are closed."""
        self._open.pop(episode.number, None)
        heapq.heappush(self._waiting, (episode.number, episode))
        episode._life = "waiting"

    def close(self, episode: OpenEpisode) -> Episode | None:
        """Learn from an ended episode and from those that waited for it, or let it wait for its turn."""
        is_first = next(iter(self._open)) == episode.number
        if not is_first and self.late == "wait":
            self.wait(episode)
            return None
        with uninterrupted():
            self._learn_ready()
            if not is_first:
                number = self._agent.n_episodes + 1
                self._agent._note_selection(f"episode {number} was ended before one that was begun earlier")
            record = self._learn(episode)
            self._open.pop(episode.number, None)
            self._learn_ready()
        return record

    def _learn(self, episode: OpenEpisode) -> Episode:
        """Learn from an episode that was ended."""
        data, agent = episode.data, self._agent
        if episode._planned_after >= agent._run_start:  # others are not learned from
            self.delay = max(self.delay, agent.n_episodes - episode._planned_after)
        every, given = episode._is_certifying or episode._given is not None, episode._given
        played = Finished(data.plan, data.steps(), data.off_plan, every, certificate=episode._certificate, given=given)
        record = ask_and_tell.learn_steps(agent, played, episode._planned_after)
        episode._life, episode.record, data.plan = "closed", record, None
        return record

    def time_out(self, episode: OpenEpisode) -> Episode | None:
        """Close an episode whose last step timed out."""
        self.n_time_outs += 1
        if self._agent.problem.mdp is not None:
            words = "an episode timed out, which the known transition table does not have as an outcome"
            self._agent._note_doubt(words)
        return self.close(episode)

    def time_out_until(self, last: float, reward: float | None) -> tuple[OpenEpisode, ...]:
        """Let every open episode time out whose last question has a time up to `last`, and return them."""
        asked = ((episode, episode._question) for episode in self.open)
        late = tuple(one for one, question in asked if question and question.now is not None and question.now <= last)
        for episode in late:
            episode._timed_out_step(reward)  # refuse a reward before anything is changed
        for episode in late:
            episode.time_out(reward)
        return late

    def abandon(self, episode: OpenEpisode) -> None:
        """Forget an open episode, and learn from those that waited for it."""
        self._open.pop(episode.number, None)
        episode._life, episode.data.plan = "closed", None
        with uninterrupted():
            self._learn_ready()

    def drop(self, error: BaseException, n_steps: int | None) -> None:
        """Forget all episodes after an error or an interrupt, and one of `n_steps` steps that is not in the queue.

        An error may be due to what was observed.
        """
        left = (*self.open, *self.waiting)
        self._open, self._waiting = {}, []
        for episode in left:
            episode._life, episode.data.plan = "closed", None
        lengths = [episode.stage for episode in left] + ([] if n_steps is None else [n_steps])
        if isinstance(error, Exception) and lengths:
            self._agent._note_selection(f"an episode ended in an error after {max(lengths)} of its steps")

    def _learn_ready(self) -> None:
        """Learn from the episodes that wait and before which no open one was begun."""
        while self._waiting and (not self._open or self._waiting[0][0] < next(iter(self._open))):
            self._learn(self._waiting[0][1])
            heapq.heappop(self._waiting)

    def arrays(self) -> tuple[Arrays, Arrays, list[dict[str, int]]]:
        """Return all episodes in the order of their begin, for saving; nothing if there are none.

        Returns:
            One entry of every name in `_ROWS` for each episode, the states of the questions and, if any was about some
            actions only, which ones (q, A), and the steps of all episodes one after the other. Second, the tables of
            their plans, which may share some: "0_policy", "1_policy", …. Third, each different plan as the number of
            each of its tables by name.
        """
        episodes = sorted((*self.open, *self.waiting), key=lambda episode: episode.number)
        if not episodes:
            return {}, {}, []
        tables: dict[str, dict[int, tuple[int, NDArray[Any]]]] = {}  # by name and identity: number and table
        plans: dict[tuple[tuple[str, int], ...], int] = {}
        by_plan: dict[int, int] = {}
        for episode in episodes:
            if id(episode.data.plan) not in by_plan:
                numbers = []
                for name, table in episode.data.plan.arrays().items():
                    known = tables.setdefault(name, {})
                    numbers.append((name, known.setdefault(id(table), (len(known), table))[0]))
                by_plan[id(episode.data.plan)] = plans.setdefault(tuple(numbers), len(plans))
        asked = [episode._question for episode in episodes]
        columns = {
            "number": [e.number for e in episodes],
            "planned_after": [e._planned_after for e in episodes],
            "plan": [by_plan[id(e.data.plan)] for e in episodes],
            "length": [e.stage for e in episodes],
            "advised": [_NO_ADVICE if one is None else one.action for one in asked],
            "planned": [_NO_ADVICE if one is None else one.planned for one in asked],
            "asked_at": [np.nan if one is None or one.now is None else one.now for one in asked],
            "terminated": [e.data.terminated for e in episodes],
            "off_plan": [e.data.off_plan for e in episodes],
            "waiting": [e.is_waiting for e in episodes],
            "certifying": [e._is_certifying for e in episodes],
            "given": [e._given is not None for e in episodes],
        }
        arrays = {name: np.array(values, dtype=_ROWS[name]) for name, values in columns.items()}
        questions = [one for one in asked if one is not None]
        if questions:
            arrays["advised_states"] = np.array([one.state for one in questions])
        if any(one.among is not None for one in questions):
            actions = np.arange(self._agent.problem.task.n_actions)
            arrays["advised_among"] = np.array([np.isin(actions, one.among or ()) for one in questions])
        if any(e.stage for e in episodes):
            has_outcomes = self._agent.problem.task.dynamics is not None
            for name in (*_STEPS, *[_OUTCOMES] * has_outcomes):
                arrays[name] = np.array([value for e in episodes for value in getattr(e.data, name)])
        stored = {f"{number}_{name}": table for name, known in tables.items() for number, table in known.values()}
        return arrays, stored, [dict(plan) for plan in plans]

    def restore(self, own: Arrays, tables: Arrays, plans: list[Any], n_begun: int) -> None:
        """Put what `arrays` returned into the queue of an agent that has everything that it learned."""
        self.n_begun = n_begun
        if not own and not tables and not plans:
            return
        self._check(own)
        named = {f"{number}_{name}" for one in plans for name, number in one.items()}
        if named != set(tables) or set(own["plan"].tolist()) != set(range(len(plans))):
            raise InvalidInput("every episode must have a plan, every plan an episode, and every table a plan")
        agent, problem = self._agent, self._agent.problem
        made = [
            agent.algorithm.plan_from_arrays({name: tables[f"{number}_{name}"] for name, number in one.items()})
            for one in plans
        ]

        states: Iterator[Any] = iter(own.get("advised_states", ()))
        among = iter(own.get("advised_among", np.zeros((len(own["number"]), 0), dtype=np.bool_)))
        for i, end in enumerate(np.cumsum(own["length"]).tolist()):
            row = {name: own[name][i].item() for name in _ROWS}
            plan = made[row["plan"]]
            given = plan.policy[0].astype(np.int64) if row["given"] else None
            episode = OpenEpisode(agent, plan, row["number"], row["planned_after"], given=given)
            episode.data.off_plan, episode._is_certifying = row["off_plan"], row["certifying"]
            for k in range(end - row["length"], end):
                state, following = (problem.saved_state("state", own[name][k]) for name in ("states", "next_states"))
                action = problem.saved_action("action", own["actions"][k], episode.stage)
                earned, outcome = problem.reward(float(own["rewards"][k]), state, action), None
                if problem.task.dynamics is not None:
                    number = int(own[_OUTCOMES][k])
                    value = None if number < 0 else problem.task.dynamics.outcomes[number]
                    outcome = problem.outcome(state, action, earned, following, value)
                episode.data.append(state, action, earned, following, False, outcome)
            episode.data.terminated = row["terminated"]
            self.add(episode)
            if row["waiting"]:
                self.wait(episode)
            if row["advised"] != _NO_ADVICE:
                asked = np.asarray(problem.saved_state("state", next(states))).tolist()
                few, now = tuple(action_list(next(among))) or None, row["asked_at"]
                chosen, planned = (
                    problem.saved_action("action", row[name], episode.stage) for name in ("advised", "planned")
                )
                now = None if np.isnan(now) else now
                episode._advised = Advised(episode.stage, asked, chosen, planned, few, now)

    def _check(self, own: Arrays) -> None:
        """Refuse arrays of other names, lengths or types."""
        check_arrays(
            own, {name: np.empty(0, kind) for name, kind in _ROWS.items()}, optional=_OPTIONAL, may_be_nan=_ASKED
        )
        n, n_steps, task = len(own["number"]), int(own["length"].sum()), self._agent.problem.task
        kind = (
            task.state_dtype if isinstance(task, FunctionalTask) else np.int64 if isinstance(task, Task) else np.float64
        )
        kinds = dict(zip(_STEPS, (kind, np.int64, np.float64, kind), strict=True))
        outcomes, dynamics = own.get(_OUTCOMES, np.zeros(0, dtype=np.int64)), task.dynamics
        n_asked, n_actions = int((own["advised"] != _NO_ADVICE).sum()), task.n_actions
        among = own.get("advised_among", np.empty((n_asked, n_actions), dtype=np.bool_))
        fits = (
            all(len(own[name]) == n for name in _ROWS)
            and all(own[name].dtype == wanted for name, wanted in kinds.items() if name in own)
            and all(len(own.get(name, ())) == n_steps for name in _STEPS)
            and bool(((own["length"] >= 0) & (own["length"] <= task.horizon)).all())
            and len(own.get("advised_states", ())) == n_asked
            and among.shape == (n_asked, n_actions)
            and among.dtype == np.bool_
            and outcomes.dtype == np.int64
            and outcomes.shape == (0 if dynamics is None else n_steps,)
            and (dynamics is None or bool(((outcomes >= -1) & (outcomes < dynamics.n_outcomes)).all()))
        )
        if not fits:
            raise InvalidInput("the open episodes must have one entry for each of them, each step and each question")
