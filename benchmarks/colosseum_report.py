"""Tables and picture of `benchmarks/colosseum.py`, from the numbers that it keeps."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.colours import COLOURS

Results = Sequence[dict[str, Any]]

ORDER = (
    "default",
    "optimistic",
    "tuned",
    "psrl",
    "ucbvi",
    "ucbvi-bf",
    "q-learning",
    "optimistic (R known)",
    "tuned (R known)",
    "ucbvi (paper)",
    "q-learning (paper)",
)
"""Columns of the tables."""

LOOKS = {
    "default": (COLOURS[4], "X"),
    "tuned": (COLOURS[0], "o"),
    "optimistic": (COLOURS[6], "D"),
    "psrl": (COLOURS[1], "s"),
    "ucbvi": (COLOURS[2], "^"),
    "ucbvi-bf": (COLOURS[5], "v"),
    "q-learning": (COLOURS[3], "P"),
}
"""Colour and marker of the agents of the picture, from the top of a row to its bottom."""

NAMES = {name: f"MatrixRL {name}" for name in ("default", "tuned", "optimistic")}
NAMES |= {"psrl": "PSRL", "ucbvi": "UCBVI", "ucbvi-bf": "UCBVI-BF", "q-learning": "Q-learning"}


def short(mdp: str) -> str:
    """Return the name of an MDP as rows show it.

    >>> short("ergodic-TaxiEpisodic-prms_0")
    'Taxi 0, ergodic'
    """
    kind, family, number = mdp.split("-")
    return f"{family.removesuffix('Episodic')} {number.removeprefix('prms_')}, {kind}"


def by_mdp(results: Results) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the results by MDP, smallest number of states first, and by agent."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for result in sorted(results, key=lambda r: (r["sizes"][0], r["asked"]["mdp"])):
        rows.setdefault(result["asked"]["mdp"], {})[result["asked"]["agent"]] = result
    return rows


def mean_share(result: dict[str, Any], n: int) -> float:
    """Return the share of uniform play's regret after n episodes, mean over seeds."""
    return float(np.mean(shares_of(result, n)))


def shares_of(result: dict[str, Any], n: int) -> list[float]:
    """Return the share of uniform play's regret after n episodes, for each seed."""
    return [run["share"][str(n)] for run in result["runs"].values()]


def median_within(result: dict[str, Any]) -> float:
    """Return the median over seeds of the episodes to 5 %, infinite if too many seeds never come so close."""
    return float(np.median([math.inf if run["within"] is None else run["within"] for run in result["runs"].values()]))


def episodes_text(n: float) -> str:
    """Return a number of episodes as the table shows it."""
    return f"{n:,.0f}" if math.isfinite(n) else "> 10,000"


def share_text(value: float) -> str:
    """Return a share with two digits that count."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.3f}" if value >= 0.01 else f"{value:.4f}"


def line(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def head(cells: Sequence[str]) -> list[str]:
    """Return the heading of a Markdown table."""
    return [line(cells), "|---" * len(cells) + "|"]


def is_rival(agent: str) -> bool:
    """Return whether an agent is compared with the others: those that know the rewards are not."""
    return "known" not in agent


def summary(results: Results) -> str:
    """Return the tables in Markdown: shares, episodes to 5 %, and what was found about optimism."""
    rows = by_mdp(results)
    agents = [name for name in ORDER if any(name in row for row in rows.values())]
    return "\n\n".join(
        ["\n".join(_shares(rows, agents, n)) for n in (1_000, 10_000)]
        + ["\n".join(_episodes(rows, agents)), "\n".join(_optimism(results)), "\n".join(_best(rows))]
    )


def _shares(rows: dict[str, dict[str, dict[str, Any]]], agents: Sequence[str], n: int) -> list[str]:
    """Return the table of shares after n episodes; the least of those with learned rewards is bold."""
    lines = [f"Share of uniform play's regret after {n:,} episodes", "", *head(["MDP", "S, A, H", "seeds", *agents])]
    for mdp, row in rows.items():
        first = next(iter(row.values()))
        values = {name: mean_share(row[name], n) for name in agents if name in row}
        least = min((v for name, v in values.items() if is_rival(name)), default=-1.0)
        cells = []
        for name in agents:
            text = share_text(values[name]) if name in values else "–"
            cells.append(f"**{text}**" if is_rival(name) and values.get(name) == least else text)
        sizes = ", ".join(str(size) for size in first["sizes"])
        lines.append(line([short(mdp), sizes, str(len(first["runs"])), *cells]))
    complete = [all(name in row for row in rows.values()) for name in agents]
    kinds = {"mean": np.mean, "geometric mean": lambda shares: np.exp(np.mean(np.log(shares)))}
    for kind, average in kinds.items():
        found = [
            share_text(float(average([mean_share(row[name], n) for row in rows.values()]))) if whole else "–"
            for name, whole in zip(agents, complete, strict=True)
        ]
        lines.append(line([kind, "", "", *found]))
    return lines


def _episodes(rows: dict[str, dict[str, dict[str, Any]]], agents: Sequence[str]) -> list[str]:
    """Return the table of episodes until policies are within 5 % of V*."""
    lines = ["Episodes until within 5 % of V*", "", *head(["MDP", "V*", "uniform", *agents])]
    for mdp, row in rows.items():
        first = next(iter(row.values()))
        cells = [episodes_text(median_within(row[name])) if name in row else "–" for name in agents]
        values = [f"{first[name]:.3g}" for name in ("optimal_value", "uniform_value")]
        lines.append(line([short(mdp), *values, *cells]))
    counts = [sum(math.isfinite(median_within(row[name])) for row in rows.values() if name in row) for name in agents]
    lines.append(line(["MDPs within 5 %", "", "", *(str(count) for count in counts)]))
    return lines


def _optimism(results: Results) -> list[str]:
    """Return whether all plans of agents with a proof were optimistic."""
    lines = []
    for name in ("optimistic", "optimistic (R known)"):
        found = [r for r in results if r["asked"]["agent"] == name]
        if not found:
            continue
        optimistic = sum(all(run["optimistic_share"] == 1.0 for run in r["runs"].values()) for r in found)
        proven = sum(all(run["guarantee"]["holds"] for run in r["runs"].values()) for r in found)
        lines.append(f"{name}: optimistic in every episode on {optimistic} of {len(found)} MDPs, proven on {proven}")
    return lines


def _best(rows: dict[str, dict[str, dict[str, Any]]]) -> list[str]:
    """Return the MDPs where `tuned` has not the least share of those that learn rewards, with standard errors."""
    lines = []
    for n in (1_000, 10_000):
        for mdp, row in rows.items():
            if "tuned" not in row:
                return []
            own = mean_share(row["tuned"], n)
            for name, other in row.items():
                if is_rival(name) and mean_share(other, n) < own:
                    lines.append(
                        f"{short(mdp)}, {n:,} episodes: tuned {with_error(row['tuned'], n)}, "
                        f"{name} {with_error(other, n)}"
                    )
    return lines or ["tuned has the least regret on every MDP, after 1,000 and after 10,000 episodes"]


def with_error(result: dict[str, Any], n: int) -> str:
    """Return a mean share with its standard error over seeds."""
    shares = np.array(shares_of(result, n))
    error = shares.std(ddof=1) / math.sqrt(len(shares)) if len(shares) > 1 else math.nan
    return f"{shares.mean():.4f} ± {error:.4f}"


def draw(results: Results, path: Path) -> None:
    """Draw the shares after 1,000 (light) and 10,000 episodes (solid), one row for each MDP, on a logarithmic axis."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    rows = by_mdp(results)
    agents = [name for name in LOOKS if any(name in row for row in rows.values())]
    figure = Figure(figsize=(9.0, 1.6 + 0.46 * len(rows)), layout="constrained")
    axes = figure.subplots()
    for y, row in enumerate(rows.values()):
        if y % 2:
            axes.axhspan(y - 0.5, y + 0.5, color="#f2f2f2", linewidth=0, zorder=0)
        for k, name in enumerate(agents):
            if name not in row:
                continue
            colour, marker = LOOKS[name]
            at = y + 0.68 * ((k + 0.5) / len(agents) - 0.5)
            early, late = (mean_share(row[name], n) for n in (1_000, 10_000))
            axes.plot([early, late], [at, at], color=colour, alpha=0.3, linewidth=1.0, zorder=1)
            axes.plot(early, at, marker, color=colour, alpha=0.35, markersize=4, markeredgewidth=0, zorder=2)
            axes.plot(late, at, marker, color=colour, markersize=5, markeredgewidth=0, zorder=3)
    axes.axvline(1.0, color="#666666", linewidth=0.8, linestyle=(0, (4, 3)), zorder=1)
    axes.text(1.0, -0.6, "uniform play ", ha="right", va="bottom", fontsize=8, color="#444444")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [f"{short(mdp)}  (S={_states(row)})" for mdp, row in rows.items()], fontsize=8.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("regret as a share of uniform play's: after 1,000 episodes (light) and after 10,000 (solid)")
    axes.grid(axis="x", color="#dddddd", linewidth=0.6, zorder=0)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    handles = [
        Line2D([], [], color=LOOKS[name][0], marker=LOOKS[name][1], linestyle="", markersize=6, label=NAMES[name])
        for name in agents
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(handles), frameon=False, fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def _states(row: dict[str, dict[str, Any]]) -> int:
    """Return the number of states of an MDP."""
    return int(next(iter(row.values()))["sizes"][0])
