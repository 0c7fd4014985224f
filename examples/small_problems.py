"""Two small problems for algorithm_1.py and algorithm_2.py, and the regret of policies on them."""

import numpy as np


def two_groups():
    """Return P, rewards, φ and ψ of 5 states and 2 actions with P = φᵀM*ψ, d = d' = 2 and M* = I."""
    psi = np.array([[0.6, 0.0], [0.4, 0.0], [0.0, 0.2], [0.0, 0.4], [0.0, 0.4]])  # left and right group of next states
    right = np.array([[0.3, 0.4], [0.2, 0.5], [0.6, 0.3], [0.7, 0.2], [0.9, 0.8]])  # probability of the right group
    phi = np.stack([1.0 - right, right], axis=-1)
    reward = np.array([[0.3, 0.2], [0.1, 0.0], [0.0, 0.2], [0.0, 0.3], [0.5, 0.6]])
    return phi @ psi.T, reward, phi, psi


def walk():
    """Return P, rewards and the kernel of pairs of a walk of 4 states: the larger reward is far away."""
    P, reward = np.zeros((4, 2, 4)), np.zeros((4, 2))
    for s in range(4):
        P[s, :, s] += 0.1
        P[s, 0, max(s - 1, 0)] += 0.9
        P[s, 1, min(s + 1, 3)] += 0.9
    reward[0, 0], reward[3] = 0.2, 1.0
    distance = np.subtract.outer(np.arange(4.0), np.arange(4.0))
    return P, reward, np.kron(np.exp(-0.5 * distance**2), np.eye(2))  # Gaussian in the distance of states, by action


def value(P, reward, horizon, policy=None):
    """Return the value at state 0 and the first stage: of a policy (H, S), or the optimal one."""
    V = np.zeros(len(reward))
    for h in reversed(range(horizon)):
        Q = reward + P @ V
        V = Q.max(axis=1) if policy is None else Q[np.arange(len(V)), policy[h]]
    return V[0]


def print_regret(P, reward, horizon, policies):
    """Print the regret (1) of the policies that were played."""
    regret = np.cumsum([value(P, reward, horizon) - value(P, reward, horizon, policy) for policy in policies])
    for n in (10, 30, 100, 300, 1000):
        if n <= len(regret):
            print(f"episodes {n:5d}   regret {regret[n - 1]:7.2f}   per episode {regret[n - 1] / n:.3f}")
