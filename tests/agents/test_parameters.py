"""Parameters of agents: a default that is written down changes nothing, `get_params`, and a `repr` to evaluate."""

from __future__ import annotations

import inspect
from functools import cache

import numpy as np
import pytest
from sklearn.base import clone

import matrixrl
from matrixrl import Agent, InvalidInput, KernelControl, KernelMatrixRL, MatrixRL, ProtocolError
from matrixrl.algorithms import (
    ALGORITHMS,
    BASELINES,
    ContinuousControl,
    ContinuousSettings,
    MatrixRLSettings,
    make_algorithm,
)
from matrixrl.algorithms.baselines import PSRL
from matrixrl.algorithms.matrix_rl.kernel import KernelSettings
from matrixrl.algorithms.registry import setting_names
from matrixrl.play.arguments import AgentOptions, BallOptions, KernelOptions, RunOptions
from matrixrl.problems import ProblemOptions
from matrixrl.problems.reader import OPTION_DEFAULTS
from named_agents import AGENTS

SWIM = {"n_states": 3, "horizon": 4}
BANDITS = ("lin-ucb", "kernel-ucb")
N = 12


def played(name, **options):
    """Return what an agent earned and explored in its first episodes."""
    if name == "kernel-control":
        history = KernelControl("cart-pole", env_settings={"horizon": 20}, seed=0, **options).learn(n_episodes=2)
        return history.returns
    world = {"n_states": 3, "horizon": 1 if name in BANDITS else 4}
    agent = AGENTS[name]("river-swim", env_settings=world, seed=0, **options)
    history = agent.learn(n_episodes=N)
    return np.concatenate([history.returns, history.upper, history.regret])


played_with_defaults = cache(played)


def parameters():
    """Return (agent, parameter, its default) of every setting of every agent, and of every argument of the agent."""
    for name in ALGORITHMS:
        kind = type(
            AGENTS[name](
                "cart-pole"
                if name == "kernel-control"
                else matrixrl.make("river-swim", n_states=3, horizon=1 if name in BANDITS else 4)
            ).algorithm
        )
        settings = kind.settings_class.resolve({})
        for setting in settings.names():
            yield name, setting, getattr(settings, setting)
    for argument, one in inspect.signature(Agent.__init__).parameters.items():
        if one.kind is inspect.Parameter.KEYWORD_ONLY and argument not in ("seed", "env_settings"):
            yield "matrix-rl", argument, one.default
    for option, default in OPTION_DEFAULTS.items():
        yield "matrix-rl", option, default


@pytest.mark.parametrize(("name", "parameter", "default"), [*parameters()], ids=lambda value: str(value)[:20])
def test_a_default_that_is_written_down_changes_nothing(name, parameter, default):
    np.testing.assert_array_equal(played(name, **{parameter: default}), played_with_defaults(name))


@pytest.mark.parametrize(
    ("kind", "options", "settings"),
    [
        (MatrixRL, BallOptions, [MatrixRLSettings]),
        (KernelMatrixRL, KernelOptions, [KernelSettings, ContinuousSettings]),
        (KernelControl, ProblemOptions, [ContinuousControl.settings_class]),
    ],
)
def test_every_setting_is_a_declared_parameter(kind, options, settings):
    """An editor completes it and a type checker knows it; `doubling` is for specs, kernels sweep and count nothing."""
    explicit = {
        name
        for name, one in inspect.signature(kind.__init__).parameters.items()
        if one.kind is inspect.Parameter.KEYWORD_ONLY
    }
    own = {name for name in inspect.signature(Agent.__init__).parameters if name not in ("self", "problem", "options")}
    declared = explicit | set(options.__annotations__)
    hidden = {"doubling", *(["planner", "drift"] if kind is KernelMatrixRL else [])}
    known = {name for one in settings for name in one.names()} - hidden
    assert declared == known | set(ProblemOptions.__annotations__) | (own - {"algorithm"})
    assert len(explicit) <= 20


def test_the_settings_of_every_algorithm_are_declared():
    known = {name for algorithm in ALGORITHMS for name in setting_names(algorithm)}
    assert set(AgentOptions.__annotations__) == known | set(ProblemOptions.__annotations__)
    assert set(RunOptions.__annotations__) == set(AgentOptions.__annotations__) - {"n_episodes"}


def test_a_problem_with_options_is_that_of_the_same_options_of_the_agent():
    options = {"horizon": 5, "reward_range": (0.0, 2.0), "discount": 0.9}
    lake = matrixrl.Problem("gym:FrozenLake-v1", **options)
    one, other = MatrixRL(lake, seed=0), MatrixRL("gym:FrozenLake-v1", seed=0, **options)
    np.testing.assert_array_equal(one.learn(20).upper, other.learn(20).upper)
    with pytest.raises(InvalidInput, match="horizon must be left out"):
        MatrixRL(lake, horizon=5)


@pytest.mark.parametrize(
    ("wrong", "right"), [("horizn", "horizon"), ("sed", "seed"), ("delt", "delta"), ("collumns", "columns")]
)
@pytest.mark.parametrize("make_agent", [MatrixRL, lambda problem, **more: Agent(problem, "matrix-rl", **more)])
def test_a_wrong_name_is_one_error_with_the_nearest_right_one(make_agent, wrong, right):
    with pytest.raises(InvalidInput, match=f"argument must be one of .* got '{wrong}'.* '{right}'"):
        make_agent("river-swim", **{wrong: 1})


@pytest.mark.parametrize("preset", MatrixRLSettings.PRESETS)
def test_all_values_of_a_preset_at_once_change_nothing(preset):
    """The issue: ridge=1.0, radius="block" and beta=1.0 chose a ball, and four times the regret."""
    every = MatrixRLSettings.resolve({"preset": preset})
    written = {name: getattr(every, name) for name in every.names()}
    np.testing.assert_array_equal(played("matrix-rl", **written), played("matrix-rl", preset=preset))


def test_another_value_of_a_setting_of_balls_still_chooses_a_ball():
    assert MatrixRL("river-swim", ridge=0.5).settings.set == "normalised"
    assert MatrixRL("river-swim", ridge=1.0).settings.set == MatrixRL("river-swim").settings.set == "value-targeted"


@pytest.mark.parametrize(
    "agent",
    [
        MatrixRL("river-swim", env_settings=SWIM, seed=3, ridge=0.5, delta=0.1),
        KernelMatrixRL("river-swim", env_settings=SWIM, seed=3, length_scale=0.3),
        Agent("river-swim", "psrl", env_settings=SWIM, seed=3, preset="tuned"),
        Agent("river-swim", PSRL(preset="tuned"), env_settings=SWIM, seed=3),
    ],
    ids=str,
)
def test_parameters_and_repr_make_an_equal_agent(agent):
    names = {"MatrixRL": MatrixRL, "KernelMatrixRL": KernelMatrixRL, "Agent": Agent, "PSRL": PSRL}
    again = type(agent)(**agent.get_params()), eval(repr(agent), names)  # noqa: S307  # what the claim is about
    returns = agent.learn(n_episodes=5).returns
    for one in again:
        assert type(one) is type(agent)
        np.testing.assert_array_equal(one.learn(n_episodes=5).returns, returns)


def test_repr_has_what_was_given_and_str_what_was_learned(tmp_path):
    agent = MatrixRL("river-swim", seed=0, known_reward=False)
    assert repr(agent) == "MatrixRL('river-swim', seed=0, known_reward=False)"
    assert str(agent).startswith(
        "<matrix-rl on river-swim: 6 states, 2 actions, 24 steps, rewards learned; 0 episodes>"
    )
    agent.save(tmp_path / "agent")
    loaded = MatrixRL.load(tmp_path / "agent")
    assert repr(loaded) == str(loaded)
    with pytest.raises(ProtocolError, match="get_params needs an agent"):
        loaded.get_params()


@pytest.mark.parametrize("budget", [2, "5%", "2.50 %"])
@pytest.mark.parametrize(
    "incumbent", [[1] * 4, np.ones((8, 4), dtype=np.int64), (1, 1, 1, 1)], ids=["S", "HS", "tuple"]
)
def test_an_agent_with_an_incumbent_is_cloned_by_scikit_learn(incumbent, budget):
    settings = {"n_states": 4, "horizon": 8}
    one = MatrixRL("river-swim", env_settings=settings, seed=0, incumbent=incumbent, loss_budget=budget)
    again = clone(one)
    np.testing.assert_array_equal(one.learn(n_episodes=5).returns, again.learn(n_episodes=5).returns)


@pytest.mark.parametrize("name", BASELINES)
def test_algorithms_are_cloned_by_scikit_learn(name):
    one = make_algorithm(name)
    again = clone(one)
    assert again is not one
    assert (type(again), again.settings) == (type(one), one.settings)
