"""The learner: a fold of the log that feeds an agent and publishes plans."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.agents import MatrixRL
from matrixrl_serve.learner.outcomes import filled_in, observe_episode
from matrixrl_serve.learner.publication import Publication
from matrixrl_serve.learner.recommendation import Recommendation, Recommender, switch
from matrixrl_serve.log import LEARNER, Draft, Event
from matrixrl_serve.problem import LOGGED, ServedProblem
from matrixrl_serve.projection import EpisodeState, Projection, misfit

__all__ = ["Learner"]


class Learner:
    """An agent that follows a log; two learners that follow the same log make the same plans, bit for bit.

    Episodes are learned from in the order in which they were opened, which keeps the proof (docs/proofs.md, section 3).
    The agent is only asked when a plan is made, and at no other time.
    """

    def __init__(self, problem: ServedProblem) -> None:
        self.problem = problem
        self.agent: MatrixRL = problem.agent()
        self.projection = Projection(problem.file.mode)
        self.recommender = Recommender(problem)
        self.plans: dict[int, Publication] = {}
        self.version = 0
        self._numbers: dict[str, int] = {}  # number that the agent has for an open episode
        self._waiting: dict[int, EpisodeState] = {}  # closed shadow episodes that are not counted yet
        self._next = 0  # number of the first episode that is not counted yet
        self._learned = -1  # number of episodes that had been learned from at the last attempt to plan

    @property
    def is_due(self) -> bool:
        """Whether an episode was learned from since a plan was last asked for; nothing is learned while frozen."""
        return self._learned < 0 or (self.projection.mode != "frozen" and self.agent.n_episodes > self._learned)

    def feed(self, event: Event) -> None:
        """Take the next event of the log."""
        closed = self.projection.apply(event)
        if event.kind == "opened":
            assert event.episode is not None
            begun = self.projection.episodes[event.episode]
            if begun.plan not in self.plans:
                raise misfit(event)
            self._begin(begun)
        elif closed is not None:
            self._close(closed)

    def _begin(self, episode: EpisodeState) -> None:
        if episode.mode != "frozen":
            ahead = self.plans[episode.plan].ahead
            assert ahead is not None
            own = self.agent.begin_episode(ahead)
            self._numbers[episode.id] = own.number
        self._forget_plans(episode.plan)

    def _close(self, episode: EpisodeState) -> None:
        number = self._numbers.get(episode.id)
        if number is not None:
            observe_episode(self.agent.episode(number), episode, self.problem)
            del self._numbers[episode.id]
        if self.problem.file.incumbent == LOGGED:
            self._waiting[episode.number] = episode
            self._count_returns()

    def _count_returns(self) -> None:
        """Count the returns of shadow episodes in the order of the begins."""
        still_open = min(
            (episode.number for episode in self.projection.episodes.values()), default=self.projection.n_opened
        )
        while self._next < still_open:
            episode = self._waiting.pop(self._next)
            self._next += 1
            if episode.mode == "shadow" and episode.closed != "abandoned" and episode.steps:
                self.recommender.returns.observe(filled_in(episode, self.problem))

    def _forget_plans(self, oldest_used: int) -> None:
        """Forget plans that no later event can refer to: versions never go back."""
        for version in [old for old in self.plans if old < oldest_used]:
            if all(episode.plan != version for episode in self.projection.episodes.values()):
                del self.plans[version]

    def plan(self) -> tuple[Publication, list[Draft]] | None:
        """Plan if a new plan is due, and return it with the events that it causes; None if the last one stays."""
        before = int(self.agent.algorithm.n_plans[0])
        ahead = self.agent.plan_ahead()
        self._learned = self.agent.n_episodes
        last = self.plans.get(self.version)
        plays_on = last is None or last.ahead is None or np.array_equal(last.ahead.plan.policy, ahead.plan.policy)
        if int(self.agent.algorithm.n_plans[0]) == before and plays_on:
            return None  # by rare switching, unless the optimism budget chose the other plan
        tables, recommended = self.agent.action_tables(ahead), self.recommender.choose(self.agent)
        alarm = self.agent.alarm or self._alarm_of(ahead.plan)
        report = self._report(recommended, alarm)
        publication = Publication(
            self.version + 1,
            ahead,
            tables.policy,
            tables.scores,
            tables.lower,
            tables.upper,
            recommended.table,
            report,
        )
        report |= {"plan": publication.version, "digest": publication.digest}
        self.version += 1
        self.plans[self.version] = publication
        drafts = [Draft("planned", LEARNER, report)]
        if alarm is not None and self.projection.alarm is None:
            drafts.append(Draft("alarm", LEARNER, {"words": alarm}))
        projection = self.projection
        raised = alarm or projection.alarm  # one that was raised stays
        due = switch(projection.mode, raised, recommended.compared, self.problem, by_request=projection.mode_by_request)
        if due is not None:
            drafts.append(Draft("mode", LEARNER, due))
        return publication, drafts

    def to_plain(self) -> dict[str, Any]:
        """Return everything but the agent and the tables of plans as plain data, for checkpoints."""
        return {
            "book": self.projection.to_plain(),
            "recommender": self.recommender.to_plain(),
            "version": self.version,
            "numbers": self._numbers,
            "waiting": [episode.to_plain() for episode in self._waiting.values()],
            "next": self._next,
            "learned": self._learned,
            "plans": [
                {"version": one.version, "planned_after": one.ahead.planned_after, "report": one.report}
                for one in self.plans.values()
                if one.ahead is not None
            ],
        }

    def restore(self, data: dict[str, Any], plans: dict[int, Publication]) -> None:
        """Take back what `to_plain` returned, and the plans; the agent was restored before."""
        self.projection = Projection.from_plain(data["book"])
        self.recommender.restore(data["recommender"])
        self.plans, self.version = plans, data["version"]
        self._numbers = dict(data["numbers"])
        waiting = [EpisodeState.from_plain(plain) for plain in data["waiting"]]
        self._waiting = {episode.number: episode for episode in waiting}
        self._next, self._learned = data["next"], data["learned"]
        if self.agent.n_time_outs and self.problem.file.default_reward is None:
            self.agent._note_doubt(
                "an earlier version learned missing outcomes as 0, which the problem does not declare"
            )
        agent, queue = self.agent, self.agent._queue
        if agent._ledger.is_estimated and queue.n_begun > agent.n_episodes + queue.n_open + queue.n_waiting:
            agent._note_start_doubt("an episode was abandoned, which an earlier version took no note of")

    def _alarm_of(self, plan: Any) -> str | None:
        if not int(plan.empty[0]):
            return None
        return self.agent.algorithm.claims.alarm_words(f"misspecification alarm after episode {self.agent.n_episodes}")

    def _report(self, recommended: Recommendation, alarm: str | None) -> dict[str, Any]:
        bound, of_service = self.agent.bound(), self.problem.assumptions(self.agent.n_time_outs)
        return {
            "learned": self.projection.seq,
            "episodes": self.agent.n_episodes,
            "certificate": recommended.certificate,
            "comparison": recommended.compared,
            "guarantee": self.agent.guarantee.as_dict(),
            "bound": {"total": bound.total, "gaps": bound.gaps, "delta": bound.delta},
            "assumptions": "; ".join(words for words in (self.agent.assumptions, of_service) if words),
            "alarm": alarm,
        }
