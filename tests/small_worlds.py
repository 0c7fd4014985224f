"""Small problems with known features, and random transitions of them; they need problems only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from matrixrl.problems import EmbeddedMDP, FiniteMDP, differing_fields, low_rank, tabular
from matrixrl.records import Steps

WORLDS = {
    "tabular": lambda seed: tabular(n_states=5, n_actions=3, horizon=4, seed=seed),
    "tabular, rotated psi": lambda seed: tabular(n_states=5, n_actions=2, horizon=4, orthonormal=True, seed=seed),
    "low rank": lambda seed: low_rank(n_states=12, n_actions=3, d=4, d_psi=3, horizon=4, seed=seed),
    "low rank, orthonormal psi": lambda seed: low_rank(
        n_states=12, n_actions=3, d=3, d_psi=4, horizon=4, orthonormal=True, seed=seed
    ),
}


def same_problem(one, other):
    """Say whether two fingerprints have the same fields, and the same number in each."""
    both_or_none = all((one[name] is None) == (other.get(name) is None) for name in one)
    return one.keys() == other.keys() and both_or_none and not differing_fields(one, other)


@dataclass
class Batch:
    """Random transitions of a world: states, actions, next states, all (B, k)."""

    states: np.ndarray
    actions: np.ndarray
    following: np.ndarray

    @property
    def ones(self) -> np.ndarray:
        return np.ones(self.states.shape)

    def steps(self, rewards: np.ndarray, taken: np.ndarray | None = None) -> Steps:
        """Return one episode of them, all steps taken by default."""
        return Steps.of(self.states, self.actions, rewards, self.following, taken=taken)


def random_batch(world: EmbeddedMDP, rng: np.random.Generator, n_replicas: int, k: int) -> Batch:
    mdp = world.mdp
    states = rng.integers(0, mdp.n_states, (n_replicas, k))
    actions = rng.integers(0, mdp.n_actions, (n_replicas, k))
    flat = mdp.transitions.sample(states.ravel(), actions.ravel(), rng.random(states.size))
    return Batch(states, actions, flat.reshape(states.shape))


def phi_rows(world: EmbeddedMDP) -> np.ndarray:
    """(A·S, d), the pair order of the library, from the public (S, A, d) table."""
    table = world.features.phi.table
    return table.transpose(1, 0, 2).reshape(-1, table.shape[-1])


def random_mask(rng: np.random.Generator, n_states: int, n_actions: int, share: float = 0.55) -> np.ndarray:
    """Return which actions are allowed, (S, A): some of every state, and not all of all states."""
    allowed = rng.random((n_states, n_actions)) < share
    allowed[np.arange(n_states), rng.integers(n_actions, size=n_states)] = True
    allowed[0, 1:] = False
    allowed[0, 0] = True
    return allowed


def masked_mdp(
    *, n_states=5, n_actions=3, horizon=4, seed=0, end=False, start=0, noisy=False, fill=np.nan
) -> FiniteMDP:
    """Return a random MDP with a random mask; P and R of actions that are not allowed are `fill`."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(n_states, 0.5), (n_states, n_actions))
    reward = rng.uniform(-1.0, 1.0, (n_states, n_actions))
    allowed = random_mask(rng, n_states, n_actions)
    table[~allowed], reward[~allowed] = fill, fill
    if end:
        table[-1], reward[-1] = np.eye(n_states)[-1], 0.0
    return FiniteMDP(
        table,
        reward,
        horizon,
        reward_range=(-1.0, 1.0),
        start=start,
        end_state=n_states - 1 if end else None,
        noisy_rewards=noisy,
        allowed=allowed,
    )


def calendar(*, n_states=3, n_actions=3, horizon=4, seed=0, classes=None, **options) -> FiniteMDP:
    """Return an MDP whose best action in every state differs between classes of stages; all stages by default.

    Action (c + s) mod A of a stage of class c pays 1 and the others up to 0.4; what follows is random.
    """
    rng = np.random.default_rng(seed)
    numbers = list(range(horizon)) if classes is None else list(dict.fromkeys(classes))
    table = rng.dirichlet(np.full(n_states, 0.5), (len(numbers), n_states, n_actions))
    reward = rng.uniform(0.0, 0.4, (len(numbers), n_states, n_actions))
    for c in range(len(numbers)):
        reward[c, np.arange(n_states), (c + np.arange(n_states)) % n_actions] = 1.0
    if options.get("end_state") is not None:
        table[:, options["end_state"]], reward[:, options["end_state"]] = np.eye(n_states)[options["end_state"]], 0.0
    return FiniteMDP(table, reward, horizon, stage_dependent=True if classes is None else classes, **options)


def code_lock(code=(1, 0, 1, 0)) -> FiniteMDP:
    """Return an MDP that pays 1 in the end if every stage had its action of the code; one mistake leads to state 0."""
    horizon = len(code)
    table, reward = np.zeros((horizon, 2, 2, 2)), np.zeros((horizon, 2, 2))
    table[:, :, :, 0] = 1.0
    for h, action in enumerate(code):
        table[h, 1, action] = [0.0, 1.0]
    reward[-1, 1, code[-1]] = 1.0
    return FiniteMDP(table, reward, horizon, start=1)
