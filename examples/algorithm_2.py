"""Algorithm 2 of Yang & Wang (2019), KernelMatrixRL, in plain NumPy: Gram matrices only, no features.

The library computes the same numbers with set="frobenius-closed" and radius="log-det", in coordinates of the kernels:
tests/paper/test_algorithms_in_numpy.py. E3 and so on are errata of the paper (docs/paper-map.md).
"""

import numpy as np

from small_problems import print_regret, walk


def estimates(k_phi, k_psi, pairs, next_states):
    """Return the widths w_n (P,), the predictions x_n (P, S) and ln det(I + K) from the buffer of all earlier steps.

    Given the kernel k_φ of all P pairs (s, a), k_ψ of all states, and the pair and the next state of each step (t,).
    """
    k = k_phi[pairs]  # (t, P): rows k_φ(x_t, ·)
    inner = np.eye(len(pairs)) + k_phi[np.ix_(pairs, pairs)]  # I + K
    weights = np.linalg.solve(inner, k)
    w = np.sqrt(np.diag(k_phi) - (k * weights).sum(axis=0))
    hat = k_psi @ np.linalg.pinv(k_psi, hermitian=True)  # E3: the projection that stands for the paper's (K̄K̄ᵀ)⁻¹
    return w, weights.T @ hat[next_states], np.linalg.slogdet(inner)[1]


def plan(reward, w, x, eta, horizon):
    """Return the optimistic Q (H, S, A) from rewards (S, A), widths, predictions and the size η_n of the bonus."""
    Q = np.empty((horizon, *reward.shape))
    Q[-1] = reward  # V_{H+1} = 0
    for h in reversed(range(horizon - 1)):
        V = np.clip(Q[h + 1].max(axis=1), 0, horizon)
        Q[h] = reward + (x @ V + eta * w).reshape(reward.shape)  # (9)
    return Q


def bonus_size(k_psi, logdet, n, horizon, norm=1.0, delta=0.05, c=1.0):
    """Return η_n = 2 C_ψ H √β_n, with β_n of Theorem 3; `norm` bounds the norm of P, the theorem leaves c open."""
    C_psi = np.sqrt(np.abs(k_psi).sum())  # ‖Ψᵀv‖² = vᵀGv <= Σ|G| for all |v| <= 1
    C_dual = np.sqrt(np.diag(np.linalg.pinv(k_psi, hermitian=True)).max())  # C_ψ' of Assumption 2
    beta = norm**2 + C_dual**2 * logdet * np.log(n * horizon / delta)
    return 2.0 * C_psi * horizon * np.sqrt(c * max(1.0, beta))


def kernel_matrix_rl(P, reward, k_phi, k_psi, horizon, n_episodes, rng, c=1.0):
    """Run Algorithm 2 from state 0 with transition probabilities P (S, A, S); return its policies (N, H, S)."""
    pairs, next_states = [], []  # the buffer
    policies = np.empty((n_episodes, horizon, len(reward)), dtype=int)
    for n in range(n_episodes):
        w, x, logdet = estimates(k_phi, k_psi, np.array(pairs, dtype=int), np.array(next_states, dtype=int))
        eta = bonus_size(k_psi, logdet, n + 1, horizon, c=c)
        policies[n] = plan(reward, w, x, eta, horizon).argmax(axis=2)
        s = 0
        for h in range(horizon):
            a = policies[n, h, s]
            pairs.append(s * reward.shape[1] + a)
            s = rng.choice(len(P), p=P[s, a])
            next_states.append(s)
    return policies


def main():
    """Print the regret of 100 episodes of 5 steps.

    With c = 1 the bonus is so large that 100 episodes are too few to learn anything.
    """
    P, reward, k_phi = walk()
    policies = kernel_matrix_rl(P, reward, k_phi, np.eye(4), 5, 100, np.random.default_rng(0), c=1e-4)
    print_regret(P, reward, 5, policies)


if __name__ == "__main__":
    main()
