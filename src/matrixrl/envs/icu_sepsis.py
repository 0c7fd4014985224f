"""ICU-Sepsis: treatment of sepsis patients, from the tables of the package icu-sepsis. Not for medical practice."""

from __future__ import annotations

from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from matrixrl.errors import MatrixRLError, MissingExtra
from matrixrl.problems import FiniteMDP, MDPEnv
from matrixrl.records import BoolArray, FloatArray

__all__ = ["ICUSepsis", "clinicians_policy"]

_DEATH, _SURVIVAL, _END = 713, 714, 715
_LEVELS = 5  # doses of fluids and of vasopressors; there is one action for each pair of them


class ICUSepsis(MDPEnv):
    """Treatment of sepsis in intensive care (extra: cases); an action is a dose of fluids and one of vasopressors.

    The MDP of Choudhary, Gupta and Thomas (2024, ICU-Sepsis: A Benchmark MDP Built from Real Medical Data,
    Reinforcement Learning Journal 4), which was estimated from the records of MIMIC-III. Its tables are read from the
    package icu-sepsis. It is a benchmark of algorithms: as its authors stress, it should not be used to draw
    conclusions that guide medical practice.

    States 0 … 712 are those of patients under treatment, 713 is death and 714 is survival; one step leads from both to
    715, the end of the episode. That step earns 1 from survival and nothing else earns anything, so that the value of a
    policy is the probability of survival within `horizon` − 1 treatments. (The package pays on the step to survival,
    where the reward depends on the next state. A reward of a state and an action is the same one step later.) Action
    5·i + j is the dose i of fluids and j of vasopressors, from 0 to 4. The allowed actions are those that the package
    calls admissible: clinicians took them often enough to estimate what follows. Death and survival allow action 0.

    Args:
        horizon: Steps in an episode: the treatments, and one step for what they led to.

    Raises:
        MissingExtra: The package icu-sepsis is not installed.

    >>> import matrixrl
    >>> mdp = matrixrl.make("icu-sepsis").unwrapped.mdp
    >>> round(matrixrl.solve(mdp).start_value, 3)
    0.842
    """

    def __init__(self, horizon: int = 31) -> None:
        transitions, start, _, allowed = _read_tables()
        reward = np.zeros(allowed.shape)
        reward[_SURVIVAL] = 1.0
        mdp = FiniteMDP(transitions, reward, horizon, start=start, end_state=_END, allowed=allowed.copy())
        super().__init__(mdp)


@cache
def _read_tables() -> tuple[Any, FloatArray, FloatArray, BoolArray]:
    """Read the tables from the files of the package, which is not imported.

    Returns:
        P as a sparse matrix (S·A, S) with empty rows for actions that are not allowed, the distribution of the first
        state (S,), the share of each action among what clinicians did (S, A), and the admissible actions (S, A).
    """
    try:
        folder = Path(str(distribution("icu-sepsis").locate_file("icu_sepsis/envs/assets")))
    except PackageNotFoundError as error:
        words = "the environment icu-sepsis needs the package icu-sepsis, which is not installed"
        raise MissingExtra(f"{words}; pip install 'matrixrl[cases]'") from error
    try:
        with np.load(folder / "dynamics.npz", allow_pickle=False) as stored:
            dense, start, clinicians = (stored[name] for name in ("tx_mat", "d_0", "expert_policy"))
        lines = (folder / "admissible_actions.txt").read_text(encoding="utf-8").splitlines()
    except (OSError, KeyError, ValueError) as error:
        raise MatrixRLError(f"the tables of icu-sepsis cannot be read ({error}); version 2.0.1 has them") from error
    n_states, n_actions = _END + 1, _LEVELS**2
    if dense.shape != (n_states, n_actions, n_states) or len(lines) != n_states + 1:
        raise MatrixRLError(f"icu-sepsis has tables of shape {dense.shape}; version 2.0.1 has (716, 25, 716)")
    allowed = np.zeros((n_states, n_actions), dtype=np.bool_)
    for state, line in enumerate(lines[1 : _DEATH + 1]):
        allowed[state, [int(word) for word in line.split()]] = True
    allowed[[_DEATH, _SURVIVAL], 0] = True
    allowed[_END] = True
    dense[~allowed] = 0.0  # in place: the table has 100 MB
    return sparse.csr_array(dense.reshape(-1, n_states)), start, clinicians, allowed


def clinicians_policy() -> FloatArray:
    """Return the probabilities (S, A) with which clinicians chose the admissible actions.

    They are the shares of the actions in the records, as the package gives them. Clinicians also took actions that are
    not admissible, about one in six; these are left out and the others divided by their sum.

    >>> policy = clinicians_policy()
    >>> policy.shape, bool(np.allclose(policy.sum(axis=1), 1.0))
    ((716, 25), True)
    """
    _, _, clinicians, allowed = _read_tables()
    policy: FloatArray = np.where(allowed, clinicians, 0.0)
    policy[_DEATH:, 0] = 1.0
    policy /= policy.sum(axis=1, keepdims=True)
    return policy
