"""How an agent begins, closes and learns from episodes, of which many may be open at once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from matrixrl.agents.action_tables import ActionTables, action_tables
from matrixrl.agents.certifying import Certifying
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.agents.shared_tables import SharedTables
from matrixrl.algorithms import Algorithm, FiniteAlgorithm
from matrixrl.checks import fail, integer, number
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.logs import SeenLog
from matrixrl.measuring import is_measured
from matrixrl.problems import RegretEvaluator
from matrixrl.records import Episode, IntArray, Steps

__all__ = ["Opening", "PlannedAhead"]


class PlannedAhead(NamedTuple):
    """A plan for episodes that are begun later.

    Attributes:
        plan: What the algorithm returned; one that is not due is the last one again.
        planned_after: Number of episodes that had been learned from.
    """

    plan: Any
    planned_after: int


class Opening(Certifying):
    """The methods of an agent that are about its episodes.

    Learning in the order in which episodes were begun keeps every proof (docs/proofs.md, section 3), so an episode that
    is ended before one that was begun earlier waits, unless the agent was made with ``late_episodes="learn"``.
    """

    _late: str
    _evaluator: RegretEvaluator | None
    _tables: SharedTables
    _seen: SeenLog | None  # all steps that were seen; None if they are not kept

    @property
    def algorithm(self) -> Algorithm:
        """The algorithm inside, with one replica."""
        return self._algorithm

    @property
    def late_episodes(self) -> str:
        """What happens to an episode that is ended before one that was begun earlier: "wait" or "learn"."""
        return self._late

    @property
    def open_episodes(self) -> tuple[OpenEpisode, ...]:
        """The episodes that were begun and neither ended nor abandoned, in the order of their begin."""
        return self._order.open

    @property
    def n_waiting(self) -> int:
        """Number of ended episodes that wait until all episodes begun before them are closed."""
        return self._order.n_waiting

    @property
    def n_time_outs(self) -> int:
        """Number of episodes that timed out."""
        return self._time_outs

    def episode(self, number: int) -> OpenEpisode:
        """Return the open episode with a number (`OpenEpisode.number`); others are refused.

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
        >>> agent.begin_episode().number
        0
        >>> agent.episode(0) is agent.open_episodes[0]
        True
        """
        chosen = integer("number", number, low=0, remedy="Numbers of episodes count from 0.")
        found = self._order.find(chosen)
        if found is None:
            why = "ended or abandoned" if chosen < self._order.n_begun else "never begun"
            fail("number", "must be that of an open episode", f"{chosen}, which was {why}", "See open_episodes.")
        return found

    def begin_episode(self, ahead: PlannedAhead | None = None) -> OpenEpisode:
        """Plan the next episode (YW19 Algorithm 1, line 6) and return it.

        Args:
            ahead: A plan that `plan_ahead` made earlier, which any number of episodes may share; by default a plan is
                made now.
        """
        if ahead is None:
            ahead = self.plan_ahead()
            if self._order.n_open:
                ahead = ahead._replace(plan=self._tables.share(ahead.plan))
        number = max(self._order.n_begun, self.n_episodes)
        episode = OpenEpisode(self, ahead.plan, number, ahead.planned_after)
        self._order.add(episode)
        return episode

    def plan_ahead(self) -> PlannedAhead:
        """Return the plan of episodes that will be begun later, from the episodes learned from so far.

        The proof is about plans that are known when an episode begins (docs/proofs.md, section 3), so a plan may be
        made before anybody asks for it, and be shared by episodes that overlap.

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
        >>> ahead = agent.plan_ahead()
        >>> first, second = agent.begin_episode(ahead), agent.begin_episode(ahead)
        >>> first.act(0) == second.act(0)
        True
        """
        mark = self._algorithm.mark()
        try:
            plan = self._algorithm.plan()
        except BaseException:  # a plan that was interrupted leaves no trace
            self._algorithm.rewind(mark)
            raise
        self._advice = None  # a new epoch may have forgotten the data
        return PlannedAhead(plan, self.n_episodes)

    def action_tables(self, ahead: PlannedAhead) -> ActionTables:
        """Return a plan that was just made as tables, with the bounds of every action on the same data.

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
        >>> tables = agent.action_tables(agent.plan_ahead())
        >>> bool((tables.lower <= tables.upper).all())
        True
        """
        return action_tables(self._algorithm, ahead.plan)

    def act(self, obs: Any, *, allowed: Any = None, now: float | None = None) -> Any:
        """Return the action to play now in the only open episode; see `OpenEpisode.act`."""
        return self._only("act").act(obs, allowed=allowed, now=now)

    def observe(
        self,
        obs: Any,
        action: Any,
        reward: float,
        next_obs: Any,
        terminated: bool = False,
        *,
        step: int | None = None,
    ) -> None:
        """Add one step to the only open episode; see `OpenEpisode.observe`."""
        self._only("observe").observe(obs, action, reward, next_obs, terminated, step=step)

    def end_episode(self) -> Episode:
        """Learn from the only open episode and return its record."""
        record = self._only("end_episode").end()
        assert record is not None  # no other one is open that it could wait for
        return record

    def abandon_episode(self) -> None:
        """Forget the only open episode, if any: nothing is learned from it."""
        if self._order.n_open:
            self._only("abandon_episode").abandon()

    def time_out_after(self, limit: float, *, now: float, reward: float | None = None) -> tuple[OpenEpisode, ...]:
        """Let every open episode time out whose last question is at least `limit` old.

        The agent has no clock: a question has the time that was passed to `OpenEpisode.act`, in any unit.

        Args:
            limit: Time after which a step counts as timed out.
            now: Time at which this is called, in the same unit.
            reward: As in `OpenEpisode.time_out`.

        Returns:
            The episodes that timed out, in the order of their begin.
        """
        longest = number("limit", limit, low=0.0, remedy="Give a time in the unit of act(obs, now=…).")
        present = number("now", now, remedy="Give a time in the unit of act(obs, now=…).")
        late = [episode for episode in self._order.open if _is_late(episode, present - longest)]
        for episode in late:
            episode._timed_out_step(reward)  # refuse a reward before anything is changed
        for episode in late:
            episode.time_out(reward)
        return tuple(late)

    def _close(self, episode: OpenEpisode) -> Episode | None:
        """Learn from an ended episode and from those that waited for it, or let it wait for its turn."""
        first = self._order.is_first(episode)
        if not first and self._late == "wait":
            self._order.wait(episode)
            episode._life = "waiting"
            return None
        with uninterrupted():
            self._learn_ready()
            if not first:
                self._note_selection(f"episode {self.n_episodes + 1} was ended before one that was begun earlier")
            record = self._learn_from(episode)
            self._order.remove(episode)
            self._learn_ready()
        return record

    def _learn_ready(self) -> None:
        """Learn from the episodes that wait and whose turn has come."""
        while (episode := self._order.ready()) is not None:
            self._learn_from(episode)
            self._order.learned()

    def _learn_from(self, episode: OpenEpisode) -> Episode:
        plan = episode._plan
        regret: float | None = None
        is_due = is_measured(self.n_episodes, self.problem.regret_every)
        if self._evaluator is not None and is_due and not episode._off_plan:
            regret = float(self._evaluator.regret(self._algorithm.policy_table(plan))[0])
        steps, declared = episode.steps(), self.problem.start_is_declared
        record = Episode(
            index=self.n_episodes,
            episode_return=float(self.problem.returns(np.array(episode._rewards))),
            length=episode.stage,
            regret=regret,
            upper=float(self._algorithm.upper(plan, None if declared else np.asarray(episode._states[0])[None])[0]),
            alarm=bool(plan.empty[0]),
            certificate=episode._certificate,
        )
        before, gaps = self.problem.task.reward_range, self._gaps_of(episode, plan, steps)
        with uninterrupted():
            self._delay = max(self._delay, self.n_episodes - episode._planned_after)
            self._algorithm.update(steps, plan)
            self._gaps += gaps or 0.0
            self._overridden += gaps is None
            self._log.append(record)
            if self._seen is not None:
                self._seen.add_played(steps)
            if self._algorithm.certifies and self.problem.kind == "finite":
                freezes = self._algorithm.freezes_policies
                self._heed_masks()
                table = (lambda: self._policy_to_freeze(plan)) if freezes else None
                is_drawn = episode._is_drawn or not self.problem.has_random_start
                self._certified.observe(self.n_episodes, table, steps, is_drawn=is_drawn)
                self._first.observe(episode._states[0], is_drawn=episode._is_drawn)
            episode._life, episode._record, episode._plan = "closed", record, None
            if before is not None and self.problem.task.reward_range != before:
                self._certified.forget()
                self._rescale_plans(before)
            self._advice = None
        return record

    def _gaps_of(self, episode: OpenEpisode, plan: Any, steps: Steps) -> float | None:
        """Return the gaps of what an episode played, by its own plan (docs/proofs.md, 7.1); None if not known."""
        if not episode._off_plan and not episode._is_certifying and episode.is_finished:
            return 0.0  # the agent's own actions fall short by no more than ties
        gaps = self._algorithm.gaps(plan, steps, every=episode._is_certifying)
        return None if gaps is None else float(gaps[0])

    def _policy_to_freeze(self, plan: Any) -> IntArray:
        """Return the policy (H, S) that an episode was begun with, as far as masks that are known now permit it."""
        table, algorithm = self._algorithm.policy_table(plan)[0], self._algorithm
        return algorithm.frame.permitted(table) if isinstance(algorithm, FiniteAlgorithm) else table

    def _rescale_plans(self, before: tuple[float, float]) -> None:
        """Convert the plans of all other episodes to the present range of rewards, each plan once."""
        done: dict[int, Any] = {}
        for other in (*self._order.open, *self._order.waiting):
            if other._plan is not None:
                if id(other._plan) not in done:
                    done[id(other._plan)] = self._algorithm.rescaled_plan(other._plan, before)
                other._plan = done[id(other._plan)]

    def _abandon(self, episode: OpenEpisode) -> None:
        """Forget an open episode, and learn from those that waited for it."""
        self._order.remove(episode)
        episode._life, episode._plan = "closed", None
        with uninterrupted():
            self._learn_ready()

    def _drop_episodes(self, error: BaseException) -> None:
        """Forget all episodes after an error or an interrupt; an error may be due to what was observed."""
        left = (*self._order.open, *self._order.waiting)
        if isinstance(error, Exception) and left:
            most = max(episode.stage for episode in left)
            self._note_selection(f"an episode ended in an error after {most} of its steps")
        self._order.drop_waiting()
        for episode in left:
            self._order.remove(episode)
            episode._life, episode._plan = "closed", None

    def _note_selection(self, what: str) -> None:
        """Withdraw the proof: which data are learned from may depend on what was observed (docs/proofs.md, 3)."""
        self._note_doubt(f"{what}: which data are learned from may depend on what was observed")

    def _note_doubt(self, words: str) -> None:
        """Withdraw the proof for good; the first reason is kept."""
        self._selection = self._selection or words

    def _note_start_doubt(self, what: str) -> None:
        """Withdraw what depends on how first states are drawn (docs/proofs.md, 6.1)."""
        self._first.note_doubt(f"{what}: which first states are counted may depend on them")

    def _note_time_out(self) -> None:
        self._time_outs += 1
        if self.problem.mdp is not None:
            self._note_doubt("an episode timed out, which the known transition table does not have as an outcome")

    def _is_own(self, episode: object) -> bool:
        """Say whether an object is an open episode of this agent."""
        return isinstance(episode, OpenEpisode) and self._order.find(episode.number) is episode

    def _only(self, call: str) -> OpenEpisode:
        open_episodes = self._order.n_open
        if not open_episodes:
            raise ProtocolError(f"{call} was called outside an episode; call begin_episode first")
        if open_episodes > 1:
            raise ProtocolError(f"{call} was called while {open_episodes} episodes are open; call it on one of them")
        return self._order.open[0]


def _is_late(episode: OpenEpisode, oldest: float) -> bool:
    """Say whether the step that is under way was asked for at a time, and at the latest at `oldest`."""
    asked = episode._question
    return asked is not None and asked.now is not None and asked.now <= oldest
