"""KernelControl where nothing was tuned: noise, far starts, long episodes, twelve coordinates; a table and JSON.

python benchmarks/control_robustness.py                   seeds 500–504; results are kept in out/ and continued
python benchmarks/control_robustness.py --tasks pendulum pendulum-observed-5
python benchmarks/control_robustness.py --first 20 --seeds 3 --label tuning
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from matrixrl.agents import Agent
from matrixrl.errors import MatrixRLWarning

CART_POLE = np.array([2.4, 2.0, 0.21, 2.0])
PENDULUM = np.array([1.0, 1.0, 8.0])
MOUNTAIN_CAR = np.array([0.9, 0.07])
"""What the coordinates of observations can be, or usually are, on either side of their middle."""


class ObservationNoise(gym.ObservationWrapper):
    """Add normal noise to every observation; the environment itself is as it was.

    Args:
        env: Environment.
        size: Standard deviation of each coordinate.
    """

    def __init__(self, env: gym.Env, size: np.ndarray) -> None:
        super().__init__(env)
        self._size = size

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return observation + self._size * self.np_random.standard_normal(len(self._size))


class ProcessNoise(gym.Wrapper):
    """Add normal noise to the state of the environment after every step; an observation of the state then follows it.

    Args:
        env: Environment.
        size: Standard deviation of each number of its state.
    """

    def __init__(self, env: gym.Env, size: np.ndarray) -> None:
        super().__init__(env)
        self._size = size

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        inner = self.unwrapped
        inner.state = np.asarray(inner.state) + self._size * self.np_random.standard_normal(len(self._size))
        return self.env.step(action)


class ActionNoise(gym.ActionWrapper):
    """Replace discrete actions by random ones with a probability; add normal noise to continuous ones.

    Args:
        env: Environment.
        size: Probability, or standard deviation as a share of half the range.
    """

    def __init__(self, env: gym.Env, size: float) -> None:
        super().__init__(env)
        self._size = size

    def action(self, action: Any) -> Any:
        space = self.action_space
        if isinstance(space, gym.spaces.Discrete):
            is_random = self.np_random.random() < self._size
            return int(self.np_random.integers(space.n)) if is_random else action
        noise = self._size * 0.5 * (space.high - space.low) * self.np_random.standard_normal(space.shape)
        return np.clip(action + noise, space.low, space.high).astype(space.dtype)


class FarStarts(gym.Wrapper):
    """Start episodes from states that are uniform in a box.

    Args:
        env: Environment.
        size: Half the width of the box.
        centre: Centre of the box.
    """

    def __init__(self, env: gym.Env, size: np.ndarray, centre: np.ndarray | float = 0.0) -> None:
        super().__init__(env)
        self._size, self._centre = size, centre

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        obs, info = self.env.reset(seed=seed, options=options)
        inner = self.unwrapped
        inner.state = self._centre + self._size * self.np_random.uniform(-1.0, 1.0, len(self._size))
        if hasattr(inner, "_get_obs"):
            return inner._get_obs(), info
        return np.array(inner.state, dtype=obs.dtype), info


class GoalReward(gym.Wrapper):
    """Pay 1 at the end that the environment declares, and 0 otherwise."""

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        obs, _, terminated, truncated, info = self.env.step(action)
        return obs, float(terminated), terminated, truncated, info


class NoiseBeside(gym.ObservationWrapper):
    """Add coordinates of pure noise to the observations."""

    def __init__(self, env: gym.Env, count: int) -> None:
        super().__init__(env)
        space = env.observation_space
        ends = (np.append(side, np.full(count, edge)) for side, edge in ((space.low, -np.inf), (space.high, np.inf)))
        self.observation_space = gym.spaces.Box(*ends, dtype=np.float64)
        self._count = count

    def observation(self, observation: np.ndarray) -> np.ndarray:
        return np.append(observation, self.np_random.standard_normal(self._count))


class ThreePoints(gym.Env):
    """Three points in the plane, each moved by two forces; the reward is their closeness to the origin."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (12,), dtype=np.float64)
    action_space = gym.spaces.Box(-1.0, 1.0, (6,), dtype=np.float32)
    horizon = 60

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        del options
        super().reset(seed=seed)
        self.state = np.concatenate([self.np_random.uniform(-1, 1, 6), np.zeros(6)])
        return self.state.copy(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        place, speed = self.state[:6], self.state[6:]
        speed = 0.9 * speed + 0.2 * np.asarray(action, dtype=np.float64)
        self.state = np.concatenate([place + 0.3 * speed, speed])
        return self.state.copy(), float(-np.abs(self.state[:6]).sum()), False, False, {}


class Unrelated(gym.Env):
    """Twelve coordinates that are new noise in each step, whatever was done, and a reward that depends on them."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (12,), dtype=np.float64)
    action_space = gym.spaces.Discrete(3)
    horizon = 100

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        del options
        super().reset(seed=seed)
        return self.np_random.standard_normal(12), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        del action
        obs = self.np_random.standard_normal(12)
        return obs, float(np.sin(3.0 * obs[:3]).sum()), False, False, {}


class Pendula(gym.Env):
    """Four pendula beside each other, each swung by its own torque: twelve coordinates that all matter."""

    action_space = gym.spaces.Box(-2.0, 2.0, (4,), dtype=np.float32)
    observation_space = gym.spaces.Box(-np.tile(PENDULUM, 4), np.tile(PENDULUM, 4), dtype=np.float64)
    horizon = 200

    def __init__(self) -> None:
        self._parts = [gym.make("Pendulum-v1").unwrapped for _ in range(4)]

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        del options
        super().reset(seed=seed)
        found = [part.reset(seed=int(self.np_random.integers(2**31)))[0] for part in self._parts]
        return np.concatenate(found).astype(np.float64), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        found = [part.step(action[i : i + 1]) for i, part in enumerate(self._parts)]
        obs = np.concatenate([one[0] for one in found]).astype(np.float64)
        return obs, float(np.mean([one[1] for one in found])), False, False, {}


def cart_pole(steps: int = 200) -> gym.Env:
    return gym.make("CartPole-v1", max_episode_steps=steps)


def pendulum(steps: int = 200) -> gym.Env:
    return gym.make("Pendulum-v1", max_episode_steps=steps)


def mountain_car() -> gym.Env:
    return GoalReward(gym.make("MountainCar-v0", max_episode_steps=200))


_CAR_MIDDLE = np.array([-0.35, 0.0])
_SPIN = np.array([0.01 * np.pi, 0.01 * 8.0])  # state of the pendulum: angle and speed
Task = tuple[Callable[[], gym.Env], int]
TASKS: dict[str, Task] = {
    "cart-pole": (cart_pole, 15),
    "cart-pole-observed-1": (lambda: ObservationNoise(cart_pole(), 0.01 * CART_POLE), 15),
    "cart-pole-observed-5": (lambda: ObservationNoise(cart_pole(), 0.05 * CART_POLE), 15),
    "cart-pole-process-1": (lambda: ProcessNoise(cart_pole(), 0.01 * CART_POLE), 15),
    "cart-pole-actions-10": (lambda: ActionNoise(cart_pole(), 0.1), 15),
    "pendulum": (pendulum, 15),
    "pendulum-observed-1": (lambda: ObservationNoise(pendulum(), 0.01 * PENDULUM), 15),
    "pendulum-observed-5": (lambda: ObservationNoise(pendulum(), 0.05 * PENDULUM), 15),
    "pendulum-process-1": (lambda: ProcessNoise(pendulum(), _SPIN), 15),
    "pendulum-actions-20": (lambda: ActionNoise(pendulum(), 0.2), 15),
    "cart-pole-far": (lambda: FarStarts(cart_pole(), 0.5 * CART_POLE * np.array([1.0, 0.5, 1.0, 0.5])), 15),
    "pendulum-far": (lambda: FarStarts(pendulum(), np.array([np.pi, 8.0])), 15),
    "mountain-car": (mountain_car, 15),
    "mountain-car-far": (lambda: FarStarts(mountain_car(), MOUNTAIN_CAR * [0.9, 0.9], _CAR_MIDDLE), 15),
    "cart-pole-2000": (lambda: cart_pole(2000), 15),
    "pendulum-2000": (lambda: pendulum(2000), 10),
    "pendulum-and-9-of-noise": (lambda: NoiseBeside(pendulum(), 9), 15),
    "three-points": (ThreePoints, 15),
    "four-pendula": (Pendula, 15),
    "unrelated": (Unrelated, 10),
}
"""For each task: environment, and episodes."""


def play(task: str, agent: str, seed: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Play one seed of one task."""
    make, n_episodes = TASKS[task]
    made = Agent(make(), agent, seed=seed, **settings)
    wall, cpu, each = time.perf_counter(), time.process_time(), [time.process_time()]
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        history = made.learn(n_episodes=n_episodes, callback=lambda _: each.append(time.process_time()))
    return {
        "returns": [float(x) for x in history.returns],
        "steps": [int(x) for x in history.lengths],
        "seconds": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "each": np.diff(each).round(4).tolist(),
        "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
        "warnings": [str(one.message) for one in said if issubclass(one.category, MatrixRLWarning)],
    }


def table(results: dict[str, Any], tasks: list[str], seeds: list[int]) -> str:
    """Return the table of all tasks in Markdown: returns of the second half of the episodes, time and memory."""
    head = "| task | mean return of the second half | each seed | CPU s per episode | peak MB | seeds with a warning |"
    lines = [head, "|---|---|---|---|---|---|"]
    for task in tasks:
        runs = [results[f"{task}/{seed}"] for seed in seeds if f"{task}/{seed}" in results]
        if not runs:
            continue
        late = [np.mean(run["returns"][len(run["returns"]) // 2 :]) for run in runs]
        pace = np.mean([run["cpu"] / len(run["returns"]) for run in runs])
        warned = sum(bool(run["warnings"]) for run in runs)
        cells = [task, f"{np.mean(late):.4g}", ", ".join(f"{one:.4g}" for one in late), f"{pace:.2f}"]
        cells += [f"{max(run['megabytes'] for run in runs):.0f}", f"{warned} of {len(runs)}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(chosen: argparse.Namespace) -> None:
    seeds = list(range(chosen.first, chosen.first + chosen.seeds))
    settings = {key: json.loads(value) for key, value in (pair.split("=", 1) for pair in chosen.set)}
    chosen.out.mkdir(parents=True, exist_ok=True)
    file = chosen.out / f"{chosen.label or chosen.agent}.json"
    results = json.loads(file.read_text()) if file.exists() else {}
    for seed in seeds:
        for task in chosen.tasks:
            if f"{task}/{seed}" not in results:
                results[f"{task}/{seed}"] = play(task, chosen.agent, seed, settings)
                file.with_suffix(".part").write_text(json.dumps(results))
                file.with_suffix(".part").replace(file)
    print(table(results, chosen.tasks, seeds))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", default=list(TASKS), choices=list(TASKS))
    parser.add_argument("--agent", default="kernel-control")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=500, help="First seed.")
    parser.add_argument("--set", nargs="*", default=[], help="Settings of the agent, such as revise=false.")
    parser.add_argument("--label", default=None, help="Name of the file of results; the agent by default.")
    parser.add_argument("--out", type=Path, default=Path("out/control-robustness"))
    main(parser.parse_args())
