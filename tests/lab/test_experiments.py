"""`run_experiment` from Python: a cell that fails is one clear error, and what was finished stays."""

from __future__ import annotations

import pytest

from matrixrl.errors import ExperimentFailed, InvalidInput
from matrixrl_lab import Store, run_experiment

SPEC = {
    "name": "mixed",
    "episodes": 4,
    "seeds": 2,
    "env": [{"name": "river-swim"}],
    "agent": [{"name": "psrl"}, {"name": "random"}],
}


@pytest.fixture
def broken(monkeypatch):
    """Make every block of the agent `psrl` fail."""
    from matrixrl.algorithms.baselines import PSRL

    def fail(self):
        raise ZeroDivisionError("no plan today")

    monkeypatch.setattr(PSRL, "make_plan", fail)


def test_a_failed_cell_raises_with_its_name_its_reason_and_what_to_do(tmp_path, broken):
    with pytest.raises(ExperimentFailed) as caught:
        run_experiment(SPEC, tmp_path / "a", on="serial")
    words = str(caught.value)
    assert words.startswith("1 of 2 cells failed: river-swim / psrl (seed 0): ZeroDivisionError: no plan today")
    assert "call matrixrl.run_seeds('river-swim', agent='psrl', seeds=[0], …)" in words
    assert "raise_on_failure=False" in words
    with Store.open_to_read(tmp_path / "a") as store:
        assert {row.status for row in store.runs() if row.cell == 1} == {"done"}


def test_the_summary_without_the_failed_cell_is_returned_on_request(tmp_path, broken):
    (river,) = run_experiment(SPEC, tmp_path / "a", on="serial", raise_on_failure=False)
    assert [agent.final is None for agent in river.agents] == [True, False]


def test_the_same_call_plays_what_failed(tmp_path, broken, monkeypatch):
    with pytest.raises(ExperimentFailed):
        run_experiment(SPEC, tmp_path / "a", on="serial")
    monkeypatch.undo()
    (river,) = run_experiment(SPEC, tmp_path / "a", on="serial")
    assert all(agent.final is not None for agent in river.agents)


def test_raise_on_failure_is_true_or_false(tmp_path):
    with pytest.raises(InvalidInput, match="raise_on_failure must be true or false; got 'no'"):
        run_experiment(SPEC, tmp_path / "a", on="serial", raise_on_failure="no")
    assert not (tmp_path / "a").exists()
