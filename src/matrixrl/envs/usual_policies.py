"""Policies that practitioners use: the best one of a family, exact values, and simulated logs of given policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from matrixrl.checks import distributions, fail, fits_memory, integer, shaped
from matrixrl.policies import Policy
from matrixrl.problems import FiniteMDP, evaluate, evaluate_batch
from matrixrl.problems.solving import q_values
from matrixrl.records import FloatArray, IntArray

__all__ = ["best_level", "best_of", "policy_log", "policy_value"]

_MOST_VALUES = 1 << 22  # numbers of values that are computed together


def best_of(mdp: FiniteMDP, family: Iterable[tuple[str, IntArray]]) -> Policy:
    """Return the policy of a family with the largest value V^π(s0), computed exactly from the known P.

    Args:
        mdp: Known MDP.
        family: Description and actions (S,) of each policy, counted from 0, which are the same at all stages. The first
            one of several best policies is taken.

    >>> import matrixrl
    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> best_of(mdp, [("left", np.zeros(6, dtype=int)), ("right", np.ones(6, dtype=int))]).description
    'right'
    """
    names, rows = zip(*family, strict=True)
    tables = np.stack(rows)
    step = max(1, _MOST_VALUES // (mdp.n_states * (mdp.horizon + 1)))
    values = []
    for first in range(0, len(tables), step):
        some = tables[first : first + step]
        policies = np.broadcast_to(some[:, None, :], (len(some), mdp.horizon, mdp.n_states))
        policies = policies if mdp.stages is None else mdp.stages.inner_table(policies)
        values.append(evaluate_batch(mdp, policies)[:, 0] @ mdp.task.start)
    best = int(np.argmax(np.concatenate(values)))
    n_actions = mdp.task.n_own_actions
    return Policy(np.tile(tables[best], (mdp.horizon, 1)), n_actions=n_actions, description=names[best])


def best_level(mdp: FiniteMDP, position: IntArray, most: IntArray | int, *, suffix: str = "") -> Policy:
    """Return the base-stock policy with the largest value: order up to one level, as far as the largest orders allow.

    Args:
        mdp: Known MDP whose actions are the sizes of orders.
        position: (S,) Stock on hand and on order, which the order raises to the level.
        most: Largest order, for each state or for all.
        suffix: End of the description of the policy, which begins with "base stock" and the level.
    """
    family = [
        (f"base stock {level}{suffix}", np.clip(level - position, 0, most).astype(np.int64))
        for level in range(int(position.max()) + 1)
    ]
    return best_of(mdp, family)


def policy_value(mdp: FiniteMDP, policy: Any) -> float:
    """Return the exact value V^π(s0) of a policy, averaged over the distribution of the first state.

    Args:
        mdp: Known MDP.
        policy: A `Policy`, its table (H, S), or the probabilities of a random policy: (S, A), or (H, S, A) by stage.

    >>> import matrixrl
    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> round(policy_value(mdp, np.full((6, 2), 0.5)), 3)
    0.047
    """
    if _is_table(policy):
        return float(mdp.task.start @ evaluate(mdp, np.asarray(policy))[0])
    given = np.asarray(policy)
    if given.ndim == 3 and len(given) != mdp.horizon:
        fail("policy", f"must have {mdp.horizon} stages", len(given), "Give (H, S, A), or (S, A) for all stages.")
    stages = [_probabilities(mdp, chances) for chances in (given if given.ndim == 3 else [given])]
    values: FloatArray = np.zeros(mdp.n_states)
    for stage in reversed(range(mdp.horizon)):
        chances = stages[stage % len(stages)]
        q = np.where(chances > 0.0, q_values(mdp, values, stage), 0.0)  # −∞ where an action is not allowed
        values = (chances * q).sum(axis=1)
    return float(mdp.task.start @ values)


def policy_log(mdp: FiniteMDP, policy: Any, n_episodes: int, seed: int) -> dict[str, Any]:
    """Return simulated episodes of a policy as a log that `Agent.learn_from` reads.

    Args:
        mdp: Known MDP.
        policy: A `Policy`, its table (H, S), or the probabilities (S, A) of a random policy.
        n_episodes: Number of episodes.
        seed: Seed of all random numbers.

    Returns:
        The columns episode, step, state, action, reward, next_state and terminated, one row for each step.

    >>> import matrixrl
    >>> mdp = matrixrl.make("river-swim").unwrapped.mdp
    >>> log = policy_log(mdp, np.full((6, 2), 0.5), n_episodes=3, seed=0)
    >>> matrixrl.MatrixRL("river-swim", seed=0).plan_log(log).n_steps
    72
    """
    count = integer("n_episodes", n_episodes, low=1, remedy="Give at least one episode.")
    random = np.random.default_rng(integer("seed", seed, low=0, remedy="Such as 0."))
    fits_memory("n_episodes", 10.0 * count * mdp.horizon, f"{count:,}", remedy="Simulate fewer at a time.")
    chances = (
        np.eye(mdp.task.n_own_actions)[np.asarray(policy)] if _is_table(policy) else _probabilities(mdp, policy)[None]
    )
    cumulated = np.cumsum(chances, axis=-1)
    cumulated /= cumulated[..., -1:]  # exactly 1 from the last action on that is ever taken

    def act(stage: int, states: IntArray) -> IntArray:
        rows = cumulated[stage % len(cumulated), states]
        chosen: IntArray = (rows <= random.random((len(states), 1))).sum(axis=1)
        return chosen if mdp.stages is None else mdp.stages.inner(chosen, np.full(len(chosen), stage))

    steps = mdp.rollout(random.random((count, mdp.draws_per_episode)), act)
    episodes, stages = np.nonzero(steps.taken)
    actions = steps.actions[steps.taken]
    return {
        "episode": episodes,
        "step": stages,
        "state": steps.states[steps.taken],
        "action": actions if mdp.stages is None else mdp.stages.own(actions),
        "reward": steps.rewards[steps.taken],
        "next_state": steps.next_states[steps.taken],
        "terminated": steps.ended[steps.taken],
    }


def _is_table(policy: Any) -> bool:
    """Return whether a policy is given by whole numbers, its actions."""
    return bool(np.issubdtype(np.asarray(policy).dtype, np.integer))


def _probabilities(mdp: FiniteMDP, policy: Any) -> FloatArray:
    """Return the probabilities (S, A) of a random policy, checked."""
    size = (mdp.n_states, mdp.task.n_own_actions)
    given = shaped("policy", policy, size, remedy="Give the probability of each action in each state.")
    chances = distributions("policy", given)
    everywhere = chances if mdp.stages is None else np.tile(chances, (1, mdp.stages.n_classes))
    if mdp.allowed is not None and (everywhere[~mdp.allowed] > 0.0).any():
        fail("policy", "must take allowed actions only", "another action", "Set its probability to 0.")
    return chances
