"""Every form in which a policy may be given means one table, and everything else is refused with one error."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from matrixrl import InvalidInput, Policy
from matrixrl.policies import PolicySpace, read_actions
from matrixrl.spaces import DiscreteCodec

H, S, A = 3, 4, 2
PLAIN = PolicySpace(H, S, DiscreteCodec(S), DiscreteCodec(A))
ENDING = PolicySpace(H, S + 1, DiscreteCodec(S, 10), DiscreteCodec(A, 7))
rng = np.random.default_rng(0)
TABLE = rng.integers(0, A, (H, S))
LAW = rng.dirichlet(np.ones(A), (H, S))
COIN = itertools.cycle([0, 1])


def read(given, sizes=PLAIN):
    return read_actions("incumbent", given, sizes)


class TestActions:
    def test_a_table_of_all_stages(self):
        np.testing.assert_array_equal(read(TABLE), TABLE)
        np.testing.assert_array_equal(read(TABLE.tolist()), TABLE)
        np.testing.assert_array_equal(read(TABLE.astype(np.uint8)), TABLE)

    def test_a_table_of_states_is_the_same_at_all_stages(self):
        np.testing.assert_array_equal(read(TABLE[0]), np.tile(TABLE[0], (H, 1)))

    @pytest.mark.parametrize("given", [TABLE, TABLE[0]], ids=["stages", "stationary"])
    def test_the_end_state_may_be_left_out(self, given):
        found = read(given, ENDING)
        np.testing.assert_array_equal(found[:, :S], np.broadcast_to(given, (H, S)))
        np.testing.assert_array_equal(read(np.append(given, given[..., :1], axis=-1), ENDING)[:, :S], found[:, :S])

    def test_a_policy_object(self):
        one = ENDING.policy(np.ones((H, S + 1), dtype=int), "ones")
        np.testing.assert_array_equal(read(one, ENDING), np.ones((H, S + 1)))
        for name, value in (("n_actions", 3), ("first_state", 0), ("first_action", 0), ("n_unobserved", 0)):
            sizes = {"n_actions": A, "first_state": 10, "first_action": 7, "n_unobserved": 1, name: value}
            with pytest.raises(InvalidInput, match="incumbent must be a policy of this problem"):
                read(Policy(np.ones((H, S + 1), dtype=int), **sizes), ENDING)

    def test_a_function_has_the_numbers_of_the_environment(self):
        asked = []

        def usual(obs, stage):
            asked.append((obs, stage))
            return 7 + TABLE[stage, obs - 10]

        np.testing.assert_array_equal(read(usual, ENDING)[:, :S], TABLE)
        assert set(asked) == set(itertools.product(range(10, 10 + S), range(H)))
        np.testing.assert_array_equal(read(lambda obs, stage: np.array(TABLE[stage, obs])), TABLE)


class TestProbabilities:
    def test_a_table_of_all_stages(self):
        np.testing.assert_allclose(read(LAW), LAW.swapaxes(1, 2))

    def test_a_table_of_states_is_the_same_at_all_stages(self):
        np.testing.assert_allclose(read(LAW[1]), np.broadcast_to(LAW[1].T, (H, A, S)))

    def test_whole_numbers_of_three_axes_are_probabilities(self):
        one_hot = np.eye(A, dtype=int)[TABLE]
        np.testing.assert_array_equal(read(one_hot), read(one_hot.astype(float)))

    @pytest.mark.parametrize("given", [LAW, LAW[0]], ids=["stages", "stationary"])
    def test_the_end_state_may_be_left_out(self, given):
        found = read(given, ENDING)
        assert found.shape == (H, A, S + 1)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        np.testing.assert_allclose(found[:, :, :S], np.broadcast_to(given.swapaxes(-1, -2), (H, A, S)))

    def test_rounding_of_their_sums_is_removed(self):
        found = read(LAW[0] * (1.0 + 1e-9))
        np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=1e-15)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (TABLE[:2], r"incumbent must be a Policy, .* got whole numbers of shape \(2, 4\)"),
        (TABLE.T, "incumbent must be a Policy"),
        (TABLE.astype(float), r"incumbent must be a Policy, .* got float64 of shape \(3, 4\)"),
        (LAW.swapaxes(1, 2), "incumbent must be a Policy"),
        (0, r"incumbent must be a Policy, .* got whole numbers of shape \(\)"),
        (0.5, "incumbent must be a Policy"),
        ("left", "incumbent must be a Policy"),
        (None, "incumbent must be a Policy"),
        ([[0, 1], [1]], "incumbent must be a Policy"),
        (TABLE > 0, "incumbent must be a Policy"),
        (TABLE + 1, r"incumbent must hold actions 0 … 1; got 1 … 2. Actions in tables count from 0"),
        (TABLE - 1, "incumbent must hold actions"),
        (LAW * 1.1, "incumbent rows must sum to one"),
        (np.full((S, A), np.nan), "incumbent must be finite"),
        (np.tile([1.5, -0.5], (S, 1)), "incumbent must not be negative"),
        (lambda: 0, "incumbent must be a function of 2 arguments"),
        (int, "incumbent must be a function of 2 arguments"),
        (lambda *_: 2, r"incumbent must return actions of Discrete\(2\); got 2 at observation 0, stage 0"),
        (lambda *_: None, "incumbent must return actions"),
        (lambda *_: True, "incumbent must return actions"),
        (lambda *_: next(COIN), "incumbent must return the same action"),
    ],
)
def test_everything_else_is_refused(given, words):
    with pytest.raises(InvalidInput, match=words):
        read(given)
