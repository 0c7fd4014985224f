"""Features without a constant: whether and when the misspecification alarm is raised.

python benchmarks/no_constant.py [--episodes 2000] [--seeds 2]

A grid world of 36 cells. No combination of these features gives probabilities that sum to one at every pair, so none of
them can represent P. Seeds begin at 1,000.
"""

from __future__ import annotations

import argparse

import numpy as np

import matrixrl
from matrixrl.core.embedding import embedding
from matrixrl.features import OneHotPsi
from matrixrl.features.state_maps import FourierBasis


def bases(points: np.ndarray) -> dict[str, np.ndarray]:
    """Return coordinates of the cells that do not span the constant."""
    fourier = {order: FourierBasis(2, order=order).coordinates(points) for order in (1, 3)}
    corners = [[0, 0], [5, 0], [0, 5], [5, 5]]
    return {
        **{f"Fourier basis of order {order}": x[:, np.ptp(x, axis=0) > 1e-9] for order, x in fourier.items()},
        "coordinates": points,
        "distances from the corners": np.stack([np.linalg.norm(points - c, axis=1) + 0.5 for c in corners], axis=1),
    }


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    chosen = parser.parse_args()
    env = matrixrl.make("grid-world", size=6).unwrapped
    print("| features without a constant | d | explained | first alarm of each seed |")
    print("|---|---|---|---|")
    for name, coordinates in bases(env.points).items():
        phi = matrixrl.tensor_product(coordinates, np.eye(env.mdp.n_actions))
        features = matrixrl.Features(phi, OneHotPsi(len(coordinates)))
        fit = embedding(env.mdp.transitions, features)
        seeds = range(1000, 1000 + chosen.seeds)
        given = {"phi": features.phi, "psi": features.psi, "preset": "optimistic"}
        found = matrixrl.run_seeds(env.mdp, n_episodes=chosen.episodes, seeds=seeds, **given)
        first = ", ".join(str(int(on.argmax()) + 1) if on.any() else "none" for on in found.alarms)
        print(f"| {name} | {features.phi.d} | {fit.explained:.2f} | {first} |", flush=True)


if __name__ == "__main__":
    main()
