"""LinearMDP: many states, few features; the world that the theorems are about."""

from __future__ import annotations

from matrixrl.problems import MDPEnv, low_rank

__all__ = ["LinearMDP"]


class LinearMDP(MDPEnv):
    """A random soft-aggregation MDP whose transitions and rewards are linear in d features.

    Its features come with it (`env.unwrapped.mdp.features`), and so does the true core
    (`env.unwrapped.core`), which no agent looks at.

    Args:
        n_states, n_actions, d, d_psi, horizon, concentration, orthonormal, seed, noisy_rewards: as in
            `matrixrl.problems.low_rank`.
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
        render_mode: str | None = None,
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
        super().__init__(made.mdp, render_mode=render_mode)
