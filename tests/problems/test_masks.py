"""Allowed actions of tasks, MDPs and environments: what is accepted, what is refused, and what is kept."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from scipy import sparse

from continuum import line
from matrixrl import FiniteMDP, InvalidInput, MatrixRL, Task, evaluate, from_gymnasium, make, solve
from matrixrl.problems import MDPEnv, fingerprint, read_problem
from matrixrl.problems.serialization import save_problem, unpack_problem
from small_worlds import masked_mdp, same_problem

P = np.full((3, 2, 3), 1.0 / 3.0)
R = np.full((3, 2), 0.5)
ALLOWED = np.array([[True, True], [True, False], [False, True]])


@pytest.mark.parametrize(
    "given",
    [
        ALLOWED,
        ALLOWED.tolist(),
        ALLOWED.astype(int),
        ALLOWED.astype(np.int8),
        lambda s: np.flatnonzero(ALLOWED[s]),
        lambda s: [a for a in range(2) if ALLOWED[s, a]],
        lambda s: {a for a in range(2) if ALLOWED[s, a]},
        lambda s: ALLOWED[s],
        lambda s: ALLOWED[s].tolist(),
        lambda s: ALLOWED[s].astype(np.int8),  # as Gymnasium writes masks
    ],
)
def test_a_mask_is_a_table_or_a_function_of_the_state(given):
    for made in (Task(R, 3, allowed=given), FiniteMDP(P, R, 3, allowed=given)):
        np.testing.assert_array_equal(made.allowed, ALLOWED)
    assert Task(R, 3, allowed=given).n_pairs == 4
    assert Task(R, 3).n_pairs == 6


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (np.zeros((3, 2)), "allowed must allow at least one action in every state; got none in state 0 and 2 more"),
        ([[1, 1], [0, 0], [1, 1]], "allowed must allow at least one action in every state; got none in state 1. "),
        (np.ones((2, 2)), r"allowed must have shape \(S, A\) = \(3, 2\); got shape \(2, 2\)"),
        (np.ones(6), r"allowed must have shape \(S, A\)"),
        (2 * np.ones((3, 2)), "allowed must be booleans"),
        (np.full((3, 2), np.nan), "allowed must be booleans"),
        ("river", "allowed must be booleans"),
        ([[1], [1, 2]], "allowed must be booleans"),
        (lambda s: [] if s == 2 else [0], r"allowed\(2\) must hold at least one action; got none"),
        (lambda _: [2], r"allowed\(0\) must be in 0 … 1; got 2"),
        (lambda _: 1, r"allowed\(0\) must be some actions; got 1"),
        (lambda _: "01", r"allowed\(0\) must be some actions"),
        (lambda _: [True], r"allowed\(0\) must have one entry for each of 2 actions"),
        (lambda _: [False, False], r"allowed\(0\) must allow at least one action"),
        (lambda _: [0.5], r"allowed\(0\) must be a whole number"),
        (lambda: [0], "allowed must be a function of 1 argument"),
    ],
)
def test_other_masks_are_refused_with_one_clear_error(given, words):
    for made in (lambda: Task(R, 3, allowed=given), lambda: FiniteMDP(P, R, 3, allowed=given)):
        with pytest.raises(InvalidInput, match=words):
            made()


@pytest.mark.parametrize("bad", [np.nan, 0.0])
@pytest.mark.parametrize("form", [np.asarray, lambda table: sparse.csr_array(table.reshape(6, 3))])
def test_without_a_mask_bad_rows_are_errors_that_mention_it(bad, form):
    table = P.copy()
    table[1, 1] = bad
    with pytest.raises(InvalidInput, match=r"P (rows )?must .*pass allowed=…"):
        FiniteMDP(form(table), R, 3)
    assert FiniteMDP(form(table), R, 3, allowed=ALLOWED).allowed is not None
    table[1, 0] = bad  # an action that is allowed
    with pytest.raises(InvalidInput, match=r"P (rows )?must .*pass allowed=…"):
        FiniteMDP(form(table), R, 3, allowed=ALLOWED)


def test_rewards_of_other_actions_may_be_missing():
    reward = R.copy()
    reward[1, 1] = np.nan
    with pytest.raises(InvalidInput, match=r"reward must be finite.*pass allowed=…"):
        Task(reward, 3)
    reward[2, 0] = 1e9
    task = Task(reward, 3, reward_range=(0.25, 1.0), allowed=ALLOWED)
    assert task.reward[1, 1] == task.reward[2, 0] == 0.25  # unit reward 0
    assert Task(R, 3, reward_range=(0.25, 1.0), allowed=ALLOWED).reward.tolist() == task.reward.tolist()
    reward[1, 0] = np.nan
    with pytest.raises(InvalidInput, match="reward must be finite"):
        Task(reward, 3, allowed=ALLOWED)


def test_the_end_state_needs_no_allowed_action():
    table, reward = P.copy(), R.copy()
    table[2], reward[2] = np.nan, np.nan
    mask = np.array([[1, 1], [1, 0], [0, 0]])
    mdp = FiniteMDP(table, reward, 3, end_state=2, allowed=mask)
    assert mdp.allowed.tolist() == [[True, True], [True, False], [True, True]]
    assert mdp.task.reward[2].tolist() == [0.0, 0.0]
    assert mdp.transitions.rows(np.array([2, 2]), np.array([0, 1]))[:, 2].tolist() == [1.0, 1.0]
    shorter = FiniteMDP(mdp.transitions, mdp.task.reward, 3, end_state=2, allowed=mask[:2])
    np.testing.assert_array_equal(shorter.allowed, mdp.allowed)
    called = []
    Task(mdp.task.reward, 3, end_state=2, allowed=lambda s: called.append(s) or [0])
    assert called == [0, 1]


def test_policies_with_other_actions_are_refused():
    mdp = FiniteMDP(P, R, 2, allowed=ALLOWED)
    with pytest.raises(InvalidInput, match=r"policy must be .*\[1\], allowed in state 2"):
        evaluate(mdp, np.zeros((2, 3), dtype=int))
    env = MDPEnv(mdp)
    env.reset(seed=0)
    assert env.action_masks().tolist() == [True, True]
    env._state = 1
    with pytest.raises(InvalidInput, match=r"action must be .*\[0\], allowed in state 1"):
        env.step(1)
    obs, _, _, _, info = env.step(0)  # nothing was spoilt
    assert info["action_mask"].tolist() == ALLOWED[obs].astype(int).tolist()
    assert "action_mask" not in MDPEnv(FiniteMDP(P, R, 2)).reset(seed=0)[1]


def test_the_mask_is_part_of_the_fingerprint_and_rows_of_other_actions_are_not():
    prints = [fingerprint(masked_mdp(seed=1, fill=fill)) for fill in (np.nan, 0.0, 0.3)]
    assert same_problem(prints[0], prints[1])
    assert same_problem(prints[0], prints[2])
    mdp = masked_mdp(seed=1)
    wider = mdp.allowed.copy()
    wider[tuple(np.argwhere(~wider)[-1])] = True
    free = FiniteMDP(mdp.transitions, mdp.task.reward, 4, reward_range=(-1, 1))
    others = [free, free.restricted(wider)]
    for other in others:
        assert not same_problem(fingerprint(mdp), fingerprint(other))
        assert not same_problem(fingerprint(mdp.task), fingerprint(other.task))
    assert same_problem(fingerprint(mdp), fingerprint(free.restricted(mdp.allowed)))
    states, actions = np.divmod(np.arange(15), 3)
    table = mdp.transitions.rows(states, actions).reshape(5, 3, 5)
    table[~mdp.allowed] = 0.2
    kept = FiniteMDP(table, mdp.task.reward, 4, reward_range=(-1, 1)).restricted(mdp.allowed)
    assert same_problem(fingerprint(mdp), fingerprint(kept))


def test_a_saved_problem_has_its_mask():
    mdp = masked_mdp(seed=1, end=True)
    header, arrays = save_problem(read_problem(mdp))
    restored = unpack_problem(header, {name: array.copy() for name, array in arrays.items()})
    np.testing.assert_array_equal(restored.attach(None).finite_task.allowed, mdp.allowed)
    np.testing.assert_array_equal(restored.attach(mdp).mdp.allowed, mdp.allowed)
    free = FiniteMDP(mdp.transitions, mdp.task.reward, 4, reward_range=(-1, 1), end_state=4)
    np.testing.assert_array_equal(restored.attach(free).mdp.allowed, mdp.allowed)  # the agent was given the mask
    for damage in (lambda a: ~a, lambda a: a[:, :2], lambda a: np.zeros_like(a), lambda a: a.astype(float)):
        with pytest.raises((InvalidInput, ValueError)):
            unpack_problem(header, {**arrays, "allowed": damage(arrays["allowed"])})


class Corridor(gym.Env):
    """States 1 to 4 in a row; action 10 waits, 11 goes up, 12 goes down. Ends have no way out."""

    observation_space = gym.spaces.Discrete(4, start=1)
    action_space = gym.spaces.Discrete(3, start=10)
    horizon = 4

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.state = 1
        return self.state, {}

    def step(self, action):
        assert self.truth(self.state)[action - 10], "an action that is not allowed was played"
        self.state += {10: 0, 11: 1, 12: -1}[int(action)]
        return self.state, float(self.state == 4), False, False, {}

    @staticmethod
    def truth(state):
        return np.array([1, state < 4, state > 1], dtype=np.int8)


class Knows(Corridor):
    def action_mask(self, state):
        return self.truth(state)


TABLE = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [1, 0, 1], [1, 1, 1]], dtype=bool)  # and the end state


@pytest.mark.parametrize(
    "problem",
    [
        lambda: read_problem(Knows(), known_reward=False),
        lambda: read_problem(gym.wrappers.TimeLimit(Knows(), 4), known_reward=False),
        lambda: read_problem(Corridor(), known_reward=False, allowed=TABLE[:4]),
        lambda: read_problem(Corridor(), known_reward=False, allowed=TABLE),
        lambda: read_problem(Corridor(), known_reward=False, allowed=lambda s: [10, *[11] * (s < 4), *[12] * (s > 1)]),
        lambda: read_problem(Corridor(), reward=np.where(TABLE[:4], 0.5, np.nan), allowed=TABLE[:4]),
    ],
)
def test_masks_of_an_environment_without_a_table(problem):
    np.testing.assert_array_equal(problem().finite_task.allowed, TABLE)


def test_all_ignores_what_an_environment_declares():
    problem = read_problem(Knows(), known_reward=False, allowed="all")
    assert problem.finite_task.allowed is None
    assert problem.ignores_masks
    with pytest.raises(InvalidInput, match="allowed must be one of all"):
        read_problem(Knows(), known_reward=False, allowed="none")


def test_a_mask_below_a_wrapper_that_renumbers_is_not_that_of_its_states():
    shifted = gym.wrappers.TransformObservation(Knows(), lambda s: 5 - s, gym.spaces.Discrete(4, start=1))
    assert read_problem(shifted, known_reward=False, horizon=4).finite_task.allowed is None


def test_masks_of_toy_text_environments():
    taxi = gym.make("Taxi-v4")
    mdp, free = from_gymnasium(taxi, horizon=25), from_gymnasium(taxi, horizon=25, allowed="all")
    for s in (0, 314, 499):
        np.testing.assert_array_equal(mdp.allowed[s], taxi.unwrapped.action_mask(s))
    assert free.allowed is None
    assert solve(mdp).start_value == pytest.approx(solve(free).start_value)  # it forbids what changes nothing
    assert make("gym:Taxi-v4", horizon=25).unwrapped.mdp.task.n_pairs == mdp.task.n_pairs == 1398
    assert make("gym:Taxi-v4", horizon=25, allowed="all").unwrapped.mdp.allowed is None
    assert read_problem(taxi, horizon=25).mdp.task.n_pairs == 1398
    lake = make("gym:FrozenLake-v1", horizon=5, allowed=lambda s: [0, 1] if s == 0 else range(4))
    assert lake.unwrapped.mdp.allowed[0].tolist() == [True, True, False, False]


@pytest.mark.parametrize("tells", ["info", "method"])
def test_a_table_with_masks_that_come_later_needs_them_now(tells):
    lake = gym.make("FrozenLake-v1")
    inner = lake.unwrapped
    if tells == "method":
        inner.action_masks = lambda: np.ones(4)
    else:
        first = type(inner).reset
        Telling = type("Telling", (type(inner),), {"keeps_table": True})
        Telling.reset = lambda self, **options: (first(self, **options)[0], {"action_mask": np.ones(4)})
        lake = Telling()
    with pytest.raises(InvalidInput, match="allowed must be given"):
        from_gymnasium(lake, horizon=5)
    assert from_gymnasium(lake, horizon=5, allowed="all").allowed is None
    assert from_gymnasium(lake, horizon=5, allowed=lambda _: [0, 1]).task.n_pairs == 2 * 16 + 4


def test_a_problem_without_a_mask_takes_one_and_one_with_a_mask_keeps_it():
    free, mdp = FiniteMDP(P, R, 3), FiniteMDP(P, R, 3, allowed=ALLOWED)
    for given in (free, free.task, MDPEnv(free)):
        np.testing.assert_array_equal(read_problem(given, allowed=ALLOWED).finite_task.allowed, ALLOWED)
    for given in (mdp, mdp.task, MDPEnv(mdp)):
        assert read_problem(given, allowed=ALLOWED).finite_task.n_pairs == 4
        for other in ("all", ALLOWED[::-1]):
            with pytest.raises(InvalidInput, match="allowed cannot be changed"):
                read_problem(given, allowed=other)
    assert free.allowed is None  # it was not changed
    assert MatrixRL("river-swim", seed=0, allowed=lambda _: [1]).problem.finite_task.n_pairs == 6


def test_states_without_numbers_have_no_table_of_masks():
    for given, options in ((gym.make("CartPole-v1"), {"horizon": 20}), (line(), {})):
        with pytest.raises(InvalidInput, match=r"allowed must be left out .*act\(obs, allowed=…\)"):
            read_problem(given, allowed=lambda _: [0], **options)
        assert read_problem(given, allowed="all", **options).ignores_masks


def test_a_list_that_names_an_action_twice_is_no_list_of_actions():
    """``[1, 0, 1]`` is a mask that would be read as the actions 0 and 1."""
    with pytest.raises(InvalidInput, match="must name each action once"):
        Task(np.zeros((2, 3)), 2, allowed=lambda _: [1, 0, 1])
    mask = [True, False, True]
    assert Task(np.zeros((2, 3)), 2, allowed=lambda _: mask).allowed.tolist() == [mask, mask]


@pytest.mark.parametrize("form", [lambda row: row, lambda row: row.tolist(), tuple, lambda row: row.astype(np.uint8)])
def test_masks_of_two_actions_that_may_be_numbers_of_actions_are_refused(form):
    """As a table ``[[0, 1], [1, 0]]`` is a mask; read as lists of actions, it would allow everything."""
    table = np.array([[0, 1], [1, 0], [0, 1]])
    assert Task(R, 3, allowed=table).allowed.tolist() == table.astype(bool).tolist()
    for made in (
        lambda: Task(R, 3, allowed=lambda s: form(table[s])),
        lambda: FiniteMDP(P, R, 3, allowed=lambda s: form(table[s])),
    ):
        with pytest.raises(InvalidInput, match="allowed returns must not be readable both"):
            made()
    assert Task(R, 3, allowed=lambda s: [0] if s else [0, 1]).n_pairs == 4
    assert Task(R, 3, allowed=lambda s: range(2) if s else {0, 1}).n_pairs == 6
    assert Task(np.zeros((3, 1)), 3, allowed=lambda _: np.array([0])).n_pairs == 3


def test_an_array_of_0_and_1_is_no_request_for_two_actions():
    episode = MatrixRL(Task(R, 3, start=0), seed=0).begin_episode()
    for mask in ([0, 1], [1, 0]):
        with pytest.raises(InvalidInput, match="allowed must not be readable both"):
            episode.act(0, allowed=np.array(mask))
        for clear in (np.array(mask, dtype=bool), np.array(mask, dtype=np.int8), np.flatnonzero(mask)):
            assert MatrixRL(Task(R, 3, start=0), seed=0).begin_episode().act(0, allowed=clear) == mask.index(1)
    assert episode.act(0, allowed=[0, 1]) in (0, 1)
