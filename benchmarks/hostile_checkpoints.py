"""Thousands of hostile files, loaded in child processes: what is refused, what loads, and how much memory it takes.

    OPENBLAS_NUM_THREADS=1 python benchmarks/hostile_checkpoints.py [FILES_OF_EACH_KIND_AND_AGENT] [JSON_OUTPUT]

Files come from saved agents of every kind, with and without open episodes, and from saved states of simulations
(tests/hostile.py makes them from those). A file is refused with `CheckpointError`, or it loads. A file without a new
digest that loads must be the agent that was saved. One with a new digest that loads must be a possible state: it plays
an episode, and every number stays finite. Peak memory is the largest resident size during a load, above what the
process had before.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from agents.contract import CASES, Case, play_randomly
from hostile import DAMAGE, KINDS
from matrixrl import CheckpointError, MatrixRL, make
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation

UNSEALED = {make_file.__name__ for make_file in DAMAGE}
_CHILDREN = 2
_PATIENCE = 5  # seconds of processor time
_ADDRESS_SPACE = 6 << 30  # more than any file may ask for, less than would harm the machine


class TooSlow(BaseException):
    """A load took longer than any user waits."""


def _too_slow(*_: object) -> None:
    raise TooSlow


class AgentTarget:
    """A saved agent: `load` reads a file into another one."""

    def __init__(self, name: str, build: Callable[[], Any], world: Callable[[], Any], path: Path, moment: int) -> None:
        self.name, self.world, self._path = name, world(), path
        agent = build()
        if moment > 0:
            agent.learn(4)
        for i in range(moment):
            play_randomly(agent, agent.begin_episode(), np.random.default_rng(i), most=2)
        self.kind, self.finite = type(agent), agent.problem.kind == "finite"
        agent.save(path)
        self.data = path.read_bytes()

    def load(self, data: bytes, *, alone: bool = False) -> Any:
        self._path.write_bytes(data)
        return self.kind.load(self._path, None if alone and self.finite else self.world)

    @staticmethod
    def state(agent: Any) -> Any:
        problem, log, algorithm = agent.problem, agent._log, agent.algorithm
        names = ("states", "actions", "rewards", "next_states", "terminated")
        episodes = [
            [*(getattr(e.data, name) for name in names), e.data.off_plan, e._advised] for e in agent.open_episodes
        ]
        plans = [e.data.plan.arrays() for e in agent.open_episodes]
        history = {name: getattr(log, name) for name in log.__slots__}
        known = (
            problem.task.horizon,
            problem.task.reward_range,
            problem.states,
            problem.actions,
            problem.pseudo,
        )
        settings = repr(agent.settings)
        return (
            algorithm.state(),
            history,
            episodes,
            plans,
            known,
            agent._ledger.start_doubt,
            agent._ledger.arrays()["first_states"].tolist(),
            agent.seed,
            settings,
            algorithm.compiled,
        )

    @staticmethod
    def play_on(agent: Any) -> None:
        agent.algorithm.use_compiled(False)  # loading the loops takes longer than all files of an agent
        for episode in agent.open_episodes:
            play_randomly(agent, episode, np.random.default_rng(0))
            episode.end() if episode.stage else episode.abandon()
        play_randomly(agent, agent.begin_episode(), np.random.default_rng(1), most=3)
        agent.end_episode()
        _check_finite(agent.algorithm.state())


class SimulationTarget:
    """A saved state of a simulation."""

    def __init__(self, name: str, env: str, **settings: Any) -> None:
        self.name, self._env, self._settings = name, env, settings
        first = self._new(range(3))
        first.run()
        self.data = save_simulation(first)

    def _new(self, window: range) -> Simulation:
        seeds = [0, 1] if self._env == "river-swim" else [0]
        short = {"env_settings": {"horizon": 12}}
        return Simulation(self._env, n_episodes=5, seeds=seeds, window=window, **{**short, **self._settings})

    def load(self, data: bytes, *, alone: bool = False) -> Any:
        del alone
        simulation = self._new(range(3, 5))
        restore_simulation(simulation, data)
        return simulation

    @staticmethod
    def state(simulation: Any) -> Any:
        return simulation.algorithm.state(), simulation.ledger.alarmed, simulation.world.to_array(), simulation.done

    @staticmethod
    def play_on(simulation: Any) -> None:
        simulation.run()
        _check_finite(simulation.algorithm.state())


def _check_finite(state: dict[str, Any]) -> None:
    bad = [name for name, array in state.items() if np.isnan(array).any()]
    if bad:
        raise AssertionError(f"{bad} became NaN")


def targets(folder: Path) -> list[Any]:
    """Return saved agents of every kind, and saved simulations."""

    def low_rank() -> Any:
        return make("linear-mdp", n_states=20, d=4, horizon=3)

    cases = [(str(case), case.build, case.env) for case in CASES]
    for settings in ({}, {"known_reward": False}, {"columns": 10}, {"columns": 10, "switch_growth": 0.5}):
        words = f"matrix-rl on low-rank {settings}"
        cases.append((words, lambda s=settings: MatrixRL(low_rank(), seed=0, **s), low_rank))
    grid = Case("kernel-matrix-rl", "river-swim", {"preset": "tuned", "known_reward": False})
    cases.append((str(grid), grid.build, grid.env))
    found: list[Any] = [
        AgentTarget(name, build, world, folder / "agent", i % 3) for i, (name, build, world) in enumerate(cases)
    ]
    found.append(SimulationTarget("simulation of matrix-rl", "river-swim"))
    found.append(SimulationTarget("simulation of psrl", "river-swim", agent="psrl"))
    found.append(SimulationTarget("simulation of kernel-matrix-rl", "mountain-car"))
    return found


def _same(one: Any, other: Any) -> bool:
    try:
        np.testing.assert_equal(one, other)
    except AssertionError:
        return False
    return True


def _memory(field: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise AssertionError(field)


def _peak_of(work: Callable[[], Any]) -> tuple[Any, int]:
    """Return a result, and by how much the resident size of the process grew at most meanwhile."""
    Path("/proc/self/clear_refs").write_text("5")  # resets the largest size
    before = _memory("VmRSS")
    result = work()
    return result, max(_memory("VmHWM") - before, 0)


def try_file(target: Any, data: bytes, *, alone: bool) -> tuple[str, str, int, Any]:
    """Return the outcome of loading a file, words about it, its peak memory and what was loaded.

    Args:
        target: What the file came from.
        data: The file.
        alone: Load without an environment, where none is needed.
    """

    def work() -> tuple[str, str, Any]:
        try:
            return "loaded", "", target.load(data, alone=alone)
        except CheckpointError as error:
            cause = error.__cause__
            return ("out of memory" if isinstance(cause, MemoryError) else "refused"), str(error)[:200], None
        except (Exception, TooSlow) as error:  # noqa: BLE001  # what this program counts
            return f"foreign: {type(error).__name__}", str(error)[:200], None
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    signal.setitimer(signal.ITIMER_PROF, _PATIENCE)
    (outcome, words, loaded), peak = _peak_of(work)
    return outcome, words, peak, loaded


def child(first: int, step: int, count: int, *kinds: str) -> None:
    """Try the files of every `step`-th target and write one line of JSON for each file."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGPROF, _too_slow)
    chosen = {name: KINDS[name] for name in kinds} or KINDS
    with tempfile.TemporaryDirectory() as folder:
        found = targets(Path(folder))
        own = [target.state(target.load(target.data)) for target in found]
        resource.setrlimit(resource.RLIMIT_AS, (_memory("VmSize") + _ADDRESS_SPACE,) * 2)
        for i in range(first, len(found), step):
            target = found[i]
            for k, (kind, make_file) in enumerate(chosen.items()):
                for n in range(count):
                    rng = np.random.default_rng([i, k, n])
                    other = found[(i + 1 + int(rng.integers(len(found) - 1))) % len(found)].data
                    data = target.data
                    while data == target.data:  # an edit may change nothing
                        data = make_file(target.data, rng, other)
                    outcome, words, peak, loaded = try_file(target, data, alone=n % 2 == 1)
                    if outcome == "loaded":
                        if _same(target.state(loaded), own[i]):
                            outcome = "same"
                        elif kind in UNSEALED:
                            outcome = "changed"
                        try:
                            signal.setitimer(signal.ITIMER_PROF, _PATIENCE)
                            target.play_on(loaded)
                            signal.setitimer(signal.ITIMER_PROF, 0)
                        except (TooSlow, MemoryError):  # the horizon that the file says takes as long as it takes
                            words = "plays slowly"
                        except Exception as error:  # noqa: BLE001
                            outcome, words = f"{outcome}, impossible", f"{type(error).__name__}: {error}"[:200]
                    signal.setitimer(signal.ITIMER_PROF, 0)
                    del loaded
                    row = [target.name, kind, n, len(data), outcome, words, peak]
                    sys.stdout.write(json.dumps(row) + "\n")
                    sys.stdout.flush()


def main(count: int, output: Path | None) -> None:
    """Run two children and print the table."""
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        lines = [Path(folder) / str(i) for i in range(_CHILDREN)]
        children = []
        for i, path in enumerate(lines):
            words = ["--child", str(i), str(_CHILDREN), str(count)]
            with path.open("w") as file:
                children.append(subprocess.Popen([sys.executable, __file__, *words], stdout=file, env=env))
        ends = [process.wait() for process in children]
        rows = [json.loads(line) for path in lines for line in path.read_text().splitlines()]
    if output is not None:
        output.write_text(json.dumps(rows))
    table: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    most: dict[str, int] = defaultdict(int)
    over = [row for row in rows if row[6] > max(3 * row[3], 200 << 20)]
    for _, kind, _, _, outcome, _, peak in rows:
        column = "foreign" if outcome.startswith("foreign") else "impossible" if "impossible" in outcome else outcome
        table[kind][column] += 1
        most[kind] = max(most[kind], peak)
    columns = ("refused", "same", "loaded", "changed", "foreign", "impossible", "out of memory")
    print(f"| kind | files | {' | '.join(columns)} | peak MB |")
    print("|" + "---|" * (len(columns) + 3))
    for kind in KINDS:
        counts = [table[kind][column] for column in columns]
        print(f"| {kind} | {sum(counts)} | {' | '.join(map(str, counts))} | {most[kind] / 2**20:.1f} |")
    counts = [sum(table[kind][column] for kind in KINDS) for column in columns]
    print(f"| all | {sum(counts)} | {' | '.join(map(str, counts))} | {max(most.values()) / 2**20:.1f} |")
    print(f"{len(over)} files above 3 times their size and 200 MB; children ended with {ends}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        child(*(int(word) for word in sys.argv[2:5]), *sys.argv[5:])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 10, Path(sys.argv[2]) if len(sys.argv) > 2 else None)
