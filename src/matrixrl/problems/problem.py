"""A problem as agents see it, whatever it was given as: what may be known of it, and the world behind it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

import gymnasium as gym
import numpy as np

from matrixrl.checks import fail, index, number, shaped, shown, shown_element
from matrixrl.features import Features
from matrixrl.problems.continuous import ContinuousTask, FunctionalTask
from matrixrl.problems.dynamics import SAME_REWARD, KnownDynamics
from matrixrl.problems.finite import FiniteMDP, Task
from matrixrl.problems.task import Kind
from matrixrl.records import BoolArray, FloatArray
from matrixrl.spaces import BoxCodec, Codec, DiscreteCodec

__all__ = ["REWARD_OUTSIDE", "Kind", "Problem", "checked_points"]

REWARD_OUTSIDE = ("error", "clip")
"""Treatment of a reward outside the declared range."""

_NO_CODEC = DiscreteCodec(0)  # stands for the numbers 0 … A − 1 of the task
_REWARD_SLACK = {"finite": 1e-9, "functional": 1e-9, "continuous": 1e-6}  # rounding of rewards, as a share of the range


@dataclass(frozen=True)
class Problem:
    """A problem to learn, with its features and, where they are known, its MDP and environment.

    Attributes:
        task: What an agent may know.
        features: φ and ψ of a finite task, else None.
        env: Environment that `learn` plays in, or None for ask and tell.
        mdp: The known MDP, used only to measure regret and to simulate, or None.
        name: Name in results and messages.
        points: (S, p) the coordinates of the states of a known MDP, where the environment gives them.
        pseudo: Whether ψ may have linearly dependent columns.
        regret_every: The known MDP is used to measure the regret of every so many episodes; 0 measures none.
        states: Numbers of the observations of a finite problem, else None. An end state that the library added to an
            environment has the next number, and is not observed.
        actions: Numbers of the actions.
        env_codecs: Numbers of the observations and actions of `env`, if users have names in their place; else None.
        reward_outside: What is done about a reward outside the declared range: "error" refuses it, "clip" learns from
            the nearest reward inside.
        ignores_masks: Whether masks of actions that the environment reports while it is played are ignored.
    """

    task: Task | FunctionalTask | ContinuousTask
    features: Features | None = None
    env: gym.Env[Any, Any] | None = None
    mdp: FiniteMDP | None = None
    name: str = "problem"
    points: FloatArray | None = None
    pseudo: bool = False
    regret_every: int = 1
    states: Codec | None = None
    actions: Codec = _NO_CODEC
    env_codecs: tuple[Codec, Codec] | None = None
    reward_outside: str = "error"
    ignores_masks: bool = False

    def __post_init__(self) -> None:
        if self.actions is _NO_CODEC:
            own = self.task.actions if isinstance(self.task, Task) else None
            object.__setattr__(self, "actions", own or DiscreteCodec(self.task.n_own_actions))
        if self.states is None and isinstance(self.task, Task):
            object.__setattr__(self, "states", self.task.states or DiscreteCodec(self.task.n_observed))

    @classmethod
    def of(cls, task: Task | FiniteMDP, features: Features | None = None) -> Problem:
        """Return the problem of a finite task or MDP, with its own features or others.

        >>> Problem.of(Task(reward=[[0.0, 1.0]], horizon=3)).kind
        'finite'
        """
        if isinstance(task, KnownDynamics):
            name = type(task).__name__
            return cls(task, task.features, mdp=task.mdp, name=name, states=task.states, actions=task.actions)
        mdp = task if isinstance(task, FiniteMDP) else None
        known = task.task if isinstance(task, FiniteMDP) else task
        chosen = known.features if features is None else features.cover(known.n_states, known.n_actions)
        states = known.states or DiscreteCodec(known.n_observed)
        return cls(known, chosen, mdp=mdp, name=type(task).__name__, states=states)

    @property
    def n_observed(self) -> int:
        """Number of states that can be observed; 0 where states are not numbered."""
        return 0 if self.states is None else self.states.size

    @property
    def kind(self) -> Kind:
        """Whether states are numbers, functions or vectors."""
        return self.task.kind

    @property
    def summary(self) -> str:
        """The name and the sizes in words.

        >>> Problem.of(Task(n_states=4, n_actions=2, horizon=3, may_terminate=True)).summary
        'Task: 4 states and the end state, 2 actions, 3 steps'
        """
        if isinstance(self.task, Task):
            return f"{self.name}: {self.task.sizes_in_words}"
        states = "functions of states" if self.kind == "functional" else "vectors as states"
        box = self.actions.n_entries if isinstance(self.actions, BoxCodec) else 0
        actions = f"actions of {box} continuous number{'s' * (box > 1)}" if box else f"{self.actions.size:,} actions"
        return f"{self.name}: {states}, {actions}, {self.task.horizon:,} steps"

    @property
    def finite_task(self) -> Task:
        """The task, if it is finite."""
        if not isinstance(self.task, Task):
            self.refuse("must have a finite number of states")
        return self.task

    def refuse(self, rule: str, remedy: str = "Give a finite problem.") -> NoReturn:
        """Raise an error that says which kind of problem this is."""
        words = {
            "finite": "numbered states",
            "functional": "functions of states",
            "continuous": "vectors as observations",
        }
        fail("problem", rule, f"{self.name}, with {words[self.kind]}", remedy)

    @property
    def start_words(self) -> str:
        """The declared start in words, or the state in which resets of the environment begin."""
        if self.has_random_start:
            return "the declared start distribution"
        if isinstance(self.task, FunctionalTask):
            return f"state {np.asarray(self.task.start).tolist()}, the declared start"
        state = self.shown_state(np.flatnonzero(self.finite_task.start)[0])
        return f"state {state}, {'the declared start' if self.task.start_is_declared else 'in which resets begin'}"

    @property
    def has_random_start(self) -> bool:
        """Whether a distribution of first states with more than one possible state is declared."""
        if not isinstance(self.task, Task) or not self.task.start_is_declared:
            return False
        return int(np.count_nonzero(self.task.start)) > 1

    @property
    def dimensions(self) -> tuple[int, int]:
        """Number of features d and d_psi; zeros where the problem has none of its own."""
        return self.task.dimensions if self.features is None else (self.features.phi.d, self.features.psi.d_psi)

    @property
    def sizes(self) -> dict[str, int]:
        """S, A, d and d_psi of a finite problem; the length of observations and A of another one.

        If laws depend on the stage, `stage_classes` is the number of classes of stages. If some actions are not
        allowed, `allowed_pairs` counts the pairs of a state and an action that are.
        """
        task, (d, d_psi) = self.task, self.dimensions
        if isinstance(task, ContinuousTask):
            return {"n_coordinates": task.n_coordinates, "n_actions": task.n_actions}
        n_states = task.n_states if isinstance(task, Task) else 0
        sizes = {"n_states": n_states, "n_actions": self.actions.size, "d": d, "d_psi": d_psi}
        if task.is_staged:
            sizes["stage_classes"] = task.stages.n_classes
        if isinstance(task, Task) and task.allowed is not None:
            sizes["allowed_pairs"] = task.n_pairs
        return sizes

    def state_points(self, points: Any = None) -> FloatArray:
        """Return the coordinates of the states of a finite problem: (S, p).

        They may leave out the end state, if it is the last one: it is a neighbour of no state.

        Args:
            points: Coordinates in place of the problem's own. Where there are none, states lie evenly on a line from −1
                to 1, or on a grid with one axis for each part of the observation space.
        """
        chosen = self.points if points is None else points
        if chosen is not None:
            return checked_points(self.finite_task, chosen)
        if self.states is not None and len(self.states.sizes) > 1:
            return self.states.coordinates()
        return np.linspace(-1.0, 1.0, self.finite_task.n_states)[:, None]

    def state(self, name: str, obs: Any) -> Any:
        """Return an observation as a state, or refuse it."""
        if not isinstance(self.task, Task):
            return self.task.state(name, obs)
        assert self.states is not None
        remedy = "Give a state of observation_space."
        if self.states == DiscreteCodec(self.task.n_states - 1) and type(obs) is int and obs == self.task.end_state:
            remedy = f"That is {self.task.end_words}. Give what was observed, and terminated=True."
        return self.states.encode(name, obs, remedy)

    def observation(self, state: int) -> Any:
        """Return the observation of a state of a finite problem, as the environment gives it."""
        assert self.states is not None
        return self.states.decode(index("state", state, size=self.states.size, remedy="Give a state."))

    def saved_state(self, name: str, value: Any) -> Any:
        """Return a state of a saved episode, which may be the end state."""
        if not isinstance(self.task, Task):
            return self.task.state(name, value)
        return index(name, value, size=self.task.n_states, remedy="Give a state.")

    def action(self, name: str, value: Any, stage: int) -> int:
        """Return an action of the environment at a stage as the number that the task has for it, or refuse it."""
        number: int = self.task.stages.inner(self.actions.encode(name, value, "Choose from action_space."), stage)
        return number

    def env_action(self, action: int) -> Any:
        """Return an action of the task as users take it: a name, a number, an array, a tuple or a dictionary."""
        return self.actions.decode(self.task.stages.own(action))

    def to_env(self, action: Any) -> Any:
        """Return an action that `env_action` returned as `env` takes it."""
        if self.env_codecs is None:
            return action
        return self.env_codecs[1].decode(self.actions.encode("action", action, "Choose one of the actions."))

    def from_env(self, obs: Any) -> Any:
        """Return an observation of `env` as users have it."""
        if self.env_codecs is None or self.states is None:
            return obs
        return self.states.decode(self.env_codecs[0].encode("obs", obs, "Give a state of observation_space."))

    def env_actions(self, mask: BoolArray) -> list[Any]:
        """Return the actions of a mask as the environment takes them, for messages."""
        return [self.env_action(int(action)) for action in np.flatnonzero(mask)]

    def saved_action(self, name: str, value: Any, stage: int) -> int:
        """Return an action of a saved episode, which must be one of its stage."""
        first, stop = self.task.choices[stage].tolist()
        return index(name, value, first=first, size=stop - first, remedy="It is damaged.")

    def own_state(self, state: Any) -> Any:
        """Return a state of a finite problem as it is observed; an end state has its number."""
        number = int(state)
        return self.states.decode(number) if self.states is not None and number < self.states.size else number

    def shown_state(self, state: Any) -> str:
        """Return `own_state` for messages."""
        return shown_element(self.own_state(state))

    def place(self, state: Any, stage: Any) -> str:
        """Return a state, and its stage where laws depend on it, in words."""
        return f"state {self.shown_state(state)}{self.task.stages.when(stage)}"

    @property
    def allowed_by_action(self) -> BoolArray | None:
        """(A, S) declared actions of numbered states; None if all are."""
        return None if self.task.allowed is None else np.ascontiguousarray(self.task.allowed.T)

    def reward(self, value: Any, state: Any = None, action: Any = None) -> float:
        """Return a reward as a number, or refuse one outside the declared range if the problem says so.

        Args:
            value: The reward.
            state: State before the step, for a range of its own.
            action: Action of the task.
        """
        earned = number("reward", value, low=-1e12, high=1e12, remedy="Give the reward of the step.")
        if self.reward_outside == "error" and not self.in_range(earned, state, action):
            remedy = "Declare a reward_range that contains it, or pass reward_outside='clip'."
            fail("reward", self.reward_rule(state, action), earned, remedy)
        return earned

    def reward_rule(self, state: Any = None, action: Any = None) -> str:
        """Return, in words, where the rewards of a pair must lie."""
        bounds = self.task.reward_bounds
        if bounds is None or state is None:
            low, high = self.task.reward_range or (0.0, 1.0)
            return f"must lie in [{low:g}, {high:g}], the declared range of rewards"
        pair = f"state {self.shown_state(state)} and action {shown_element(self.env_action(action))}"
        low, high = (float(side[state, action]) for side in bounds)
        return f"must lie in [{low:g}, {high:g}], the declared range of the rewards of {pair}"

    def outcome(self, state: int, action: int, reward: float, following: int, given: Any = None) -> int | None:
        """Return the number of the outcome of a step, reported or found; None for a problem without known dynamics.

        It is −1 if it was not reported where next state and reward do not depend on it: nothing is learned from that.

        Args:
            state: State before the step.
            action: Action.
            reward: Reward.
            following: State after the step, or the end state.
            given: Value of the outcome, if it was reported.
        """
        dynamics = self.task.dynamics
        if dynamics is None:
            if given is not None:
                rule = "must be left out for a problem without known dynamics"
                fail("outcome", rule, shown(given), "Build the problem with matrixrl.KnownDynamics.")
            return None
        reported = None if given is None else dynamics.number(given)
        step, slack = tuple(np.array([one]) for one in (state, action, reward, following)), SAME_REWARD * self.task.unit
        [best] = dynamics.find(step, np.array([-1 if reported is None else reported]), slack).tolist()
        if best > -2:
            return int(best)
        found = np.flatnonzero(dynamics.fits(step, slack)[0])
        pair = f"state {self.shown_state(state)} and action {shown_element(self.env_action(action))}"
        if reported is not None:
            after = int(dynamics.next_states[action, state, reported])
            paid = float(dynamics.rewards[action, state, reported])
            rule = f"must be one that leads from {pair} to {self._shown_after(following)} with reward {reward:g}"
            leads = f"{shown(given)}, which leads to {self._shown_after(after)} with reward {paid:g}"
            fail("outcome", rule, leads, "Check step, or what was observed.")
        if len(found):
            few = ", ".join(str(dynamics.outcomes[w].item()) for w in found[:4]) + ", …" * (len(found) > 4)
            rule = f"must be reported, as several outcomes of {pair} have this next state and reward"
            remedy = (
                "Pass outcome=…, a column 'outcome' of a log, or info['outcome'] of an environment; if nobody sees it, "
                "build KnownDynamics with censored=True."
            )
            fail("outcome", rule, f"one of {few}", remedy)
        received = f"{self._shown_after(following)} with reward {reward:g}"
        rule = f"must be those of some outcome of {pair}"
        fail("next state and reward", rule, received, "Check step, or what was observed.")

    def _shown_after(self, state: int) -> str:
        return "the end" if state == self.finite_task.end_state else f"state {self.shown_state(state)}"

    def in_range(self, rewards: Any, states: Any = None, actions: Any = None) -> BoolArray:
        """Say which rewards lie in the declared range, up to rounding; all do if none is declared. Any shape."""
        low, high = self.reward_limits(states, actions)
        slack = 0.0 if self.task.reward_range is None else _REWARD_SLACK[self.kind] * self.task.unit
        inside: BoolArray = (rewards >= low - slack) & (rewards <= high + slack)
        return inside

    def reward_limits(self, states: Any = None, actions: Any = None) -> tuple[Any, Any]:
        """Return the declared range of rewards, of each pair if there are such; all numbers if none is declared."""
        if self.task.reward_bounds is not None and states is not None:
            low, high = self.task.reward_bounds
            return low[states, actions], high[states, actions]
        return self.task.reward_range or (-np.inf, np.inf)

    def state_after_end(self, following: Any) -> Any:
        """Return the state that a terminated episode is in: the end state, or the last observation of vectors."""
        if isinstance(self.task, ContinuousTask):
            return following
        if self.task.end_state is None:
            remedy = "Build the Task with may_terminate=True, which adds one, or give that of yours as end_state=…."
            fail("terminated", "must be False for a problem without an end state", True, remedy)
        return self.task.end_state


def checked_points(task: Task, points: Any) -> FloatArray:
    """Return the coordinates of the states of a finite task, (S, p), or of all but the end state if it is the last."""
    remedy = "Give one vector for each state."
    table = shaped("points", points, (None, None), remedy=remedy)
    if task.end_words is not None:
        remedy = f"Give one vector for each state; it may leave out {task.end_words}."
    left_out = task.end_words is not None and len(table) == task.end_state
    return shaped("points", table, (task.n_states - left_out, None), remedy=remedy)
