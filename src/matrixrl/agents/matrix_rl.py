"""MatrixRL, KernelMatrixRL and KernelControl: the agents of the library, with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Unpack

import numpy as np

from matrixrl.agents import certification
from matrixrl.agents.agent import Agent
from matrixrl.algorithms import KernelStarter, UCMatrixRL
from matrixrl.checks import fail, index, real_numbers, shaped
from matrixrl.core import ConfidenceSet
from matrixrl.play.arguments import BallOptions, KernelOptions
from matrixrl.problems import ProblemOptions
from matrixrl.records import FloatArray

__all__ = ["KernelControl", "KernelMatrixRL", "MatrixRL"]


class MatrixRL(Agent):
    """Learns a problem with optimism over a matrix confidence set (UC-MatrixRL, YW19 Algorithm 1).

    The agent knows the rewards (unless ``known_reward=False``) and the features, never the transitions. None leaves a
    value to the preset.

    Args:
        problem: Name of an environment ("river-swim", "gym:FrozenLake-v1"), a Gymnasium environment (ours, one with a
            transition table, or any discrete one), a `FiniteMDP`, a `Task` for ask and tell only, a `FunctionalTask`
            (functions of states), or a `matrixrl.Problem` with options of its own.
        preset: "budget" (the default; every proof holds, and the tuned plan is played while its lack of optimism is
            paid for), "optimistic" (every proof holds, and the optimistic plan is always played), "paper" (closed form
            (8) and radius of the paper) or "tuned" (a smaller radius, chosen by measurement).
        set: Confidence set: a name (``matrixrl list sets``) or an object such as ``NormalisedBall(ridge=0.5)``; by
            default the smallest proven one for the features at hand.
        exploration: Factor of the radius; below 1 the guarantee is off.
        optimism_budget: α of the optimism budget; the proven bound on regret grows by the factor 1 + α (1 + 2α for
            balls), and 0 always plays the optimistic plan, as sampled columns do.
        incumbent: Policy in use: a `Policy`, whole numbers (S,) or (H, S), the actions counted from 0, or a function of
            observation and stage. It is played wherever the agent's own policy could cost more than `loss_budget`
            allows. What it loses against the best policy is added to the regret bound (`Agent.bound`).
        loss_budget: Most that the policies played may earn less than the incumbent, summed over all episodes so far,
            with probability 1 − δ at every episode: an amount in the unit of the rewards (500.0), or a share of what
            the incumbent earns ("5 %"). See `Agent.loss_bound`.
        delta: Probability with which the guarantee may fail.
        known_reward: Whether the agent is given the rewards; by default it learns them where the problem has none.
        ties: Among equally optimistic actions take one at random ("random"), or the best one of a plan at a small
            radius ("estimate"), which costs a second plan.
        explore_for: Play to earn ("regret"), or to certify a policy with few episodes ("certificate").
        switch_growth: κ: plan again only when det A_n, or the visits of some pair, grew by 1 + κ since the last plan;
            0 plans every episode. The proven bound on regret grows by √(1 + κ) at most.
        planner: Back up all states before an episode ("sweep"), or those that it plays ("path"), whose time and memory
            do not depend on the number of states; "auto" takes "path" for large problems that it serves.
        drift: Assume that nothing changes ("off"), look for changes of the transition probabilities and of learned
            rewards and withdraw the guarantee after one ("watch"), or begin again without data after one ("restart");
            see `changes`. For likelihood sets. A false alarm ever comes with probability δ at most.
        n_episodes: Number of episodes N, if known in advance; only the theorem's radius uses it.
        env_settings, seed, compiled, keep_log, late_episodes, trust_code: As in `Agent`.
        more: Options of the problem (phi, psi, reward, horizon, allowed, …; `ProblemOptions`) and settings of balls
            (radius, ridge, columns, …; `BallOptions`).

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL(matrixrl.make("river-swim", n_states=4), seed=0, preset="tuned")
    >>> history = agent.learn(n_episodes=30)
    >>> history.n_episodes, bool(history.cumulative_regret[-1] < 30 * 8.3)
    (30, True)
    """

    name = "matrix-rl"

    def __init__(
        self,
        problem: Any,
        *,
        preset: str | None = None,
        set: str | ConfidenceSet | type[ConfidenceSet] | None = None,
        exploration: float | None = None,
        optimism_budget: float | None = None,
        incumbent: Any = None,
        loss_budget: float | str | None = None,
        delta: float | None = None,
        known_reward: bool | None = None,
        ties: str | None = None,
        explore_for: str | None = None,
        switch_growth: float | None = None,
        planner: str | None = None,
        drift: str | None = None,
        n_episodes: int | None = None,
        env_settings: dict[str, Any] | None = None,
        seed: int | None = None,
        compiled: bool | None = None,
        keep_log: bool = True,
        late_episodes: str = "wait",
        trust_code: bool = False,
        **more: Unpack[BallOptions],
    ) -> None:
        super().__init__(problem, UCMatrixRL, **_given(locals()))


def _value(self: Agent, obs: Any, stage: int) -> tuple[FloatArray, FloatArray]:
    """Return values and widths of observations (n, p), for pictures: (n,) and (n,)."""
    from matrixrl.algorithms import ContinuousControl, ContinuousMatrixRL

    algorithm, task = self.algorithm, self.problem.task
    if not isinstance(algorithm, (ContinuousMatrixRL, ContinuousControl)):
        fail("value", "is computed for vectors as states", self.problem.name, "Use certificate().")
    h = index("stage", stage, size=task.horizon, remedy="Stages count from 0.")
    size = algorithm.task.n_coordinates
    given = obs if np.ndim(real_numbers(obs)) != 1 else real_numbers(obs)[None]
    points = shaped("obs", given, (None, size), remedy="Give rows of observations.")
    return algorithm.value(certification.advised_plan(self), h, points)


class KernelMatrixRL(Agent):
    """Learns through a kernel of states, finite or continuous (YW19 Algorithm 2).

    On numbered states it has the paper's sets, radii and certificates, and neighbours share what is learned. On vectors
    (any Gymnasium environment with vectors as observations and discrete actions) what is unknown is worth the most that
    can still be earned; nothing is proven there, and one configuration learns control tasks in a handful of episodes.

    Args:
        problem: As in `MatrixRL`.
        preset: As in `MatrixRL`; for vectors only "tuned".
        length_scale: Length scale of the RBF kernel, in the unit of the points of numbered states (0.5 by default), or
            in units of half the range of each coordinate (1.0 by default).
        points: (S, p) coordinates of numbered states; the environment's own, else evenly on a line.
        k_phi: Kernel of numbered states inside k_φ, in place of the RBF kernel.
        kernel: Kernel of vectors in scaled units, in place of the RBF kernel.
        action_correlation: How much actions share, from 0 to below 1.
        set: As in `MatrixRL`; for numbered states.
        exploration: Factor of the radius; for vectors the bonus of a pair of which nothing is known, as a share of the
            range of values left.
        delta, known_reward, switch_growth, n_episodes: As in `MatrixRL`; for numbered states.
        env_settings, seed, compiled, keep_log, late_episodes, trust_code: As in `Agent`.
        more: Options of the problem (`ProblemOptions`), and rarely used settings (`KernelOptions`).

    >>> import gymnasium
    >>> agent = KernelMatrixRL(gymnasium.make("CartPole-v1"), horizon=50, seed=0)
    >>> agent.learn(n_episodes=3).n_episodes
    3
    """

    name = "kernel-matrix-rl"
    value = _value

    def __init__(
        self,
        problem: Any,
        *,
        preset: str | None = None,
        length_scale: float | None = None,
        points: FloatArray | None = None,
        k_phi: Any = None,
        kernel: Any = None,
        action_correlation: float | None = None,
        set: str | ConfidenceSet | type[ConfidenceSet] | None = None,
        exploration: float | None = None,
        delta: float | None = None,
        known_reward: bool | None = None,
        switch_growth: float | None = None,
        n_episodes: int | None = None,
        env_settings: dict[str, Any] | None = None,
        seed: int | None = None,
        compiled: bool | None = None,
        keep_log: bool = True,
        late_episodes: str = "wait",
        trust_code: bool = False,
        **more: Unpack[KernelOptions],
    ) -> None:
        super().__init__(problem, KernelStarter, **_given(locals()))


class KernelControl(Agent):
    """Learns a control task by planning in a kernel model of its dynamics, which fits itself to the data.

    Observations are vectors, actions are discrete or continuous with bounds. No range of rewards, length scale or
    largest return has to be given, and one configuration serves every task. It is measured, not proven.

    Args:
        problem: Name of a control task ("cart-pole"), or a Gymnasium environment with vectors as observations.
        preset: Only "tuned": nothing is proven.
        length_scale: Length scale of the model of the dynamics in every coordinate, in units of half its range; fitted
            to the data by default.
        exploration: Bonus of a state of which nothing is known, as a share of the range of rewards.
        model_points: Largest number of inducing points of the model.
        value_points: Largest number of inducing points of the value.
        support: Number of states at which values are backed up.
        candidates: Number of value functions that a plan is chosen from.
        action_points: Points along each coordinate of continuous actions in backups.
        softness: Probability of a random action in backups.
        revise: Whether plans are made again during an episode whose steps the model does not predict.
        env_settings, seed, compiled, keep_log, late_episodes, trust_code: As in `Agent`.
        more: Options of the problem, such as `horizon` and `reward_range`; see `ProblemOptions`.

    >>> import gymnasium
    >>> agent = KernelControl(gymnasium.make("Pendulum-v1", max_episode_steps=20), seed=0)
    >>> agent.learn(n_episodes=2).n_episodes
    2
    """

    name = "kernel-control"
    value = _value

    def __init__(
        self,
        problem: Any,
        *,
        preset: str | None = None,
        length_scale: float | None = None,
        exploration: float | None = None,
        model_points: int | None = None,
        value_points: int | None = None,
        support: int | None = None,
        candidates: int | None = None,
        action_points: int | None = None,
        softness: float | None = None,
        revise: bool | None = None,
        env_settings: dict[str, Any] | None = None,
        seed: int | None = None,
        compiled: bool | None = None,
        keep_log: bool = True,
        late_episodes: str = "wait",
        trust_code: bool = False,
        **more: Unpack[ProblemOptions],
    ) -> None:
        super().__init__(problem, "kernel-control", **_given(locals()))


def _given(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a constructor for `Agent`, by name; None leaves a value to the preset."""
    own = {name: value for name, value in arguments.items() if name not in ("self", "problem", "more", "__class__")}
    checked = ("keep_log", "late_episodes", "trust_code")  # which have no preset
    chosen = {name: value for name, value in own.items() if value is not None or name in checked}
    return {**chosen, **arguments["more"]}
