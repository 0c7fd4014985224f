"""What the cases share: play the learners, compare them with the usual policies of the field, print and draw.

A case is an environment with a known P, so that every value is exact, and the policies that practitioners would use.
`main` runs it from the command line. Seeds begin at 1,000, and nothing was tuned on them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import matrixrl
from matrixrl.colours import REFERENCE, look
from matrixrl.envs import policy_value
from matrixrl.plots.style import add_grid, draw_curve, require_matplotlib
from usual_policies import policy_log

FIRST_SEED = 1000
STRETCH = 20  # episodes over which values are averaged
MATRIX_RL: dict[str, dict[str, Any]] = {f"MatrixRL, {name}": {"preset": name} for name in ("tuned", "optimistic")}
BASELINES: dict[str, dict[str, Any]] = {
    "PSRL, tuned": {"agent": "psrl", "preset": "tuned"},
    "UCRL2, tuned": {"agent": "ucrl2", "preset": "tuned"},
}


@dataclass(frozen=True)
class Case:
    """A decision problem and how it is compared.

    Attributes:
        env: Name of the environment.
        title: Title of the picture.
        unit: What the value of a policy is, for the axis of the picture.
        usual: Function of the environment that returns the usual policies by name; the first one is the incumbent.
        learners: Arguments of `run_seeds` for each learner, by name.
        settings: Settings of all learners.
        certified: Settings of the agent whose policy is certified, besides those.
        n_logged: Number of simulated episodes of the incumbent that this agent learns from before it plays, as from the
            records of those who use it; 0 for none.
        episodes: Default number of episodes.
        digits: Digits after the decimal point.
    """

    env: str
    title: str
    unit: str
    usual: Callable[[Any], Mapping[str, Any]]
    learners: Mapping[str, dict[str, Any]] = field(default_factory=lambda: MATRIX_RL | BASELINES)
    settings: Mapping[str, Any] = field(default_factory=dict)
    certified: Mapping[str, Any] = field(default_factory=lambda: MATRIX_RL["MatrixRL, tuned"])
    n_logged: int = 0
    episodes: int = 2000
    digits: int = 1


@dataclass(frozen=True)
class Certified:
    """What one agent could prove while it played.

    Attributes:
        agent: The agent after its last episode.
        episodes: (m,) Numbers of episodes at which certificates were taken.
        lower: (m,) Certified lower bound on the value of the recommended policy.
        upper: (m,) Certified upper bound on V*.
    """

    agent: matrixrl.Agent
    episodes: Any
    lower: Any
    upper: Any


def main(case: Case) -> None:
    """Play a case with the arguments of the command line."""
    parser = argparse.ArgumentParser(description=case.title)
    parser.add_argument("--episodes", type=int, default=case.episodes, help=f"episodes (default: {case.episodes})")
    parser.add_argument("--seeds", type=int, default=8, help=f"number of seeds, from {FIRST_SEED} on (default: 8)")
    parser.add_argument("--out", type=Path, default=Path("out/cases"), help="folder of the picture")
    given = parser.parse_args()
    env = matrixrl.make(case.env)
    usual, optimum = case.usual(env), matrixrl.solve(env.unwrapped.mdp).start_value
    seeds = list(range(FIRST_SEED, FIRST_SEED + given.seeds))
    results = {
        name: matrixrl.run_seeds(case.env, n_episodes=given.episodes, seeds=seeds, **case.settings, **arguments)
        for name, arguments in case.learners.items()
    }
    certified = certify(case, env, next(iter(usual.values())), seeds[0], given.episodes)
    console = Console()
    console.width = max(console.width, 160)
    console.print(values_table(case, env, usual, results, optimum))
    console.print(certificate_table(case, env, usual, certified))
    given.out.mkdir(parents=True, exist_ok=True)
    path = given.out / f"{case.env}.png"
    draw(case, env, usual, results, certified, path)
    console.print(f"picture: {path}")


def certify(case: Case, env: Any, incumbent: Any, seed: int, n_episodes: int) -> Certified:
    """Play one agent, after the records of the incumbent, and take a certificate of its policy now and then."""
    agent = matrixrl.MatrixRL(case.env, seed=seed, n_episodes=n_episodes, **case.settings, **case.certified)
    if case.n_logged:
        agent.learn_from(policy_log(env.unwrapped.mdp, incumbent, case.n_logged, seed), verbose=False)
    episodes = np.unique(np.geomspace(1, n_episodes, 25).round().astype(int))
    bounds = []
    for n in episodes:
        agent.learn(int(n) - agent.n_episodes)
        certificate = agent.recommend().certificate
        assert certificate is not None
        bounds.append((certificate.lower, certificate.upper))
    lower, upper = np.array(bounds).T
    return Certified(agent, episodes, lower, upper)


def values_table(case: Case, env: Any, usual: Mapping[str, Any], results: Mapping[str, Any], optimum: float) -> Table:
    """Return the values of the usual policies and of what the learners play in the end."""
    d, mdp = case.digits, env.unwrapped.mdp
    incumbent = policy_value(mdp, next(iter(usual.values())))
    seeds, n = next(iter(results.values())).returns.shape
    end = max(1, n // 10)
    title = f"{case.env}: {n:,} episodes of {mdp.horizon} steps, {seeds} seeds, from {FIRST_SEED} on"
    table = Table(title=title, box=box.MARKDOWN)
    words = f"value in the last {end:,} episodes"
    for column in ("policy", words, "loss against V*", "regret of all episodes", "better than usual from"):
        table.add_column(column, justify="left" if column == "policy" else "right")
    table.add_row("best possible, V*", f"{optimum:,.{d}f}", "0", "–", "–")
    for name, policy in usual.items():
        value = policy_value(mdp, policy)
        regret = f"{n * (optimum - value):,.{min(d, 1)}f}"
        table.add_row(f"usual: {name}", f"{value:,.{d}f}", share(optimum - value, optimum), regret, "–")
    for name, result in results.items():
        values = optimum - result.regret[:, -end:].mean(axis=1)
        spread = f" ± {values.std(ddof=1) / np.sqrt(seeds):,.{d}f}" if seeds > 1 else ""
        table.add_row(
            name,
            f"{values.mean():,.{d}f}{spread}",
            share(optimum - values.mean(), optimum),
            f"{result.final_regret.mean():,.{min(d, 1)}f}",
            first_better(optimum - result.regret.mean(axis=0), incumbent),
        )
    return table


def share(loss: float, optimum: float) -> str:
    """Return a loss as a share of |V*|."""
    return f"{100.0 * loss / abs(optimum):.1f} %"


def first_better(values: Any, incumbent: float) -> str:
    """Return the episode from which stretches of episodes are better than the incumbent, all of them to the end."""
    length = min(STRETCH, len(values))
    whole = len(values) // length
    means = values[-whole * length :].reshape(whole, length).mean(axis=1)
    worse = np.flatnonzero(means <= incumbent)
    if len(worse) and worse[-1] == whole - 1:
        return "not yet"
    first = len(values) - whole * length + (int(worse[-1]) + 1) * length if len(worse) else 0
    return f"episode {first + 1:,}"


def certificate_table(case: Case, env: Any, usual: Mapping[str, Any], certified: Certified) -> Table:
    """Return what is proven about the recommended and the greedy policy, and how they compare with the usual one."""
    d, mdp, agent = case.digits, env.unwrapped.mdp, certified.agent
    name, incumbent = next(iter(usual.items()))
    logged = f" and {agent.n_logged_episodes:,} logged ones" if agent.n_logged_episodes else ""
    title = f"seed {agent.seed}, after {agent.n_episodes:,} episodes{logged}: what is proven (δ = 0.05)"
    table = Table(title=title, box=box.MARKDOWN)
    for column in ("policy", "value", "certified value", "V* at most", f"more than {name}", "verdict"):
        table.add_column(column, justify="left" if column in ("policy", "verdict") else "right")
    for label, policy in (("recommended", agent.recommend()), ("greedy", agent.greedy())):
        shown, verdict = policy.certificate, agent.compare(policy, incumbent)
        assert shown is not None
        words = "better" if verdict.probably_better else "worse" if verdict.probably_worse else "more data are needed"
        value = policy_value(mdp, policy)
        table.add_row(
            label,
            f"{value:,.{d}f}",
            f"≥ {shown.lower:,.{d}f}",
            f"{shown.upper:,.{d}f}",
            f"{verdict.lower:,.{d}f} to {verdict.upper:,.{d}f} (truth {value - policy_value(mdp, incumbent):,.{d}f})",
            words if verdict.guarantee else str(verdict.guarantee),
        )
    return table


def draw(
    case: Case, env: Any, usual: Mapping[str, Any], results: Mapping[str, Any], certified: Certified, path: Path
) -> None:
    """Draw the values of the played policies against episodes, with the usual policy, V* and the certificates."""
    require_matplotlib()
    from matplotlib.figure import Figure  # slow to import, and optional

    mdp = env.unwrapped.mdp
    optimum = matrixrl.solve(mdp).start_value
    name, incumbent = next(iter(usual.items()))
    figure = Figure(figsize=(8.0, 4.0), layout="constrained")
    axes = figure.subplots()
    edges = (certified.lower, certified.upper)
    axes.fill_between(certified.episodes, *edges, color=REFERENCE, alpha=0.18, linewidth=0, label="certificate")
    lowest = policy_value(mdp, incumbent)
    for i, (label, result) in enumerate(results.items()):
        values, n = optimum - result.regret, result.n_episodes
        ends = np.unique(np.geomspace(1, n, 40).round().astype(int))
        starts = np.append(0, ends[:-1])
        means = np.add.reduceat(values, starts, axis=1) / np.diff(np.append(starts, n))
        mean = means.mean(axis=0)
        lowest = min(lowest, float(np.quantile(mean, 0.25)))  # the first episodes may be far below
        draw_curve(axes, ends, mean, (means.min(axis=0), means.max(axis=0)), look(i), label=label, line_width=1.5)
    axes.axhline(optimum, color="black", linewidth=1.0, label="V*")
    axes.axhline(policy_value(mdp, incumbent), color="black", linewidth=1.0, linestyle=":", label=name)
    axes.set_xscale("log")
    axes.set_ylim(lowest - 0.1 * (optimum - lowest), optimum + 0.4 * (optimum - lowest))
    axes.set_xlabel("episode")
    axes.set_ylabel(case.unit)
    axes.set_title(case.title, fontsize=11)
    add_grid(axes)
    figure.legend(fontsize=8, loc="outside right upper", frameon=False)
    figure.savefig(path, dpi=110, format="png")
