"""Finite episodic MDPs with a known transition law P, and their Gymnasium environments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from numpy.typing import ArrayLike
from scipy import sparse

from matrixrl.checks import fail, flag, real_numbers, shown
from matrixrl.display import Described
from matrixrl.errors import ProtocolError
from matrixrl.features import Features
from matrixrl.problems.stages import Stages
from matrixrl.problems.task import Task, checked_range
from matrixrl.problems.transitions import DenseTransitions, SparseTransitions, Transitions
from matrixrl.records import BoolArray, FloatArray, IntArray, Steps
from matrixrl.spaces import DiscreteCodec, codec_of
from matrixrl.tolerances import PROBABILITY

__all__ = ["FiniteMDP", "MDPEnv", "Task", "checked_mdp", "checked_range", "draw_start"]


class FiniteMDP(Described):
    """A known finite episodic MDP, used to simulate episodes and to compute exact regret.

    Args:
        transitions: Transition probabilities P: an array (S, A, S), a scipy.sparse matrix (S·A, S), or a `Transitions`
            object. If they depend on the stage: an array (H, S, A, S), or a list of arrays or sparse matrices, one for
            each stage.
        reward: (S, A) Expected rewards, in the environment's unit, or (H, S, A) if they depend on the stage.
        horizon: Number of steps H of an episode; None if a discount chooses it, as in `Task`.
        reward_range: Lower and upper bound (low, high) of the rewards, numbers or tables, as in `Task`.
        states: Names of the states, as in `Task`. `MDPEnv` and simulations have their numbers, agents their names.
        actions: Names of the actions, likewise.
        start: First state of an episode, or the distribution (S,) of first states; the first one of the table if left
            out.
        end_state: Absorbing state that represents the end of an episode, or None if episodes never end early.
        features: Features φ and ψ; one-hot by default.
        noisy_rewards: Whether each reward is drawn from {low, high} with mean `reward[s, a]`; if False, the reward of a
            step is its mean.
        allowed: (S, A) Whether an action is allowed in a state, or a function of the state, as in `Task`. Rows of an
            array or a sparse matrix P of actions that are not allowed are not used and may be zero or NaN; they are
            stored as rows that stay in the state.
        stage_dependent: As in `Task`; by default True if P or the rewards have an axis of stages. With the class of
            each stage, P and rewards may also be given once for each class.
        discount: Factor γ of each step, as in `Task`.
        accuracy: Accuracy of a horizon that the discount chooses, as in `Task`.
        deterministic: Tell agents that the next state and the reward of each pair are always the same, as in `Task`;
            P is compared with it.
        successors: Tell agents the possible next states, likewise.

    Raises:
        InvalidInput: A row of P is not a distribution, a reward is not finite or outside its range, or another argument
            is invalid.

    >>> mdp = FiniteMDP([[[0.0, 1.0]], [[1.0, 0.0]]], reward=[[0.0], [1.0]], horizon=4)
    >>> mdp.n_states, mdp.n_actions, mdp.horizon
    (2, 1, 4)
    >>> stay, go = [[[1.0, 0.0]], [[0.0, 1.0]]], [[[0.0, 1.0]], [[0.0, 1.0]]]
    >>> FiniteMDP([stay, go, stay], reward=[[0.0], [1.0]], horizon=3).stages.n_classes
    3
    """

    def __init__(
        self,
        transitions: Any,
        reward: ArrayLike,
        horizon: int | None = None,
        *,
        states: Any = None,
        actions: Any = None,
        reward_range: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
        start: Any = None,
        end_state: Any = None,
        features: Features | None = None,
        noisy_rewards: bool = False,
        allowed: Any = None,
        stage_dependent: Any = None,
        discount: float = 1.0,
        accuracy: float = 0.01,
        deterministic: bool = False,
        successors: Any = None,
    ) -> None:
        self.noisy_rewards = flag("noisy_rewards", noisy_rewards)
        laws = _laws(transitions)
        self.task = Task(
            reward,
            horizon,
            states=states,
            actions=actions,
            reward_range=reward_range,
            start=start,
            end_state=end_state,
            features=features,
            allowed=allowed,
            stage_dependent=True if laws is not None and stage_dependent is None else stage_dependent,
            discount=discount,
            accuracy=accuracy,
            deterministic=deterministic,
            successors=successors,
        )
        self.task.start_is_declared = True
        self.transitions = _joint_law([transitions] if laws is None else laws, self.task)
        expected = (self.transitions.n_states, self.transitions.n_actions)
        if expected != (self.n_states, self.n_actions):
            received = f"shape {(self.n_states, self.n_actions)}"
            fail("reward", f"must have shape (S, A) = {expected}, to match P", received, "Give reward[s, a].")
        end = self.task.end_state
        if end is not None:
            self._check_end(end)
        self._check_structure()

    @property
    def n_states(self) -> int:
        """Number of states S, including the end state."""
        return self.task.n_states

    @property
    def n_actions(self) -> int:
        """Number of actions A; of inner actions if laws depend on the stage."""
        return self.task.n_actions

    @property
    def stages(self) -> Stages:
        """Classes of stages that share their laws."""
        return self.task.stages

    @property
    def horizon(self) -> int:
        """Number of steps H of an episode."""
        return self.task.horizon

    @property
    def features(self) -> Features:
        """Features φ and ψ."""
        return self.task.features

    @property
    def allowed(self) -> BoolArray | None:
        """Allowed actions (S, A); None if every action is allowed in every state."""
        return self.task.allowed

    def restricted(self, allowed: Any) -> FiniteMDP:
        """Return the MDP with the allowed actions that are given, as `Task.restricted` reads them."""
        return self._with_task(self.task.restricted(allowed))

    def declared(self, deterministic: Any, successors: Any) -> FiniteMDP:
        """Return the MDP with the structure that is declared to agents, as `Task.declared` does; P must agree."""
        chosen = self._with_task(self.task.declared(deterministic, successors))
        if chosen is not self:
            chosen._check_structure()
        return chosen

    def staged(self, stage_dependent: Any) -> FiniteMDP:
        """Return the MDP for agents that do not share data between stages, as in `Task.staged`."""
        chosen = self._with_task(self.task.staged(stage_dependent))
        if chosen is not self:
            chosen.transitions = _joint_law([self.transitions], chosen.task)
        return chosen

    def _with_task(self, task: Task) -> FiniteMDP:
        """Return the MDP with another task; the MDP itself if it is its own."""
        if task is self.task:
            return self
        chosen = copy.copy(self)
        chosen.task = task
        return chosen

    def _words(self) -> str:
        return f"{type(self).__name__}: {self.task.sizes_in_words}"

    def _facts(self) -> dict[str, object]:
        facts = self.task._facts() | {"transitions": type(self.transitions).__name__}
        return facts | ({"rewards are": "one end of their range, at random"} if self.noisy_rewards else {})

    @property
    def draws_per_episode(self) -> int:
        """Number of uniform random numbers of an episode: for the first state, the next states and noisy rewards."""
        return 1 + self.horizon * (2 if self.noisy_rewards else 1)

    def rollout(self, uniforms: FloatArray, act: Callable[[int, IntArray], IntArray]) -> Steps:
        """Play one episode in each of B replicas and return its steps.

        Steps after the end state is reached are marked as not taken, with reward 0.

        Args:
            uniforms: (B, `draws_per_episode`) Numbers in [0, 1).
            act: Function of the stage and the states (B,) that returns the actions (B,); inner actions if laws depend
                on the stage (`stages.inner`).
        """
        first, following, coins = self.episode_draws(uniforms)
        n, horizon, end = len(uniforms), self.horizon, self.task.end_state
        states = np.empty((n, horizon + 1), dtype=np.int64)
        actions = np.empty((n, horizon), dtype=np.int64)
        drawn = []
        states[:, 0] = draw_start(self.task.start, first)
        for h in range(horizon):
            actions[:, h] = act(h, states[:, h])
            states[:, h + 1], outcomes = self.transition(states[:, h], actions[:, h], following[:, h])
            if outcomes is not None:
                drawn.append(outcomes)
        before, after = states[:, :-1], states[:, 1:]
        ended, taken = np.zeros(before.shape, dtype=np.bool_), np.ones(before.shape, dtype=np.bool_)
        if end is not None:
            taken = before != end
            ended = taken & (after == end)
        self.task.check_actions("action", before, actions)
        rewards = self.earn(before, actions, coins) * taken
        return Steps(before, actions, rewards, after, ended, taken, np.stack(drawn, axis=1) if drawn else None)

    def episode_draws(self, uniforms: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Split the uniform numbers (…, `draws_per_episode`) of an episode by their use.

        Returns:
            Numbers for the first state (…,), for the next states (…, H) and for the rewards (…, H).
        """
        h = self.horizon
        coins = uniforms[..., h + 1 :] if self.noisy_rewards else uniforms[..., 1:]
        return uniforms[..., 0], uniforms[..., 1 : h + 1], coins

    @property
    def gym_spaces(self) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
        """Gymnasium spaces of observations and of actions."""
        return spaces.Discrete(self.n_states), spaces.Discrete(self.task.n_own_actions)

    def transition(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> tuple[IntArray, IntArray | None]:
        """Return the next states (k,) that uniform numbers (k,) select, and the outcomes that lead there, if known."""
        return self.transitions.sample(states, actions, uniforms), None

    def outcome_value(self, number: int) -> Any:
        """Return the value of an outcome as it is reported."""
        return number

    def earn(self, states: IntArray, actions: IntArray, uniforms: FloatArray) -> FloatArray:
        """Return the rewards of steps; `uniforms` in [0, 1) select them if they are noisy. All shapes are equal."""
        mean: FloatArray = self.task.reward[states, actions]
        if not self.noisy_rewards:
            return mean
        bounds, (low, high) = self.task.reward_bounds, self.task.reward_range
        if bounds is None:
            paid: FloatArray = np.where(uniforms < (mean - low) / (high - low), high, low)
        else:
            least, most = (side[states, actions] for side in bounds)
            paid = np.where(uniforms * (most - least) < mean - least, most, least)
        if self.task.end_state is not None:
            paid = np.where(states == self.task.end_state, 0.0, paid)
        return paid

    def _check_structure(self) -> None:
        if self.task.structure is None:
            return
        if self.task.structure.deterministic and self.noisy_rewards:
            rule = "must be left out if rewards are noisy"
            fail("deterministic", rule, "noisy_rewards=True", "Leave it out, or give successors=….")
        self.task.structure.check(self.transitions, self.task)

    def _check_end(self, end: int) -> None:
        actions = np.arange(self.n_actions)
        stays = self.transitions.chance(np.full(self.n_actions, end), actions, np.full(self.n_actions, end))
        if (np.abs(stays - 1.0) > PROBABILITY).any():
            received = f"state {self.task.shown_state(end)}, which stays with probability {stays.min():g}"
            fail("end_state", "must be absorbing", received, "Set P(end_state | end_state, a) to 1 for every action.")


def _laws(given: Any) -> list[Any] | None:
    """Return the laws in a list or an array (n, S, A, S); None for one law."""
    if isinstance(given, np.ndarray):
        return list(given) if given.ndim == 4 else None
    if not isinstance(given, (list, tuple)) or not given:
        return None
    return list(given) if any(sparse.issparse(law) or real_numbers(law).ndim == 3 for law in given) else None


def _joint_law(given: list[Any], task: Task) -> Transitions:
    """Return the law of states and inner actions, from one for all stages, or one for each class or stage."""
    stages = task.stages
    if isinstance(given[0], Transitions):
        law = given[0]
        if stages.n_classes == 1:
            return law
        if not isinstance(law, (DenseTransitions, SparseTransitions)):
            rule = "must be left out for a P that is not an array or a sparse matrix"
            fail("stage_dependent", rule, type(law).__name__, "Give P as an array or a scipy.sparse matrix.")
        given = [law.law()]
    if len({sparse.issparse(law) for law in given}) > 1:
        rule = "must be arrays at all stages, or sparse matrices at all stages"
        fail("P", rule, "some of each", "Convert one kind: scipy.sparse.csr_array(P[h].reshape(S·A, S)).")
    laws: list[DenseTransitions | SparseTransitions] = []
    for (name, block), law in zip(stages.named_blocks("P"), stages.by_class("P", given, "(S, A, S)"), strict=True):
        used = law if task.unused is None else _filled(law, task.unused[:, block])
        is_sparse = sparse.issparse(law)
        laws.append(
            SparseTransitions(used, stages.n_own, name=name) if is_sparse else DenseTransitions(used, name=name)
        )
    shapes = {(law.n_states, law.n_actions, law.n_states) for law in laws}
    if len(shapes) > 1:
        received = ", ".join(map(str, sorted(shapes)))
        fail("P", "must have the same shape (S, A, S) at every stage", received, "Give P[h][s, a, s'].")
    if len(laws) == 1:
        return laws[0]
    if isinstance(laws[0], DenseTransitions):
        return DenseTransitions(np.concatenate([law.law() for law in laws], axis=1))
    stacked = sparse.vstack([law.law() for law in laws], format="csr")  # (c, s, a) → (s, c, a)
    order = np.arange(stacked.shape[0]).reshape(len(laws), -1, stages.n_own).transpose(1, 0, 2).ravel()
    return SparseTransitions(stacked[order], stages.n_inner)


def _filled(law: Any, unused: BoolArray) -> Any:
    """Return an array (S, A, S) or a sparse matrix (S·A, S) in which pairs that are not used stay in their state.

    What is not a law of that size is returned as it is, for its own check to refuse.
    """
    n_states, n_actions = unused.shape
    states, actions = np.nonzero(unused)
    if sparse.issparse(law):
        if law.shape != (n_states * n_actions, n_states) or law.dtype.kind not in "fiub":
            return law
        entries = sparse.coo_array(law)
        kept = ~unused.ravel()[entries.row]
        rows = np.concatenate([entries.row[kept], states * n_actions + actions])
        columns = np.concatenate([entries.col[kept], states])
        data = np.concatenate([entries.data[kept].astype(np.float64), np.ones(len(states))])
        return sparse.csr_array(sparse.coo_array((data, (rows, columns)), shape=law.shape))
    table = real_numbers(law)
    if table.shape != (n_states, n_actions, n_states):
        return law
    table[unused] = 0.0
    table[states, actions, states] = 1.0
    return table


def checked_mdp(value: object) -> FiniteMDP:
    """Return `value` if it is a `FiniteMDP`, or raise `InvalidInput`."""
    if not isinstance(value, FiniteMDP):
        fail("mdp", "must be a FiniteMDP", shown(value), "Build one, or take env.unwrapped.mdp of an environment.")
    return value


def draw_start(start: FloatArray, uniforms: FloatArray) -> IntArray:
    """Return the first states (k,) that uniform numbers (k,) in [0, 1) select from the distribution `start` (S,)."""
    cdf = np.cumsum(start)
    return np.searchsorted(cdf / cdf[-1], uniforms, side="right")


class MDPEnv(gym.Env[Any, Any]):
    """A Gymnasium environment that plays a `FiniteMDP`; observations are state numbers.

    `reset` draws all uniform numbers of the episode: one for the first state and one for each step, or two for each
    step if rewards are noisy. The episodes of a seed therefore do not depend on when earlier episodes ended, nor on the
    number of replicas that are simulated together.

    Args:
        mdp: MDP to play, available as `env.unwrapped.mdp`; regret is computed with it.

    >>> from matrixrl.problems import tabular
    >>> env = MDPEnv(tabular(n_states=3, n_actions=2, horizon=2).mdp)
    >>> state, _ = env.reset(seed=1)
    >>> int(state), env.step(0)[3]
    (0, False)
    """

    def __init__(self, mdp: FiniteMDP) -> None:
        self.mdp = checked_mdp(mdp)
        self.horizon = mdp.horizon
        self.observation_space, self.action_space = mdp.gym_spaces
        self._codecs = codec_of("observation", self.observation_space), codec_of("action", self.action_space)
        self._state = 0
        self._stage = mdp.horizon
        self._next_uniforms: FloatArray = np.empty(0)
        self._coins: FloatArray = np.empty(0)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Start an episode and return its first state; `seed`, if given, restarts the random stream."""
        super().reset(seed=seed, options=options)
        first, self._next_uniforms, self._coins = self.mdp.episode_draws(
            self.np_random.random(self.mdp.draws_per_episode)
        )
        self._state = int(draw_start(self.mdp.task.start, first[None])[0])
        self._stage = 0
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take an action; return next state, reward, terminated, truncated and info.

        The reward is the expected reward of the state and action, or a random one if the MDP has noisy rewards.
        """
        if self._stage >= self.horizon:
            raise ProtocolError("step was called outside an episode; call reset first")
        own = self._codecs[1].encode("action", action, "Choose from action_space.")
        self.mdp.task.check_actions("action", np.array([self._state]), np.array([own]), self._stage)
        now = slice(self._stage, self._stage + 1)
        state, inner = np.array([self._state]), np.array([self.mdp.stages.inner(own, self._stage)])
        rewards = self.mdp.earn(state, inner, self._coins[now])
        following, outcomes = self.mdp.transition(state, inner, self._next_uniforms[now])
        self._stage += 1
        reward, self._state = float(rewards[0]), int(following[0])
        terminated = self._state == self.mdp.task.end_state
        truncated = not terminated and self._stage >= self.horizon
        if terminated:
            self._stage = self.horizon
        outcome = {} if outcomes is None else {"outcome": self.mdp.outcome_value(int(outcomes[0]))}
        return self._observation(), reward, terminated, truncated, self._info() | outcome

    def _observation(self) -> Any:
        """Return the state as it is observed; an end state that is none of the observed ones shows the last one."""
        codec = self._codecs[0]
        if isinstance(codec, DiscreteCodec):
            return np.int64(min(self._state, codec.size - 1))
        return codec.decode(min(self._state, codec.size - 1))

    def action_masks(self) -> BoolArray:
        """Return which actions are allowed in the current state: (A,)."""
        allowed, to_come = self.mdp.allowed, min(self._stage, self.horizon - 1)
        if allowed is None:
            return np.ones(self.mdp.task.n_own_actions, dtype=np.bool_)
        return allowed[self._state, self.mdp.stages.block(to_come)].copy()

    def _info(self) -> dict[str, Any]:
        """Return the stage and, if some actions are not allowed, the mask of the current state as Gymnasium has it."""
        masks = {} if self.mdp.allowed is None else {"action_mask": self.action_masks().astype(np.int8)}
        return {"stage": self._stage, **masks}
