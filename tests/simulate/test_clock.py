"""The seconds of episodes are those of playing: compiling, which happens once on a machine, is not part of them."""

from __future__ import annotations

import threading
import time

import numba
import numpy as np

import matrixrl
from matrixrl.algorithms.baselines import RandomPlay
from matrixrl.compiling import playing_time
from matrixrl.lab import Store, run_experiment, summarise

_LATE = 3


def loop_to_compile():
    """Return a new loop that numba has not seen, so that its first call compiles it."""

    @numba.njit
    def add_up(values):
        total = 0.0
        for i in range(len(values)):
            total += np.sqrt(values[i]) if values[i] > 0.0 else np.sin(values[i])
        return total

    return add_up


class Compiles(RandomPlay):
    """Random actions; the plan of one episode compiles a loop, and times it by the wall clock."""

    wall = 0.0

    def make_plan(self):
        if self.episode == _LATE:
            started = time.perf_counter()
            loop_to_compile()(np.ones(3))
            Compiles.wall = time.perf_counter() - started
        return super().make_plan()


def test_an_episode_that_compiles_does_not_count_the_compiling():
    started = time.perf_counter()
    result = matrixrl.run_seeds("river-swim", n_episodes=6, seeds=2, agent=Compiles())
    wall = time.perf_counter() - started
    assert Compiles.wall > 0.05, "too fast to tell compiling from playing"
    assert result.seconds[:, _LATE].sum() < 0.5 * Compiles.wall
    assert result.total_seconds < wall - 0.5 * Compiles.wall


def test_the_lab_reports_seconds_without_compiling(tmp_path):
    spec = {"name": "timed", "episodes": 6, "seeds": 2, "env": [{"name": "river-swim"}]}
    spec |= {"agent": [{"name": f"{__name__}:Compiles"}]}
    (env,) = run_experiment(spec, tmp_path / "timed", on="serial", trust_code=True)
    assert env.agents[0].seconds_per_1000 * 6 * 2 / 1000 < 0.5 * Compiles.wall
    with Store.open_to_read(tmp_path / "timed") as store:
        assert summarise(store)[0].agents[0].seconds_per_1000 == env.agents[0].seconds_per_1000


def test_the_clock_stands_still_for_the_thread_that_compiles_only():
    """Compiling in another thread takes time here, unless this thread waits for the compiler too."""
    add_up, before, wall = loop_to_compile(), playing_time(), time.perf_counter()
    add_up(np.ones(3))
    compiled, playing = time.perf_counter() - wall, playing_time() - before
    assert playing < 0.5 * compiled
    before, wall = playing_time(), time.perf_counter()
    other = threading.Thread(target=loop_to_compile(), args=(np.ones(3),))
    other.start()
    other.join()
    waited = time.perf_counter() - wall
    assert playing_time() - before >= waited


def test_what_is_not_compiled_takes_its_time():
    before = playing_time()
    time.sleep(0.05)
    assert playing_time() - before >= 0.05
