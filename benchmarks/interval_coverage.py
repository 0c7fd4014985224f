"""How often the 95 % intervals of the lab hold the true mean, by the number of seeds.

python benchmarks/interval_coverage.py [samples]
"""

from __future__ import annotations

import sys

import numpy as np

from matrixrl_lab.analysis.statistics import curve_of

SEEDS = (3, 4, 5, 6, 7, 8, 16, 32)
LAWS = {
    "normal": lambda rng, shape: rng.normal(1.0, 1.0, shape),
    "exponential": lambda rng, shape: rng.exponential(1.0, shape),
}  # both with mean 1


def coverage(law: str, seeds: int, samples: int) -> float:
    """Return the share of samples of some seeds whose interval holds the true mean."""
    rng = np.random.default_rng([20_261_117, seeds, len(law)])
    held = LAWS[law](rng, (seeds, samples))  # one sample in each column: the band of a curve is one interval for each
    curve = curve_of(held, np.arange(1.0, samples + 1.0))
    return float(((curve.low <= 1.0) & (curve.high >= 1.0)).mean())


def main() -> None:
    """Print one row for each number of seeds."""
    samples = int(sys.argv[1]) if len(sys.argv) > 1 else 20_000
    print("seeds", *LAWS, sep="\t")
    for seeds in SEEDS:
        print(seeds, *(f"{100 * coverage(law, seeds, samples):.1f} %" for law in LAWS), sep="\t", flush=True)


if __name__ == "__main__":
    main()
