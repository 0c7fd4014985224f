"""Some hundred hostile files of every kind; benchmarks/hostile_checkpoints.py tries more than ten thousand."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from agents.contract import Case, play_randomly
from agents.helpers import assert_same_agent
from hostile import BOMBS, DAMAGE, KINDS
from matrixrl import CheckpointError

CASES = [
    Case("matrix-rl", "river-swim", {"switch_growth": 0.5, "known_reward": False}),
    Case("matrix-rl", "river-swim", {"set": "normalised", "switch_growth": 0.5, "known_reward": False}),
    Case("kernel-matrix-rl", "mountain-car"),
    Case("matrix-rl", "functions", {"columns": 40, "preset": "tuned"}),
    Case("q-learning", "frozen-lake"),
    Case("rlsvi", "river-swim"),
    Case("matrix-rl", "discounted stages", {"switch_growth": 0.5, "known_reward": False}),
    Case("ucrl2", "discounted stages"),
    Case("matrix-rl", "endless"),
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path, found = tmp_path_factory.mktemp("saved") / "a", []
    for case in CASES:
        agent = case.build()
        agent.learn(2)
        play_randomly(agent, agent.begin_episode(), np.random.default_rng(0), most=2)
        agent.save(path)
        found.append((case, case.env(), path.read_bytes()))
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_hostile_file_is_refused_or_holds_arrays_that_fit(kind, saved, tmp_path):
    for i, (case, env, data) in enumerate(saved):
        other = saved[(i + 1) % len(saved)][2]
        for n in range(1 if KINDS[kind] in BOMBS else 2):
            rng, odd = np.random.default_rng([i, n]), data
            while odd == data:
                odd = KINDS[kind](data, rng, other)
            (tmp_path / "odd").write_bytes(odd)
            try:
                case.kind.load(tmp_path / "odd", env)
            except CheckpointError:
                continue
            assert KINDS[kind] not in DAMAGE, "loaded without a new digest"


@pytest.mark.parametrize("kind", [bomb.__name__ for bomb in BOMBS])
def test_a_small_file_takes_little_memory(kind, saved, tmp_path):
    case, env, data = saved[3]
    for n in range(2):
        odd = KINDS[kind](data, np.random.default_rng(n), saved[0][2])
        (tmp_path / "odd").write_bytes(odd)
        tracemalloc.start()
        try:
            case.kind.load(tmp_path / "odd", env)
        except CheckpointError:
            pass
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
        assert peak < max(3 * len(odd), 200 << 20)


def test_the_files_themselves_load(saved, tmp_path):
    for case, env, data in saved:
        (tmp_path / "good").write_bytes(data)
        one, other = (case.kind.load(tmp_path / "good", env) for _ in range(2))
        assert_same_agent(one, other)
