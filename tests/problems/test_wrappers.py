"""The transition table of an environment is used only if no wrapper can have changed it; time limits count."""

from __future__ import annotations

import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import wrappers

from matrixrl import FiniteMDP, InvalidInput, MatrixRL, from_gymnasium, make, run_seeds
from matrixrl.envs import GridWorld, PointObservations, RiverSwim
from matrixrl.errors import MatrixRLWarning
from matrixrl.problems import known_mdp, read_problem
from named_agents import AGENTS


def lake(**settings):
    return gym.make("FrozenLake-v1", **settings)


class Quiet(gym.Wrapper):
    keeps_table = True


class Louder(Quiet):
    def step(self, action):
        obs, reward, *rest = self.env.step(action)
        return obs, 2.0 * reward, *rest


class Doubled(wrappers.OrderEnforcing):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, 2.0 * reward, *rest


class OwnSwim(RiverSwim):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, 1.0 - reward, *rest


CHANGED = {
    "rewards": lambda env: wrappers.TransformReward(env, lambda r: r - 1.0),
    "observations": lambda env: wrappers.TransformObservation(env, lambda _: 0, env.observation_space),
    "actions": lambda env: wrappers.TransformAction(env, lambda _: 0, env.action_space),
    "sticky actions": lambda env: wrappers.StickyAction(env, 0.5),
    "delayed observations": lambda env: wrappers.DelayObservation(env, 1),
    "below a harmless one": lambda env: wrappers.RecordEpisodeStatistics(wrappers.StickyAction(env, 0.5)),
    "a user's own": gym.Wrapper,
    "a subclass of a harmless one": Doubled,
    "a subclass of a declared one": Louder,
}
SAME = {
    "none": lambda env: env,
    "statistics": wrappers.RecordEpisodeStatistics,
    "autoreset": wrappers.Autoreset,
    "order": wrappers.OrderEnforcing,
    "checker": wrappers.PassiveEnvChecker,
    "time limit": lambda env: wrappers.TimeLimit(env, 100),
    "a user's own, declared": Quiet,
}
ENVS = {
    "river-swim": lambda: make("river-swim", n_states=4, horizon=8),
    "a table P": lambda: lake(max_episode_steps=20),
}
names = pytest.mark.parametrize("name", ENVS)


@names
@pytest.mark.parametrize("wrap", CHANGED.values(), ids=CHANGED)
def test_an_environment_with_a_changing_wrapper_has_no_table_and_says_so(name, wrap):
    env = wrap(ENVS[name]())
    with pytest.warns(MatrixRLWarning, match="transition table .* is not used") as seen:
        agent = MatrixRL(env, known_reward=False, horizon=6, reward_range=(-2, 2), seed=0)
    assert len(seen) == 1
    history = agent.learn(3)
    assert history.regret is None
    assert agent.problem.mdp is None
    assert known_mdp(env) is None
    with pytest.raises(InvalidInput, match=r"reward must be given .*wrapper"):
        MatrixRL(env, horizon=6, known_reward=True)
    with pytest.raises(InvalidInput, match="env must not have wrappers"):
        from_gymnasium(env)


@names
@pytest.mark.parametrize("wrap", SAME.values(), ids=SAME)
def test_a_wrapper_that_changes_nothing_keeps_exact_regret(name, wrap):
    plain, wrapped = (MatrixRL(env, seed=1).learn(5) for env in (ENVS[name](), wrap(ENVS[name]())))
    np.testing.assert_array_equal(plain.regret, wrapped.regret)
    np.testing.assert_array_equal(plain.returns, wrapped.returns)


def test_the_reported_returns_and_the_regret_are_never_of_two_problems():
    """The table of a lake whose rewards were replaced by −1 once gave returns of −300 with a regret of 17."""
    env = wrappers.TransformReward(lake(max_episode_steps=20), lambda _: -1.0)
    with pytest.warns(MatrixRLWarning):
        result = run_seeds(env, n_episodes=5, seeds=1, agent="psrl", known_reward=False, reward_range=(-1, 0))
    assert result.returns.max() <= -1.0
    assert result.optimal_value is None
    assert np.isnan(result.regret).all()
    assert result.as_dict()["regret"] is None


def test_a_subclass_with_its_own_step_is_not_played_from_the_table():
    with pytest.warns(MatrixRLWarning, match="step of OwnSwim may change it"):
        agent = AGENTS["psrl"](OwnSwim(n_states=4, horizon=8), known_reward=False, seed=0)
    assert agent.learn(2).returns.min() > 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_problem(RiverSwim(n_states=4))


def test_coordinates_as_observations_keep_the_table_unless_something_else_changes_it():
    plain = PointObservations(GridWorld(3))
    assert isinstance(read_problem(plain).mdp, FiniteMDP)
    assert isinstance(read_problem(wrappers.RecordEpisodeStatistics(plain)).mdp, FiniteMDP)
    with pytest.warns(MatrixRLWarning, match="StickyAction"):
        problem = read_problem(wrappers.StickyAction(plain, 0.3))
    assert problem.mdp is None
    assert problem.points is None


class OwnPoints(PointObservations):
    def step(self, action):
        obs, reward, *rest = super().step(action)
        return obs, 1.0 - reward, *rest


class DeclaredPoints(PointObservations):
    keeps_table = True


def test_a_users_subclass_of_coordinates_has_no_table_unless_it_declares_so():
    with pytest.warns(MatrixRLWarning, match="the wrapper OwnPoints may change it"):
        problem = read_problem(OwnPoints(GridWorld(3)))
    assert problem.mdp is None
    assert problem.points is None
    assert isinstance(read_problem(DeclaredPoints(GridWorld(3))).mdp, FiniteMDP)


def replaced(env, method):
    """Replace a method of an object by one that calls it."""
    own = getattr(env, method)
    setattr(env, method, lambda *args, **kwargs: own(*args, **kwargs))


@names
@pytest.mark.parametrize("method", ["step", "reset"])
@pytest.mark.parametrize("where", ["outside", "inside", "declared"])
def test_a_method_that_was_replaced_on_an_object_may_change_the_table(name, method, where):
    env = wrappers.RecordEpisodeStatistics(Quiet(ENVS[name]()))
    replaced({"outside": env, "inside": env.unwrapped, "declared": env.env}[where], method)
    with pytest.warns(MatrixRLWarning, match=f"the method {method} that was replaced on \\w+ may change it"):
        problem = read_problem(env, known_reward=False, horizon=6)
    assert problem.mdp is None
    assert known_mdp(env) is None


@pytest.mark.parametrize("method", ["step", "reset", "observation"])
def test_a_method_that_was_replaced_on_coordinates_may_change_them(method):
    env = PointObservations(GridWorld(3))
    replaced(env, method)
    with pytest.warns(MatrixRLWarning, match=f"the method {method} that was replaced on PointObservations"):
        problem = read_problem(env)
    assert problem.mdp is None
    assert problem.points is None


class NoSpec(gym.Env):
    """An environment without a registered spec, which therefore declares no time limit by itself."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), 1.0, False, False, {}


def test_the_time_limit_of_a_wrapper_is_the_horizon_and_its_upper_limit():
    env = wrappers.RecordEpisodeStatistics(wrappers.TimeLimit(NoSpec(), 7))
    agent = MatrixRL(env, reward=np.ones((2, 2)), seed=0)
    assert agent.problem.task.horizon == 7
    assert agent.learn(1).lengths[0] == 7
    with pytest.raises(InvalidInput, match=r"horizon must not exceed .*7 steps"):
        MatrixRL(env, reward=np.ones((2, 2)), horizon=8)
    with pytest.raises(InvalidInput, match="time limit of the environment, 5 steps"):
        MatrixRL(wrappers.TimeLimit(RiverSwim(), 5))
    with pytest.raises(InvalidInput, match="time limit of the environment, 20 steps"):
        from_gymnasium(lake(max_episode_steps=20), horizon=50) and MatrixRL(lake(max_episode_steps=20), horizon=50)
