"""The values that normalise regret, by a second route each; rows that are played once."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

import matrixrl
from matrixrl import FiniteMDP, evaluate, run_seeds, solve
from matrixrl.envs import policy_value
from matrixrl.errors import InvalidInput, StoreError
from scorecards.bsuite.scores import Score, published_scores
from scorecards.colosseum.picture import draw_rows
from scorecards.colosseum.rows import AGENTS, FIRST_SEED, Row, play_tables
from scorecards.results import keep, once, read_kept, read_records, write_records
from scorecards.score_tables import print_rows, print_scores
from scorecards.tables import (
    find_tables,
    greedy_value,
    read_table,
    uniform_value,
    worst_value,
    write_table,
)
from tolerances import EXACT


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


def test_a_drawn_policy_mixes_and_a_sure_one_is_evaluated(mdp):
    rng = np.random.default_rng(2)
    sure = rng.integers(2, size=(5, 4))
    assert policy_value(mdp, np.eye(2)[sure]) == pytest.approx(mdp.task.start @ evaluate(mdp, sure)[0], abs=EXACT)
    first = np.full((5, 4, 2), 0.5)
    first[1:] = np.eye(2)[sure[1:]]  # only the first action is drawn, so the value is the mean of two sure ones
    both = []
    for action in (0, 1):
        sure[0] = action
        both.append(mdp.task.start @ evaluate(mdp, sure)[0])
    assert policy_value(mdp, first) == pytest.approx(np.mean(both), abs=EXACT)


def test_the_greedy_policy_draws_among_the_best_actions(mdp):
    rng = np.random.default_rng(3)
    sure = rng.random((5, 4, 2))
    chances = np.eye(2)[sure.argmax(axis=2)]
    assert greedy_value(mdp, sure) == pytest.approx(policy_value(mdp, chances), abs=EXACT)
    sure[0, 0] = 0.5  # two best actions at the start
    chances[0, 0] = 0.5
    assert greedy_value(mdp, sure) == pytest.approx(policy_value(mdp, chances), abs=EXACT)


def test_runs_are_played_once_and_again_after_a_change(folder):
    paths = find_tables(folder)
    runs = folder / "runs"

    def play(**more):
        options = {"agents": ["tuned", "q-learning"], "n_steps": 500, **more}
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
    [row] = [row for _, _, row in play_tables([path], folder / "a", agents=["tuned"], n_steps=500) if row]
    best = solve(mdp).start_value
    assert row.random == pytest.approx((best - uniform_value(mdp)) / (best - worst_value(mdp)), rel=EXACT)

    regret = run_seeds(mdp, n_episodes=100, seeds=[FIRST_SEED], **AGENTS["tuned"]).regret
    assert row.regret * (best - worst_value(mdp)) * 100 == pytest.approx(regret.sum(), rel=1e-9)


def test_records_come_back_from_csv_and_are_drawn(folder):
    paths = find_tables(folder)
    rows = [row for _, _, row in play_tables(paths, folder / "runs", agents=["tuned"], n_steps=100) if row]
    file = folder / "scorecard.csv"
    write_records(file, Row, rows)
    [back] = read_records(file, Row)
    assert back.mdp == rows[0].mdp
    assert back.regret == pytest.approx(rows[0].regret, rel=1e-5)
    draw_rows(rows, folder / "scorecard.png")
    assert (folder / "scorecard.png").stat().st_size > 5_000


def test_a_folder_without_tables_says_what_a_table_is(tmp_path):
    with pytest.raises(InvalidInput, match=r"--data must be a folder with tables.*colosseum"):
        find_tables(tmp_path)
    np.savez(tmp_path / "other.npz", x=np.zeros(2))
    with pytest.raises(InvalidInput, match="must hold tables of MDPs only"):
        read_table(tmp_path / "other.npz")


def test_a_result_has_the_version_that_made_it_and_older_ones_stay_useful(folder):
    [path] = find_tables(folder)

    def play(n_seeds=1):
        return [row for _, _, row in play_tables([path], folder / "runs", **options, n_seeds=n_seeds) if row]

    options = {"agents": ["tuned"], "n_steps": 500}
    [row] = play()
    file = folder / "runs" / path.stem / "tuned.json"
    kept = read_kept(file)
    assert kept["versions"] == {"matrixrl": matrixrl.__version__}
    del kept["versions"], kept["row"]["regrets"]
    kept["row"].update(mdp=path.stem, value_norm=1.0, regret=0.25)  # such as version 0.2.0 wrote
    file.write_text(json.dumps(kept))
    assert play() == [replace(row, regret=0.25)]


def test_more_seeds_answer_for_fewer(folder):
    [path] = find_tables(folder)

    def play(n_seeds):
        options = {"agents": ["tuned"], "n_steps": 500, "n_seeds": n_seeds}
        [row] = [row for _, _, row in play_tables([path], folder / "runs", **options) if row]
        return row

    two = play(2)
    assert play(1) == two
    assert two.seeds == 2
    seeds = [FIRST_SEED, FIRST_SEED + 1]
    mdp = read_table(path)
    regret = run_seeds(mdp, n_episodes=100, seeds=seeds, **AGENTS["tuned"]).regret.mean(axis=1)
    scale = solve(mdp).start_value - worst_value(mdp)
    assert two.regret == pytest.approx(regret.mean() / scale, rel=1e-9)
    assert two.error == pytest.approx(abs(regret[0] - regret[1]) / 2.0 / scale, rel=1e-9)
    assert play(3).seeds == 3


def test_a_damaged_result_is_refused(tmp_path):
    file = tmp_path / "a" / "b.json"
    assert read_kept(file) is None
    keep(file, {"asked": {"n": 1}, "row": [1, 2]})
    assert read_kept(file) == {"versions": {"matrixrl": matrixrl.__version__}, "asked": {"n": 1}, "row": [1, 2]}
    file.write_text(file.read_text()[:-3])
    with pytest.raises(StoreError, match="delete it to run it again"):
        read_kept(file)
    for text in ("[]", '{"asked": [1]}', '{"row": 1}'):
        file.write_text(text)
        with pytest.raises(StoreError, match="not a result of a scorecard"):
            read_kept(file)


@pytest.mark.parametrize(
    "kept", [{"asked": {"n": 2}}, {"asked": {"n": None}, "row": 1}, {"asked": {"n": "x"}, "row": 1}]
)
def test_a_result_that_answers_nothing_is_made_again(tmp_path, kept):
    file = tmp_path / "a.json"
    keep(file, kept, packages=["numpy", "a package that is not installed"])
    assert set(read_kept(file)["versions"].values()) == {matrixrl.__version__, np.__version__, "unknown"}
    assert once(file, {"n": 1}, lambda: {"played": True}, at_least=["n"]) == {"played": True}
    assert read_kept(file)["row"] == {"played": True}


def test_the_tables_of_the_page_fit_a_terminal_of_80_columns():
    """Nothing is cut off, and every agent has its column."""
    page = Path(__file__).parents[2] / "docs" / "scorecards"
    console = Console(file=io.StringIO(), width=80)
    rows, scores = read_records(page / "colosseum.csv", Row), read_records(page / "bsuite.csv", Score)
    print_rows(console, rows)
    print_scores(console, [*scores, *published_scores(score.experiment for score in scores)])
    printed = console.file.getvalue()
    assert "…" not in printed
    assert all(f"{row.regret:.4f}" in printed for row in rows)
    assert all(score.experiment in printed for score in scores)
