from __future__ import annotations

import numpy as np
import pytest

from matrixrl.errors import InvalidInput, SpecError
from matrixrl_serve.problem import ProblemFile, ServedProblem, read_problem

SHOP = """
name = "shop"
states = {stock = 4, day = ["mon", "tue"]}
actions = ["wait", "order"]
horizon = 5
reward_range = [-1.0, 2.0]
time_out = 60.0
default_reward = -1.0
"""


def served(text, tmp_path):
    path = tmp_path / "problem.toml"
    path.write_text(text)
    return ServedProblem(read_problem(path))


def test_every_element_has_the_number_that_it_is_decoded_from(tmp_path):
    problem = served(SHOP, tmp_path)
    assert problem.states.size == 8
    for number in range(8):
        assert problem.state("state", problem.states.decode(number)) == number
    assert problem.states.decode(3) == {"stock": 1, "day": "tue"}
    assert [column.tolist() for column in problem.states.columns(np.array([3]))] == [[1], ["tue"]]


def test_a_time_out_adds_an_end_state(tmp_path):
    assert served(SHOP, tmp_path).task.end_state == 8
    assert served("states = 3\nactions = 2\nhorizon = 4\n", tmp_path).task.end_state is None


def test_groups_share_what_is_learned(tmp_path):
    (tmp_path / "groups.csv").write_text("0,1\n1,2\n2,3\n")
    problem = served('states = 3\nactions = 2\nhorizon = 4\ngroups = "groups.csv"\n', tmp_path)
    agent = problem.agent()
    assert agent.algorithm.model.n_rows == 4
    assert problem.task.features.phi.d == 4


def test_masks_may_be_rows_of_booleans_of_numbers_or_of_names(tmp_path):
    head = 'states = 2\nactions = ["a", "b", "c"]\nhorizon = 2\n'
    tables = [
        served(head + f"allowed = {rows}\n", tmp_path).task.allowed
        for rows in ("[[true, false, true], [true, true, true]]", '[["a", "c"], ["a", "b", "c"]]')
    ]
    (tmp_path / "allowed.csv").write_text("1,0,1\n1,1,1\n")
    tables.append(served(head + 'allowed = "allowed.csv"\n', tmp_path).task.allowed)
    for table in tables:
        assert table.tolist() == [[True, False, True], [True, True, True]]


@pytest.mark.parametrize("actions", ["2", '["a", "b"]'])
@pytest.mark.parametrize("source", ["toml", "csv"])
def test_a_table_of_0_and_1_is_a_mask_also_with_two_actions(actions, source, tmp_path):
    head = f"states = 2\nactions = {actions}\nhorizon = 2\n"
    (tmp_path / "allowed.csv").write_text("0,1\n1,1\n")
    rows = "[[0, 1], [1, 1]]" if source == "toml" else '"allowed.csv"'
    assert served(head + f"allowed = {rows}\n", tmp_path).task.allowed.tolist() == [[False, True], [True, True]]


@pytest.mark.parametrize("rows", ["0,1\n1,0\n", "0,1\n0,1\n"])
def test_rows_that_may_be_masks_or_actions_are_refused(rows, tmp_path):
    head = "states = 2\nactions = 2\nhorizon = 2\n"
    (tmp_path / "allowed.csv").write_text(rows)
    for written in ('"allowed.csv"', str([[int(cell) for cell in row.split(",")] for row in rows.split()])):
        with pytest.raises(InvalidInput, match=r"allowed must be clear.*Write true and false"):
            served(head + f"allowed = {written}\n", tmp_path)
    named = head.replace("actions = 2", 'actions = ["a", "b"]')  # no action is called 0, so these are masks
    mask = [[cell == "1" for cell in row.split(",")] for row in rows.split()]
    assert served(named + 'allowed = "allowed.csv"\n', tmp_path).task.allowed.tolist() == mask
    (tmp_path / "allowed.csv").write_text(rows.replace("0", "false").replace("1", "true"))
    assert served(head + 'allowed = "allowed.csv"\n', tmp_path).task.allowed.tolist() == mask


def test_lists_of_actions_stay_lists(tmp_path):
    head = "states = 2\nactions = 2\nhorizon = 2\n"
    assert served(head + "allowed = [[0, 1], [1]]\n", tmp_path).task.allowed.tolist() == [[True, True], [False, True]]
    three = "states = 2\nactions = 3\nhorizon = 2\n"
    with pytest.raises(InvalidInput, match=r"allowed\[0\] must name each action once"):
        served(three + "allowed = [[1, 0, 1], [2]]\n", tmp_path)
    with pytest.raises(InvalidInput, match="must allow at least one action"):
        served(three + "allowed = [[0, 0, 0], [1, 1, 1]]\n", tmp_path)


def test_numbers_of_groups_that_float64_would_merge_are_refused(tmp_path):
    head = "states = 1\nactions = 2\nhorizon = 2\n"
    assert served(head + f"groups = [[{2**53 - 2}, {2**53 - 1}]]\n", tmp_path).task.features.phi.d == 2
    for large in (2**53, 2**60, -(2**53)):
        with pytest.raises(InvalidInput, match="groups must be between"):
            served(head + f"groups = [[{large}, {large + 1}]]\n", tmp_path)


def test_a_logged_incumbent_takes_its_share_of_delta_from_the_learner(tmp_path):
    head = "states = 2\nactions = 2\nhorizon = 2\ndelta = 0.04\nstart = 0\n"
    known = served(head + "incumbent = [0, 1]\n", tmp_path)
    logged = served(head + 'incumbent = "logged"\n', tmp_path)
    assert known.agent().algorithm.claims.delta == 0.04
    assert logged.agent().algorithm.claims.delta + logged.incumbent_delta == pytest.approx(0.04)
    assert logged.incumbent_delta > 0.0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("states = 3\nactions = 2\n", "horizon must be a whole number"),
        ("states = 0\nactions = 2\nhorizon = 2", "states must be a count of at least 1, names or parts; got 0"),
        ("states = 3\nactions = 2\nhorizon = 2\nhorizont = 3", "horizont is not known; got 3. Known are name"),
        ("actions = 2\nhorizon = 2", "states must be given; got nothing. Add it."),
        ("states = ['a', 'a']\nactions = 2\nhorizon = 2", "states must be different names"),
        ("states = 3\nactions = 2\nhorizon = 2\nmode = 'fast'", "mode must be one of 'shadow', 'live' or 'frozen'"),
        ("states = 3\nactions = 2\nhorizon = 2\ndefault_reward = 1.0", "default_reward needs a time_out"),
        ("states = 3\nactions = 2\nhorizon = 2\ntime_out = 5\ndefault_reward = 7.0", "reward must lie in [0, 1]"),
        ("states = 3\nactions = 2\nhorizon = 2\npromote = true", "promote needs an incumbent"),
        ("states = 3\nactions = 2\nhorizon = 2\nincumbent = [0, 1]", "incumbent must have one action for each"),
        ("states = 3\nactions = 2\nhorizon = 2\nallowed = [[0], [], [1]]", "allowed[1] must be a list of at least one"),
        ("states = 3\nactions = 2\nhorizon = 2\n[settings]\ndelta = 0.1", "settings.delta must be left out"),
        ("states = 3\nactions = 2\nhorizon = 2\n[settings]\nset = 'nonsense'", "set must be one of"),
        ("states = 3\nactions = 2\nhorizon = [", "is not valid TOML"),
        ("states = 1\nactions = 1\nhorizon = 2\nreward_range = [1.0, 0.0]", "reward_range must have low < high"),
        ("states = 2\nactions = 1\nhorizon = 2\ngroups = 'none.csv'", "cannot read"),
        ("states = 2\nactions = 1\nhorizon = 2\nseed = -1", "seed must be at least 0; got -1"),
        ("states = 2\nactions = 1\nhorizon = 2\ndiscount = inf", "discount must be made of finite numbers"),
        ("states = 2\nactions = 1\nhorizon = 2\nrewards = " + "[" * 10**5 + "]" * 10**5, "nested too deeply"),
        ("states = 2\nactions = 1\nhorizon = 2\nstart = " + "[" * 150 + "]" * 150, "start must be a whole number"),
        ("states = " + "1" * 5000 + "\nactions = 1\nhorizon = 2", "is not valid TOML"),
        (".".join("a" * 60_000) + " = 1\nstates = 2", "has a key of more than 32 parts"),
        ("states = 2\nactions = 1\nhorizon = 2\n[settings]\nswitch_growth = nan", "settings must be made of finite"),
        ("states = 2\nactions = 1\nhorizon = 2\nrewards = [[nan], [0]]", "rewards must be made of finite"),
        ("states = [nan, 1]\nactions = 1\nhorizon = 2", "states must be made of finite"),
        ("states = 2\nactions = 1\nhorizon = 2\nstart = 2020-01-01", "start must be made of finite"),
        ("states = 10000000\nactions = 2\nhorizon = 2", "states times actions must be at most 5,000,000"),
        ('states = 2\nactions = 1\nhorizon = 2\ngroups = "a\\u0000.csv"', "cannot read"),
    ],
)
def test_what_is_wrong_is_named(text, words, tmp_path):
    with pytest.raises((SpecError, InvalidInput)) as caught:
        served(text, tmp_path).agent()
    assert words in str(caught.value)


@pytest.mark.parametrize("name", ["preset", "delta", "seed", "known_reward", "compiled", "planner", "n_episodes"])
def test_the_remedy_for_a_setting_of_its_own_names_no_key_that_is_refused(name, tmp_path):
    with pytest.raises((SpecError, InvalidInput), match=rf"settings\.{name} must be left out") as caught:
        served(f"states = 2\nactions = 2\nhorizon = 2\n[settings]\n{name} = 1", tmp_path)
    assert ("Use the key" in str(caught.value)) == (name in ProblemFile.model_fields)


def test_the_digest_covers_tables_in_other_files(tmp_path):
    digests = set()
    for cells in ("0,1\n1,2\n", "0,1\n1,1\n"):
        (tmp_path / "groups.csv").write_text(cells)
        path = tmp_path / "p.toml"
        path.write_text("states = 2\nactions = 2\nhorizon = 2\ngroups = 'groups.csv'\n")
        digests.add(read_problem(path).digest)
    assert len(digests) == 2


def test_a_problem_survives_json():
    import json

    file = ProblemFile(states=["a", "b"], actions=3, horizon=2, settings={"explore_for": "certificate"})
    again = ProblemFile.model_validate(json.loads(json.dumps(file.model_dump())))
    assert again == file
    assert again.digest == file.digest
