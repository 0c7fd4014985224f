"""What tests of pictures share: agents that have learned, and what a picture holds."""

from __future__ import annotations

from functools import cache

import matrixrl


@cache
def river_agent():
    """An agent on a river of four states with the likelihood set, after certified episodes."""
    agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 12}, seed=0)
    agent.learn(n_episodes=60, certify=True)
    return agent


@cache
def ball_agent():
    """The same river with the normalised ball."""
    agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 12}, set="normalised", seed=0)
    agent.learn(n_episodes=60)
    return agent


@cache
def results():
    """Results of two agents on three seeds."""
    return {
        name: matrixrl.run_seeds("river-swim", n_episodes=40, seeds=3, agent=name, certify=name == "matrix-rl")
        for name in ("matrix-rl", "psrl")
    }


def labels(axes):
    """Return the names in the legend."""
    return [text.get_text() for text in axes.get_legend().get_texts()]
