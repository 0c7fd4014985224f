"""Counts the runs in which UCRL3's confidence set leaves out the true law, as shipped and by its paper's bounds.

out/peers/venv/statisticalrl/bin/python benchmarks/peers/coverage_ucrl3.py

Two states, two actions; whatever is played, the state stays with probability 0.9. A set that holds with probability
1 − δ for all times may leave the law out in δ = 0.05 of the runs.
"""

from __future__ import annotations

import numpy as np
from peer_statisticalrl import DELTA, UCRL3, UCRL3ByItsBounds

STAY, STEPS, RUNS = 0.9, 400, 400
SLACK = 2e-4
"""The package finds its bounds by bisection to 1e-4."""


def leaves_out(kind: type[UCRL3], seed: int) -> bool:
    """Return whether one of the sets of a run leaves out the true law."""
    rng = np.random.default_rng(seed)
    np.random.seed(seed)  # noqa: NPY002 the package draws from NumPy's global generator
    missed = False

    class Watched(kind):
        def compute_ranges(self) -> None:
            nonlocal missed
            super().compute_ranges()
            for state, action in np.ndindex(2, 2):
                for next_state in self.supports[state, action]:
                    law = STAY if next_state == state else 1.0 - STAY
                    missed |= self.p_lower[state, action][next_state] > law + SLACK
                    missed |= self.p_upper[state, action][next_state] < law - SLACK

    learner, state = Watched(2, 2, DELTA), 0
    learner.reset(state)
    for _ in range(STEPS):
        action = int(learner.play(state))
        next_state = state if rng.random() < STAY else 1 - state
        learner.update(state, action, float(rng.random() < 0.5), next_state)
        state = next_state
    return bool(missed)


def main() -> None:
    for kind, name in ((UCRL3, "as shipped"), (UCRL3ByItsBounds, "by its bounds")):
        missed = sum(leaves_out(kind, seed) for seed in range(RUNS))
        print(f"UCRL3 {name}: the law is left out in {missed} of {RUNS} runs (δ = {DELTA})")


if __name__ == "__main__":
    main()
