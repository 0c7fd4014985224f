"""Algorithm 1 of Yang & Wang (2019), UC-MatrixRL, in plain NumPy; numbers in comments are the paper's equations.

The library computes the same numbers with set="frobenius" and radius="theorem"
(tests/paper/test_algorithms_in_numpy.py).
"""

import numpy as np

from small_problems import print_regret, two_groups


def plan(reward, phi, psi, A, C, beta, horizon):
    """Return the estimate M_n (d, d'), the widths w (S, A) and the optimistic Q (H, S, A) of an episode.

    Given rewards (S, A), features phi (S, A, d) and psi (S, d'), A = I + Σ φφᵀ and C = Σ φψᵀ of earlier steps, β, H.
    """
    M = np.linalg.solve(A, C) @ np.linalg.inv(psi.T @ psi)  # (2)
    w = np.sqrt(np.einsum("sad,de,sae->sa", phi, np.linalg.inv(A), phi))
    Q = np.empty((horizon, *reward.shape))
    Q[-1] = reward  # V_{H+1} = 0
    for h in reversed(range(horizon - 1)):
        v = psi.T @ np.clip(Q[h + 1].max(axis=1), 0, horizon)
        Q[h] = reward + phi @ M @ v + np.sqrt(beta) * w * np.linalg.norm(v)  # (4): the largest φᵀMv in the ball (6)
    return M, w, Q


def theorem_radius(phi, psi, horizon, n_episodes, C_M=1.0, c=1.0):
    """Return β of Theorem 2, given a bound C_M on ‖M*‖²/d; the theorem leaves the constant c open."""
    d = phi.shape[-1]
    C_phi = (phi**2).sum(axis=-1).max() / d
    C_dual = np.linalg.norm(psi @ np.linalg.inv(psi.T @ psi), axis=1).max()  # C_ψ' of Assumption 2
    return max(1.0, c * (C_M + C_dual**2) * np.log(n_episodes * horizon * C_phi) * d)


def uc_matrix_rl(P, reward, phi, psi, horizon, n_episodes, rng):
    """Run Algorithm 1 from state 0 with transition probabilities P (S, A, S); return its policies (N, H, S)."""
    A, C = np.eye(phi.shape[-1]), np.zeros((phi.shape[-1], psi.shape[-1]))
    beta = theorem_radius(phi, psi, horizon, n_episodes)
    policies = np.empty((n_episodes, horizon, len(reward)), dtype=int)
    for n in range(n_episodes):
        policies[n] = plan(reward, phi, psi, A, C, beta, horizon)[2].argmax(axis=2)
        s = 0
        for h in range(horizon):
            a, before = policies[n, h, s], s
            s = rng.choice(len(P), p=P[s, a])
            A += np.outer(phi[before, a], phi[before, a])  # the plan of this episode is made, so A may grow at once
            C += np.outer(phi[before, a], psi[s])
    return policies


def main():
    """Print the regret of 1,000 episodes of 6 steps."""
    P, reward, phi, psi = two_groups()
    print_regret(P, reward, 6, uc_matrix_rl(P, reward, phi, psi, 6, 1000, np.random.default_rng(0)))


if __name__ == "__main__":
    main()
