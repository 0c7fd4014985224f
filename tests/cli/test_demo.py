"""The shop of ``matrixrl demo``: its numbers are those of a plain recursion, and of agents of the same seeds."""

from __future__ import annotations

import json
import math
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import matrixrl
from matrixrl.cli.demo import learn_shop
from matrixrl.cli.main import app
from matrixrl.envs.shop import shop, usual_orders
from matrixrl.plots.months import draw_months
from tolerances import ALGEBRA


def invoke(folder, *words):
    return CliRunner().invoke(app, ["demo", *words, "--out", str(folder)])


def demand(day):
    """Return the probabilities of a demand of 0 … 25 pieces."""
    mean = (6, 5, 5, 6, 8, 12, 9)[day % 7]
    some = [math.exp(-mean) * mean**k / math.factorial(k) for k in range(25)]
    return [*some, 1.0 - sum(some)]


def value(orders):
    """Return the value of a rule (stock, weekday) → boxes, or of the best one if it is None, by recursion over days."""
    after = [0.0] * 26
    for day in reversed(range(28)):
        now = []
        for stock in range(26):
            found = []
            for boxes in range(6) if orders is None else [orders(stock, day % 7)]:
                there = min(25, stock + 5 * boxes)
                total = -12.0 * (there - stock)
                for wanted, chance in enumerate(demand(day)):
                    sold = min(there, wanted)
                    left = there - sold
                    total += chance * (25.0 * sold - 0.5 * left - 3.0 * (wanted - sold) + after[left])
                found.append(total)
            now.append(max(found))
        after = now
    return after[0]


def test_the_values_of_the_shop_are_those_of_a_recursion_over_days():
    known, usual = shop(), usual_orders()
    assert (known.n_states, known.n_actions, known.horizon, known.dynamics.n_laws) == (182, 6, 28, 7)
    assert matrixrl.solve(known.mdp).start_value == pytest.approx(value(None), rel=ALGEBRA)
    exact = value(lambda stock, _: math.ceil(max(0, 10 - stock) / 5))
    assert matrixrl.evaluate(known.mdp, np.tile(usual, (28, 1)))[0, 0] == pytest.approx(exact, rel=ALGEBRA)


def test_the_shop_is_shown_in_euros_and_written(tmp_path):
    done = invoke(tmp_path / "shop", "-n", "2", "-k", "1")
    assert done.exit_code == 0, done.output
    assert sorted(file.name for file in (tmp_path / "shop").iterdir()) == ["result.json", "shop.png"]
    data = json.loads((tmp_path / "shop" / "result.json").read_text())
    agent = matrixrl.MatrixRL(shop(), seed=data["seeds"][0])
    for month in range(2):
        agent.learn(1)
        policy = agent.greedy()
        exact = matrixrl.evaluate(shop().mdp, policy.table)[0, 0]
        assert data["value"][0][month] == pytest.approx(exact, rel=ALGEBRA)
        assert data["bounds"][0][month] == pytest.approx(
            [policy.certificate.lower, policy.certificate.upper], rel=ALGEBRA
        )
        compared = agent.compare(policy, usual_orders())
        shown = [compared.lower, compared.estimate, compared.upper]
        assert data["gain"][0][month] == pytest.approx(shown, rel=ALGEBRA, abs=ALGEBRA)
        assert f"{exact:,.0f}" in done.output
    assert data["received"] == [agent.history.returns.tolist()]
    more = agent.history.returns.sum() - 2 * data["usual"]
    assert f"{abs(more):,.0f} {'more' if more >= 0 else 'less'} in 2 months" in done.output.replace("\n", " ")
    assert "already holds a run" in str(invoke(tmp_path / "shop", "-n", "2", "-k", "1").exception)


def test_an_interrupted_shop_shows_the_seeds_that_are_finished(tmp_path, monkeypatch):
    whole, calls = matrixrl.MatrixRL.learn, []

    def learn(self, n_episodes, **options):
        calls.append(n_episodes)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, n_episodes, **options)

    monkeypatch.setattr(matrixrl.MatrixRL, "learn", learn)
    done = invoke(tmp_path / "a", "-n", "1", "-k", "3")
    assert done.exit_code == 130
    assert len(json.loads((tmp_path / "a" / "result.json").read_text())["seeds"]) == 1
    assert "1 seed" in done.output
    calls[:] = [1]
    none = invoke(tmp_path / "b", "-n", "1", "-k", "1")
    assert none.exit_code == 130
    assert not list((tmp_path / "b").iterdir())


def test_without_matplotlib_there_is_a_table_and_a_note(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    done = invoke(tmp_path / "a", "-n", "1", "-k", "1")
    assert done.exit_code == 0
    assert "no figure was drawn" in done.output
    assert "usual rule" in done.output


def test_the_picture_has_the_curves_of_the_policies(tmp_path, monkeypatch):
    from matplotlib.figure import Figure

    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda self, *_, **__: drawn.append(self))
    found, stopped = learn_shop([2000, 2001], 2)
    assert not stopped
    draw_months(found, tmp_path / "a.png")
    left, right = drawn[0].axes
    assert left.lines[0].get_ydata() == pytest.approx(found.value.mean(axis=0))
    assert [line.get_ydata()[0] for line in left.lines[1:]] == pytest.approx([found.best, found.usual])
    for k, line in enumerate(right.lines[:2]):
        assert line.get_ydata() == pytest.approx([found.trivial[k], *found.bounds[..., k].mean(axis=0)])
