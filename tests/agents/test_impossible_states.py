"""States that no data lead to are refused, whoever computed the digest of the file."""

from __future__ import annotations

import numpy as np
import pytest

from agents.contract import CASES, Case, play_randomly
from hostile import array_of, changed, header_of, members_of, npy, with_header
from matrixrl import CheckpointError, MatrixRL, make
from matrixrl.agents import AGENTS
from matrixrl.algorithms import Algorithm

LOW_RANK = "low-rank"


def env_of(world):
    return make("linear-mdp", n_states=20, d=4, horizon=3) if world == LOW_RANK else Case("", world).env()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the bytes of a saved agent that finished four episodes and has one open."""
    made, path = {}, tmp_path_factory.mktemp("saved") / "a"

    def bytes_of(agent, world, **settings):
        key = agent, world, str(settings)
        if key not in made:
            one = AGENTS[agent](env_of(world), seed=3, **settings)
            one.learn(4)
            play_randomly(one, one.begin_episode(), np.random.default_rng(0), most=2)
            one.save(path)
            made[key] = path.read_bytes()
        return made[key]

    return bytes_of


def add(where, amount):
    def change(array):
        array.reshape(-1)[where] += amount
        return array

    return change


def move(amount):
    """The sum of the first two numbers stays."""

    def change(array):
        array.reshape(-1)[:2] += amount, -amount
        return array

    return change


def fill(value):
    return lambda array: np.full_like(array, value)


ONE_HOT, LEARNED, DENSE = ("matrix-rl", "river-swim"), {"known_reward": False}, ("matrix-rl", LOW_RANK)
BALL = {"set": "normalised"}
CAR = ("kernel-matrix-rl", "mountain-car")
IMPOSSIBLE = [
    # visits that do not add up
    (*ONE_HOT, BALL, "learned_counts", fill(0.0)),
    (*ONE_HOT, BALL, "learned_counts", add(0, 1.0)),
    (*ONE_HOT, BALL, "learned_cross_moment", add(0, 0.5)),
    (*ONE_HOT, BALL, "learned_cross_moment", lambda array: 2.0 * array),
    (*ONE_HOT, BALL, "learned_cross_moment", move(0.5)),
    ("psrl", "river-swim", {}, "learned_transitions", move(0.5)),
    ("kernel-ucbvi", "river-swim", {}, "learned_transitions", move(-100.0)),
    (*ONE_HOT, BALL, "learned_reward_moment", add(0, 0.5)),
    (*ONE_HOT, BALL | LEARNED, "learned_reward_moment", fill(7.0)),
    (*ONE_HOT, BALL | LEARNED, "learned_reward_moment", fill(-1.0)),
    # lists of next states seen
    (*ONE_HOT, {}, "learned_next_times", fill(0.0)),
    (*ONE_HOT, {}, "learned_next_times", add(0, 1.0)),
    (*ONE_HOT, {}, "learned_next_times", move(0.5)),
    (*ONE_HOT, {}, "learned_next_times", lambda array: 2.0 * array),
    (*ONE_HOT, {}, "learned_next_times", lambda array: array[1:]),
    (*ONE_HOT, {}, "learned_next_codes", fill(0)),
    (*ONE_HOT, {}, "learned_next_codes", add(-1, 10**6)),
    (*ONE_HOT, {}, "learned_next_codes", lambda array: array[::-1]),
    (*ONE_HOT, LEARNED, "learned_reward_sums", fill(7.0)),
    (*ONE_HOT, LEARNED, "learned_reward_sums", fill(-1.0)),
    (*ONE_HOT, LEARNED, "learned_joint_times", move(0.5)),
    (*ONE_HOT, LEARNED, "learned_joint_codes", add(-1, 10**6)),
    (*ONE_HOT, LEARNED, "learned_levels", fill(0.5)),
    (*ONE_HOT, {"switch_growth": 0.5}, "learned_kept_sizes", fill(99.0)),
    # visits of the baselines
    ("psrl", "river-swim", {}, "learned_counts", fill(0.0)),
    ("psrl", "river-swim", {}, "learned_transitions", lambda array: -array),
    ("psrl", "river-swim", {}, "learned_reward_sums", fill(9.0)),
    ("q-learning", "river-swim", {}, "learned_visits", add(0, 1.0)),
    ("q-learning", "river-swim", {}, "learned_visits", fill(0.0)),
    ("q-learning", "river-swim", {}, "learned_q", fill(-3.0)),
    ("ucbvi", "river-swim", {}, "learned_q", fill(1e6)),
    ("ucbvi", "river-swim", {"bonus": "bernstein"}, "learned_stage_visits", fill(1.0)),
    ("ucrl2", "river-swim", {}, "learned_kept_counts", fill(1e3)),
    ("ucrl2", "river-swim", {}, "learned_kept_values", fill(1e3)),
    ("kernel-ucbvi", "river-swim", {}, "learned_visits", fill(0.0)),
    ("kernel-ucbvi", "river-swim", {}, "learned_earned", fill(50.0)),
    ("lsvi-ucb", "river-swim", {}, "learned_cross_moment", fill(1.0)),
    ("rlsvi", "river-swim", {"preset": "tuned"}, "learned_counts", fill(0.0)),
    # designs and moments that do not belong together
    (*DENSE, {}, "learned_design", lambda array: -array),
    (*DENSE, {}, "learned_design", add(1, 0.3)),
    (*DENSE, {}, "learned_cross_moment", fill(3.0)),
    (*DENSE, LEARNED, "learned_reward_moment", fill(8.0)),
    (*DENSE, {}, "learned_refresh", fill(-1.0)),
    (*DENSE, {}, "learned_design_visits", fill(-1.0)),
    (*DENSE, {}, "learned_design_visits", fill(7.0)),
    (*DENSE, {"columns": 10}, "learned_design", lambda array: -array),
    (*DENSE, {"columns": 10}, "learned_cross_moment", fill(9.0)),
    (*DENSE, {"columns": 10}, "plan_0_rankings", fill(0.0)),
    (*DENSE, {"columns": 10}, "plan_0_clock", fill(99)),
    ("lsvi-ucb", LOW_RANK, {}, "learned_design", lambda array: 0.5 * array),
    ("lin-ucb", "one step", {}, "learned_reward_moment", fill(8.0)),
    ("ucrl-vtr", "river-swim", {}, "learned_value_matrix", lambda array: -array),
    ("ucrl-vtr", "river-swim", {}, "learned_value_inverse", fill(0.0)),
    ("ucrl-vtr", "river-swim", {}, "learned_value_moment", fill(1e3)),
    ("ucrl-vtr", "river-swim", {}, "learned_value_logdet", fill(-5.0)),
    ("ucrl-vtr", "river-swim", {}, "learned_value_updates", fill(1)),
    ("ucrl-vtr", "river-swim", {}, "learned_played", fill(-1.0)),
    # steps of vectors
    (*CAR, {}, "learned_0_data_rewards", fill(-5.0)),
    (*CAR, {}, "learned_0_data_terminated", fill(True)),
    (*CAR, {}, "learned_0_z_next", add(0, 0.1)),
    (*CAR, {}, "learned_0_grams", lambda array: -array),
    (*CAR, {}, "learned_0_map_factor", lambda array: 2.0 * array),
    (*CAR, {}, "learned_0_seen", fill(1.0)),
    (*CAR, {}, "plan_0_width_matrix", lambda array: -array),
    (*CAR, {}, "plan_0_spread", fill(-1.0)),
    # a history that no episodes have
    (*ONE_HOT, {}, "history_lengths", fill(0.0)),
    (*ONE_HOT, {}, "history_lengths", move(1.0)),
    (*DENSE, {}, "history_lengths", fill(0.0)),
    (*ONE_HOT, {}, "history_lengths", fill(5.0)),
    (*ONE_HOT, {}, "history_lengths", fill(5.5)),
    (*ONE_HOT, {}, "history_lengths", fill(99.0)),
    (*ONE_HOT, {}, "history_returns", fill(99.0)),
    (*ONE_HOT, {}, "history_alarms", fill(0.5)),
    (*ONE_HOT, {}, "history_certified_lower", fill(1.0)),
    (*ONE_HOT, {}, "history_regret", fill(-1.0)),
    (*ONE_HOT, {}, "history_upper", fill(np.inf)),
    # plans, streams and open episodes
    (*ONE_HOT, {}, "learned_n_plans", fill(0)),
    (*ONE_HOT, {}, "plan_0_values", fill(1.0)),
    (*ONE_HOT, {}, "plan_0_empty", fill(-1)),
    (*ONE_HOT, {}, "episodes_rewards", fill(7.0)),
    (*ONE_HOT, {}, "episodes_rewards", lambda array: array.astype(np.float32)),
    (*ONE_HOT, {}, "episodes_actions", lambda array: array.astype(np.uint8)),
    (*ONE_HOT, {}, "episodes_rewards", None),
]


@pytest.mark.parametrize(
    ("agent", "world", "settings", "name", "change"),
    IMPOSSIBLE,
    ids=[f"{i}: {row[3]} of {row[0]}" for i, row in enumerate(IMPOSSIBLE)],
)
def test_a_state_that_no_data_lead_to_is_refused(agent, world, settings, name, change, files, tmp_path):
    data = files(agent, world, **settings)
    array = array_of(dict(members_of(data))[f"{name}.npy"])
    (tmp_path / "odd").write_bytes(changed(data, {f"{name}.npy": None if change is None else npy(change(array))}))
    with pytest.raises(CheckpointError, match="cannot be restored"):
        AGENTS[agent].load(tmp_path / "odd", env_of(world))


@pytest.mark.parametrize(
    "saved",
    [
        {"terminated": True, "off_plan": False, "advised": None},
        {"terminated": 1, "off_plan": False, "advised": None},
        {"terminated": False, "off_plan": False},
        {"terminated": False, "off_plan": False, "advised": None, "odd": 1},
        3,
    ],
    ids=str,
)
def test_an_open_episode_that_no_problem_has_is_refused(saved, files, tmp_path):
    """RiverSwim has no end state, so none of its episodes is terminated."""
    (tmp_path / "odd").write_bytes(with_header(files(*ONE_HOT), episodes=[saved]))
    with pytest.raises(CheckpointError, match="cannot be restored"):
        MatrixRL.load(tmp_path / "odd")


@pytest.mark.parametrize("name", ["extra", "learned_extra", "problem_extra", "plan_1_policy", "episodes_extra"])
def test_arrays_that_no_agent_has_are_refused(name, files, tmp_path):
    (tmp_path / "odd").write_bytes(changed(files(*ONE_HOT), {f"{name}.npy": npy(np.zeros(3))}))
    with pytest.raises(CheckpointError, match="cannot be restored"):
        MatrixRL.load(tmp_path / "odd")


FINITE = [case for case in CASES if case.world not in ("functions", "mountain-car", "cart-pole", "pendulum")]


@pytest.mark.parametrize("case", FINITE, ids=str)
def test_algorithms_know_the_shapes_of_what_they_learn(case):
    algorithm = case.build().algorithm
    found = {name: array.shape for name, array in algorithm.learned().items()}
    known = algorithm.learned_shapes(algorithm.problem, 1)
    assert known.keys() == found.keys()
    for name, shape in known.items():
        is_list = name in algorithm.list_names  # outcomes or pairs seen
        assert shape == ((None, *found[name][1:]) if is_list else found[name])


@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize("kind", ["value-targeted", "likelihood", "normalised"])
def test_shapes_of_groups_are_known_too(kind, known_reward):
    groups = np.repeat(np.eye(4)[:, None], 2, axis=1)  # of the two actions of a state
    env = Case("", "river-swim").env()
    algorithm = MatrixRL(env, phi=groups, set=kind, known_reward=known_reward, seed=0).algorithm
    known = algorithm.learned_shapes(algorithm.problem, 1)
    found = {name: array.shape for name, array in algorithm.learned().items()}
    assert {name: tuple(n or 0 for n in shape) for name, shape in known.items()} == found


@pytest.mark.parametrize("case", [c for c in FINITE if c.agent != "random"], ids=str)
def test_shapes_are_compared_before_anything_is_allocated(case, tmp_path, monkeypatch):
    agent = case.build()
    agent.save(tmp_path / "a")
    data = (tmp_path / "a").read_bytes()
    name = next(iter(agent.algorithm.learned()))
    (tmp_path / "odd").write_bytes(changed(data, {f"learned_{name}.npy": npy(np.zeros((1, 1, 1, 1, 1, 1)))}))

    def started(*_):
        raise AssertionError("started before the shapes were compared")

    monkeypatch.setattr(Algorithm, "start", started)
    with pytest.raises(CheckpointError, match=f"{name} must have shape"):
        case.kind.load(tmp_path / "odd")


def test_a_file_names_its_code(files):
    assert header_of(files(*ONE_HOT))["code"] == "matrixrl.algorithms.matrix_rl.indicator:IndicatorMatrixRL"
    assert header_of(files(*ONE_HOT, **BALL))["code"] == "matrixrl.algorithms.matrix_rl.finite:UCMatrixRL"


@pytest.mark.parametrize("entry", ["selection", "refutation"])
def test_words_of_a_file_cannot_move_the_cursor(entry, tmp_path):
    agent = MatrixRL(make("river-swim", n_states=3, horizon=4), seed=0)
    agent.learn(1)
    agent.save(tmp_path / "a")
    hostile = with_header((tmp_path / "a").read_bytes(), **{entry: "proven\x1b[2J\n\u202e"})
    (tmp_path / "a").write_bytes(hostile)
    words = MatrixRL.load(tmp_path / "a").guarantee
    assert words.isprintable()
    assert r"proven\x1b[2J\n\u202e" in words
