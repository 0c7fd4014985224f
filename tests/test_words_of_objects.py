"""Every public object has a short text and a table for notebooks, in which all text is escaped."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import matrixrl
from continuum import line
from matrixrl.certificates import Certificate
from matrixrl.display import html_table, in_digits
from matrixrl.records import Guarantee

EVIL = "<script>alert('x')</script>\x1b[2J"


@cache
def agent():
    found = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 6}, seed=0)
    found.learn(20, certify=True)
    return found


@cache
def objects():
    mdp = agent().problem.mdp
    features = matrixrl.Features(np.full((3, 2, 1), 0.5), np.ones((3, 1)))
    end = matrixrl.Task(n_states=3, n_actions=2, horizon=4, may_terminate=True, start=[0.5, 0.5, 0.0])
    masked = matrixrl.Task(np.zeros((2, 2)), 3, allowed=[[True, False], [True, True]])
    result = matrixrl.run_seeds("river-swim", n_episodes=5, seeds=2, certify=True)
    control = matrixrl.run_seeds("cart-pole", n_episodes=1, seeds=1, env_settings={"horizon": 3})
    return {
        "mdp": mdp,
        "task": mdp.task,
        "task with an end": end,
        "task with masks": masked,
        "functional task": line(),
        "features": features,
        "phi": features.phi,
        "psi": features.psi,
        "agent": agent(),
        "history": agent().history,
        "history before": matrixrl.MatrixRL(mdp, seed=0).history,
        "solution": matrixrl.solve(mdp),
        "certificate": agent().certificate(),
        "regret certificate": agent().regret_certificate(),
        "policy": agent().recommend(),
        "comparison": agent().compare(agent().recommend(), agent().policy),
        "result": result,
        "result without regret": control,
    }


@pytest.mark.parametrize("name", list(objects()))
def test_text_is_short_and_the_table_is_plain_html(name):
    one = objects()[name]
    text, html = repr(one), one._repr_html_()
    assert len(text) < 310
    assert "\n" not in text
    assert " at 0x" not in text
    assert "array(" not in text
    assert set(re.findall(r"</?(\w+)", html)) <= {"div", "strong", "table", "tbody", "tr", "th", "td"}
    assert html.count("<tr>") == html.count("</tr>")
    assert " at 0x" not in html
    assert len(html) < 6000


def test_text_and_tables_say_the_numbers_of_the_object():
    found = objects()
    history = found["history"]
    total = np.cumsum(history.regret)[-1]
    assert f"20 episodes, mean return {history.returns.mean():.4g}, regret {total:.4g}" in repr(history)
    lower, upper = history.certified[-1]
    assert f"<td {STYLE}>{lower:.4g} to {upper:.4g}</td>" in history._repr_html_()
    assert f"{matrixrl.solve(found['mdp']).start_value:.4g}" in repr(found["solution"])
    result = found["result"]
    assert f"mean regret {in_digits(result.regret.sum(axis=1).mean())}" in repr(result)
    assert repr(found["mdp"]) == "<FiniteMDP: 3 states, 2 actions, 6 steps>"
    assert repr(found["task with an end"]) == "<Task: 3 states and the end state, 2 actions, 4 steps>"
    assert "one of 2, at random" in found["task with an end"]._repr_html_()
    assert "3 of 4" in found["task with masks"]._repr_html_()
    assert repr(found["features"]) == "<Features: d 1 (TablePhi), d' 1 (TablePsi)>"
    certificate = found["certificate"]
    for words in (f"at least {certificate.lower:.4g}", f"at most {certificate.gap:.4g}", "0.95", "proven"):
        assert words in certificate._repr_html_()


STYLE = 'style="text-align:left;vertical-align:top;padding:0.1em 1em 0.1em 0;background:transparent"'


def test_names_of_users_are_escaped_everywhere():
    from dataclasses import replace

    table = html_table(EVIL, {EVIL: EVIL, "long": "x" * 1000})
    policy = matrixrl.Policy([[0, 1]], n_actions=2, description=EVIL[:-4])
    result = replace(objects()["result"], env=EVIL, withdrawn=EVIL)
    comparison = replace(objects()["comparison"], guarantee=Guarantee(False, EVIL))
    certificate = replace(objects()["certificate"], guarantee=Guarantee(False, EVIL))
    for html in (table, *(one._repr_html_() for one in (policy, result, comparison, certificate))):
        assert "<script" not in html
        assert "\x1b" not in html
        assert "&lt;script&gt;" in html
    assert "\x1b" not in repr(result)
    assert len(table) < 1500


def test_a_probability_below_one_is_never_shown_as_one():
    certificate = Certificate(1.0, 0.0, 1e-9, Guarantee(True), start="state 0")
    assert "with probability 1 − 1e-09" in str(certificate)
    assert "with probability 0.95" in str(replace(certificate, delta=0.05))
