"""Every argument of the public surface as a function of one value, and values that nobody should pass."""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import fields
from functools import cache
from pathlib import Path

import gymnasium as gym
import numpy as np
from scipy import sparse

import matrixrl
from continuum import line
from matrixrl import Agent, Features, FiniteMDP, KernelMatrixRL, MatrixRL, MDPEnv, Policy, Task, plots
from matrixrl.algorithms.baselines import BASELINES
from matrixrl.algorithms.continuous import ContinuousSettings
from matrixrl.algorithms.matrix_rl import MatrixRLSettings
from matrixrl.algorithms.matrix_rl.kernel import KernelSettings
from matrixrl.envs import CONTROL, ENVIRONMENTS
from matrixrl.features import kernel_features
from matrixrl.features.kernels import as_kernel
from matrixrl.logs import ROLES
from matrixrl.play import Simulation, inspect_problem

P = np.full((3, 2, 3), 1.0 / 3.0)
R = np.linspace(0.0, 1.0, 6).reshape(3, 2)


class Opaque:
    """An object of no use whose text is long and whose comparisons fail."""

    def __repr__(self):
        return "opaque\n" * 50

    def __eq__(self, other):
        raise RuntimeError("not comparable")

    __hash__ = object.__hash__


class Unprintable:
    def __repr__(self):
        raise RuntimeError("not printable")


def values():
    """Return values of every kind; some are valid somewhere, none is valid everywhere."""
    plain = [None, True, False, 0, 1, -1, 2, 10**12, -(10**12), 10**30, 0.0, 0.5, -0.5, 1e308, -1e308, 1e-300]
    odd = [float("nan"), float("inf"), -float("inf"), 1j, "", " ", "abc", "0", "none", "[red]x\x1b[2J", "é\0", b"bytes"]
    containers = [[], (), {}, set(), [0], [None], ["a"], [0, 1], (0, 1), [1, 0], (0.0, float("nan")), {"a": 1}, {1: 2}]
    nested = [[[0.5, 0.5]], [[1, 2], [3]], range(2), range(0), iter([1]), frozenset({0})]
    arrays = [
        np.array(0),
        np.array(0.5),
        np.array([]),
        np.zeros((0, 2)),
        np.ones(3),
        np.ones((3, 3)),
        np.ones((3, 2, 3)),
        np.zeros((3, 2)),
        np.full((3, 2), np.nan),
        np.full((3, 2, 2), np.inf),
        np.ones((3, 2), dtype=complex),
        np.array(["a", "b"]),
        np.array([None, 1], dtype=object),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.ma.masked_array(np.ones((3, 2)), mask=True),
        np.ma.masked_array(np.ones((3, 2, 3)), mask=np.eye(3, 2)[:, :, None] * np.ones(3)),
        np.ma.masked,
        np.ones((3, 2), dtype=np.float16),
        np.ones((3, 2), dtype=bool),
        np.full((3, 2), 2**63, dtype=np.uint64),
        np.zeros(3, dtype=[("a", float)]),
    ]
    scalars = [
        np.int64(-1),
        np.float32("nan"),
        np.bool_(True),
        np.str_("x"),
        np.uint64(2**64 - 1),
        np.datetime64("NaT"),
    ]
    others = [object(), Opaque(), Unprintable(), object, int, lambda: None, lambda *_: None, Path("no/such/file")]
    more = [
        sparse.csr_array(np.eye(3)),
        sparse.csr_array(np.eye(3) * 1j),
        NotImplemented,
        Ellipsis,
        slice(2),
        ValueError("x"),
    ]
    worlds = [Features(np.ones((3, 2, 1)), np.ones((3, 1))), Task(R, 2), FiniteMDP(P, R, 2), np.random.default_rng(0)]
    return [*plain, *odd, *containers, *nested, *arrays, *scalars, *others, *more, *worlds]


class Vectors(gym.Env):
    """One coordinate and two actions; an episode has three steps."""

    observation_space = gym.spaces.Box(-1.0, 1.0, (1,))
    action_space = gym.spaces.Discrete(2)
    horizon = 3

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, dtype=np.float32), {}

    def step(self, action):
        return np.full(1, 0.1 * action, dtype=np.float32), 0.5, False, False, {}


class Answering(gym.Env):
    """An environment whose methods return what a test wants."""

    observation_space = gym.spaces.Discrete(3)
    action_space = gym.spaces.Discrete(2)
    horizon = 3

    def __init__(self, **answers):
        self.answers = answers

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.answers.get("reset", (self.answers.get("obs", 0), {}))

    def step(self, action):
        parts = {"next_obs": 0, "reward": 0.5, "terminated": False, "truncated": False, "info": {}}
        return self.answers.get("step", tuple(self.answers.get(k, v) for k, v in parts.items()))


COMBINED = {"a": 1, "b": np.array([0, 1], dtype=np.int8)}


class Combinations(Answering):
    """The same with dictionaries as observations and tuples as actions."""

    observation_space = gym.spaces.Dict({"a": gym.spaces.Discrete(3), "b": gym.spaces.MultiBinary(2)})
    action_space = gym.spaces.Tuple([gym.spaces.Discrete(2), gym.spaces.MultiDiscrete([2, 2])])


def mdp(**changes):
    return FiniteMDP(**{"transitions": P, "reward": R, "horizon": 3, **changes})


def agent(**options):
    return MatrixRL(mdp(), **{"seed": 0, **options})


@cache
def saved():
    folder = tempfile.mkdtemp()
    path = str(Path(folder) / "agent")
    agent().save(path)
    return path


def in_folder(call):
    """Run a call that may write in a directory of its own."""

    def inside(value):
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            return call(value)

    return inside


def observed(**changes):
    one = agent()
    episode = one.begin_episode()
    before = one.algorithm.state()
    step = {"obs": 0, "action": 0, "reward": 0.5, "next_obs": 0, **changes}
    try:
        episode.observe(**step)
    except Exception:
        assert episode.stage == 0
        assert all(np.array_equal(before[k], v) for k, v in one.algorithm.state().items())
        raise


LOG = {"episode": [0, 0], "state": [0, 1], "action": [0, 1], "reward": [0.5, 0.5], "next_state": [1, 2]}


def learned_from(log, **options):
    one = agent()
    before = one.algorithm.state()
    try:
        one.learn_from(log, **{"verbose": False, **options})
    except Exception:
        assert all(np.array_equal(before[k], v) for k, v in one.algorithm.state().items())
        raise


def told():
    one = agent()
    one.learn_from(LOG, verbose=False)
    return one


def played():
    one = agent()
    one.learn(1)
    return one


def option(make, name):
    return lambda value: make(**{name: value})


def calls():
    """Return the calls by name: each takes one value and passes it as one argument."""
    found = {}
    shell = ("phi", "psi", "psi_pinv", "reward", "horizon", "reward_range", "env_settings", "measure_regret")
    shell += ("reward_outside", "seed", "compiled", "keep_log", "trust_code")
    hidden = Answering()
    for name in (*shell, *(f.name for f in fields(MatrixRLSettings)), "discount", "features"):
        found[f"MatrixRL({name})"] = option(agent, name)
    for name in ("phi", "psi", "reward", "horizon", "reward_range"):
        found[f"MatrixRL(env, {name})"] = option(lambda **o: MatrixRL(hidden, known_reward=False, **o), name)
    for name in (*shell, *(f.name for f in fields(KernelSettings))):
        found[f"KernelMatrixRL({name})"] = option(lambda **o: KernelMatrixRL(mdp(), **{"seed": 0, **o}), name)
    for name in (*shell, *(f.name for f in fields(ContinuousSettings))):
        found[f"KernelMatrixRL(vectors, {name})"] = option(
            lambda **o: KernelMatrixRL(Vectors(), **{"seed": 0, **o}).learn(1), name
        )
    for kind in BASELINES.values():
        for field in fields(kind.settings_class):
            found[f"{kind.name}({field.name})"] = option(
                lambda kind=kind, **o: Agent(mdp(horizon=1), kind(**o), seed=0).learn(1), field.name
            )
    found["Agent(problem)"] = lambda v: Agent(v, "psrl", seed=0)
    found["Agent(algorithm)"] = lambda v: Agent(mdp(), v, seed=0)
    found["MatrixRL(problem)"] = lambda v: MatrixRL(v, seed=0)
    found["KernelMatrixRL(problem)"] = lambda v: KernelMatrixRL(v, seed=0)
    found["act(obs)"] = lambda v: agent().begin_episode().act(v)
    for name in ("obs", "action", "reward", "next_obs", "terminated"):
        found[f"observe({name})"] = option(observed, name)
    found["predict(obs)"] = lambda v: agent().predict(v, 0)
    found["predict(stage)"] = lambda v: agent().predict(0, v)
    found["predict(episode)"] = lambda v: agent().predict(0, episode=v)
    found["policy.act(obs)"] = lambda v: agent().policy.act(v, 0)
    found["policy.act(stage)"] = lambda v: agent().policy.act(0, v)
    found["greedy().act(obs, stage)"] = lambda v: agent().greedy().act(v, v)
    found["compare(policy)"] = lambda v: agent().compare(v, [0, 0, 0])
    found["compare(incumbent)"] = lambda v: agent().compare([0, 0, 0], v)
    for name in ("incumbent", "every", "since"):
        found[f"earnings({name})"] = option(lambda **o: played().earnings(**o), name)
    for name in ("n_actions", "description", "first_state", "first_action", "n_unobserved", "certificate", "basis"):
        found[f"Policy({name})"] = option(lambda **o: Policy([[0, 1]], **{"n_actions": 2, **o}), name)
    found["Policy(table)"] = lambda v: Policy(v, n_actions=2)
    for name in ("save", "to_csv"):
        found[f"policy.{name}(path)"] = in_folder(lambda v, name=name: getattr(agent().policy, name)(v))
    found["Policy.load(path)"] = Policy.load
    found["learn(n_episodes)"] = lambda v: agent().learn(v)
    for name in ("until_gap", "certify", "callback", "progress", "blas_threads"):
        found[f"learn({name})"] = option(lambda **o: agent().learn(1, **o), name)
    found["save(path)"] = in_folder(lambda v: agent().save(v))
    found["export(path)"] = in_folder(lambda v: told().export(v))
    found["learn_from(log)"] = in_folder(lambda v: learned_from(v))
    for name in ROLES:
        found[f"learn_from({name})"] = option(lambda **o: learned_from({**LOG, **o}), name)
    for name in ("columns", "first_step", "missing", "separator", "decimal", "verbose"):
        found[f"learn_from({name})"] = option(lambda **o: learned_from(LOG, **o), name)
    found["load(path)"] = MatrixRL.load
    for name in ("env", "phi", "psi", "compiled", "algorithm", "seed", "set"):
        found[f"load({name})"] = option(lambda **o: MatrixRL.load(saved(), **o), name)
    vectors = lambda: KernelMatrixRL(Vectors(), seed=0)  # noqa: E731
    found["value(obs)"] = lambda v: vectors().value(v, 0)
    found["value(stage)"] = lambda v: vectors().value([[0.0]], v)
    found["vectors.predict(obs)"] = lambda v: vectors().predict(v, 0)
    runs = ("env", "n_episodes", "seeds", "agent", "env_settings", "phi", "psi", "psi_pinv", "reward", "horizon")
    runs += ("reward_range", "certify", "compiled", "measure_regret", "reward_outside", "trust_code", "progress")
    for name in (*runs, "blas_threads", "preset", "delta"):
        found[f"run_seeds({name})"] = option(
            lambda **o: matrixrl.run_seeds(**{"env": mdp(), "n_episodes": 1, "seeds": 1, **o}), name
        )
        if name in ("env", "n_episodes", "seeds", "agent", "certify", "compiled", "measure_regret", "trust_code"):
            found[f"Simulation({name})"] = option(
                lambda **o: Simulation(**{"env": mdp(), "n_episodes": 1, "seeds": [0], **o}), name
            )
    found["Simulation.run(callback)"] = lambda v: Simulation(mdp(), n_episodes=1, seeds=[0]).run(callback=v)
    found["inspect_problem(env)"] = inspect_problem
    found["make(name)"] = matrixrl.make
    for name, entry in ENVIRONMENTS.items():
        for key in entry.parameters:
            found[f"make({name}, {key})"] = option(lambda name=name, **o: matrixrl.make(name, **o), key)
    for name in CONTROL:
        for key in ("sparse", "noise", "horizon", "torques", "render_mode"):
            found[f"make({name}, {key})"] = option(lambda name=name, **o: matrixrl.make(name, **o).close(), key)
    for key in ("horizon", "reward_range", "map_name"):
        found[f"make(gym:FrozenLake-v1, {key})"] = option(lambda **o: matrixrl.make("gym:FrozenLake-v1", **o), key)
    for name in ("transitions", "reward", "horizon", "reward_range", "start", "end_state", "features", "noisy_rewards"):
        found[f"FiniteMDP({name})"] = option(mdp, name)
        if name not in ("transitions", "noisy_rewards"):
            found[f"Task({name})"] = option(lambda **o: Task(**{"reward": R, "horizon": 3, **o}), name)
    for name in ("n_states", "n_actions", "may_terminate"):
        sizes = {"n_states": 3, "n_actions": 2, "horizon": 3}
        found[f"Task({name}) without rewards"] = option(lambda sizes=sizes, **o: Task(**{**sizes, **o}), name)
        found[f"Task({name})"] = option(lambda **o: Task(**{"reward": R, "horizon": 3, **o}), name)
    for name in (
        "phi",
        "psi",
        "sampler",
        "n_actions",
        "horizon",
        "reward",
        "reward_range",
        "start",
        "end_state",
        "env",
    ):
        found[f"FunctionalTask({name})"] = option(line, name)
    for name in ("phi", "psi", "sampler", "reward"):
        found[f"FunctionalTask({name} returns)"] = lambda v, name=name: line(**{name: lambda *_: v})
    found["Features(phi)"] = lambda v: Features(v, np.ones((3, 1)))
    found["Features(psi)"] = lambda v: Features(np.ones((3, 2, 1)), v)
    found["one_hot(n_states)"] = lambda v: matrixrl.one_hot(v, 2)
    found["one_hot(n_actions)"] = lambda v: matrixrl.one_hot(2, v)
    found["tensor_product(states)"] = lambda v: matrixrl.tensor_product(v, np.eye(2))
    found["tensor_product(actions)"] = lambda v: matrixrl.tensor_product(np.eye(3), v)
    found["solve(mdp)"] = matrixrl.solve
    found["evaluate(mdp)"] = lambda v: matrixrl.evaluate(v, np.zeros((3, 3), dtype=int))
    found["evaluate(policy)"] = lambda v: matrixrl.evaluate(mdp(), v)
    found["from_gymnasium(env)"] = matrixrl.from_gymnasium
    for name in ("horizon", "reward_range", "features"):
        found[f"from_gymnasium({name})"] = option(
            lambda **o: matrixrl.from_gymnasium(gym.make("FrozenLake-v1"), **o), name
        )
    for name in ("obs", "action", "next_obs"):
        found[f"OpenEpisode.observe({name}) of combinations"] = lambda v, name=name: (
            MatrixRL(Combinations(), seed=0)
            .begin_episode()
            .observe(
                **{
                    "obs": COMBINED,
                    "action": (1, [0, 1]),
                    "reward": 0.5,
                    "next_obs": COMBINED,
                    "terminated": True,
                    name: v,
                }
            )
        )
    found.update(_pictures())
    found["MDPEnv(mdp)"] = MDPEnv
    found["MDPEnv.step(action)"] = _stepped
    points = np.linspace(-1.0, 1.0, 3)[:, None]
    kernel = {"points": points, "n_actions": 2}
    for name in ("points", "n_actions", "k_phi", "k_psi", "action_correlation"):
        found[f"kernel_features({name})"] = option(lambda **o: kernel_features(**{**kernel, **o}), name)
    found["as_kernel(value)"] = lambda v: as_kernel(v)(points, points)
    found["kernel returns"] = lambda v: kernel_features(points, 2, k_phi=lambda *_: v)
    found["kernel of vectors returns"] = lambda v: KernelMatrixRL(Vectors(), kernel=lambda *_: v, seed=0).learn(1)
    found["phi returns"] = lambda v: MatrixRL(mdp(), phi=lambda _: v, seed=0)
    found["psi returns"] = lambda v: MatrixRL(mdp(), psi=lambda _: v, seed=0)
    for name in ("reset", "step", "obs", "next_obs", "reward", "terminated", "truncated", "info"):
        found[f"env returns {name}"] = lambda v, name=name: MatrixRL(
            Answering(**{name: v}), known_reward=False, seed=0
        ).learn(1)
        found[f"env of combinations returns {name}"] = lambda v, name=name: MatrixRL(
            Combinations(**{"obs": COMBINED, "next_obs": COMBINED, name: v}), seed=0
        ).learn(1)
        found[f"env of vectors returns {name}"] = lambda v, name=name: KernelMatrixRL(
            _vectors_answering(name, v), seed=0
        ).learn(1)
    return {name: _quick(call) if "compiled" in name else call for name, call in found.items()}


def _pictures():
    """Return the calls of plots, on axes of a figure that nobody keeps."""
    from matplotlib.figure import Figure

    one = agent()
    one.learn(2, certify=True)
    axes = lambda: Figure().subplots()  # noqa: E731
    chain = (1, 3)
    return {
        "plots.regret(runs)": lambda v: plots.regret(v, ax=axes()),
        "plots.regret(named)": lambda v: plots.regret({"a": v}, ax=axes()),
        "plots.regret(log)": lambda v: plots.regret(one, log=v, ax=axes()),
        "plots.regret(ax)": lambda v: None if v is None else plots.regret(one, ax=v),
        "plots.returns(smooth)": lambda v: plots.returns(one, smooth=v, ax=axes()),
        "plots.certificate_band(runs)": lambda v: plots.certificate_band(v, ax=axes()),
        "plots.action_bounds(agent)": lambda v: plots.action_bounds(v, 0, ax=axes()),
        "plots.action_bounds(state)": lambda v: plots.action_bounds(one, v, ax=axes()),
        "plots.action_bounds(stage)": lambda v: plots.action_bounds(one, 0, v, ax=axes()),
        "plots.visits(agent)": lambda v: plots.visits(v, ax=axes()),
        "plots.widths(agent)": lambda v: plots.widths(v, ax=axes()),
        "plots.widths(stage)": lambda v: plots.widths(one, v, ax=axes()),
        "plots.policy(given)": lambda v: plots.policy(v, layout=chain, ax=axes()),
        "plots.policy(layout)": lambda v: plots.policy(one, layout=v, ax=axes()),
        "plots.policy(cells)": lambda v: plots.policy(one, layout=plots.Layout(v), ax=axes()),
        "plots.policy(moves)": lambda v: plots.policy(one, layout=plots.Layout.chain(3, moves=v), ax=axes()),
        "plots.value(given)": lambda v: plots.value(v, layout=chain, ax=axes()),
        "plots.value(stage)": lambda v: plots.value(one, v, layout=chain, ax=axes()),
        "plots.value(bound)": lambda v: plots.value(one, bound=v, layout=chain, ax=axes()),
        "plots.confidence_region(agent)": lambda v: plots.confidence_region(v, 0, 0, ax=axes()),
        "plots.confidence_region(state)": lambda v: plots.confidence_region(one, v, 0, ax=axes()),
        "plots.confidence_region(action)": lambda v: plots.confidence_region(one, 0, v, ax=axes()),
        "plots.confidence_region(next_states)": lambda v: plots.confidence_region(one, 0, 0, next_states=v, ax=axes()),
        "plots.earnings(found)": lambda v: plots.earnings(v, ax=axes()),
        "plots.film(agent)": in_folder(lambda v: plots.film(v, "a.gif", n_episodes=1, n_frames=1)),
        "plots.film(path)": in_folder(lambda v: plots.film(agent(), v, n_episodes=1, n_frames=1)),
        "plots.film(n_frames)": in_folder(lambda v: plots.film(agent(), "a.gif", n_episodes=1, n_frames=v)),
        "plots.film(fps)": in_folder(lambda v: plots.film(agent(), "a.gif", n_episodes=1, n_frames=1, fps=v)),
        "plots.film(progress)": in_folder(lambda v: plots.film(agent(), "a.gif", n_episodes=1, n_frames=1, progress=v)),
    }


def _quick(call):
    """Leave out the one valid value that costs seconds."""
    return lambda value: None if value is True else call(value)


def _stepped(value):
    env = MDPEnv(mdp())
    env.reset(seed=0)
    env.step(value)


def _vectors_answering(name, value):
    class Odd(Answering):
        observation_space = Vectors.observation_space

    first = {"obs": np.zeros(1), "next_obs": np.zeros(1)}
    return Odd(**{**first, name: value})
