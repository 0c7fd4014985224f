"""A policy acts with the environment's numbers, is plain data, and does not change."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from matrixrl import InvalidInput, Policy
from matrixrl.certificates import Certificate
from matrixrl.policies import Comparison
from matrixrl.records import Guarantee

TABLE = np.array([[0, 1, 2, 0], [2, 2, 1, 0], [1, 0, 0, 0]])


def policy(**changes):
    chosen = {"n_actions": 3, "first_state": 5, "first_action": -1, "n_unobserved": 1, **changes}
    return Policy(TABLE, **chosen)


class TestAct:
    def test_every_entry_has_the_numbers_of_the_environment(self):
        one = policy()
        for stage, row in enumerate(TABLE):
            for state in range(3):
                action = one.act(5 + state, stage)
                assert action == row[state] - 1
                assert type(action) is int

    def test_arrays_are_single_answers(self):
        one, rng = policy(), np.random.default_rng(0)
        obs, stages = rng.integers(5, 8, (4, 6)), rng.integers(0, 3, (4, 6))
        answers = one.act(obs, stages)
        assert answers.shape == (4, 6)
        assert answers.dtype == np.int64
        for place in np.ndindex(4, 6):
            assert answers[place] == one.act(int(obs[place]), int(stages[place]))
        np.testing.assert_array_equal(one.act([5, 6, 7], 1), [one.act(s, 1) for s in (5, 6, 7)])
        np.testing.assert_array_equal(one.act(6, [0, 1, 2]), [one.act(6, h) for h in range(3)])
        assert one.act(np.array(6), np.int64(2)) == one.act(6, 2)
        assert one.act([], 0).shape == (0,)

    @pytest.mark.parametrize(
        ("obs", "stage", "words"),
        [
            (4, 0, "obs must be in 5 … 7; got 4"),
            (8, 0, "obs must be in 5 … 7; got 8"),
            (5.0, 0, "obs must be a whole number; got 5.0"),
            (True, 0, "obs must be a whole number"),
            ([5, 8], 0, r"obs must be in 5 … 7; got 8 at \[1\]"),
            ([5.5], 0, "obs must be whole numbers; got an array of float64"),
            ([[5, 6], [7]], 0, "obs must be whole numbers"),
            (np.array([True]), 0, "obs must be whole numbers"),
            (5, 3, "stage must be in 0 … 2; got 3"),
            (5, -1, "stage must be in 0 … 2; got -1"),
            (5, None, "stage must be given for a policy that depends on it"),
            ([5, 6], [0, 1, 2], r"stage must be one number, or broadcast against obs; got shapes \(3,\) and \(2,\)"),
        ],
    )
    def test_everything_else_is_refused(self, obs, stage, words):
        with pytest.raises(InvalidInput, match=words):
            policy().act(obs, stage)

    def test_a_stationary_policy_needs_no_stage(self):
        same = Policy(np.tile([1, 0, 1], (5, 1)), n_actions=2)
        assert same.is_stationary
        assert not policy().is_stationary
        np.testing.assert_array_equal(same.act([0, 1, 2]), [1, 0, 1])
        assert same.act(1) == same.act(1, stage=4) == 0


class TestData:
    def test_it_keeps_a_copy_that_cannot_be_changed(self):
        given = TABLE.copy()
        one = Policy(given, n_actions=3)
        given[0, 0] = 2
        assert one.table[0, 0] == 0
        with pytest.raises(ValueError, match="read-only"):
            one.table[0, 0] = 1
        with pytest.raises(AttributeError):
            one.n_actions = 5
        np.testing.assert_array_equal(np.asarray(one), TABLE)
        np.testing.assert_array_equal(one[1], TABLE[1])

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"table": [0, 1]}, "table must be whole numbers of shape"),
            ({"table": [[0.0, 1.0]]}, "table must be whole numbers"),
            ({"table": np.zeros((0, 3), dtype=int)}, "table must be whole numbers"),
            ({"table": [[0, 3]]}, "table must hold actions 0 … 2; got 0 … 3"),
            ({"table": [[-1, 0]]}, "table must hold actions 0 … 2; got -1 … 0"),
            ({"table": [[0, 1], [0]]}, "table must be whole numbers"),
            ({"n_actions": 0}, "n_actions must be at least 1"),
            ({"first_state": 0.5}, "first_state must be a whole number"),
            ({"n_unobserved": 4}, "n_unobserved must be at most 3"),
            ({"description": "x" * 3000}, "description must be text"),
            ({"certificate": 3.0}, "certificate must be a Certificate"),
            ({"certificate": Certificate(np.inf, 0.0, 0.1, Guarantee(True))}, "certificate must have finite bounds"),
            ({"basis": "hope"}, "basis must be"),
        ],
    )
    def test_what_is_no_policy_is_refused(self, changes, words):
        table = changes.pop("table", TABLE)
        with pytest.raises(InvalidInput, match=words):
            Policy(table, **{"n_actions": 3, **changes})

    def test_two_policies_are_equal_if_they_say_the_same(self):
        assert policy() == policy()
        assert len({policy(), policy()}) == 1
        changes = {"n_actions": 4, "first_state": 0, "first_action": 0, "n_unobserved": 0, "description": "other"}
        bounds = {"certificate": Certificate(2.0, 1.0, 0.1, Guarantee(True)), "basis": "model"}
        for name, value in {**changes, **bounds}.items():
            assert policy(**{name: value}) != policy(), name
        assert Policy(TABLE[::-1], n_actions=3) != Policy(TABLE, n_actions=3)
        assert policy() != TABLE.tolist()

    def test_it_says_what_it_is_in_words(self):
        assert repr(policy(description="base\nstock")) == "<Policy of 3 stages, 4 states, 3 actions: base\\nstock>"
        proven = policy(certificate=Certificate(2.5, 1.0, 0.1, Guarantee(True)))
        assert "with probability 0.9 it earns at least 1 in an episode, within 1.5 of the best policy>" in repr(proven)
        tuned = policy(certificate=Certificate(2.5, 1.0, 0.1, Guarantee(False, "an alarm")))
        assert "estimated, not proven, to earn at least 1 (an alarm)>" in repr(tuned)


def test_it_is_imported_without_anything_that_learns(tmp_path):
    code = """
import sys
from matrixrl import Policy
policy = Policy([[0, 1]], n_actions=2)
policy.save("p.json"), policy.save("p.npz"), policy.to_csv("p.csv")
assert Policy.load("p.json") == Policy.load("p.npz") == policy and policy.act(1, 0) == 1 and repr(policy)
layers = ("agents", "algorithms", "core", "linalg", "features", "problems", "play", "lab", "cli")
print([m for m in sys.modules if m.startswith(tuple(f"matrixrl.{layer}" for layer in layers))])
print([m for m in ("scipy", "sklearn", "numba", "rich", "pandas") if m in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]


class TestComparison:
    @pytest.mark.parametrize(
        ("lower", "upper", "better", "worse", "words"),
        [
            (0.5, 2.0, True, False, "0.5 to 2 more than the incumbent in an episode: it is better"),
            (-2.0, -0.5, False, True, "0.5 to 2 less than the incumbent in an episode: it is worse"),
            (-0.5, 2.0, False, False, "between 0.5 less and 2 more than the incumbent in an episode: more data"),
            (0.0, 2.0, False, False, "0 to 2 more than the incumbent in an episode: more data"),
            (0.0, 0.0, False, False, "as much as the incumbent in an episode: they have the same value"),
        ],
    )
    def test_the_verdict_follows_from_the_interval(self, lower, upper, better, worse, words):
        shown = Comparison(lower, upper, (0.0, 3.0), (0.0, 3.0), 0.05, Guarantee(True))
        assert (shown.probably_better, shown.probably_worse) == (better, worse)
        assert f"with probability 0.95 the policy earns {words}" in repr(shown)
        assert shown.as_dict()["probably_better"] is better

    def test_nothing_is_said_without_a_proof(self):
        shown = Comparison(0.5, 2.0, (0.0, 3.0), (0.0, 3.0), 0.05, Guarantee(False, "an alarm"))
        assert not shown.probably_better
        assert not Comparison(-2.0, -0.5, (0.0, 3.0), (0.0, 3.0), 0.05, Guarantee(False, "an alarm")).probably_worse
        assert "estimated, not proven" in repr(shown)
        assert "an alarm" in repr(shown)


def test_a_certificate_is_printed_as_one_sentence():
    proven = Certificate(2.5, 1.0, 0.1, Guarantee(True))
    assert str(proven) == (
        "with probability 0.9 the policy earns at least 1, and no policy more than 2.5; assumes that nothing changes"
    )
    assert str(Certificate(2.5, 1.0, 0.1, Guarantee(False, "an alarm"))).startswith(
        "not proven (an alarm): the policy earns"
    )
