"""Runs one agent of rlberry or rlberry-scool inside their environment; `runner.read_order` says what it is given."""

from __future__ import annotations

import math
import warnings

import gymnasium as gym
import numpy as np
from rlberry.spaces import Box, Discrete
from runner import Simulator, play_seeds, read_order

warnings.filterwarnings("ignore")


class Table(Simulator, gym.Env):
    """The simulator as an environment of rlberry."""

    reward_range = (0.0, 1.0)

    def __init__(self, tables, n_episodes: int, places: np.ndarray | None, inner=None) -> None:
        super().__init__(tables, n_episodes)
        self.inner = inner  # the library's own simulator, if that is to be raced as well
        n_states, n_actions = self.reward.shape
        self.places = places
        self.observation_space = Discrete(n_states)
        if places is not None:
            self.observation_space = Box(0.0, 1.0, shape=(places.shape[1],), dtype=np.float64)
        self.action_space = Discrete(n_actions)

    def reset(self, *, seed=None, options=None):
        del seed, options
        if self.inner is not None:
            self.record_start()
            self.state = int(self.inner.reset()[0])
            return self.state, {}
        self.begin_episode()
        return self._seen(), {}

    def step(self, action):
        if self.inner is not None:
            self.record_action(action)
            answer = self.inner.step(action)
            self.state = int(answer[0])
            return answer
        reward = self.play(action)
        return self._seen(), reward, False, False, {}

    def _seen(self):
        return self.state if self.places is None else self.places[self.state]


def paper_scale(agent: str, table: Table, n_episodes: int) -> float:
    """Return the factor with which the bonus, scale/√n + more, is at least that of the paper (δ = 0.05)."""
    n_states, n_actions = table.reward.shape
    steps, horizon = n_episodes * table.horizon, table.horizon
    if agent.startswith("ucbvi"):  # Azar et al. 2017, Algorithm 3: 7HL/√n
        return 7.0 * horizon * math.log(5.0 * n_states * n_actions * steps / 0.05)
    # Jin et al. 2018, Theorem 1 with c = 1, which the paper leaves open: √(H³ι/n)
    return math.sqrt(horizon**3 * math.log(n_states * n_actions * steps / 0.05))


def feature_map(base, phi: np.ndarray | None, n_states: int, n_actions: int):
    """Return what LSVI-UCB wants: a function that makes a map from pairs to features."""

    class Map(base):
        def __init__(self, _env) -> None:
            super().__init__()
            self.shape = (n_states * n_actions,) if phi is None else (phi.shape[2],)

        def map(self, observation, action):
            if phi is not None:
                return phi[observation, action]
            row = np.zeros(n_states * n_actions)
            row[observation * n_actions + action] = 1.0
            return row

    return Map


def own_simulator(side: str, tables):
    """Return rlberry's own finite MDP on these tables; each of its steps draws from all states."""
    if side == "scool":
        from rlberry.envs.finite_mdp import FiniteMDP
    else:
        from rlberry.envs.finite import FiniteMDP
    return FiniteMDP(tables["R"], tables["P"].copy(), initial_state_distribution=tables["start"])


def maker(side: str, agent: str, settings_asked: dict, table: Table, tables, n_episodes: int):
    """Return a function of the seed that makes the agent, with its defaults but for H, γ = 1 and what is asked for."""
    if side == "scool":
        from rlberry_scool.agents import LSVIUCBAgent, UCBVIAgent
        from rlberry_scool.agents.features import FeatureMap

        kinds = {"ucbvi": UCBVIAgent, "lsvi-ucb": LSVIUCBAgent}
    else:
        from rlberry.agents import (
            LSVIUCBAgent,
            OptQLAgent,
            PSRLAgent,
            RLSVIAgent,
            RSKernelUCBVIAgent,
            RSUCBVIAgent,
            UCBVIAgent,
        )  # fmt: skip
        from rlberry.agents.features import FeatureMap

        class AllStages(UCBVIAgent):
            """UCBVI whose bonus is renewed at all stages: as shipped, only at the stage of the visit."""

            def _update(self, state, action, next_state, reward, hh):
                super()._update(state, action, next_state, reward, hh)
                n = self.N_sa[state, action]
                bonus = self.bonus_scale_factor / math.sqrt(n) + self.v_max / n
                self.B_sa[:, state, action] = np.minimum(bonus, self.v_max)

        kinds = {
            "ucbvi": UCBVIAgent, "ucbvi-all-stages": AllStages, "ucbvi-rtdp": UCBVIAgent, "psrl": PSRLAgent,
            "rlsvi": RLSVIAgent, "optql": OptQLAgent, "lsvi-ucb": LSVIUCBAgent, "rs-ucbvi": RSUCBVIAgent,
            "rs-kernel-ucbvi": RSKernelUCBVIAgent,
        }  # fmt: skip
    settings = {"gamma": 1.0, "horizon": table.horizon}
    n_states, n_actions = table.reward.shape
    if agent == "ucbvi-rtdp":
        settings["real_time_dp"] = True
    if settings_asked.get("paper"):
        settings["bonus_scale_factor"] = paper_scale(agent, table, n_episodes)
    if agent == "lsvi-ucb":
        phi = tables.get("phi")
        settings["feature_map_fn"] = feature_map(FeatureMap, phi, n_states, n_actions)
    if agent.startswith("rs-"):
        half = 0.5 / max(n_states - 1, 1)  # every state is its own representative
        settings |= {"min_dist": half, "max_repr": n_states}
        if agent == "rs-kernel-ucbvi":
            settings["bandwidth"] = min(0.05, half)

    def make(seed: int):
        made = kinds[agent](table, copy_env=False, seeder=seed, **settings)
        if not settings_asked.get("as_shipped"):
            made.set_writer(None)  # no logging on the clock
        return made

    return make


def main() -> None:
    order, tables = read_order()
    n_episodes = order["n_episodes"]
    n_states = tables["R"].shape[0]
    places = np.linspace(0.0, 1.0, n_states)[:, None] if order["agent"].startswith("rs-") else None
    shipped = order["settings"].get("as_shipped")
    table = Table(tables, n_episodes, places, own_simulator(order["side"], tables) if shipped else None)
    del tables["P"]
    make = maker(order["side"], order["agent"], order["settings"], table, tables, n_episodes)
    if order["side"] == "rlberry":  # numba compiles outside the clock
        warm = make(0)
        table.begin(0, math.inf)
        warm.fit(2)
        del warm

    def prepare(seed: int):
        agent = make(seed)
        return lambda: agent.fit(n_episodes)

    play_seeds(order, table, prepare)


if __name__ == "__main__":
    main()
