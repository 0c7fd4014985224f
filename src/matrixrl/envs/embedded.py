"""Problems of the paper's form P(s'|s,a) = φ(s,a)ᵀ M* ψ(s') in which one must explore, with φ, ψ and M* known."""

from __future__ import annotations

import itertools

import numpy as np

from matrixrl.checks import fits_memory, integer, number
from matrixrl.envs.classic import RiverSwim
from matrixrl.features import Features, OneHotPsi, TablePhi, TablePsi
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.random_streams import generator
from matrixrl.records import FloatArray

__all__ = ["EmissionRiver", "Factors", "Hypercube", "LinearLock"]


class _EmbeddedEnv(MDPEnv):
    """An environment with a known core.

    Args:
        phi: Features φ, shape (S, A, d).
        core: Core M*, shape (d, d_psi).
        psi: Features ψ, shape (S, d_psi); one-hot ones if None.
        theta: Parameter θ* of the expected rewards φᵀθ*, shape (d,).
        horizon: Steps in an episode.
        start: Distribution of the first state, shape (S,).
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.

    Attributes:
        core: True core M*, shape (d, d_psi); agents do not use it.
    """

    def __init__(
        self,
        phi: FloatArray,
        core: FloatArray,
        psi: FloatArray | None,
        theta: FloatArray,
        horizon: int,
        start: FloatArray,
        *,
        noisy_rewards: bool,
    ) -> None:
        n = len(phi)
        fits_memory("the settings", 3.0 * n * phi.shape[1] * n, f"{n:,} states", remedy="Make them smaller.")
        self.core = core
        table = phi @ (core if psi is None else core @ psi.T)
        features = Features(TablePhi(phi), OneHotPsi(n) if psi is None else TablePsi(psi))
        mdp = FiniteMDP(
            np.maximum(table, 0.0), phi @ theta, horizon, start=start, features=features, noisy_rewards=noisy_rewards
        )
        super().__init__(mdp)


class EmissionRiver(_EmbeddedEnv):
    """RiverSwim seen through observations: a latent state of the river emits one of many states.

    Observation o belongs to the latent state z with weight b_z(o): 1 for one z, or with `overlap` less than that, the
    rest being of its left neighbour. φ(o, a) = b(o) ⊗ e_a, ψ(o)_z is the probability that z emits o, in proportion to
    b_z(o) times a random number, and M* is the P of the river.

    Args:
        n_latent: Length of the river, at least 2.
        n_states: Number of observations S, at least one for each latent state.
        horizon: Steps in an episode; four per latent state if None.
        overlap: Largest weight of the left neighbour; 0 gives indicator features φ, and ψ with disjoint supports.
        seed: Seed of the observations.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self,
        n_latent: int = 6,
        n_states: int = 120,
        horizon: int | None = None,
        *,
        overlap: float = 0.0,
        seed: int = 0,
        noisy_rewards: bool = False,
    ) -> None:
        k = integer("n_latent", n_latent, low=2, remedy="Give at least two latent states.")
        n = integer("n_states", n_states, low=k, remedy="Give at least one observation for each latent state.")
        overlap = number("overlap", overlap, low=0.0, high=0.5, remedy="Try 0.1.")
        river, rng = RiverSwim(k).mdp, generator(seed, "problem")
        own = np.arange(n) % k
        members = np.eye(k)[own]
        left = np.where(own > 0, overlap * rng.random(n), 0.0)
        members[np.arange(n), own] -= left
        members[np.arange(n), np.maximum(own - 1, 0)] += left
        psi = members * rng.gamma(1.0, size=n)[:, None]
        psi /= psi.sum(axis=0)
        phi = np.einsum("oz,ab->oazb", members, np.eye(2)).reshape(n, 2, 2 * k)
        core = river.transitions.rows(np.repeat(np.arange(k), 2), np.tile(np.arange(2), k))
        steps = 4 * k if horizon is None else horizon
        super().__init__(phi, core, psi, river.task.reward.ravel(), steps, psi[:, 0], noisy_rewards=noisy_rewards)


class LinearLock(_EmbeddedEnv):
    """Combination lock in d dimensions: in each position one unknown direction of φ leads forward, all others back.

    Every position is seen through several observations, in each of which the actions stand for the directions in
    another order, and φ of an action is a mixture of directions. The last position is the open lock; it is absorbing
    and earns 1 per step.

    Args:
        length: Number of closed positions.
        n_actions: Number of actions, and of directions of each position; d = length · n_actions + 1.
        n_views: Number of observations of each position.
        horizon: Steps in an episode; three times the length if None.
        mixing: Weight of the uniform mixture of directions in each φ.
        slip: Probability that the right direction leads back to the start too.
        seed: Seed of the combination and of the observations.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self,
        length: int = 5,
        n_actions: int = 4,
        n_views: int = 8,
        horizon: int | None = None,
        *,
        mixing: float = 0.05,
        slip: float = 0.05,
        seed: int = 0,
        noisy_rewards: bool = False,
    ) -> None:
        count = integer("length", length, low=1, remedy="Give at least one closed position.")
        n_actions = integer("n_actions", n_actions, low=2, remedy="Give at least two actions.")
        views = integer("n_views", n_views, low=1, remedy="Give at least one observation.")
        mixing = number("mixing", mixing, low=0.0, high=1.0, remedy="Give a probability.")
        slip = number("slip", slip, low=0.0, high=1.0, remedy="Give a probability.")
        rng, d = generator(seed, "problem"), count * n_actions + 1
        core = np.zeros((d, count + 1))
        core[:-1, 0] = 1.0
        right = np.arange(count) * n_actions + rng.integers(0, n_actions, size=count)
        core[right, 0] = slip
        core[right, np.arange(1, count + 1)] += 1.0 - slip
        core[-1, -1] = 1.0
        position = np.repeat(np.arange(count + 1), views)
        phi = np.zeros((len(position), n_actions, d))
        for s in np.flatnonzero(position < count):
            own = slice(position[s] * n_actions, (position[s] + 1) * n_actions)
            phi[s, :, own] = mixing / n_actions + (1.0 - mixing) * np.eye(n_actions)[rng.permutation(n_actions)]
        phi[position == count, :, -1] = 1.0
        psi = (position[:, None] == np.arange(count + 1)) / views
        steps = 3 * count if horizon is None else horizon
        super().__init__(phi, core, psi, np.eye(d)[-1], steps, psi[:, 0], noisy_rewards=noisy_rewards)


class Hypercube(_EmbeddedEnv):
    """Instance of the lower bound for linear mixture MDPs: the sign of every coordinate of an action matters.

    Actions are the corners of {-1, 1}^(d-1). In state x_h an action a leads to the goal with probability
    δ + <μ_h, a>, δ = 1/H, and to x of the next stage else; the entries of μ_h are Δ or -Δ with unknown signs. The goal
    is absorbing and earns 1 per step. φ(x_h, a) is (1, a) in a block of its own, and ψ is one-hot.

    The instance is that of Zhou, Gu and Szepesvári 2021, where Δ shrinks with the number of episodes.

    Args:
        dimension: d, the size of a block, at least 2; there are 2^(d-1) actions.
        horizon: Steps in an episode H; the number of states is H + 2.
        gap: Δ, at most δ/(d-1), which is the value if None.
        seed: Seed of the signs.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self,
        dimension: int = 5,
        horizon: int = 10,
        *,
        gap: float | None = None,
        seed: int = 0,
        noisy_rewards: bool = False,
    ) -> None:
        d = integer("dimension", dimension, low=2, high=12, remedy="Try 5.")
        steps = integer("horizon", horizon, low=1, remedy="Give the number of steps.")
        chance = 1.0 / max(steps, 2)  # at most ½, so that twice of it is a probability
        most = chance / (d - 1)
        gap = most if gap is None else number("gap", gap, low=0.0, high=most, remedy="Leave it out.")
        signs = generator(seed, "problem").choice([-1.0, 1.0], size=(steps, d - 1))
        actions = np.array(list(itertools.product([-1.0, 1.0], repeat=d - 1)))
        n, last = steps + 2, steps * d
        phi, core = np.zeros((n, len(actions), last + 2)), np.zeros((last + 2, n))
        for h in range(steps):
            own = slice(h * d, (h + 1) * d)
            phi[h, :, own] = np.column_stack([np.ones(len(actions)), actions])
            core[own, -1] = chance, *(gap * signs[h])
            core[own, h + 1] = -core[own, -1]
            core[h * d, h + 1] += 1.0
        phi[steps, :, last] = phi[steps + 1, :, last + 1] = 1.0
        core[last, steps] = core[last + 1, steps + 1] = 1.0
        super().__init__(phi, core, None, np.eye(last + 2)[-1], steps, np.eye(n)[0], noisy_rewards=noisy_rewards)


class Factors(_EmbeddedEnv):
    """Factors on disjoint states, and mixed φ: a bait pays a little everywhere, the prize of the last factor more.

    A factor is a distribution over states of its own, so ψ(s) says which factor s belongs to. φ(s, a) is a mixture of d
    directions, and each direction leads to a mixture of factors. The direction of the bait pays 0.02 and leads to the
    first factor; that of the prize pays 1, and only one action of each state of the last factor has it.

    Args:
        n_factors: Number of factors d_psi, at least 2.
        n_states: Number of states S, at least one for each factor.
        n_actions: Number of actions, at least 2; the first one is the bait.
        d: Number of features φ, at least 3.
        horizon: Steps in an episode.
        seed: Seed of the problem.
        noisy_rewards: Whether rewards are 0 or 1 at random, with the given means.
    """

    def __init__(
        self,
        n_factors: int = 8,
        n_states: int = 120,
        n_actions: int = 5,
        d: int = 10,
        horizon: int = 20,
        *,
        seed: int = 0,
        noisy_rewards: bool = False,
    ) -> None:
        k = integer("n_factors", n_factors, low=2, remedy="Give at least two factors.")
        n = integer("n_states", n_states, low=k, remedy="Give at least one state for each factor.")
        n_actions = integer("n_actions", n_actions, low=2, remedy="Give at least two actions.")
        d = integer("d", d, low=3, remedy="Give at least three features.")
        rng, factor = generator(seed, "problem"), np.arange(n) % k
        core = np.vstack([np.eye(k)[0], rng.dirichlet(np.full(k, 0.3), size=d - 2), np.eye(k)[0]])
        phi = np.zeros((n, n_actions, d))
        phi[:, :, 1:-1] = rng.dirichlet(np.full(d - 2, 0.3), size=(n, n_actions))
        phi[:, 0] = np.eye(d)[0]
        rich = np.flatnonzero(factor == k - 1)
        phi[rich, rng.integers(1, n_actions, size=len(rich))] = np.eye(d)[-1]
        psi = np.eye(k)[factor] * rng.gamma(1.0, size=n)[:, None]
        psi /= psi.sum(axis=0)
        theta = 0.02 * np.eye(d)[0] + np.eye(d)[-1]
        super().__init__(phi, core, psi, theta, horizon, psi[:, 0], noisy_rewards=noisy_rewards)
