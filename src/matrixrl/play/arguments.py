"""Which problem, which algorithm, which settings: declared for editors and type checkers, and read in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matrixrl.algorithms import Startable, make_algorithm
from matrixrl.algorithms.registry import known_reward, setting_names, split_features
from matrixrl.checks import choice
from matrixrl.core import ConfidenceSet, Radius
from matrixrl.envs import open_problem, refuse_env_settings
from matrixrl.problems import Problem, ProblemOptions
from matrixrl.records import FloatArray
from matrixrl.settings import ELSEWHERE

__all__ = ["AgentOptions", "BallOptions", "KernelOptions", "RunOptions", "read_arguments", "split_options"]


class BallOptions(ProblemOptions, total=False):
    """Options of the problem, and settings of balls around M_n, which can also be given to a set as an object.

    A value other than that of the preset chooses the normalised ball where no set is named.

    Attributes:
        radius: Radius of the set: a name (``matrixrl list radii``) or an object.
        ridge: λ of A_n = λI + Σ φφᵀ; 1 in the paper, and every proof holds for any λ.
        beta: β of the constant radius, in units of C_ψ'².
        c: Absolute constant of the theorem's radius.
        c_core: C_M with ‖M*‖_F² <= C_M·d, if known; bounded from the features by default.
        columns: Number of columns of Ψᵀ that are sampled for a plan, in place of all S; bounds are then estimates.
        column_weights: Draw columns in proportion to ‖ψ(s)‖² ("norm") or uniformly ("uniform").
        column_draw: Draw columns again for each plan ("resampled"), or once ("fixed").
    """

    radius: str | Radius | type[Radius] | None
    ridge: float | None
    beta: float | None
    c: float | None
    c_core: float | None
    columns: int | None
    column_weights: str | None
    column_draw: str | None


class KernelOptions(BallOptions, total=False):
    """Options of the problem, settings of balls for numbered states, and settings of features for vectors.

    Attributes:
        k_psi: Kernel of next states; the identity by default. For numbered states.
        features: Representation of the kernel: inducing, fourier, nystroem, fourier-basis or tiles.
        transformer: A scikit-learn transformer, or a `StateMap`, in place of a kernel.
        budget: Largest number of features of a state.
        tolerance: Share of k(x,x) that inducing points may miss at a state before it becomes one itself.
        anchors: Plan with the values of at most this many next states; all that were seen by default.
        max_return: Largest return that is possible from any time on, where it is less than the best reward at every
            step.
        ties: As in `MatrixRL`.
        explore_for: As in `MatrixRL`.
        optimism_budget: As in `MatrixRL`.
        incumbent: As in `MatrixRL`; for numbered states.
        loss_budget: As in `MatrixRL`; for numbered states.
    """

    k_psi: Any
    features: str | None
    transformer: Any
    budget: int | None
    tolerance: float | None
    anchors: int | None
    max_return: float | None
    ties: str | None
    explore_for: str | None
    optimism_budget: float | None
    incumbent: Any
    loss_budget: float | str | None


class RunOptions(KernelOptions, total=False):
    """Options of the problem, and the settings of all algorithms; each algorithm refuses those that it does not have.

    Their meaning is in the docstrings of `MatrixRL`, `KernelMatrixRL`, `KernelControl` and of the baselines.
    """

    preset: str | None
    set: str | ConfidenceSet | type[ConfidenceSet] | None
    exploration: float | None
    delta: float | None
    known_reward: bool | None
    switch_growth: float | None
    planner: str | None
    drift: str | None
    keep_data: bool | None
    length_scale: float | None
    points: FloatArray | None
    k_phi: Any
    kernel: Any
    action_correlation: float | None
    model_points: int | None
    value_points: int | None
    support: int | None
    candidates: int | None
    action_points: int | None
    softness: float | None
    revise: bool | None
    scale: float | None
    bonus: str | None
    cap: str | None
    clip: bool | None
    stages: str | None
    noise: str | None
    norm: float | None
    prior: float | None
    reward_prior: float | None
    replan: str | None
    epsilon: float | None
    half_life: float | None
    bandwidth: float | None
    lipschitz: float | None


class AgentOptions(RunOptions, total=False):
    """Options of the problem, and the settings of all algorithms.

    Attributes:
        n_episodes: Number of episodes N, if known in advance.
    """

    n_episodes: int | None


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Divide options into those of the problem and the settings of the algorithm."""
    of_problem = {name: value for name, value in options.items() if name in ProblemOptions.__annotations__}
    return of_problem, {name: value for name, value in options.items() if name not in of_problem}


def read_arguments(
    problem: Any,
    algorithm: Any,
    settings: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    *,
    env_settings: dict[str, Any] | None,
    trust_code: bool,
    arguments: Sequence[str] = (),
) -> tuple[Startable, Problem]:
    """Return an algorithm that is not started, and the problem that it is to learn, from what `Agent` is given.

    `phi`, `psi` and `psi_pinv` of a spec may be among the settings. `arguments` are the names of other arguments of a
    caller that takes settings as arguments, for messages.
    """
    own, maps = split_features(settings, trust_code=trust_code)
    names = setting_names(algorithm)
    refuse_env_settings(problem, own, names)
    if arguments and names:
        for name in own.keys() - ELSEWHERE.keys():
            choice("argument", name, [*sorted(names), *ProblemOptions.__annotations__, *arguments])
    unstarted = make_algorithm(algorithm, own, trust_code=trust_code)
    options = {**options, **maps, "known_reward": known_reward(unstarted)}
    return unstarted, open_problem(problem, env_settings, trust_code=trust_code, **options)
