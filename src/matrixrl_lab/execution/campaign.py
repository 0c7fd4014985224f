"""Campaigns: play all episodes that a store does not have yet."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from matrixrl.play.resume import is_readable
from matrixrl_lab.execution.blocks import BlockResult, Order
from matrixrl_lab.execution.executors import Executor, OrderResult
from matrixrl_lab.store import Store

__all__ = ["Campaign", "Observer", "Outcome"]


@dataclass(frozen=True)
class Outcome:
    """Result of a campaign.

    Attributes:
        seconds: Wall time of the campaign, in seconds.
        episodes: Number of episodes that the campaign played, over all seeds.
        failed: Index of the cell, seeds and reason of every task that failed.
        restarted: Number of runs that had episodes and were played again from the beginning.
    """

    seconds: float
    episodes: int
    failed: list[tuple[int, tuple[int, ...], str]]
    restarted: int = 0


class Observer(Protocol):
    """Object that receives every block after it was stored."""

    def block(self, order: Order, result: BlockResult) -> None:
        """Process one stored block."""
        ...


class Campaign:
    """Play the missing episodes of a store, block by block.

    A task is one batch of seeds of one cell; its blocks are played one after the other.

    Args:
        store: Store, opened for writing.
        executor: Executor that plays the blocks.
        observers: Objects that receive every block after it was stored.
        trust_code: Whether cells may import code.

    Attributes:
        total: Number of episodes of all runs.
        stored: Number of episodes in the store.
        tasks: Number of tasks.
        tasks_done: Number of finished tasks.
        failures: Number of failed tasks.
        restarted: Number of runs that begin again, because their state was not stored or is of another version of
            matrixrl.
    """

    def __init__(
        self, store: Store, executor: Executor, observers: Sequence[Observer] = (), *, trust_code: bool = False
    ) -> None:
        self._store, self._executor, self._trust_code = store, executor, trust_code
        self._observers = observers
        self._waiting: deque[Order] = deque()
        self.total = len(store.experiment.cells) * len(store.experiment.seeds) * store.experiment.episodes
        self.stored = self.tasks = self.tasks_done = self.failures = self.restarted = 0
        self._find_work()

    def _find_work(self) -> None:
        """Count what is stored and prepare the next order of every unfinished task."""
        experiment = self._store.experiment
        rows = {(row.cell, row.seed): row for row in self._store.runs()}
        for number, cell in enumerate(experiment.cells):
            size = experiment.batch if cell.batched else 1
            for i in range(0, len(experiment.seeds), size):
                seeds = tuple(experiment.seeds[i : i + size])
                done = rows[number, seeds[0]].episodes
                state = self._store.state(number, seeds[0])
                is_lost = state is None or state[0] != done or not is_readable(state[1])
                if 0 < done < experiment.episodes and is_lost:
                    self._store.restart(number, seeds)
                    self.restarted += len(seeds)
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
            regret_every=experiment.regret_every,
        )

    def run(self, tick: Callable[[Campaign], None] | None = None) -> Outcome:
        """Play all missing episodes; a KeyboardInterrupt is raised again and loses the blocks in progress.

        Args:
            tick: Function that is called with the campaign at the start and after each poll of the executor, to
                show progress.
        """
        started, before = time.perf_counter(), self.stored
        failed: list[tuple[int, tuple[int, ...], str]] = []
        in_progress = 0
        try:
            if tick is not None:
                tick(self)  # before anything is played
            while self._waiting or in_progress:
                while self._waiting and in_progress < self._executor.slots:
                    self._executor.submit(self._waiting.popleft())
                    in_progress += 1
                for answer in self._executor.collect():
                    in_progress -= 1
                    self._store_answer(answer, failed)
                if tick is not None:
                    tick(self)
        finally:
            self._executor.close()
        return Outcome(time.perf_counter() - started, self.stored - before, failed, self.restarted)

    def _store_answer(self, answer: OrderResult, failed: list[tuple[int, tuple[int, ...], str]]) -> None:
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
            # before tasks that have not started, so that cells finish early and can be inspected
            self._waiting.appendleft(self._order(order.key[0], order.seeds, after, result.state))
        else:
            self.tasks_done += 1
