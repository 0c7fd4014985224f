"""Hardness and the values that normalise regret, by a second route each; rows that are played once."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import FiniteMDP, solve
from matrixrl.errors import InvalidInput, StoreError
from matrixrl.scorecards.colosseum import Row, draw_rows, play_tables
from matrixrl.scorecards.kept import keep, read_kept
from matrixrl.scorecards.records import read_records, write_records
from matrixrl.scorecards.tables import find_tables, hardness, read_table, uniform_value, worst_value, write_table
from tolerances import EXACT


@pytest.fixture
def mdp():
    rng = np.random.default_rng(1)
    law = rng.random((4, 2, 4)) * (rng.random((4, 2, 4)) < 0.6) + 1e-12
    law[:, :, 3] = 0.0  # never reached, and not a start
    law /= law.sum(axis=2, keepdims=True)
    return FiniteMDP(law, rng.random((4, 2)), 5, start=[1.0, 0.0, 0.0, 0.0])


@pytest.fixture
def folder(tmp_path, mdp):
    file = tmp_path / "ergodic-TinyEpisodic-prms_0.npz"
    write_table(file, law_of(mdp), mdp.task.reward, mdp.task.start, 5)
    return tmp_path


def law_of(mdp):
    return np.stack([mdp.transitions.rows(np.arange(4), np.full(4, a)) for a in range(2)], axis=1)


def test_a_table_comes_back_in_single_precision(folder, mdp):
    [path] = find_tables(folder)
    back = read_table(path)
    np.testing.assert_allclose(law_of(back), law_of(mdp), atol=1e-7)  # P was stored in single precision
    assert np.array_equal(back.task.reward, mdp.task.reward)
    assert np.array_equal(back.task.start, mdp.task.start)
    assert back.horizon == mdp.horizon


def test_the_worst_value_is_minus_the_best_of_negated_rewards(mdp):
    negated = FiniteMDP(law_of(mdp), -mdp.task.reward, 5, start=mdp.task.start, reward_range=(-1.0, 0.0))
    assert worst_value(mdp) == pytest.approx(-solve(negated).start_value, abs=EXACT)
    assert worst_value(mdp) < uniform_value(mdp) < solve(mdp).start_value


def test_hardness_is_the_sum_over_states_and_stages(mdp):
    values, reachable = solve(mdp).values, {0}
    norm, total = 0.0, 0.0
    for h in range(5):
        following = set()
        for s in range(4):
            for a in range(2):
                p = mdp.transitions.rows(np.array([s]), np.array([a]))[0]
                mean = p @ values[h + 1]
                norm = max(norm, np.sqrt(p @ (values[h + 1] - mean) ** 2))
                if s in reachable:
                    total += 1.0 / (values[h, s] - mdp.task.reward[s, a] - mean + 0.1)
                    following |= set(np.flatnonzero(p).tolist())
        reachable = following
    found = hardness(mdp)
    assert found.value_norm == pytest.approx(norm, abs=EXACT)
    assert found.gaps == pytest.approx(total, rel=EXACT)


def test_runs_are_played_once_and_again_after_a_change(folder):
    paths = find_tables(folder)
    runs = folder / "runs"

    def play(**more):
        options = {"agents": ["practical", "q-learning"], "n_steps": 500, **more}
        return [row for _, _, row in play_tables(paths, runs, **options) if row is not None]

    rows = play()
    files = sorted(runs.rglob("*.json"))
    before = [file.stat().st_mtime_ns for file in files]
    assert play() == rows
    assert [file.stat().st_mtime_ns for file in files] == before
    assert [row.steps for row in play(n_steps=1000)] == [1000, 1000]
    for row in rows:
        assert (row.states, row.actions, row.horizon, row.steps) == (4, 2, 5, 500)
        assert 0.0 < row.regret < 1.0
        assert 0.0 < row.random < 1.0


def test_regret_is_normalised_by_the_worst_policy(folder):
    """The same runs with rewards of another size have the same normalised regret, and uniform play too."""
    [path] = find_tables(folder)
    mdp = read_table(path)
    [row] = [row for _, _, row in play_tables([path], folder / "a", agents=["practical"], n_steps=500) if row]
    best = solve(mdp).start_value
    assert row.random == pytest.approx((best - uniform_value(mdp)) / (best - worst_value(mdp)), rel=EXACT)
    from matrixrl import run_seeds
    from matrixrl.scorecards.colosseum import AGENTS, FIRST_SEED

    regret = run_seeds(mdp, n_episodes=100, seeds=[FIRST_SEED], **AGENTS["practical"]).regret
    assert row.regret * (best - worst_value(mdp)) * 100 == pytest.approx(regret.sum(), rel=1e-9)


def test_records_come_back_from_csv_and_are_drawn(folder):
    paths = find_tables(folder)
    rows = [row for _, _, row in play_tables(paths, folder / "runs", agents=["practical"], n_steps=100) if row]
    file = folder / "scorecard.csv"
    write_records(file, Row, rows)
    [back] = read_records(file, Row)
    assert back.mdp == rows[0].mdp
    assert back.regret == pytest.approx(rows[0].regret, rel=1e-5)
    draw_rows(rows, folder / "scorecard.png")
    assert (folder / "scorecard.png").stat().st_size > 5_000


def test_a_folder_without_tables_says_what_a_table_is(tmp_path):
    with pytest.raises(InvalidInput, match=r"--data must be a folder with tables.*rlcolosseum"):
        find_tables(tmp_path)
    np.savez(tmp_path / "other.npz", x=np.zeros(2))
    with pytest.raises(InvalidInput, match="must hold tables of MDPs only"):
        read_table(tmp_path / "other.npz")


def test_a_damaged_result_is_refused(tmp_path):
    file = tmp_path / "a" / "b.json"
    assert read_kept(file) is None
    keep(file, {"asked": 1, "row": [1, 2]})
    assert read_kept(file) == {"asked": 1, "row": [1, 2]}
    file.write_text(file.read_text()[:-3])
    with pytest.raises(StoreError, match="delete it to run it again"):
        read_kept(file)
    file.write_text("[]")
    with pytest.raises(StoreError, match="not a result of a scorecard"):
        read_kept(file)
