"""How an agent advises a process in the real world, and learns from episodes."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from matrixrl.agents import certification
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.checks import fail, integer, number, shown
from matrixrl.errors import ProtocolError
from matrixrl.history import Episode
from matrixrl.interrupts import uninterrupted
from matrixrl.play.ledger import CertificateLedger
from matrixrl.play.rollout import Finished
from matrixrl.policies import PolicySpace, read_actions
from matrixrl.records import FloatArray, IntArray, Plan

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["PlannedAhead"]


class PlannedAhead(NamedTuple):
    """A plan for episodes that are begun later.

    Attributes:
        plan: What the algorithm returned; one that is not due is the last one again.
        planned_after: Number of episodes that had been learned from.
        run: Number of the run between restarts after changes, if it is known.
    """

    plan: Any
    planned_after: int
    run: int | None = None


def episode(self: Agent, number: int) -> OpenEpisode:
    """Return the open episode with a number (`OpenEpisode.number`); others are refused.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> agent.begin_episode().number
    0
    >>> agent.episode(0) is agent.open_episodes[0]
    True
    """
    chosen = integer("number", number, low=0, remedy="Numbers of episodes count from 0.")
    found = self._queue.find(chosen)
    if found is None:
        why = "ended or abandoned" if chosen < self._queue.n_begun else "never begun"
        fail("number", "must be that of an open episode", f"{chosen}, which was {why}", "See open_episodes.")
    return found


def begin_episode(self: Agent, ahead: PlannedAhead | None = None, *, policy: Any = None) -> OpenEpisode:
    """Plan the next episode (YW19 Algorithm 1, line 6) and return it.

    Args:
        ahead: A plan that `plan_ahead` made earlier, which any number of episodes may share; by default a plan is
            made now.
        policy: Policy to play in this episode in place of the agent's own, as in `learn`: an incumbent, or one of an
            A/B test. Its returns count for `certify` and `compare`.
    """
    given = None if policy is None else given_table(self, "begin_episode", policy)
    if ahead is None:
        ahead = self.plan_ahead()
    number, plan = max(self._queue.n_begun, self.n_episodes), ahead.plan
    if given is None:
        plan = self._algorithm.begun(plan)
    else:
        plan = Plan(given[None].astype(plan.policy.dtype), plan.values, plan.empty)
    is_old = ahead.run not in (None, certification.run_number(self))
    episode = OpenEpisode(self, plan, number, -1 if is_old else ahead.planned_after, given=given)
    self._queue.add(episode)
    return episode


def given_table(self: Agent, call: str, policy: Any) -> IntArray:
    """Return the actions (H, S) of a policy that a user gives to be played."""
    if not isinstance(self._algorithm, FiniteAlgorithm) or self._algorithm.revised is not None:
        rule = f"must be left out for {self._algorithm.name}, whose plans are no tables of actions"
        fail("policy", rule, shown(policy), "Use begin_episode, and observe the actions that were played.")
    [table] = read_tables(self, f"{call}(policy=…)", policy=policy)
    if table.ndim == 3:
        fail("policy", "must not be random", "probabilities of actions", "Give one action for each state.")
    return table


def read_tables(self: Agent, call: str, **policies: Any) -> list[IntArray | FloatArray]:
    """Return policies of a user as (H, S) inner actions or (H, A, S) probabilities of them."""
    sizes = numbering(self, call)
    read = {name: read_actions(name, given, sizes) for name, given in policies.items()}
    return [self._algorithm.masks.read_policy(name, table) for name, table in read.items()]


def numbering(self: Agent, call: str) -> PolicySpace:
    """Return the sizes and numbers of the problem; refuse one without numbered states."""
    problem = self.problem
    if problem.kind != "finite":
        raise ProtocolError(
            f"{call} gives a table, which needs numbered states; agent.predict(obs, stage) acts on other "
            "observations, and agent.save keeps the agent"
        )
    task = problem.finite_task
    assert problem.states is not None
    return PolicySpace(task.horizon, task.n_states, problem.states, problem.actions)


def plan_ahead(self: Agent) -> PlannedAhead:
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
    undo = self._algorithm.mark()
    try:
        plan = self._algorithm.plan()
    except BaseException:  # a plan that was interrupted leaves no trace
        undo()
        raise
    certification.forget_plans(self)  # a new epoch may have forgotten the data
    return PlannedAhead(plan, self.n_episodes, certification.run_number(self))


def act(self: Agent, obs: Any, *, allowed: Any = None, now: float | None = None) -> Any:
    """Return the action to play now in the only open episode; see `OpenEpisode.act`."""
    return self._queue.only("act").act(obs, allowed=allowed, now=now)


def observe(
    self: Agent,
    obs: Any,
    action: Any,
    reward: float,
    next_obs: Any,
    terminated: bool = False,
    *,
    outcome: Any = None,
    step: int | None = None,
) -> None:
    """Add one step to the only open episode; see `OpenEpisode.observe`."""
    self._queue.only("observe").observe(obs, action, reward, next_obs, terminated, outcome=outcome, step=step)


def end_episode(self: Agent) -> Episode:
    """Learn from the only open episode and return its record."""
    record = self._queue.only("end_episode").end()
    assert record is not None  # no other one is open that it could wait for
    return record


def abandon_episode(self: Agent) -> None:
    """Forget the only open episode, if any: nothing is learned from it."""
    if self._queue.n_open:
        self._queue.only("abandon_episode").abandon()


def time_out_after(self: Agent, limit: float, *, now: float, reward: float | None = None) -> tuple[OpenEpisode, ...]:
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
    return self._queue.time_out_until(present - longest, reward)


def learn_steps(self: Agent, played: Finished, planned_after: int | None = None) -> Episode:
    """Learn from an episode (Algorithm 1, lines 11 and 12) and return its record.

    Args:
        played: The episode.
        planned_after: Number of episodes that had been learned from when it was planned, if it was not just now. One
            that was planned before a restart is recorded and not learned from (docs/proofs.md, section 20).
    """
    plan, steps, algorithm, n = played.plan, played.steps, self._algorithm, self.n_episodes
    measured = self._engine.measure(n, played)
    regret = float(measured.regret[0, 0])
    record = Episode(
        index=n,
        episode_return=float(measured.returns[0, 0]),
        length=int(measured.lengths[0, 0]),
        regret=None if math.isnan(regret) else regret,
        upper=float(measured.upper[0, 0]),
        alarm=bool(measured.alarms[0, 0]),
        certificate=played.certificate,
    )
    counts = planned_after is None or planned_after >= self._run_start
    gaps = _gaps_of(self, played) if counts else 0.0
    number = certification.n_counted(self) + 1
    with uninterrupted():
        if counts:
            algorithm.update(steps, plan)
        else:
            algorithm.pass_over(steps)
            self._passed.append(n)
        self._gaps += gaps or 0.0
        self._overridden += gaps is None
        self._log.append(record)
        if self._seen is not None:
            self._seen.add_played(steps)
        if counts and algorithm.claims.certifies and self.problem.kind == "finite":
            certification.heed_masks(self)
            frozen = partial(_policy_to_freeze, self, plan)
            self._ledger.observe(number, frozen, steps, is_drawn=played.is_drawn, given=played.given)
        certification.forget_plans(self)
        restart_if_due(self)
    return record


def restart_if_due(self: Agent) -> None:
    """Forget all data if a change was just noticed and the agent is to begin again (docs/proofs.md, section 20)."""
    drift = getattr(self._algorithm, "drift", None)
    if drift is None or not drift.is_due:
        return
    self._algorithm.restart()  # type: ignore[attr-defined]  # which algorithms with `drift` have
    before, self._ledger = self._ledger, CertificateLedger(self._algorithm)
    self._ledger.start_doubt, self._ledger.doubts = before.start_doubt, before.doubts
    self._gaps, self._overridden, self._passed = 0.0, 0, []
    self._queue.delay = 0
    self._run_start, self._run_logged = self.n_episodes, self.n_logged_episodes
    certification.forget_plans(self)


def _gaps_of(self: Agent, played: Finished) -> float | None:
    """Return the gaps of what an episode played, by its own plan (docs/proofs.md, 7.1); None if not known."""
    steps, horizon = played.steps, self.problem.task.horizon
    is_finished = steps.actions.shape[1] >= horizon or bool(steps.ended[0, -1])
    if not played.off_plan and not played.every_gap and is_finished:
        return self._algorithm.certifier.own_gap(played.plan, steps)
    gaps = self._algorithm.certifier.gaps(played.plan, steps, every=played.every_gap)
    return None if gaps is None else float(gaps[0])


def _policy_to_freeze(self: Agent, plan: Any) -> IntArray:
    """Return the policy (H, S) that an episode was begun with, as far as masks that are known now permit it."""
    table, algorithm = self._algorithm.policy_table(plan)[0], self._algorithm
    return algorithm.frame.permitted(table) if isinstance(algorithm, FiniteAlgorithm) else table


def note_selection(self: Agent, what: str) -> None:
    """Withdraw the proof: which data are learned from may depend on what was observed (docs/proofs.md, 3)."""
    self._note_doubt(f"{what}: which data are learned from may depend on what was observed")


def note_doubt(self: Agent, words: str) -> None:
    """Withdraw the proof for good; the first reason is kept."""
    self._selection = self._selection or words


def note_start_doubt(self: Agent, what: str) -> None:
    """Withdraw what depends on how first states are drawn (docs/proofs.md, 6.1)."""
    self._ledger.note_start_doubt(f"{what}: which first states are counted may depend on them")
