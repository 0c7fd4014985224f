"""Certificates that carry their witness: what the checker says of valid ones and of ones that were changed.

python benchmarks/witness.py valid         1,000 certificates of small random problems: all must be accepted
python benchmarks/witness.py tampered      1,000 with one number changed so that more is claimed: all must be refused
python benchmarks/witness.py damaged       1,000 with one number, anywhere, changed without a new digest: likewise
python benchmarks/witness.py time          seconds that saving and checking take on larger problems

Seeds begin at 3,000, and nothing was tuned on them.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl import Features, FiniteMDP, KnownDynamics, MatrixRL, check
from matrixrl.problems import tabular

FIRST_SEED = 3000


def random_agent(rng: np.random.Generator) -> MatrixRL:
    """Return an agent that has played a few episodes of a small random problem of a random kind."""
    n, m, horizon, seed = (
        int(rng.integers(2, 7)),
        int(rng.integers(2, 4)),
        int(rng.integers(1, 6)),
        int(rng.integers(99)),
    )
    low = float(rng.choice([0.0, -2.0, 1.5]))
    options: dict[str, Any] = {"reward_range": (low, low + float(rng.choice([1.0, 7.5])))}
    ends, settings = options["reward_range"], {"preset": str(rng.choice(["optimistic", "tuned"])), "seed": seed}
    law, reward = rng.dirichlet(np.full(n, 0.4), size=(n, m)), rng.uniform(*ends, size=(n, m))
    kind = str(rng.choice(["plain", "learned", "mask", "groups", "discount", "endless", "end", "stages", "dynamics"]))
    if kind == "dynamics":
        size = n, m, 4
        following, paid = rng.integers(n, size=size), rng.uniform(*ends, size=size).round(2)
        laws = rng.integers(2, size=(n, m))
        laws.ravel()[:2] = 0, 1
        problem: Any = KnownDynamics(
            lambda s, a, w: (int(following[s, a, w]), float(paid[s, a, w])),
            outcomes=4,
            n_states=n,
            n_actions=m,
            laws=laws,
            law=rng.dirichlet(np.ones(4), size=2),
            horizon=horizon,
            start=0,
        )
    else:
        start = [0, rng.dirichlet(np.ones(n)), None][int(rng.integers(3))]
        if kind == "mask":
            allowed = rng.random((n, m)) < 0.6
            allowed[:, 0] = True
            options["allowed"] = allowed
        elif kind == "groups":
            phi, half = np.zeros((n, m, 2 * m)), np.arange(n) % 2
            phi[np.arange(n)[:, None], np.arange(m), half[:, None] * m + np.arange(m)] = 1.0
            law, reward = law[half], reward[half]
            options["features"] = Features(phi, np.eye(n))
        elif kind == "discount":
            options["discount"] = 0.8
        elif kind == "endless":
            options |= {"discount": 0.6, "accuracy": 0.1}
            horizon = None
        elif kind == "end":
            options["reward_range"] = ends = -1.0, 2.0
            reward, law[-1] = rng.uniform(*ends, size=(n, m)), np.eye(n)[-1]
            reward[-1] = 0.0
            options["end_state"] = n - 1
            start = 0
        elif kind == "stages" and horizon > 1:
            law, reward = rng.dirichlet(np.full(n, 0.4), size=(horizon, n, m)), rng.uniform(*ends, size=(horizon, n, m))
            options["stage_dependent"] = True
        problem = FiniteMDP(law, reward, horizon, start=start, noisy_rewards=kind == "learned", **options)
        if kind == "learned" or rng.random() < 0.2:
            settings["known_reward"] = False
    if rng.random() < 0.2:
        settings["set"] = "likelihood"
    agent = MatrixRL(problem, **settings)
    n_episodes = int(rng.integers(0, 60))
    if n_episodes:
        agent.learn(n_episodes=n_episodes)
    return agent


def random_certificate(agent: MatrixRL, rng: np.random.Generator) -> Any:
    """Return one of the certificates of an agent."""
    which = int(rng.integers(4))
    if which == 0:
        return agent.certificate()
    if which == 1:
        return agent.recommend().certificate
    if which == 2:
        return agent.certify(agent.greedy())
    return agent.certificate(start=0)


def verdict(path: Path) -> tuple[int, str]:
    """Return the exit code of the checker, and what it prints."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        code = check.main([str(path)])
    return code, said.getvalue()


def forge(entries: dict[str, Any], rng: np.random.Generator) -> str:
    """Change one number so that more is claimed or nothing follows, renew the digests, and say what was changed."""
    step, witness, problem = 10.0 ** rng.uniform(-6, -1), entries["witness"], entries["problem"]
    size = problem["reward_range"][1] - problem["reward_range"][0]
    states = [s for s in range(problem["n_states"]) if s != problem["end_state"]]
    s, h = int(rng.choice(states)), int(rng.integers(problem["horizon"]))
    what = str(rng.choice(["upper", "lower", "value", "policy value", "delta", "share", "nu", "mask", "more"]))
    if what == "upper":
        entries["claim"]["upper"] -= step * size
    elif what == "lower":
        entries["claim"]["lower"] += step * size
    elif what == "value":
        witness["best"]["values"][h][s] -= min(step, witness["best"]["values"][h][s] + 1e-3)
    elif what == "policy value":
        witness["policy_lower"]["values"][h][s] += step
    elif what == "delta":
        entries["claim"]["delta"] *= 1.0 - step
    elif what == "share":
        name = str(rng.choice([name for name, share in entries["shares"].items() if share > 0.0]))
        entries["shares"][name] *= 1.0 + step
    elif what == "nu":
        numbers = witness["best"]["nu"][h] or witness["policy_lower"]["nu"][h]
        numbers[int(rng.integers(len(numbers)))] = -step
        if not entries["data"]["laws"]:
            entries["data"]["laws"].append([0, [0], [-1]])
    elif what == "mask":
        problem["allowed"] = [
            [int(a != entries["policy"][h][i]) for a in range(problem["n_actions"])] for i in range(problem["n_states"])
        ]
    else:
        entries["claim"]["upper"] = entries["claim"]["lower"] - step
    renew(entries)
    return what


def renew(entries: dict[str, Any]) -> None:
    """Give changed entries the digests that fit them."""
    entries["digests"] |= {name: check.digest(entries[name]) for name in ("data", "problem")}
    entries.pop("digest")
    entries["digest"] = check.digest(entries)


def damage(text: str, rng: np.random.Generator) -> str:
    """Return a text with one digit, anywhere, replaced by another one."""
    places = [i for i, c in enumerate(text) if c.isdigit()]
    i = int(rng.choice(places))
    return text[:i] + str((int(text[i]) + int(rng.integers(1, 10))) % 10) + text[i + 1 :]


def run(part: str, n: int, first_seed: int = FIRST_SEED) -> Counter[str]:
    """Check n certificates that are valid, tampered with or damaged, and count what the checker says."""
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        for k in range(n):
            rng = np.random.default_rng(first_seed + k)
            agent = random_agent(rng)
            certificate = random_certificate(agent, rng)
            certificate.save(path)
            what = "valid"
            if part == "tampered":
                entries = json.loads(path.read_text())
                what = forge(entries, rng)
                path.write_text(json.dumps(entries))
            elif part == "damaged":
                path.write_text(damage(path.read_text(), rng))
                what = "damaged"
            code, said = verdict(path)
            is_right = code == 0 if part == "valid" else code in (1, 2) and len(said.splitlines()) == 1
            found[f"{what}: {'accepted' if code == 0 else 'refused'}"] += 1
            if not is_right:
                print(f"seed {first_seed + k}: {what}: exit code {code}: {said}")
                found["wrong"] += 1
    return found


def measure() -> None:
    """Print how long saving and checking take, and how large files are."""
    for n, m, horizon, episodes in ((20, 3, 10, 1000), (100, 5, 10, 2000), (100, 5, 10, 20000)):
        for learned in (False, True):
            mdp = tabular(n_states=n, n_actions=m, horizon=horizon, seed=0).mdp
            agent = MatrixRL(mdp, seed=0, known_reward=not learned)
            agent.learn(n_episodes=episodes)
            certificate = agent.recommend().certificate
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "certificate.json"
                begin = time.perf_counter()
                certificate.save(path)
                saved, size = time.perf_counter() - begin, path.stat().st_size / 1e6
                begin = time.perf_counter()
                code, _ = verdict(path)
                took = time.perf_counter() - begin
            words = f"rewards {'learned' if learned else 'known'}, {episodes:,} episodes"
            print(
                f"S={n} A={m} H={horizon}, {words}: save {saved:.2f} s, {size:.2f} MB, check {took:.2f} s, code {code}"
            )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("valid", "tampered", "damaged", "time"))
    parser.add_argument("-n", type=int, default=1000)
    given = parser.parse_args()
    if given.part == "time":
        measure()
        return
    for what, times in sorted(run(given.part, given.n).items()):
        print(f"{what}: {times:,}")


if __name__ == "__main__":
    main()
