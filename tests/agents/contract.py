"""Every agent on the problems that its mathematics reaches, and random episodes told by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from continuum import line
from matrixrl import make
from matrixrl.problems import FiniteMDP, MDPEnv, low_rank
from matrixrl.random_streams import stream_seed
from named_agents import AGENTS
from small_worlds import calendar, masked_mdp, random_mask

SEED = 11


def one_step():
    mdp = low_rank(n_states=6, n_actions=3, d=3, horizon=1, seed=4).mdp
    start = np.full(6, 1 / 6)
    return MDPEnv(
        FiniteMDP(mdp.transitions, mdp.task.reward, 1, start=start, features=mdp.features, noisy_rewards=True)
    )


def masked(horizon=6):
    """Return an environment in which some actions are not allowed."""
    return MDPEnv(masked_mdp(n_states=5, n_actions=3, horizon=horizon, seed=2, start=np.full(5, 0.2)))


def staged(**options):
    """Return an environment whose laws, rewards and masks differ between three classes of six stages, with an end."""
    rng = np.random.default_rng(1)
    mask = np.stack([random_mask(rng, 5, 3, share=0.7) for _ in range(3)])
    mdp = calendar(
        n_states=5, horizon=6, classes=[0, 0, 1, 2, 1, 0], allowed=mask, end_state=4, noisy_rewards=True, **options
    )
    return MDPEnv(mdp)


def endless():
    """Return an environment that goes on forever, discounted, with rewards below 0."""
    mdp = calendar(n_states=4, horizon=1, seed=3)
    return MDPEnv(
        FiniteMDP(mdp.transitions, mdp.task.reward - 0.5, reward_range=(-0.5, 1.0), discount=0.6, accuracy=0.1)
    )


WORLDS = {
    "river-swim": lambda: make("river-swim", n_states=4, horizon=6),
    "frozen-lake": lambda: make("gym:FrozenLake-v1", horizon=8),
    "one step": one_step,
    "masked": masked,
    "one masked step": lambda: masked(horizon=1),
    "stages": staged,
    "discounted stages": lambda: staged(discount=0.8),
    "endless": endless,
    "mountain-car": lambda: make("mountain-car", sparse=True, horizon=12),
    "cart-pole": lambda: make("cart-pole", horizon=10),
    "pendulum": lambda: make("gym:Pendulum-v1", horizon=8),
    "functions": line,
}


@dataclass(frozen=True)
class Case:
    """One agent on one problem."""

    agent: str
    world: str
    settings: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        words = ",".join(f"{name}={value}" for name, value in self.settings.items())
        return f"{self.agent} on {self.world}{' ' if words else ''}{words}"

    @property
    def factors(self):
        """Agent, world and settings, of which tests with more parameters take every pair; see `covering`."""
        return self.agent, self.world, str(self.settings)

    @property
    def kind(self):
        return AGENTS[self.agent]

    def env(self):
        return WORLDS[self.world]()

    def build(self, **changes):
        return self.kind(self.env(), **{"seed": SEED, **self.settings, **changes})


BANDITS = ("lin-ucb", "kernel-ucb")
VECTORS = ("kernel-control",)
DOUBLING = "doubling-matrix-rl"  # matrix-rl but for its epochs, so that it has few cases
FINITE = [name for name in AGENTS if name not in (*VECTORS, DOUBLING)]
TUNED = {"preset": "tuned"}
BALL = {"set": "normalised"}
CASES = [
    *(Case(name, world) for name in FINITE if name not in BANDITS for world in ("river-swim", "frozen-lake")),
    *(Case(name, "one step") for name in FINITE),
    *(Case(name, world) for name in ("kernel-matrix-rl", "random") for world in ("mountain-car", "cart-pole")),
    *(Case("kernel-control", world) for world in ("cart-pole", "pendulum")),  # discrete and continuous actions
    Case("matrix-rl", "functions", {"columns": 40, "preset": "tuned"}),
    *(Case("matrix-rl", world, BALL) for world in ("river-swim", "frozen-lake")),
    *(Case("matrix-rl", "river-swim", {**more, "switch_growth": 0.5}) for more in (BALL, {})),
    Case(DOUBLING, "river-swim", {"radius": "theorem"}),
    *(Case(DOUBLING, "river-swim", {**more, "keep_data": True, "known_reward": False}) for more in (BALL, {})),
    *(Case("matrix-rl", "river-swim", {**more, "ties": "estimate", "preset": "tuned"}) for more in (BALL, {})),
    Case("matrix-rl", "functions", {"columns": 40, "switch_growth": 0.5}),
    Case("kernel-matrix-rl", "mountain-car", {"anchors": 20}),
    Case("kernel-matrix-rl", "cart-pole", {"features": "nystroem", "budget": 2}),
    *(Case(name, "river-swim", TUNED) for name in ("epsilon-greedy", "ucrl2", "psrl", "ucbvi", "rlsvi", "ucrl-vtr")),
    Case("ucbvi", "river-swim", {"bonus": "bernstein", "known_reward": False}),
    *(Case(name, "masked") for name in ("matrix-rl", "epsilon-greedy", "q-learning", "random", "ucrl2", "ucrl-vtr")),
    *(Case("matrix-rl", "masked", {**more, "known_reward": False, "switch_growth": 0.5}) for more in (BALL, {})),
    *(Case(name, "one masked step") for name in BANDITS),
    *(Case(name, "discounted stages") for name in FINITE if name not in (*BANDITS, "kernel-matrix-rl")),
    *(Case("matrix-rl", "stages", {**more, "known_reward": False, "switch_growth": 0.5}) for more in (BALL, {})),
    *(Case(name, "endless") for name in ("matrix-rl", "q-learning", "psrl")),
    Case("matrix-rl", "endless", {**BALL, "known_reward": False}),
]


def random_obs(agent, rng):
    """Return a random observation of any problem."""
    problem = agent.problem
    if problem.kind == "finite":
        return problem.observation(int(rng.integers(problem.n_observed)))
    if problem.kind == "functional":
        return rng.random(1)
    return rng.uniform(-1.0, 1.0, problem.task.n_coordinates)


def can_end(agent):
    """Say whether an episode of the problem may end before the horizon."""
    return agent.problem.kind == "continuous" or agent.problem.task.end_state is not None


def random_step(agent, episode, obs, rng):
    """Ask, and tell a random outcome; return what was advised and the next observation."""
    action = episode.act(obs)
    following = random_obs(agent, rng)
    ended = can_end(agent) and rng.random() < 0.1
    episode.observe(obs, action, float(rng.random()), following, bool(ended))
    return action, following


def first_obs(agent, rng):
    """Return an observation in which an episode may begin."""
    obs, problem = random_obs(agent, rng), agent.problem
    if problem.kind != "finite" or (problem.mdp is None and not problem.task.start_is_declared):
        return obs
    return problem.observation(int(rng.choice(np.flatnonzero(problem.finite_task.start))))


def play_randomly(agent, episode, rng, most=1000):
    """Go on with an open episode, at most so many steps; return the actions that were advised."""
    actions, obs = [], random_obs(agent, rng) if episode.stage else first_obs(agent, rng)
    for _ in range(most):
        if episode.is_finished:
            break
        action, obs = random_step(agent, episode, obs, rng)
        actions.append(action)
    return actions


def play_by_hand(agent, n_episodes):
    """Play in the agent's environment as `learn` does, and return all actions; the two forms of a call alternate."""
    env, actions = agent.problem.env, []
    for i in range(n_episodes):
        obs, _ = env.reset(seed=stream_seed(agent.seed, "env") if i == 0 else None)
        episode = agent.begin_episode()
        calls = episode if i % 2 else agent
        for _ in range(agent.problem.task.horizon):
            action = calls.act(obs)
            obs = obs.copy() if isinstance(obs, np.ndarray) else obs
            following, reward, terminated, _, _ = env.step(action)
            calls.observe(obs, action, reward, following, terminated)
            actions.append(action)
            obs = following
            if terminated:
                break
        assert (agent.end_episode() if i % 2 == 0 else episode.end()).index == i
    return actions


def recorded_actions(agent):
    """Return the list to which every action that the environment is given will be added."""
    env, actions = agent.problem.env.unwrapped, []
    step = env.step

    def recording(action):
        actions.append(action)
        return step(action)

    env.step = recording
    return actions


def recorded_plans(agent):
    """Return the list to which every plan that the algorithm makes for an episode will be added."""
    algorithm, plans = agent.algorithm, []
    plan = algorithm.plan

    def recording():
        plans.append(plan())
        return plans[-1]

    algorithm.plan = recording
    return plans


def env_stream(agent):
    return agent.problem.env.unwrapped.np_random.bit_generator.state
