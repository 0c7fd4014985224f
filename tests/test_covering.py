"""A covering array has every pair of values of two factors that is possible, in few rows."""

from __future__ import annotations

from itertools import combinations, product

from covering import covering


def pairs(rows):
    return {pair for row in rows for pair in combinations(enumerate(row), 2)}


def test_every_pair_that_is_possible_is_there_in_few_rows():
    rows = [row for row in product("abcd", range(4), range(4), "xy") if row[:2] != ("a", 0)]
    chosen = covering(rows)
    assert set(chosen) <= set(rows)
    assert pairs(chosen) == pairs(rows)
    assert len(chosen) <= 2 * 16 < len(rows)


def test_factors_may_be_computed_from_rows():
    chosen = covering(range(100), lambda number: (number % 10, number // 10 % 3, number % 2))
    assert {(n % 10, n // 10 % 3) for n in chosen} == set(product(range(10), range(3)))
