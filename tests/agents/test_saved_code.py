"""A file names the code and the parameters that an agent was made with, and `load` takes nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from agents.helpers import assert_same_agent
from agents.own_code import AlsoUnnamed, OwnBall, Posterior, Shrinking, Unnamed
from hostile import header_of
from matrixrl import Agent, CheckpointError, InvalidInput, MatrixRL, make
from matrixrl.core.radius import ConstantRadius
from matrixrl.core.sets.balls import FrobeniusBall
from matrixrl.errors import UntrustedCode
from named_agents import AGENTS


def river():
    return make("river-swim", n_states=4, horizon=6)


def saved(algorithm, path):
    agent = Agent(river(), algorithm, seed=0)
    agent.learn(2)
    agent.save(path)
    return agent


@pytest.mark.parametrize(
    ("made", "given"),
    [
        (Unnamed(), AlsoUnnamed()),
        (AlsoUnnamed(), Unnamed()),
        (Unnamed(bonus=2.0), Unnamed(bonus=900.0)),
        (Posterior(), None),
        (Posterior(prior=2.0), Posterior(prior=3.0)),
    ],
    ids=["another class", "its base", "another argument", "the name of the library's", "another setting"],
)
def test_an_own_algorithm_is_compared_by_class_and_by_what_it_was_made_with(made, given, tmp_path):
    saved(made, tmp_path / "a")
    with pytest.raises(CheckpointError, match="algorithm must"):
        Agent.load(tmp_path / "a", river(), algorithm=given)


@pytest.mark.parametrize("made", [Unnamed(), Unnamed(bonus=2.0), Posterior(prior=2.0)], ids=["plain", "made", "named"])
def test_the_same_algorithm_is_taken(made, tmp_path):
    agent = saved(made, tmp_path / "a")
    assert header_of((tmp_path / "a").read_bytes())["code"] == f"agents.own_code:{type(made).__name__}"
    assert_same_agent(Agent.load(tmp_path / "a", river(), algorithm=made), agent)


def test_a_file_of_the_library_is_no_file_of_a_subclass(tmp_path):
    agent = AGENTS["psrl"](river(), seed=0)
    agent.save(tmp_path / "a")
    with pytest.raises(CheckpointError, match="algorithm must be left out"):
        Agent.load(tmp_path / "a", river(), algorithm=Posterior())


@pytest.mark.parametrize(
    ("name", "made", "others"),
    [
        ("radius", ConstantRadius(beta=2.0), [ConstantRadius(beta=900.0), Shrinking()]),
        ("radius", Shrinking(power=0.5), [Shrinking(power=0.6), Shrinking(), ConstantRadius(beta=2.0)]),
        ("set", OwnBall(factor=2.0), [OwnBall(), FrobeniusBall()]),
    ],
    ids=["radius of the library", "own radius", "own set"],
)
def test_objects_are_compared_by_their_parameters(name, made, others, tmp_path):
    agent = MatrixRL(river(), seed=0, **{name: made})
    agent.learn(2)
    agent.save(tmp_path / "a")
    for other in others:
        with pytest.raises(InvalidInput, match=f"{name} must be the one that the agent was made with"):
            MatrixRL.load(tmp_path / "a", river(), **{name: other})
    assert_same_agent(MatrixRL.load(tmp_path / "a", river(), **{name: made}), agent)


def test_the_message_says_what_to_pass_and_how_to_trust(tmp_path):
    agent = MatrixRL(river(), seed=0, radius=Shrinking(power=0.5))
    agent.save(tmp_path / "a")
    words = r"radius must be passed to load, as the agent was made with agents\.own_code:Shrinking"
    with pytest.raises(CheckpointError, match=words + ".*trust_code=True"):
        MatrixRL.load(tmp_path / "a")


def test_trusted_code_is_imported(tmp_path):
    agent = MatrixRL(river(), seed=0, radius=Shrinking(), set=OwnBall())
    agent.learn(2)
    agent.save(tmp_path / "a")
    assert_same_agent(MatrixRL.load(tmp_path / "a", trust_code=True), agent)
    own = saved(Posterior(prior=2.0), tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"algorithm must be .*'psrl'.*trust_code=True"):
        Agent.load(tmp_path / "b", river())
    assert_same_agent(Agent.load(tmp_path / "b", river(), trust_code=True), own)


def test_trusted_code_that_was_made_with_arguments_must_still_be_passed(tmp_path):
    MatrixRL(river(), seed=0, radius=Shrinking(power=0.5)).save(tmp_path / "a")
    with pytest.raises(
        CheckpointError, match=r"radius must be the one that the agent was made with, agents\.own_code:Shrinking"
    ):
        MatrixRL.load(tmp_path / "a", trust_code=True)
    saved(Unnamed(bonus=2.0), tmp_path / "b")
    with pytest.raises(CheckpointError, match=r"algorithm must have the settings .*bonus"):
        Agent.load(tmp_path / "b", river(), trust_code=True)


def test_an_environment_by_reference_needs_trust_in_load_too(tmp_path):
    name = "matrixrl.envs.classic:RiverSwim"
    agent = MatrixRL(name, trust_code=True, seed=0)
    agent.save(tmp_path / "a")
    with pytest.raises(UntrustedCode, match="trust_code=True"):
        MatrixRL.load(tmp_path / "a", name)
    assert_same_agent(MatrixRL.load(tmp_path / "a", name, trust_code=True), agent)


@pytest.mark.parametrize("name", ["kernel-ucbvi", "kernel-ucb", "kernel-matrix-rl"])
def test_a_kernel_on_the_coordinates_of_states_is_the_same_without_the_environment(name, tmp_path):
    def grid(size=3):
        return make("grid-world", size=size, horizon=1 if name == "kernel-ucb" else 5)

    agent = AGENTS[name](grid(), seed=0)
    agent.learn(4)
    agent.save(tmp_path / "a")
    alone, there = AGENTS[name].load(tmp_path / "a"), AGENTS[name].load(tmp_path / "a", grid())
    for loaded in (alone, there):
        assert_same_agent(loaded, agent)
        np.testing.assert_array_equal(loaded.problem.points, agent.problem.points)
        np.testing.assert_array_equal(loaded.policy, agent.policy)


def test_other_coordinates_of_states_are_another_problem(tmp_path):
    agent = AGENTS["kernel-ucbvi"](make("grid-world", size=3, horizon=5), seed=0)
    agent.save(tmp_path / "a")
    stretched = make("grid-world", size=3, horizon=5)
    stretched.unwrapped.points = 5.0 * np.asarray(agent.problem.points)
    with pytest.raises(CheckpointError, match="coordinates of states"):
        AGENTS["kernel-ucbvi"].load(tmp_path / "a", stretched)
