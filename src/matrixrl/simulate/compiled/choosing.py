"""Choice of the player of compiled episodes for an algorithm."""

from __future__ import annotations

from matrixrl.algorithms import Algorithm, UCMatrixRL
from matrixrl.algorithms.matrix_rl import IndicatorMatrixRL
from matrixrl.problems import FiniteMDP
from matrixrl.simulate.compiled.ball_player import BallPlayer, why_not_balls
from matrixrl.simulate.compiled.likelihood_player import LikelihoodPlayer, why_not_lists
from matrixrl.simulate.compiled.player import CompiledPlayer, why_not_this_mdp

__all__ = ["compiled_player", "why_not_compiled"]


def why_not_compiled(mdp: FiniteMDP | None, algorithm: Algorithm, n_episodes: int) -> str | None:
    """Return why whole episodes are not compiled, or None if they are."""
    if mdp is None:
        return "P is not known"
    if isinstance(algorithm, UCMatrixRL):
        return why_not_balls(algorithm, mdp, n_episodes) or why_not_this_mdp(mdp, algorithm)
    if isinstance(algorithm, IndicatorMatrixRL):
        return why_not_lists(algorithm, mdp) or why_not_this_mdp(mdp, algorithm)
    return "only matrix-rl with all its columns has compiled episodes"


def compiled_player(
    mdp: FiniteMDP, algorithm: Algorithm, optimal_value: float | None, *, certify: bool
) -> CompiledPlayer:
    """Return the player of an algorithm for which `why_not_compiled` returns None.

    Args:
        mdp: The MDP that is played.
        algorithm: The algorithm, started on the MDP.
        optimal_value: V*(s0), for regret; None to measure none.
        certify: Whether to certify every episode.
    """
    if isinstance(algorithm, IndicatorMatrixRL):
        return LikelihoodPlayer(mdp, algorithm, optimal_value, certify=certify)
    assert isinstance(algorithm, UCMatrixRL)
    return BallPlayer(mdp, algorithm, optimal_value, certify=certify)
