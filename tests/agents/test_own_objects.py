"""A user's own sets, radii, kernels, feature maps and algorithms: played, saved, and asked for again by `load`."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF, Matern
from sklearn.kernel_approximation import RBFSampler

from agents.helpers import assert_same_agent
from matrixrl import Agent, CheckpointError, InvalidInput, KernelMatrixRL, MatrixRL, make, run_seeds
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.baselines import PSRL
from matrixrl.core import Radius
from matrixrl.core.radius import ConstantRadius
from matrixrl.core.sets.balls import FrobeniusBall
from matrixrl.features import FunctionPhi, TablePhi, TablePsi
from matrixrl.problems import low_rank
from matrixrl.settings import Settings, real, setting
from named_agents import AGENTS


class OwnSet(FrobeniusBall):
    """The library's ball under another name."""

    name = "own set"


class OwnRadius(Radius):
    """A radius that shrinks."""

    def __call__(self, inputs):
        return np.full((inputs.n_replicas, 1), 1.0 / inputs.episode)


class OwnPhi(TablePhi):
    """A subclass, of which no file can tell what it adds."""


class OwnPsi(TablePsi):
    """Likewise."""


@dataclass(frozen=True)
class CountingSettings(Settings):
    bonus: float = setting(1.0, "Bonus of a pair that was never tried.", real())


class Counting(FiniteAlgorithm):
    """Plays what was tried least often."""

    name = "counting"
    settings_class = CountingSettings
    learned_names = ("counts",)

    def begin(self):
        super().begin()
        self.counts = np.zeros((self.n_replicas, self.task.n_actions, self.task.n_states))

    def make_plan(self):
        worth = self.unit_reward + self.settings.bonus / np.sqrt(1.0 + self.counts)
        return self.induct(lambda _, values: worth + values.mean(axis=1)[:, None, None], cap=False)

    def learn(self, steps):
        replica = np.arange(self.n_replicas)[:, None]
        np.add.at(self.counts, (replica, steps.actions, steps.states), steps.weights)


def river():
    return make("river-swim", n_states=4, horizon=6)


def car():
    return make("mountain-car", sparse=True, horizon=20)


@pytest.mark.parametrize(
    ("build", "env", "objects", "wrong"),
    [
        (MatrixRL, river, {"set": OwnSet()}, {"set": FrobeniusBall()}),
        (MatrixRL, river, {"radius": OwnRadius()}, {"radius": ConstantRadius()}),
        (MatrixRL, river, {"set": OwnSet(), "radius": OwnRadius()}, {"set": OwnSet()}),
        (KernelMatrixRL, car, {"kernel": Matern(0.7)}, {}),
        (KernelMatrixRL, car, {"transformer": RBFSampler(n_components=9, random_state=0)}, {"kernel": RBF()}),
    ],
    ids=["set", "radius", "both", "kernel", "transformer"],
)
def test_settings_that_are_objects_must_be_given_again(build, env, objects, wrong, tmp_path):
    agent = build(env(), seed=0, **objects)
    agent.learn(3)
    agent.begin_episode()
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="must be passed to load"):
        build.load(tmp_path / "a", env())
    with pytest.raises(
        InvalidInput, match=r"must be passed to load|must be left out, as|must be the one that the agent was made with"
    ):
        build.load(tmp_path / "a", env(), **wrong)
    loaded = build.load(tmp_path / "a", env(), **objects)
    for one in (agent, loaded):
        one.abandon_episode()
        one.learn(3)
    assert_same_agent(loaded, agent)


def test_an_object_that_nobody_used_is_refused(tmp_path):
    MatrixRL(river(), seed=0).save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="set must be left out"):
        MatrixRL.load(tmp_path / "a", set=OwnSet())


def test_an_own_set_is_the_set_it_inherits_from():
    one = MatrixRL(river(), seed=0, set=OwnSet()).learn(10)
    other = MatrixRL(river(), seed=0, set="frobenius").learn(10)
    np.testing.assert_array_equal(one.upper, other.upper)


def test_an_own_radius_is_used_and_declares_no_proof():
    agent = MatrixRL(river(), seed=0, radius=OwnRadius())
    assert "declares no proof" in agent.guarantee.reason


def world():
    return low_rank(n_states=30, n_actions=2, d=3, d_psi=4, horizon=4, seed=2)


@pytest.mark.parametrize("kind", ["function", "subclass"])
def test_an_own_phi_is_saved_by_its_answers_at_a_few_states(kind, tmp_path):
    table = 2.0 * world().features.phi.table
    maps = {"function": lambda t: FunctionPhi(lambda s: t[s], 30, 2), "subclass": OwnPhi}
    agent = MatrixRL(world().mdp, phi=maps[kind](table), seed=0)
    agent.learn(3)
    agent.save(tmp_path / "a")
    with zipfile.ZipFile(tmp_path / "a") as archive:
        assert "problem_phi.npy" not in archive.namelist()
        assert archive.getinfo("problem_phi_probe.npy").file_size < 16 * 2 * 3 * 8 + 200  # 16 states
    for given in (None, maps[kind](table + 0.1), TablePhi(table[:, :, :2])):
        with pytest.raises(InvalidInput, match="phi must be the feature map"):
            MatrixRL.load(tmp_path / "a", world().mdp, phi=given)
    loaded = MatrixRL.load(tmp_path / "a", world().mdp, phi=maps[kind](table))
    for one in (loaded, agent):
        one.learn(3)
    assert_same_agent(loaded, agent)


def test_an_own_psi_is_asked_for_too(tmp_path):
    psi = OwnPsi(world().features.psi.table)
    agent = MatrixRL(world().mdp, psi=psi, seed=0)
    agent.learn(2)
    agent.save(tmp_path / "a")
    MatrixRL.load(tmp_path / "a", world().mdp)  # the environment offers a ψ with the same answers
    with pytest.raises(InvalidInput, match="psi must be the feature map"):
        MatrixRL.load(tmp_path / "a")
    assert_same_agent(MatrixRL.load(tmp_path / "a", psi=psi), agent)


def test_a_map_of_the_library_is_in_the_file_and_not_wanted(tmp_path):
    agent = MatrixRL(world().mdp, phi=2.0 * world().features.phi.table, seed=0)
    agent.learn(2)
    agent.save(tmp_path / "a")
    assert_same_agent(MatrixRL.load(tmp_path / "a"), agent)
    with pytest.raises(InvalidInput, match="phi must be left out"):
        MatrixRL.load(tmp_path / "a", phi=TablePhi(world().features.phi.table))


def test_a_kernel_of_numbered_states_is_part_of_the_features(tmp_path):
    """Nothing needs to be given again: the file holds the coordinates of the kernel."""
    env = make("grid-world", size=4, horizon=8)
    agent = KernelMatrixRL(env, k_phi=Matern(0.8), preset="tuned", seed=0)
    assert isinstance(agent, KernelMatrixRL)
    agent.learn(3)
    agent.save(tmp_path / "a")
    loaded = KernelMatrixRL.load(tmp_path / "a")
    assert isinstance(loaded, KernelMatrixRL)
    np.testing.assert_array_equal(loaded.policy, agent.policy)


@pytest.mark.parametrize("env", [river, car])
def test_kernel_matrix_rl_is_one_class_on_numbers_and_on_vectors(env):
    agent = KernelMatrixRL(env(), preset="tuned", seed=0)
    assert type(agent) is KernelMatrixRL
    assert agent.learn(2).n_episodes == 2
    assert agent.algorithm.name == agent.name == "kernel-matrix-rl"


def test_an_own_algorithm_is_played_saved_and_given_again(tmp_path):
    agent = Agent(river(), Counting(bonus=3.0), seed=0)
    agent.learn(4)
    agent.begin_episode()
    agent.save(tmp_path / "a")
    for wrong in (None, PSRL()):
        with pytest.raises(InvalidInput, match=r"algorithm must be .*'counting'.*Pass it"):
            Agent.load(tmp_path / "a", river(), algorithm=wrong)
    with pytest.raises(
        InvalidInput,
        match=r"algorithm must have the settings.*bonus",
    ):
        Agent.load(tmp_path / "a", river(), algorithm=Counting(bonus=1.0))
    loaded = Agent.load(tmp_path / "a", river(), algorithm=Counting(bonus=3.0))
    for one in (loaded, agent):
        one.observe(0, one.act(0), 0.0, 1)
        one.end_episode()
        one.learn(2)
    assert_same_agent(loaded, agent)
    assert "counting has no proof here" in agent.guarantee.reason
    together = run_seeds(river(), n_episodes=4, seeds=[0], agent=Counting(bonus=3.0))
    np.testing.assert_array_equal(together.regret[0], agent.history.regret[:4])


def test_what_load_does_not_need_is_refused(tmp_path):
    """Nothing that is given is ignored."""
    own, ours, vectors = tmp_path / "own", tmp_path / "ours", tmp_path / "vectors"
    Agent(river(), Counting(), seed=0).save(own)
    AGENTS["psrl"](river(), seed=0).save(ours)
    KernelMatrixRL(car(), seed=0).save(vectors)
    with pytest.raises(InvalidInput, match="algorithm must be left out"):
        AGENTS["psrl"].load(ours, algorithm=PSRL())
    with pytest.raises(InvalidInput, match="set must be left out"):
        Agent.load(own, algorithm=Counting(), set=OwnSet())
    with pytest.raises(InvalidInput, match="phi must be left out"):
        KernelMatrixRL.load(vectors, car(), phi=OwnPhi(np.ones((3, 2, 1))))
    with pytest.raises(CheckpointError, match="holds a 'psrl' agent, not 'matrix-rl'"):
        MatrixRL.load(ours)


def test_an_environment_may_be_named(tmp_path):
    agent = MatrixRL("river-swim", seed=0)
    agent.learn(2)
    agent.save(tmp_path / "a")
    loaded = MatrixRL.load(tmp_path / "a", "river-swim")
    for one in (loaded, agent):
        one.learn(2)
    assert_same_agent(loaded, agent)
    with pytest.raises(InvalidInput, match="env must be the problem"):
        MatrixRL.load(tmp_path / "a", "deep-sea")


def test_an_algorithm_is_not_changed_by_the_agent_that_plays_it():
    algorithm = PSRL(preset="tuned")
    one, other = Agent(river(), algorithm, seed=0), Agent(river(), algorithm, seed=0)
    one.learn(5)
    assert not hasattr(algorithm, "problem")
    other.learn(5)
    assert_same_agent(other, one)


class Bare(Counting):
    """Without settings at all."""

    name = "bare"

    def __init__(self):
        pass

    def make_plan(self):
        return self.induct(lambda _, values: self.unit_reward + values.mean(axis=1)[:, None, None])


def test_an_own_algorithm_needs_no_settings(tmp_path):
    agent = Agent(river(), Bare(), seed=0)
    agent.learn(2)
    agent.save(tmp_path / "a")
    assert_same_agent(Agent.load(tmp_path / "a", river(), algorithm=Bare()), agent)


def test_code_by_name_needs_trust():
    from matrixrl.errors import UntrustedCode

    with pytest.raises(UntrustedCode, match="would import and run code"):
        MatrixRL("package.module:Name")
    name = "matrixrl.envs.classic:RiverSwim"
    with pytest.raises(UntrustedCode, match="trust_code=True"):
        MatrixRL(name)
    trusted = MatrixRL(name, env_settings={"n_states": 4}, trust_code=True, seed=0)
    named = MatrixRL("river-swim", env_settings={"n_states": 4}, seed=0)
    np.testing.assert_array_equal(trusted.learn(2).upper, named.learn(2).upper)
    with pytest.raises(UntrustedCode, match="trust_code=True"):
        run_seeds("river-swim", n_episodes=1, agent="package.module:Name")
