"""What the dashboard shows, taken at most once a second from published state, for any number of viewers."""

from __future__ import annotations

import json
import math
from itertools import islice
from typing import TYPE_CHECKING, Any

from matrixrl import __version__
from matrixrl.errors import StoreError
from matrixrl.pages.server import Feed
from matrixrl_serve.dashboard.event_text import event_row
from matrixrl_serve.dashboard.history import DecisionCounter, DecisionHistory, VisitTable
from matrixrl_serve.dashboard.states import Query, StateTable
from matrixrl_serve.decisions.decision import followed
from matrixrl_serve.problem import LOGGED
from matrixrl_serve.projection import Projection

if TYPE_CHECKING:
    from matrixrl_serve.service import Service

__all__ = ["Dashboard"]

_EPISODES = 25  # open episodes that are listed
_EVENTS = 15
_PATIENCE = 1.0  # seconds that a snapshot waits for the log


class Dashboard:
    """The state of a service for its page: parts of a feed, and pages of the table of states.

    It reads what is published and what is in the log.

    Attributes:
        feed: The parts ``now`` (what goes on), ``plan`` (what is proven) and ``visits`` (what was counted), as JSON.
    """

    def __init__(self, service: Service) -> None:
        problem = service.problem
        self._service = service
        self._counter = DecisionCounter()
        self._history = DecisionHistory(service.log, problem)
        self._visits = VisitTable(service.log, problem.states.size, problem.actions.size)
        self._table = StateTable(problem)
        self._shown: dict[str, Any] = {}  # what was durable when it was last taken
        self.feed = Feed(self._take)

    def sample(self) -> None:
        """Note how many decisions there were so far; call it about once a second."""
        self._counter.sample(self._service.decisions.projection.counts["asked"])

    def states(self, query: Query) -> dict[str, Any]:
        """Return a page of the table of states as plain data."""
        self.feed.latest()  # counts visits, if that was not done a moment ago
        found = self._table.page(query, self._service.decisions.newest, self._visits.table)
        self._service.settle()
        return found

    def _take(self) -> dict[str, str]:
        parts = {"now": self._now(self._service.decisions.projection)}
        try:
            plan = self._plan()
            self._service.settle(_PATIENCE)  # what is shown is durable
            last = self._service.log.last()[0]
            self._history.refresh(last)
            self._visits.refresh(last)
            parts["now"]["events"] = self._events(last)
            parts["plan"] = plan | {"curves": self._history.curves(), "changes": self._history.changes}
            parts["visits"] = {"seq": self._visits.seq, "last": last, "total": int(self._visits.table.sum())}
            self._shown = parts["now"]
        except StoreError as error:  # the page says so, and keeps what it showed
            parts["now"] = {
                **(self._shown or self._now(Projection(self._service.problem.file.mode))),
                "log": str(error),
            }
        return {name: json.dumps(part, allow_nan=False, separators=(",", ":")) for name, part in parts.items()}

    def _now(self, projection: Projection) -> dict[str, Any]:
        service, minutes = self._service, self._counter.by_minute()
        return {
            "name": service.problem.file.name,
            "library": __version__,
            "mode": projection.mode,
            "mode_by_request": projection.mode_by_request,
            "follows": followed(projection.mode, service.problem),
            "alarm": projection.alarm,
            "learner": service.failure,
            "log": None if service.writer.error is None else str(service.writer.error),
            "behind": None if math.isnan(service.n_behind) else service.n_behind,
            "n_opened": projection.n_opened,
            "n_asked": projection.counts["asked"],
            "n_told": projection.counts["told"],
            "minutes": minutes,
            "n_open": len(projection.episodes),
            "held_back": projection.n_held_back,
            "episodes": [episode.summary() for episode in list(islice(projection.episodes.values(), _EPISODES))],
            "events": [],
        }

    def _plan(self) -> dict[str, Any]:
        service, file, newest = self._service, self._service.problem.file, self._service.decisions.newest
        incumbent = file.incumbent if file.incumbent in (None, LOGGED) else "known"
        return {
            "plan": newest.version,
            "episodes": newest.report["episodes"],
            "certificate": newest.report["certificate"],
            "assumptions": newest.report["assumptions"],
            "comparison": newest.report["comparison"],
            "incumbent": incumbent,
            "promote": file.promote,
            "horizon": service.problem.horizon,
            "digest": file.digest,
        }

    def _events(self, last: int) -> list[dict[str, Any]]:
        """Return the last events of the log, the newest first."""
        service = self._service
        rows = service.log.page(max(0, last - _EVENTS), limit=_EVENTS)
        return [event_row(event, service.problem) for event in reversed(rows)]
