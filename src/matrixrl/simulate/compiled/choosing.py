"""Choice of the player of compiled episodes for an algorithm."""

from __future__ import annotations

from matrixrl.algorithms import Algorithm, UCMatrixRL
from matrixrl.algorithms.matrix_rl import IndicatorMatrixRL
from matrixrl.problems import FiniteMDP
from matrixrl.simulate.compiled.ball_player import BallPlayer, why_not_balls
from matrixrl.simulate.compiled.likelihood_player import LikelihoodPlayer, why_not_lists
from matrixrl.simulate.compiled.player import CompiledPlayer

__all__ = ["compiled_player", "why_not_compiled"]


def why_not_compiled(mdp: FiniteMDP | None, algorithm: Algorithm, n_episodes: int) -> str | None:
    """Return why whole episodes are not compiled, or None if they are."""
    if mdp is None:
        return "P is not known"
    if isinstance(algorithm, UCMatrixRL):
        reason = why_not_balls(algorithm, mdp, n_episodes)
    elif isinstance(algorithm, IndicatorMatrixRL):
        reason = why_not_lists(algorithm)
    else:
        return "only matrix-rl with all its columns has compiled episodes"
    if reason is None and mdp.transitions.most_successors() is None:
        return "P is not given as a table"
    return reason


def compiled_player(
    mdp: FiniteMDP, algorithm: Algorithm, regret: tuple[float, int] | None, *, certify: bool
) -> CompiledPlayer:
    """Return the player of an algorithm for which `why_not_compiled` returns None.

    Args:
        mdp: The MDP that is played.
        algorithm: The algorithm, started on the MDP.
        regret: V*(s0), and the number of episodes from one in which regret is measured to the next; None to measure
            none.
        certify: Whether to certify every episode.
    """
    if isinstance(algorithm, IndicatorMatrixRL):
        return LikelihoodPlayer(mdp, algorithm, regret, certify=certify)
    assert isinstance(algorithm, UCMatrixRL)
    return BallPlayer(mdp, algorithm, regret, certify=certify)
