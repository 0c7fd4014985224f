"""Several settings of an agent on the same environment and the same seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from matrixrl.simulate import RunResult, Simulation

__all__ = ["Contender", "compare_settings"]


@dataclass(frozen=True)
class Contender:
    """One line of a comparison: a label and the settings behind it."""

    label: str
    settings: dict[str, Any] = field(default_factory=dict)
    agent: str = "matrix-rl"


def compare_settings(
    env: str,
    contenders: Sequence[Contender],
    *,
    n_episodes: int,
    seeds: Sequence[int],
    env_settings: dict[str, Any] | None = None,
    progress: bool = False,
) -> Iterator[tuple[str, RunResult]]:
    """Yield (label, result) as each contender finishes; an interrupt still yields what was played.

    >>> both = [Contender("paper", {"set": "frobenius"}), Contender("ours")]
    >>> [label for label, _ in compare_settings("river-swim", both, n_episodes=2, seeds=[0])]
    ['paper', 'ours']
    """
    for contender in contenders:
        simulation = Simulation(
            env,
            n_episodes=n_episodes,
            seeds=seeds,
            agent=contender.agent,
            settings=contender.settings,
            env_settings=env_settings,
        )
        try:
            result = simulation.run(progress=progress, label=contender.label)
        except KeyboardInterrupt:
            yield contender.label, simulation.result()
            raise
        yield contender.label, result
