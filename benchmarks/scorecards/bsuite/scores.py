"""The scorecard of bsuite: scores by experiment and by tag, kept as CSV."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scorecards.bsuite.ids import EXPERIMENTS, TAGS
from scorecards.results import read_records

__all__ = ["Score", "agents_of", "by_tag", "published_scores", "scores_of"]


@dataclass(frozen=True)
class Score:
    """The score of one agent in one experiment.

    Attributes:
        agent: Name of the agent.
        experiment: Name of the experiment.
        score: Score in [0, 1] by bsuite's analysis.
        tags: Tags of the experiment, separated by spaces.
        ids: Numbers of the settings that were run, separated by spaces.
        episodes: Episodes of each run; the fewest if they differ.
        of: Episodes that bsuite asks for.
        learners: What played, separated by spaces.
        seconds: Time of all runs.
    """

    agent: str
    experiment: str
    score: float
    tags: str
    ids: str
    episodes: int
    of: int
    learners: str
    seconds: float

    @property
    def is_whole(self) -> bool:
        """Whether all episodes that bsuite asks for were played."""
        return self.episodes == self.of


def scores_of(told: Iterable[dict[str, Any]]) -> list[Score]:
    """Return the scores that a worker told, in the order of the experiments."""
    found = [
        Score(
            agent=answer["agent"],
            experiment=answer["experiment"],
            score=round(answer["score"], 4),
            tags=" ".join(answer["tags"]),
            ids=" ".join(map(str, sorted(answer["ids"]))),
            episodes=answer["episodes"][0],
            of=answer["episodes"][1],
            learners=" ".join(answer["learners"]),
            seconds=round(answer["seconds"], 1),
        )
        for answer in told
        if "experiment" in answer
    ]
    return sorted(found, key=lambda score: EXPERIMENTS.index(score.experiment))


def published_scores(experiments: Iterable[str]) -> list[Score]:
    """Return the scores that bsuite's authors published of their agents in some experiments.

    They are heights of the bars of reports/standalone/images/bar_plot.png in bsuite's repository, in pixels (a score of
    1 has 123); bsuite publishes no table of them. The agents are bootstrapped DQN, DQN and an actor-critic with a
    recurrent network, in all settings of all experiments.
    """
    wanted = set(experiments)
    found: list[Score] = read_records(Path(__file__).with_name("published.csv"), Score)
    return [score for score in found if score.experiment in wanted]


def agents_of(scores: Iterable[Score]) -> list[str]:
    """Return the agents, in the order in which they come."""
    return list(dict.fromkeys(score.agent for score in scores))


def by_tag(scores: Iterable[Score]) -> dict[str, dict[str, float]]:
    """Return the mean score over the experiments with each tag, by agent, as bsuite's radar plot has it.

    >>> one = {"agent": "a", "ids": "0", "episodes": 1, "of": 1, "learners": "", "seconds": 0.0}
    >>> sea = Score(experiment="deep_sea_stochastic", score=0.5, tags="exploration noise", **one)
    >>> arm = Score(experiment="bandit_noise", score=1.0, tags="noise", **one)
    >>> by_tag([sea, arm])
    {'a': {'noise': 0.75, 'exploration': 0.5}}
    """
    scores = list(scores)
    found: dict[str, dict[str, float]] = {}
    for agent in agents_of(scores):
        for tag in TAGS:
            own = [score.score for score in scores if score.agent == agent and tag in score.tags.split()]
            if own:
                found.setdefault(agent, {})[tag] = sum(own) / len(own)
    return found
