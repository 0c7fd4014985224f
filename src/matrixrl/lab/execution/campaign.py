"""Running an experiment: from what a store still lacks to a store that lacks nothing."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from matrixrl.lab.execution.blocks import BlockResult, Order
from matrixrl.lab.execution.executors import Answer, Executor
from matrixrl.lab.store import Store

__all__ = ["Campaign", "Observer", "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """How a campaign ended.

    Attributes:
        seconds: wall time of this sitting.
        episodes: played in this sitting, over all seeds.
        failed: (cell, seeds, reason) of every task that failed.
    """

    seconds: float
    episodes: int
    failed: list[tuple[int, tuple[int, ...], str]]


class Observer(Protocol):
    """Somebody who is told of every block, after it is stored."""

    def block(self, order: Order, result: BlockResult) -> None: ...


class Campaign:
    """Everything that a store still lacks, as orders.

    Args:
        store: open to write.
        executor: where to play.
        observers: Told of every block, after it is stored.
        trust_code: Whether cells may import code.

    Attributes:
        total: episodes of all runs.
        stored: episodes that are in the store.
        tasks, tasks_done, failures: batches of seeds of a cell: all, finished, failed.
    """

    def __init__(
        self, store: Store, executor: Executor, observers: Sequence[Observer] = (), *, trust_code: bool = False
    ) -> None:
        self._store, self._executor, self._trust_code = store, executor, trust_code
        self._observers = observers
        self._waiting: deque[Order] = deque()
        self.total = len(store.experiment.cells) * len(store.experiment.seeds) * store.experiment.episodes
        self.stored = self.tasks = self.tasks_done = self.failures = 0
        self._find_work()

    def _find_work(self) -> None:
        experiment = self._store.experiment
        rows = {(row.cell, row.seed): row for row in self._store.runs()}
        for number, cell in enumerate(experiment.cells):
            size = experiment.batch if cell.batched else 1
            for i in range(0, len(experiment.seeds), size):
                seeds = tuple(experiment.seeds[i : i + size])
                done = rows[number, seeds[0]].episodes
                state = self._store.state(number, seeds[0])
                if 0 < done < experiment.episodes and (state is None or state[0] != done):
                    self._store.restart(number, seeds)
                    done, state = 0, None
                self.stored += done * len(seeds)
                self.tasks += 1
                self.tasks_done += done == experiment.episodes
                if done < experiment.episodes:
                    self._waiting.append(self._order(number, seeds, done, None if state is None else state[1]))

    def _order(self, number: int, seeds: tuple[int, ...], first: int, state: bytes | None) -> Order:
        experiment, cell = self._store.experiment, self._store.experiment.cells[number]
        left = experiment.episodes - first
        return Order(
            key=(number, seeds[0]),
            cell=cell,
            seeds=seeds,
            episodes=experiment.episodes,
            first=first,
            count=min(experiment.block, left),
            certify=experiment.certify,
            state=state,
            trust_code=self._trust_code,
        )

    def run(self, tick: Callable[[Campaign], None] | None = None) -> Outcome:
        """Play everything that is left; an interrupt passes through and costs the blocks under way.

        Args:
            tick: called after each look at the executor, for progress.
        """
        started, before = time.perf_counter(), self.stored
        failed: list[tuple[int, tuple[int, ...], str]] = []
        under_way = 0
        try:
            while self._waiting or under_way:
                while self._waiting and under_way < self._executor.slots:
                    self._executor.submit(self._waiting.popleft())
                    under_way += 1
                for answer in self._executor.collect():
                    under_way -= 1
                    self._take(answer, failed)
                if tick is not None:
                    tick(self)
        finally:
            self._executor.close()
        return Outcome(time.perf_counter() - started, self.stored - before, failed)

    def _take(self, answer: Answer, failed: list[tuple[int, tuple[int, ...], str]]) -> None:
        order, result = answer.order, answer.result
        if result is None:
            reason = answer.reason or "unknown"
            self._store.fail(order.key[0], order.seeds, reason)
            failed.append((order.key[0], order.seeds, reason))
            self.failures += 1
            return
        self._store.write_block(
            order.key[0],
            order.seeds,
            order.first,
            result.columns,
            state=result.state,
            alarms=result.alarms,
            facts=result.facts,
            outcomes=result.outcomes,
        )
        count = result.columns["return"].shape[1]
        self.stored += count * len(order.seeds)
        for observer in self._observers:
            observer.block(order, result)
        after = order.first + count
        if after < order.episodes:
            # ahead of new tasks: a cell that is finished can be looked at
            self._waiting.appendleft(self._order(order.key[0], order.seeds, after, result.state))
        else:
            self.tasks_done += 1
