"""LinearMDP: a random MDP with many states and few features, as the theorems assume."""

from __future__ import annotations

from matrixrl.problems import MDPEnv, low_rank

__all__ = ["LinearMDP"]


class LinearMDP(MDPEnv):
    """Random soft-aggregation MDP with transitions and rewards that are linear in d features.

    The features are in `env.unwrapped.mdp.features`.

    Args:
        n_states, n_actions, d, d_psi, horizon, concentration, orthonormal, seed, noisy_rewards: See
            `matrixrl.problems.low_rank`.

    Attributes:
        core: True core M*, shape (d, d_psi); agents do not use it.
    """

    def __init__(
        self,
        n_states: int = 300,
        n_actions: int = 5,
        d: int = 5,
        horizon: int = 10,
        *,
        d_psi: int | None = None,
        concentration: float = 1.0,
        orthonormal: bool = False,
        seed: int = 0,
        noisy_rewards: bool = False,
    ) -> None:
        made = low_rank(
            n_states=n_states,
            n_actions=n_actions,
            d=d,
            d_psi=d_psi,
            horizon=horizon,
            concentration=concentration,
            orthonormal=orthonormal,
            seed=seed,
            noisy_rewards=noisy_rewards,
        )
        self.core = made.core
        super().__init__(made.mdp)
