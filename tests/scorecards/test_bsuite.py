"""The scorecard on bsuite, as far as it needs no bsuite: scores, tags, the worker's process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from matrixrl.errors import InvalidInput, MatrixRLError
from scorecards.bsuite.ids import EXPERIMENTS, LEFT_OUT, chosen_experiments
from scorecards.bsuite.launch import answers
from scorecards.bsuite.scores import Score, by_tag, published_scores, scores_of
from scorecards.radar import draw_radar
from scorecards.results import read_records, write_records
from scorecards.workers import interpreter_of


def told(agent, experiment, score, tags):
    more = {"ids": [4, 0], "episodes": [10, 1000], "learners": ["matrix-rl"], "seconds": 1.25}
    return {"agent": agent, "experiment": experiment, "score": score, "tags": tags, **more}


ANSWERS = [
    told("ours", "deep_sea_stochastic", 0.5, ["exploration", "noise"]),
    told("ours", "bandit", 1.0, ["basic"]),
    told("ours", "bandit_noise", 0.75, ["noise"]),
    told("random", "bandit", 0.0, ["basic"]),
    {"agent": "ours", "tag": "noise", "score": 0.625},
]


def test_the_mean_by_tag_is_the_one_that_bsuite_tells():
    scores = scores_of(ANSWERS)
    assert [score.experiment for score in scores] == ["bandit", "bandit", "bandit_noise", "deep_sea_stochastic"]
    [expected] = [answer["score"] for answer in ANSWERS if "tag" in answer]
    assert by_tag(scores)["ours"] == {"basic": 1.0, "noise": expected, "exploration": 0.5}
    assert by_tag(scores)["random"] == {"basic": 0.0}
    assert scores[0].ids == "0 4"
    assert not scores[0].is_whole


def test_scores_come_back_from_csv_and_are_drawn(tmp_path):
    scores = scores_of(ANSWERS)
    write_records(tmp_path / "scores.csv", Score, scores)
    assert read_records(tmp_path / "scores.csv", Score) == scores
    draw_radar(by_tag(scores), ["basic", "noise", "exploration"], tmp_path / "radar.png", title="scores")
    assert (tmp_path / "radar.png").stat().st_size > 10_000


def test_every_experiment_is_run_or_left_out_with_a_reason():
    """bsuite 0.3 has 23 experiments."""
    assert len({*EXPERIMENTS, *LEFT_OUT}) == len(EXPERIMENTS) + len(LEFT_OUT) == 23
    assert chosen_experiments([]) == list(EXPERIMENTS)
    with pytest.raises(InvalidInput, match="deep_sea"):
        chosen_experiments(["deepsea"])


def test_the_published_scores_are_those_of_the_experiments_that_were_run():
    """The published radar plot has about 0.71 for the exploration of bootstrapped DQN, and 0 for DQN."""
    everything = published_scores(EXPERIMENTS)
    assert len(everything) == 3 * len(EXPERIMENTS)
    assert {score.tags for score in everything if score.experiment == "deep_sea_stochastic"} == {"exploration noise"}
    tags = by_tag(everything)
    assert tags["boot_dqn"]["exploration"] == pytest.approx(0.71, abs=0.02)
    assert tags["dqn"]["exploration"] == 0.0
    assert all(0.0 <= score.score <= 1.0 for score in everything)
    assert {score.experiment for score in published_scores(["bandit"])} == {"bandit"}


def test_a_worker_that_fails_says_why(tmp_path):
    with pytest.raises(MatrixRLError, match="the worker of bsuite failed: KeyError: 'nothing'"):
        list(answers(Path(sys.executable), "nothing", {}))
    assert interpreter_of(tmp_path).parent.parent == tmp_path
