from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from matrixrl.play import Simulation
from timing import cpu_seconds, seconds

TUNED = {"preset": "tuned"}


def test_32_replicas_against_32_runs(benchmark, report):
    """RiverSwim-6, 300 episodes: together, and one by one through the same code."""

    def play(seeds):
        Simulation("river-swim", n_episodes=300, seeds=seeds, settings=TUNED, compiled=False).run(blas_threads=None)

    play([0])
    together = min(seconds(lambda: play(list(range(32)))) for _ in range(3))
    apart = sum(min(seconds(lambda s=s: play([s])) for _ in range(3)) for s in range(32))
    benchmark.pedantic(lambda: play(list(range(32))), rounds=1)
    per_seed = {"s_per_1000_together": round(together / 32 / 0.3, 3), "alone": round(apart / 32 / 0.3, 3)}
    report("throughput: 32 replicas at once / one by one, RiverSwim-6", apart / together, ">= 10", **per_seed)
    assert apart / together >= 10


@pytest.mark.parametrize("count", [1, 32])
def test_compiled_episodes_against_numpy(count, benchmark, report):
    """RiverSwim-6, 300 episodes, exact regret included; loaded before the clock starts."""

    def play(compiled):
        Simulation("river-swim", n_episodes=300, seeds=range(count), settings=TUNED, compiled=compiled).run()

    play(True)
    loops, arrays = (min(seconds(lambda c=c: play(c)) for _ in range(3)) for c in (True, False))
    benchmark.pedantic(lambda: play(True), rounds=1)
    shown = {"s_per_1000_compiled": round(loops / count / 0.3, 4), "numpy": round(arrays / count / 0.3, 3)}
    report(f"compiled episodes against numpy, RiverSwim-6, {count} seeds", arrays / loops, ">= 3", **shown)
    assert arrays / loops >= 3


@pytest.mark.parametrize(
    ("env", "settings"),
    [("river-swim", {}), ("linear-mdp", {"n_states": 200, "d": 20, "horizon": 10})],
    ids=["one-hot", "dense"],
)
def test_cost_per_episode_is_flat(env, settings, benchmark, report):
    def simulate(n):
        return Simulation(env, n_episodes=n, seeds=[0], settings=TUNED, env_settings=settings)

    old = simulate(10_050)
    for _ in range(9_000):
        old.advance()
    early, late = [], []
    for _ in range(5):  # young episodes and old ones in turns, so that the machine's mood is the same for both
        young = simulate(1_000)
        for _ in range(200):
            early.append(cpu_seconds(young.advance))
            late.append(cpu_seconds(old.advance))
    benchmark.pedantic(old.advance, rounds=50)
    one, two = (np.sort(t)[: len(t) * 9 // 10].mean() for t in (early, late))
    shown = {"early_ms": round(one * 1e3, 3), "late_ms": round(two * 1e3, 3)}
    report(f"episodes 9,001-10,000 / 1-1,000, {env}", two / one, "<= 1.1", **shown)
    assert two / one <= 1.1


def test_a_thousand_states_in_little_memory(report):
    """S=1000, A=10, d=10, H=10, 1,000 episodes in a process of its own: peak memory and seconds."""
    code = (
        "import json; from pathlib import Path; from matrixrl import run_seeds; "
        "r = run_seeds('linear-mdp', n_episodes=1000, seeds=1, "
        "env_settings={'n_states': 1000, 'n_actions': 10, 'd': 10, 'horizon': 10}); "
        "lines = Path('/proc/self/status').read_text().splitlines(); "  # ru_maxrss starts with that of the parent
        "peak = next(float(x.split()[1]) / 1024 for x in lines if x.startswith('VmHWM')); "
        "print(json.dumps([peak, r.total_seconds, float(r.final_regret[0])]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peak, taken, regret = json.loads(done.stdout)
    shown = {"seconds_per_1000_episodes": round(taken, 2), "regret": round(regret, 2)}
    report("peak memory in MB, S=1000 A=10 d=10 H=10, 1,000 episodes", peak, "< 600", **shown)
    assert peak < 600
