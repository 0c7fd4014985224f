"""Two problems have one fingerprint exactly if they are the same problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from continuum import aims, hats, line
from matrixrl import FiniteMDP, Task, make
from matrixrl.problems import fingerprint, low_rank
from matrixrl.problems.continuous import read_continuous
from small_worlds import same_problem

S, A, H = 4, 2, 5


def table():
    rng = np.random.default_rng(0)
    law = rng.dirichlet(np.ones(S), (S, A))
    law[-1] = np.eye(S)[-1]
    reward = rng.random((S, A))
    reward[-1] = 0.0
    return law, reward


def mdp(**changes):
    law, reward = table()
    settings = {"transitions": law, "reward": reward, "horizon": H, "start": 0, **changes}
    return FiniteMDP(**settings)


def one_transition():
    law, _ = table()
    law[1, 0] += [1e-6, 0.0, 0.0, -1e-6]
    return law


def one_reward():
    _, reward = table()
    reward[2, 1] += 1e-6
    return reward


def swapped(axis):
    law, reward = table()
    order = [1, 0, 2, 3] if axis == 0 else [1, 0]
    return {"reward": np.take(reward, order, axis=axis), "transitions": law}


CHANGES = {
    "horizon": {"horizon": H + 1},
    "one transition": {"transitions": one_transition()},
    "one reward": {"reward": one_reward()},
    "two states swap rewards": swapped(0),
    "two actions swap rewards": swapped(1),
    "start": {"start": 1},
    "start as a distribution": {"start": [0.5, 0.5, 0.0, 0.0]},
    "end state": {"end_state": S - 1},
    "noise": {"noisy_rewards": True},
    "range low": {"reward_range": (-1.0, 1.0)},
    "range high": {"reward_range": (0.0, 2.0)},
}


def test_the_same_problem_built_twice():
    law, reward = table()
    assert same_problem(fingerprint(mdp()), fingerprint(mdp()))
    assert fingerprint(mdp()) == fingerprint(mdp())
    thin = FiniteMDP(sparse.csr_array(law.reshape(S * A, S)), reward, H)
    assert same_problem(fingerprint(mdp()), fingerprint(thin))  # whatever P is kept as
    first, second = (low_rank(n_states=9, n_actions=2, d=3, horizon=4, seed=1).mdp for _ in range(2))
    assert fingerprint(first) == fingerprint(second)
    states, actions = np.divmod(np.arange(18), 2)
    dense = first.transitions.rows(states, actions).reshape(9, 2, 9)
    assert same_problem(fingerprint(first), fingerprint(FiniteMDP(dense, first.task.reward, 4)))


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_every_change_of_an_mdp_shows(changes):
    assert not same_problem(fingerprint(mdp()), fingerprint(mdp(**changes)))


@pytest.mark.parametrize("name", [name for name in CHANGES if name not in ("one transition", "noise")])
def test_every_change_of_a_task_shows(name):
    assert not same_problem(fingerprint(mdp().task), fingerprint(mdp(**CHANGES[name]).task))


def test_an_agent_that_never_sees_p_has_a_task_without_it():
    law, reward = table()
    assert same_problem(fingerprint(mdp().task), fingerprint(mdp(transitions=one_transition()).task))
    assert same_problem(fingerprint(mdp().task), fingerprint(Task(reward, H)))
    assert not same_problem(fingerprint(mdp()), fingerprint(mdp().task))
    assert not same_problem(
        fingerprint(mdp()),
        fingerprint(FiniteMDP(law[:3, :, :3] / law[:3, :, :3].sum(axis=2, keepdims=True), reward[:3], H)),
    )


def slower(states):
    return aims(0.99 * states)


FUNCTIONS = {
    "phi": {"phi": slower},
    "psi": {"psi": lambda states: hats(states[:, 0]) * (1.0 + 1e-6)},
    "reward": {"reward": lambda states: 0.999 * aims(states)[:, :, -1]},
    "no reward": {"reward": None},
    "sampler": {"sampler": lambda rng, m: (rng.random((m, 1)) ** 2, np.full(m, 1.0 / m))},
    "weights": {"sampler": lambda rng, m: (rng.random((m, 1)), np.full(m, 2.0 / m))},
    "horizon": {"horizon": 7},
    "range": {"reward_range": (0.0, 2.0)},
    "start": {"start": [0.5]},
    "no start": {"start": None},
    "end state": {"end_state": [1.0]},
}


def test_functions_that_answer_the_same_are_the_same_problem():
    assert fingerprint(line()) == fingerprint(line())
    assert same_problem(fingerprint(line()), fingerprint(line(start=None, env=None))) is False
    assert same_problem(fingerprint(line()), fingerprint(line(env=None)))  # where it is played does not matter


@pytest.mark.parametrize("changes", FUNCTIONS.values(), ids=FUNCTIONS)
def test_every_change_of_a_functional_task_shows(changes):
    assert not same_problem(fingerprint(line()), fingerprint(line(**changes)))


def test_start_and_end_state_are_not_mistaken_for_each_other():
    one, other = line(start=[1.0], end_state=None), line(start=None, end_state=[1.0])
    assert not same_problem(fingerprint(one), fingerprint(other))


def car(**settings):
    return read_continuous(make("mountain-car", **settings))


def test_vectors():
    assert fingerprint(car()) == fingerprint(car())
    for settings in ({"horizon": 100}, {"sparse": True}):
        assert not same_problem(fingerprint(car()), fingerprint(car(**settings)))
    task = car()
    others = {
        "low": {"low": task.low - 1.0},
        "high": {"high": task.high + 1.0},
        "n_actions": {"n_actions": 4},
        "range": {"reward_range": (-2.0, 0.0)},
        "max_return": {"max_return": 1.0},
    }
    for name, change in others.items():
        assert not same_problem(fingerprint(task), fingerprint(replace(task, **change))), name
    assert not same_problem(fingerprint(car()), fingerprint(read_continuous(make("cart-pole"))))
