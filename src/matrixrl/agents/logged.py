"""What an agent learns from logs that others recorded, and what it gives out of all that it saw."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from matrixrl.agents import certification
from matrixrl.agents.ask_and_tell import read_tables, restart_if_due
from matrixrl.checks import fail, file_path, flag
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.records import Guarantee, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent
    from matrixrl.logs import CheckedLog, LogPlan, StepLog

__all__ = ["LearnedLog"]


@dataclass(frozen=True, slots=True)
class LearnedLog:
    """What was learned from a log, and what is proven afterwards.

    Attributes:
        plan: What was taken from the log.
        certificates: Whether certificates are proven under `assumptions`.
        guarantee: Whether the regret bound of the episodes that are played is proven.
        assumptions: Assumptions of both, in words; empty if nothing is proven.
        statement: What the two claims mean after a log, in words.
    """

    plan: LogPlan
    certificates: Guarantee
    guarantee: Guarantee
    assumptions: str
    statement: str

    def __str__(self) -> str:
        return f"{self.plan}\n{self.statement}"


def plan_log(
    self: Agent,
    log: Any,
    *,
    columns: Any = None,
    first_step: int | None = None,
    missing: str = "error",
    separator: str | None = None,
    decimal: str | None = None,
) -> LogPlan:
    """Return what `learn_from` would learn from a log, after all its rows were checked; nothing is learned.

    Args:
        log: As in `learn_from`.
        columns: As in `learn_from`.
        first_step: As in `learn_from`.
        missing: As in `learn_from`.
        separator: As in `learn_from`.
        decimal: As in `learn_from`.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> log = {"episode": [0, 0], "state": [0, 1], "action": [1, 1], "reward": [0.0, 0.0], "next_state": [1, 2]}
    >>> agent.plan_log(log).n_steps
    2
    """
    given = {"columns": columns, "first_step": first_step, "missing": missing}
    return _read(self, log, **given, separator=separator, decimal=decimal).plan


def learn_from(
    self: Agent,
    log: Any,
    *,
    columns: Any = None,
    first_step: int | None = None,
    policy: Any = None,
    missing: str = "error",
    separator: str | None = None,
    decimal: str | None = None,
    verbose: bool = True,
) -> LearnedLog:
    """Learn from recorded episodes, whole or partial, of any policy; all of them, or none if a row is wrong.

    Args:
        log: Path of a CSV or Parquet file, a data frame, a table of pyarrow, a dictionary of columns, or a Minari
            data set (``minari:name``, or what ``minari.load_dataset`` returned).
        columns: Column of each role: ``{"state": "s", "action": "a", …}``. The roles are episode, step, state,
            action, reward, next_state, terminated and truncated; None leaves out a role, and a vector has a list of
            columns. Roles that are not named are guessed from usual names. Steps are whole numbers, or dates, which
            only say the order within an episode.
        first_step: Number that the log gives to the first step of an episode; 0 or 1, whichever occurs, if None.
            Without a column of steps, 0 says that every episode begins with its first step. It is needed for a log
            with steps from 1 on, and for one without steps that has episodes of fewer than H rows, if laws differ
            between stages or no start is declared, as first states are estimated then.
        policy: Policy that played all episodes of the log, as in `Agent.compare`: an incumbent. It was fixed before
            them. What they earned then counts for `certify` and `compare`.
        missing: What is done about empty cells: "error" refuses the log; "drop_episode" leaves out their episodes,
            which withdraws the proof; "cut_episode" keeps the steps before the first row with one, which keeps the
            proof if the state or the action of that row is empty, and withdraws it if only its outcome is, or if it is
            the first row and no start is declared. Next states may be empty anyway.
        separator: Character between the cells of a CSV file: a comma, a semicolon, a tab or a bar; found from the
            header if None.
        decimal: Decimal character of numbers that are text, "." or ","; found from the cells if None.
        verbose: Print the plan: which column was taken for what, how much is learned, what is ignored.

    Returns:
        What was learned, and what is proven afterwards.

    Raises:
        InvalidInput: A row is wrong; the message names its line and column, and nothing was learned.
        ProtocolError: An episode is open.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> log = {"episode": [0, 0], "state": [0, 1], "action": [1, 1], "reward": [0.0, 0.0], "next_state": [1, 2]}
    >>> learned = agent.learn_from(log, verbose=False)
    >>> agent.n_logged_steps, agent.n_episodes, bool(learned.guarantee)
    (2, 0, True)
    """
    flag("verbose", verbose)
    if self._queue.n_open:
        raise ProtocolError("learn_from was called while an episode is open; end it first")
    if policy is not None:
        certification.check_bounds_policies(self, "learn_from(policy=…)")
    table = None if policy is None else read_tables(self, "learn_from(policy=…)", policy=policy)[0]
    given = {"columns": columns, "first_step": first_step, "missing": missing}
    checked = _read(self, log, **given, separator=separator, decimal=decimal)
    _refuse_known(self, checked)
    if verbose:
        print(checked.plan)
    _learn_whole(self, checked, table)
    claim = certification.certificate_claim(self, False)
    return LearnedLog(checked.plan, claim, self.guarantee, self.assumptions, _statement(claim, self.guarantee))


def export(self: Agent, path: str | os.PathLike[str]) -> int:
    """Write all episodes that were played or learned from as a log, and return the number of steps.

    Learning from the file gives another agent what this one has learned. A column `source` says which episodes
    were played and which were logged.

    Args:
        path: File whose name ends in .csv or .parquet, which is replaced, or ``minari:name`` for a new Minari data
            set.
    """
    if self._seen is None:
        rule = "must be able to write the steps that were seen, and the agent does not keep them"
        fail("export", rule, "keep_log=False", "Make the agent with keep_log=True.")
    if not self._seen.n_episodes:
        raise ProtocolError("export was called before any episode was played or learned from")
    from matrixrl.logs import log_digest, write_log

    seen, logged = self._seen.all()
    write_log(file_path("path", path), seen, logged, self.problem, self._algorithm.name)
    digest = log_digest(seen, [repr(float(number)) for number in range(seen.n_episodes)])
    if digest not in self._exported:
        self._exported.append(digest)
    return seen.n_steps


def visits(self: Agent) -> IntArray:
    """Return how often each action was taken in each state; see `Agent.visits`."""
    if self._seen is None:
        raise ProtocolError("visits needs the steps that were seen; make the agent with keep_log=True")
    if self.problem.kind != "finite":
        raise ProtocolError("visits are counted for numbered states only")
    shape = self.problem.finite_task.n_states, self.problem.actions.size
    if not self._seen.n_episodes:
        return np.zeros(shape, dtype=np.int64)
    seen, _ = self._seen.all()
    pairs = seen.states.astype(np.int64) * shape[1] + seen.actions
    return np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape)


def _read(self: Agent, log: Any, **options: Any) -> CheckedLog:
    from matrixrl.logs import read_log

    return read_log(log, self.problem, **options)


def _refuse_known(self: Agent, checked: CheckedLog) -> None:
    """Refuse a log whose steps were learned from before: data that count twice prove nothing."""
    known = checked.digest in self._digests
    if known or checked.digest in self._exported:
        number = self._digests.index(checked.digest) + 1 if known else 0
        received = f"the same as log {number} of this agent" if known else "what this agent has exported"
        remedy = "If these are other episodes, give them other numbers; else leave it out."
        fail("log", "must not be learned from twice", received, remedy)


def _count_returns(self: Agent, table: IntArray, log: StepLog) -> None:
    """Count what the episodes of a log earned for the policy that played them.

    Those count that are recorded from the first step on, in a state in which certificates begin.
    """
    ledger, problem, offsets = self._ledger, self.problem, log.offsets
    assert ledger.given is not None
    firsts = np.asarray(log.states)[offsets[:-1]]
    counts = log.firsts == 0
    if not ledger.is_estimated:
        counts &= problem.finite_task.start[firsts] > 0.0
        if problem.has_random_start:
            ledger.test_first_states(firsts[counts])
    played, parts = ledger.given.policy(table), log.parts(1)
    earned = [played.played(one.steps()) for one, is_counted in zip(parts, counts, strict=True) if is_counted]
    if earned:
        ledger.given.add(table, earned)


def _learn_whole(self: Agent, checked: CheckedLog, table: IntArray | None = None) -> None:
    """Learn from all steps, or from none if an error or an interrupt comes in between."""
    algorithm, is_done = self._algorithm, False
    before = algorithm.state()
    try:
        algorithm.update_from_log(checked.steps)
        with uninterrupted():
            if table is not None:
                _count_returns(self, table, checked.steps)
            note_log(self, checked.plan, checked.steps, checked.digest)
            restart_if_due(self)
            is_done = True
    except BaseException:
        with uninterrupted():
            if not is_done:
                algorithm.restore(before)
        raise


def note_log(self: Agent, plan: LogPlan, steps: StepLog, digest: bytes) -> None:
    self._log.add_logged(steps.returns(self.problem.task.discount), steps.lengths)
    self._digests.append(digest)
    if self._seen is not None:
        self._seen.add_logged(steps)
    if plan.selection is not None:
        self._note_selection(plan.selection)
    if self._ledger.is_estimated:
        first_steps = np.asarray(steps.offsets)[:-1][steps.firsts == 0]
        self._ledger.count_first_states(np.asarray(steps.states)[first_steps])
    certification.forget_plans(self)


def _statement(of_certificates: Guarantee, regret: Guarantee) -> str:
    first = (
        "certificates hold for steps of any policy, because a bound on a transition law needs the noise of each "
        "step to have mean zero given what came before, for any choice of the action"
        if of_certificates
        else f"certificates are not proven: {of_certificates.reason}"
    )
    second = (
        "the regret of the episodes that this agent plays stays below its bound for the played and the logged "
        "episodes together; what the logged policies lost is no part of it"
        if regret
        else f"no regret bound is proven: {regret.reason}"
    )
    return f"{first}; {second}"
