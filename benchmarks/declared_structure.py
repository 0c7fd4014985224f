"""DeepSea with `deterministic=True`: number of episodes that miss the treasure.

    python benchmarks/declared_structure.py --sizes 50 --seeds 10

Prints one row for each size and each way of rewards: episodes without the treasure (least, median, most of the seeds),
the last of them and regret; with `--undeclared` also those of the agent that is told nothing. The seed of a run is also
that of the assignment of actions to directions.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from matrixrl import run_seeds

FIRST = 100


def run(size: int, seed: int, n_episodes: int, **options: object) -> tuple[int, int, float]:
    """Return the number of bad episodes, the last of them, and the regret of all."""
    result = run_seeds(
        "deep-sea", env_settings={"size": size, "seed": seed}, n_episodes=n_episodes, seeds=[seed], **options
    )
    bad = np.flatnonzero(result.regret[0] > 0.5)
    return len(bad), int(bad.max(initial=-1)) + 1, float(result.regret.sum())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 20, 50])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--episodes", type=int, default=1000)
    parser.add_argument("--undeclared", action="store_true")
    given = parser.parse_args()
    print(
        f"{'size':>4} {'rewards':>8} {'declared':>8}  bad episodes (least, median, most)  last bad  regret  s per seed"
    )
    for size in given.sizes:
        for rewards in ("known", "learned"):
            for declared in (True, False)[: 1 + given.undeclared]:
                options = {"deterministic": declared, "known_reward": rewards == "known"}
                began = time.perf_counter()
                runs = [run(size, FIRST + i, given.episodes, **options) for i in range(given.seeds)]
                each = (time.perf_counter() - began) / given.seeds
                counts, last, regret = zip(*runs, strict=True)
                spread = f"{min(counts)}, {np.median(counts):g}, {max(counts)}"
                row = f"{size:4} {rewards:>8} {declared!s:>8}  {spread:^34}  {max(last):8}  {np.mean(regret):6.1f}"
                print(f"{row}  {each:10.1f}", flush=True)


if __name__ == "__main__":
    main()
