"""Algorithms of a user's own that would lose what they learn, or whose Q is not what a plan needs."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from matrixrl import Agent, FiniteMDP, InvalidInput, Task, make, run_seeds
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.baselines import PSRL, EpsilonGreedy, QLearning
from matrixrl.algorithms.matrix_rl.algorithm import UCMatrixRL
from matrixrl.play import Simulation
from matrixrl.play.resume import restore_simulation, save_simulation


class Forgetful(FiniteAlgorithm):
    """Value iteration on counts that no one names for saving."""

    name = "forgetful"

    def begin(self):
        super().begin()
        n_states, n_actions = self.task.n_states, self.task.n_actions
        self.counts = np.zeros((self.n_replicas, n_actions, n_states, n_states))

    def make_plan(self):
        visits = np.maximum(self.counts.sum(axis=3), 1.0)
        model = self.counts / visits[..., None]
        reward = self.unit_reward + 0.3 / np.sqrt(visits)
        return self.induct(lambda _, values: self.q(reward + np.einsum("bast,bt->bas", model, values)))

    def q(self, q):
        return q

    def learn(self, steps):
        replica = np.broadcast_to(np.arange(self.n_replicas)[:, None], steps.actions.shape)
        np.add.at(self.counts, (replica, steps.actions, steps.states, steps.next_states), steps.weights)


class Named(Forgetful):
    name = "named"
    learned_names = ("counts",)


class Halfway(Named):
    """Also keeps a number and a dictionary."""

    def begin(self):
        super().begin()
        self.total, self.by_state = 0.0, {}

    def learn(self, steps):
        super().learn(steps)
        self.total += float(steps.rewards.sum())
        self.by_state[int(steps.states[0, 0])] = self.total


class OnTop(PSRL):
    """A baseline of the library with an array of its own."""

    name = "on top"

    def begin(self):
        super().begin()
        self.extra = np.zeros(self.n_replicas)

    def learn(self, steps):
        super().learn(steps)
        self.extra += 1.0


class Cooler(PSRL):
    """One without anything of its own to save."""

    name = "cooler"

    def learn(self, steps):
        super().learn(steps)


class Holder:
    def __init__(self, **held):
        vars(self).update(held)


class InObject(Named):
    """Counts twice, the second time in an object."""

    name = "in object"

    def begin(self):
        super().begin()
        self.kept = self.empty()

    def empty(self):
        return Holder(rewards=np.zeros(self.n_replicas))

    def keep(self, steps):
        self.kept.rewards += steps.rewards.sum(axis=1) + 1.0

    def learn(self, steps):
        super().learn(steps)
        self.keep(steps)


class InDeque(InObject):
    def empty(self):
        return deque(maxlen=2)

    def keep(self, steps):
        self.kept.append(steps)


class InList(InObject):
    def empty(self):
        return [Holder(rewards=np.zeros(1)) for _ in range(self.n_replicas)]

    def keep(self, steps):
        self.kept[-1].rewards += 1.0


class InConstructor(InDeque):
    """Has a list that `begin` does not empty."""

    def __init__(self):
        super().__init__()
        self.given = []

    def empty(self):
        return self.given


class OwnGenerator(InObject):
    def empty(self):
        return np.random.default_rng(0)

    def keep(self, steps):
        self.kept.random()


class OpenEnded(InObject):
    """Keeps what cannot be compared."""

    def empty(self):
        return (n for n in range(3))

    def keep(self, steps):
        pass


class Refitted(InObject):
    """Refits an array in every fourth episode."""

    def empty(self):
        return self.counts.copy()

    def keep(self, steps):
        if self.episode % 4 == 3:
            self.kept = self.counts.copy()


class InPlan(InObject):
    """Remembers the least Q of all plans."""

    def empty(self):
        return np.full((self.n_replicas, self.task.n_actions, self.task.n_states), np.inf)

    def keep(self, steps):
        pass

    def q(self, q):
        self.kept = np.minimum(self.kept, q)
        return self.kept.copy()


class Equipped(Named):
    """Has objects of all kinds, of which learning changes none."""

    name = "equipped"

    def __init__(self, prior=0.0):
        super().__init__()
        self.parts = {"prior": np.full(2, prior), "words": ["a", ("b", float("nan"))], "set": {1, 2}}

    def begin(self):
        super().begin()
        start = self.task.n_states
        self.scale = lambda x: x * start
        self.helper = Holder(owner=self, queue=deque([np.zeros(2)]), rng=np.random.default_rng(3))
        self.mixed = np.array([None, "x", self.helper], dtype=object)
        self.known, self.none = self.task, None


WORLD = {"env_settings": {"n_states": 4, "horizon": 6}}


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        (Forgetful, "counts"),
        (Halfway, "by_state, total"),
        (OnTop, "extra"),
        (InObject, "kept"),
        (InDeque, "kept"),
        (InList, "kept"),
        (InConstructor, "given, kept"),
        (OwnGenerator, "kept"),
        (OpenEnded, "kept"),
        (Refitted, "kept"),
        (InPlan, "kept"),
    ],
    ids=lambda kind: str(kind),
)
def test_an_algorithm_that_would_forget_is_not_saved(kind, lost, tmp_path):
    agent = Agent("river-swim", kind(), seed=0, **WORLD)
    agent.learn(4)
    before = agent.history.returns
    with pytest.raises(InvalidInput, match=f"learned_names must name every array that learn changes: {lost} of"):
        agent.save(tmp_path / "agent")
    assert not (tmp_path / "agent").exists()
    agent.learn(1)
    np.testing.assert_array_equal(agent.history.returns[:4], before)


@pytest.mark.parametrize("kind", [QLearning, EpsilonGreedy, UCMatrixRL])
def test_what_the_library_remembers_needs_no_names(kind, tmp_path):
    own = type("Own", (kind,), {"__module__": __name__})
    agent = Agent("river-swim", own(), seed=0, **WORLD)
    agent.learn(5)
    assert str(agent.guarantee)
    agent.save(tmp_path / "agent")
    loaded = Agent.load(tmp_path / "agent", env=make("river-swim", **WORLD["env_settings"]), algorithm=own())
    np.testing.assert_array_equal(loaded.learn(3).returns, agent.learn(3).returns)


def test_an_algorithm_that_would_forget_is_not_run_in_blocks():
    """In blocks of 100 of 300 episodes such an algorithm had a regret of 691 in place of 93."""
    head = Simulation("river-swim", n_episodes=20, seeds=[0, 1], window=range(10), agent=Forgetful())
    head.run()
    with pytest.raises(InvalidInput, match=r"learned_names .* counts of forgetful"):
        save_simulation(head)


@pytest.mark.parametrize("kind", [Named, Cooler, Equipped])
def test_an_algorithm_that_names_everything_goes_on(kind, tmp_path):
    whole = Simulation("river-swim", n_episodes=20, seeds=[0, 1], agent=kind()).run()
    head = Simulation("river-swim", n_episodes=20, seeds=[0, 1], window=range(10), agent=kind())
    head.run()
    tail = Simulation("river-swim", n_episodes=20, seeds=[0, 1], window=range(10, 20), agent=kind())
    restore_simulation(tail, save_simulation(head))
    np.testing.assert_array_equal(tail.run().returns, whole.returns[:, 10:])
    agent = Agent("river-swim", kind(), seed=0, **WORLD)
    agent.learn(3)
    agent.save(tmp_path / "agent")
    assert Agent.load(tmp_path / "agent", env=agent.problem.env, algorithm=kind()).n_episodes == 3


def square(n_states, n_actions, horizon=3):
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    return FiniteMDP(laws, rng.random((n_states, n_actions)), horizon)


class Turned(Named):
    """Returns Q[b, s, a]."""

    name = "turned"

    def q(self, q):
        return np.ascontiguousarray(q.swapaxes(1, 2))


class Across(Named):
    """Returns Q[a, b, s]."""

    name = "across"

    def q(self, q):
        return np.ascontiguousarray(q.swapaxes(0, 1))


@pytest.mark.parametrize("kind", [Turned, Across])
@pytest.mark.parametrize(("n_states", "n_actions", "seeds"), [(3, 3, 1), (3, 3, 3), (4, 2, 2), (2, 4, 4), (4, 3, 2)])
def test_q_with_its_axes_in_another_order_is_refused_whatever_the_sizes(kind, n_states, n_actions, seeds):
    with pytest.raises(InvalidInput, match="Q must be an array of float64"):
        run_seeds(square(n_states, n_actions), agent=kind(), n_episodes=3, seeds=seeds)
    assert run_seeds(square(n_states, n_actions), agent=Named(), n_episodes=3, seeds=seeds).returns.shape == (seeds, 3)


@pytest.mark.parametrize("bad", [np.nan, "text", None])
def test_q_of_nan_or_of_something_else_is_refused(bad):
    class Bad(Named):
        name = "bad"

        def q(self, q):
            if bad is np.nan:
                q[0, 1, 2] = np.nan
                return q
            return bad

    rule = r"Q must have no NaN; got 1, the first at \[b, a, s\] = \[0, 1, 2\]" if bad is np.nan else "Q must be an arr"
    with pytest.raises(InvalidInput, match=rule):
        Agent("river-swim", Bad(), seed=0, **WORLD).learn(2)


def test_an_algorithm_made_for_one_problem_declares_the_axes_of_q():
    class Fixed(Named):
        name = "fixed"

        def __init__(self, prior):
            self.prior = prior

        def begin(self):
            super().begin()
            self.counts += self.prior

    prior = np.ones((3, 3, 3))
    with pytest.raises(InvalidInput, match="q_axes must be declared"):
        Agent(square(3, 3), Fixed(prior), seed=0)
    Declared = type("Declared", (Fixed,), {"q_axes": ("replica", "action", "state")})
    assert Agent(square(3, 3), Declared(prior), seed=0).learn(2).n_episodes == 2
    Wrong = type("Wrong", (Fixed,), {"q_axes": ("replica", "state", "action")})
    with pytest.raises(InvalidInput, match="q_axes must be"):
        Agent(square(3, 3), Wrong(prior), seed=0)
    assert Agent(square(4, 3), Fixed(np.ones((3, 4, 4))), seed=0).learn(2).n_episodes == 2


class OneByOne(EpsilonGreedy):
    name = "one-by-one"
    steps_at_once = 1
    seen = ()

    def learn_episode(self, steps):
        type(self).seen = (*self.seen, int(steps.taken.sum()))
        super().learn_episode(steps)


def test_a_subclass_says_how_many_steps_it_takes_at_once():
    log = {"episode": [0, 0, 1, 1], "step": [0, 1, 0, 1], "state": [0, 1, 0, 0], "action": [0, 1, 1, 0]}
    log |= {"reward": [0.0, 1.0, 0.5, 0.0], "next_state": [1, 0, 0, 1]}
    agent = Agent(Task(n_states=2, n_actions=2, horizon=2, start=0), OneByOne(), seed=0)
    agent.learn_from(log, verbose=False)
    assert OneByOne.seen == (2, 2)
