"""What an agent learns from logs that others recorded, and what it gives out of all that it saw."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from matrixrl.agents.opening import Opening
from matrixrl.checks import fail, file_path, flag
from matrixrl.errors import ProtocolError
from matrixrl.interrupts import uninterrupted
from matrixrl.logs import LogPlan, StepLog, read_log, write_log
from matrixrl.logs.reading import CheckedLog, log_digest
from matrixrl.records import IntArray

__all__ = ["LearnedLog", "Logged"]


@dataclass(frozen=True, slots=True)
class LearnedLog:
    """What was learned from a log, and what is proven afterwards.

    Attributes:
        plan: What was taken from the log.
        certificates: True if certificates are proven under `assumptions`, else the reason why they are not.
        guarantee: True if the regret bound of the episodes that are played is proven, else the reason why it is not.
        assumptions: Assumptions of both, in words; empty if nothing is proven.
        statement: What the two claims mean after a log, in words.
    """

    plan: LogPlan
    certificates: Literal[True] | str
    guarantee: Literal[True] | str
    assumptions: str
    statement: str

    def __str__(self) -> str:
        return f"{self.plan}\n{self.statement}"


class Logged(Opening):
    """The methods of an agent that read and write logs."""

    _digests: list[bytes]
    """Digests of the logs that were learned from."""
    _exported: list[bytes]
    """Digests of the logs that were exported."""

    @property
    def n_logged_episodes(self) -> int:
        """Number of episodes of logs that were learned from; they do not count in `n_episodes`."""
        return self._algorithm.logged_episodes

    @property
    def n_logged_steps(self) -> int:
        """Number of steps of logs that were learned from."""
        return self._algorithm.logged_steps

    @property
    def keep_log(self) -> bool:
        """Whether the steps of all episodes are kept, so that `export` can write them."""
        return self._seen is not None

    @property
    def visits(self) -> IntArray:
        """How often each action was taken in each state of a finite problem, played and logged steps together: (S, A).

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 12}, seed=0)
        >>> _ = agent.learn(n_episodes=5)
        >>> int(agent.visits.sum())
        60
        """
        if self._seen is None:
            raise ProtocolError("visits needs the steps that were seen; make the agent with keep_log=True")
        if self.problem.kind != "finite":
            raise ProtocolError("visits are counted for numbered states only")
        shape = self.problem.finite_task.n_states, self.problem.actions.size
        if not self._seen.n_episodes:
            return np.zeros(shape, dtype=np.int64)
        seen, _ = self._seen.all()
        pairs = seen.states.astype(np.int64) * shape[1] + self.problem.own_number(seen.actions.astype(np.int64))
        return np.bincount(pairs, minlength=shape[0] * shape[1]).reshape(shape)

    def plan_log(self, log: Any, *, columns: Any = None, first_step: int | None = None) -> LogPlan:
        """Return what `learn_from` would learn from a log, after all its rows were checked; nothing is learned.

        Args:
            log: As in `learn_from`.
            columns: As in `learn_from`.
            first_step: As in `learn_from`.

        >>> import matrixrl
        >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
        >>> log = {"episode": [0, 0], "state": [0, 1], "action": [1, 1], "reward": [0.0, 0.0], "next_state": [1, 2]}
        >>> agent.plan_log(log).n_steps
        2
        """
        return self._read(log, columns, first_step).plan

    def learn_from(
        self, log: Any, *, columns: Any = None, first_step: int | None = None, verbose: bool = True
    ) -> LearnedLog:
        """Learn from recorded episodes, whole or partial, of any policy; all of them, or none if a row is wrong.

        Args:
            log: Path of a CSV or Parquet file, a data frame, a table of pyarrow, a dictionary of columns, or a Minari
                data set (``minari:name``, or what ``minari.load_dataset`` returned).
            columns: Column of each role: ``{"state": "s", "action": "a", …}``. The roles are episode, step, state,
                action, reward, next_state, terminated and truncated; None leaves out a role, and a vector has a list of
                columns. Roles that are not named are guessed from usual names.
            first_step: Number that the log gives to the first step of an episode; 0 or 1, whichever occurs, if None. It
                is needed for a log with steps from 1 on if laws differ between stages.
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
        >>> agent.n_logged_steps, agent.n_episodes, learned.guarantee
        (2, 0, True)
        """
        flag("verbose", verbose)
        if self._order.n_open:
            raise ProtocolError("learn_from was called while an episode is open; end it first")
        self._algorithm.check_log()
        checked = self._read(log, columns, first_step)
        self._refuse_known(checked)
        if verbose:
            print(checked.plan)
        self._learn_whole(checked)
        return LearnedLog(
            checked.plan, self._certificate_words(False), self.guarantee, self.assumptions, self._statement()
        )

    def export(self, path: str | os.PathLike[str]) -> int:
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
        seen, logged = self._seen.all()
        write_log(file_path("path", path), seen, logged, self.problem, self._algorithm.name)
        digest = log_digest(seen, [repr(float(number)) for number in range(seen.n_episodes)])
        if digest not in self._exported:
            self._exported.append(digest)
        return seen.n_steps

    def _read(self, log: Any, columns: Any, first_step: int | None) -> CheckedLog:
        return read_log(log, self.problem, columns=columns, first_step=first_step)

    def _refuse_known(self, checked: CheckedLog) -> None:
        """Refuse a log whose steps were learned from before: data that count twice prove nothing."""
        known = checked.digest in self._digests
        if known or checked.digest in self._exported:
            number = self._digests.index(checked.digest) + 1 if known else 0
            received = f"the same as log {number} of this agent" if known else "what this agent has exported"
            remedy = "If these are other episodes, give them other numbers; else leave it out."
            fail("log", "must not be learned from twice", received, remedy)

    def _learn_whole(self, checked: CheckedLog) -> None:
        """Learn from all steps, or from none if an error or an interrupt comes in between."""
        algorithm, problem, is_done = self._algorithm, self.problem, False
        before = algorithm.state()
        try:
            algorithm.update_from_log(checked.steps)
            with uninterrupted():
                self._note_log(checked.plan, checked.steps, checked.digest)
                if self.problem is not problem:  # rewards outside the range have widened it
                    self._certified.forget()
                is_done = True
        except BaseException:
            with uninterrupted():
                if not is_done:
                    algorithm.undo(before, problem)
            raise

    def _note_log(self, plan: LogPlan, steps: StepLog, digest: bytes) -> None:
        self._log.add_logged(steps.returns(self.problem.discount), steps.lengths)
        self._digests.append(digest)
        if self._seen is not None:
            self._seen.add_logged(steps)
        if plan.selection is not None:
            self._note_selection(plan.selection)
        self._first.observe_logged(np.asarray(steps.states)[np.asarray(steps.offsets)[:-1][steps.firsts == 0]])
        self._advice = None

    def _statement(self) -> str:
        certificates, regret = self._certificate_words(False), self.guarantee
        first = (
            "certificates hold for steps of any policy, because a bound on a transition law needs the noise of each "
            "step to have mean zero given what came before, for any choice of the action"
            if certificates is True
            else f"certificates are not proven: {certificates}"
        )
        second = (
            "the regret of the episodes that this agent plays stays below its bound for the played and the logged "
            "episodes together; what the logged policies lost is no part of it"
            if regret is True
            else f"no regret bound is proven: {regret}"
        )
        return f"{first}; {second}"
