"""The scorecard on Colosseum's episodic MDPs: normalised cumulative regret after 500,000 steps, beside the hardness."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from matrixrl.play import run_seeds
from matrixrl.problems import FiniteMDP, solve
from matrixrl.records import FloatArray
from scorecards.hardness import hardness
from scorecards.results import once
from scorecards.tables import read_table, uniform_value, worst_value

__all__ = ["AGENTS", "N_STEPS", "OURS", "PlayedSeeds", "Player", "Row", "play_tables"]

N_STEPS = 500_000
"""Steps of a run in Colosseum's benchmark."""
FIRST_SEED = 200

AGENTS: dict[str, dict[str, Any]] = {
    "tuned": {"preset": "tuned", "known_reward": False, "switch_growth": 0.1},
    "optimistic": {"preset": "optimistic", "known_reward": False, "switch_growth": 0.1},
    "psrl": {"agent": "psrl", "preset": "tuned", "known_reward": False},
    "q-learning": {"agent": "q-learning", "preset": "tuned", "known_reward": False},
}
"""Settings of `run_seeds` by the name of the column; PSRL and Q-learning are this library's own."""


class PlayedSeeds(NamedTuple):
    """What a player returns.

    Attributes:
        regret: (K,) Mean over episodes of V* − V^π at the start, for each seed.
        seconds: CPU time of one seed.
        advised: Mean of the same difference of the policies that the agent advised; NaN if it plays what it advises.
    """

    regret: FloatArray
    seconds: float
    advised: float = math.nan


@dataclass(frozen=True)
class Player:
    """Agents and how they are played.

    Attributes:
        settings: Settings by the name of the agent.
        play: Function of an MDP, settings, the number of episodes and the seeds.
        packages: Distributions whose versions are kept with a result.
    """

    settings: Mapping[str, dict[str, Any]]
    play: Callable[[FiniteMDP, dict[str, Any], int, Sequence[int]], PlayedSeeds]
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class Row:
    """The result of one agent on one MDP.

    Attributes:
        mdp: Name of the table.
        states: Number of states.
        actions: Number of actions.
        horizon: Steps of an episode.
        agent: Name of the agent.
        seeds: Number of seeds.
        steps: Steps that were played.
        regret: Normalised cumulative regret divided by the number of episodes: the mean over episodes and seeds of
            (V* − V^π) / (V* − V of the worst policy). 0 is the best policy, 1 the worst.
        error: Standard error of the regret over seeds; NaN with one seed.
        advised: Regret as Colosseum's loop scores it, of the policy that an agent would advise and does not play; NaN
            where it was not computed.
        random: The regret of uniform play.
        diameter: Hardness: see `Hardness`.
        value_norm: Hardness: see `Hardness`.
        gaps: Hardness: see `Hardness`.
        seconds: CPU time of one seed.
    """

    mdp: str
    states: int
    actions: int
    horizon: int
    agent: str
    seeds: int
    steps: int
    regret: float
    error: float
    advised: float
    random: float
    diameter: float
    value_norm: float
    gaps: float
    seconds: float


def _play_ours(mdp: FiniteMDP, settings: dict[str, Any], n_episodes: int, seeds: Sequence[int]) -> PlayedSeeds:
    result = run_seeds(mdp, n_episodes=n_episodes, seeds=seeds, **settings)
    return PlayedSeeds(result.regret.mean(axis=1), float(np.sum(result.seconds)) / len(seeds))


OURS = Player(AGENTS, _play_ours)
"""The agents of this library."""


def play_tables(
    paths: Sequence[Path],
    folder: Path,
    *,
    agents: Sequence[str],
    n_steps: int = N_STEPS,
    n_seeds: int = 1,
    player: Player = OURS,
) -> Iterator[tuple[str, str, Row | None]]:
    """Play what is missing, and yield MDP, agent and, once it is there, the row.

    Args:
        paths: Tables.
        folder: Where results are kept.
        agents: Names in the settings of the player.
        n_steps: Steps of a run; whole episodes are played.
        n_seeds: Number of seeds; a result with more seeds that was kept is used.
        player: What plays.
    """
    for agent in agents:
        for path in paths:
            yield path.stem, agent, None
            data = {"data": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}
            problem = once(folder / path.stem / "problem.json", {**data, "measures": 1}, partial(_problem, path))
            asked = {**data, "settings": player.settings[agent], "n_steps": n_steps, "n_seeds": n_seeds}
            play = partial(_played, path, agent, n_steps, n_seeds, player, problem["range"])
            file = folder / path.stem / f"{agent.replace(' ', '-')}.json"
            row = once(file, asked, play, at_least=("n_seeds",), packages=player.packages)
            yield path.stem, agent, _row(path.stem, agent, problem, row)


def _problem(path: Path) -> dict[str, Any]:
    """Return what is known about an MDP before an agent plays it."""
    mdp = read_table(path)
    best, worst = solve(mdp).start_value, worst_value(mdp)
    return {
        "states": mdp.n_states,
        "actions": mdp.n_actions,
        "horizon": mdp.horizon,
        "range": best - worst,
        "random": (best - uniform_value(mdp)) / (best - worst),
        **asdict(hardness(mdp)),
    }


def _played(path: Path, agent: str, n_steps: int, n_seeds: int, player: Player, scale: float) -> dict[str, Any]:
    """Play the seeds of one agent on one MDP."""
    mdp = read_table(path)
    n_episodes = max(1, n_steps // mdp.horizon)
    played = player.play(mdp, player.settings[agent], n_episodes, range(FIRST_SEED, FIRST_SEED + n_seeds))
    regrets = np.asarray(played.regret) / scale
    return {
        "seeds": n_seeds,
        "steps": n_episodes * mdp.horizon,
        "regret": float(regrets.mean()),
        "regrets": regrets.tolist(),
        "advised": None if math.isnan(played.advised) else played.advised / scale,
        "seconds": round(played.seconds, 2),
    }


def _row(mdp: str, agent: str, problem: dict[str, Any], played: dict[str, Any]) -> Row:
    regrets = played.get("regrets", [])  # older files have the mean alone
    error = float(np.std(regrets, ddof=1)) / len(regrets) ** 0.5 if len(regrets) > 1 else math.nan
    advised = played.get("advised")
    known = {name: value for name, value in problem.items() if name != "range"}
    return Row(
        mdp=mdp,
        agent=agent,
        error=error,
        advised=math.nan if advised is None else advised,
        **known,
        **{name: played[name] for name in ("seeds", "steps", "regret", "seconds")},
    )
