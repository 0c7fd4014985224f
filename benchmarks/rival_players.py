"""How each agent of `control_rivals.py` plays a task; packages are imported where they are needed, as few have all."""

from __future__ import annotations

import importlib
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

from recorded import Record

Make = Callable[[], gym.Env]
Player = Callable[[str, Make, Record, int], None]

# Settings of the RL Zoo for Pendulum-v1; it has none for DQN there, and none for the swing-up: defaults.
ZOO: dict[tuple[str, str], dict[str, Any]] = {
    ("ppo", "pendulum"): {
        "n_steps": 1024, "gamma": 0.9, "gae_lambda": 0.95, "n_epochs": 10, "ent_coef": 0.0, "learning_rate": 1e-3,
        "clip_range": 0.2, "use_sde": True, "sde_sample_freq": 4,
    },
    ("sac", "pendulum"): {"learning_rate": 1e-3},
}  # fmt: skip
ZOO_COPIES = {("ppo", "pendulum"): 4}  # environments side by side

RANDOM_STEPS, LOOK_AHEAD = 10, 15  # of the pendulum example that the Gaussian-process MPC ships


def kernel_control(task: str, make: Make, record: Record, seed: int) -> None:  # noqa: ARG001
    from matrixrl import KernelControl

    agent = KernelControl(make(), seed=seed)
    agent.learn(n_episodes=record.cap, callback=lambda _: not record.is_over)


def deep(name: str, points: int | None = None) -> Player:
    """Return a player for an agent of Stable-Baselines3, with a grid of actions if it needs discrete ones."""

    def play(task: str, make: Make, record: Record, seed: int) -> None:
        import stable_baselines3
        import torch

        from matrixrl.envs import GridActions

        torch.set_num_threads(1)
        made = make if points is None else lambda: GridActions(make(), points)
        copies = stable_baselines3.common.vec_env.DummyVecEnv([made] * ZOO_COPIES.get((name, task), 1))
        kind = getattr(stable_baselines3, name.upper())
        model = kind("MlpPolicy", copies, seed=seed, device="cpu", **ZOO.get((name, task), {}))
        model.learn(record.cap, callback=lambda _locals, _globals: not record.is_over)

    return play


def fit_beside(*arguments: Any) -> None:
    """Fit hyperparameters of the Gaussian-process MPC, in a process of its own, with a torch newer than its code.

    Its code clips gradients before the first of them are there. Newer torch refuses this, its code catches the error,
    and hyperparameters would never be fitted.
    """
    import torch

    clip = torch.nn.utils.clip_grad_value_

    def clip_those_there(parameters: Any, *limits: Any) -> None:
        found = [one for one in parameters if one.grad is not None]
        if found:
            clip(found, *limits)

    torch.nn.utils.clip_grad_value_ = clip_those_there
    importlib.import_module("rl_gp_mpc.control_objects.models.gp_model").GpStateTransitionModel.train(*arguments)


def gp_mpc(folder: Path) -> Player:
    """Return a player for the public Gaussian-process MPC in a folder, with the settings of its pendulum example.

    Its code is used as it is, but for `fit_beside`: its controller gets observations and returns actions. Episodes are
    reset every 200 steps; the model and its hyperparameters, which a process beside it fits, stay.
    """

    def play(task: str, make: Make, record: Record, seed: int) -> None:  # noqa: ARG001
        sys.path[:0] = [str(folder), str(folder / "examples" / "pendulum")]
        os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])  # of its processes
        import torch

        controllers = importlib.import_module("rl_gp_mpc.control_objects.controllers.gp_mpc_controller")
        config = importlib.import_module("config_pendulum").get_config(len_horizon=LOOK_AHEAD)
        config.memory.points_batch_memory = record.cap + 1  # its memory cannot grow beyond what is allocated first
        torch.set_num_threads(1)
        torch.manual_seed(seed)
        np.random.seed(seed)  # noqa: NPY002  (its controller draws from the global stream)
        random.seed(seed)
        env = make()
        bounds = [env.observation_space.low, env.observation_space.high, env.action_space.low, env.action_space.high]
        controller = controllers.GpMpcController(*bounds, config)
        controller.transition_model.train = fit_beside
        obs, _ = env.reset(seed=seed)
        while not record.is_over:
            action = controller.get_action(obs_mu=obs, random=record.n_steps < RANDOM_STEPS)
            found = controller.get_iter_info()
            cost, _ = controller.compute_cost_unnormalized(obs, action)
            last, (obs, _, terminated, truncated, _) = obs, env.step(action)
            controller.add_memory(
                obs=last, action=action, obs_new=obs, reward=-cost,
                predicted_state=found.predicted_states[1], predicted_state_std=found.predicted_states_std[1],
            )  # fmt: skip
            if terminated or truncated:
                obs, _ = env.reset()
        if "p_train" in vars(controller) and not controller.p_train._closed:
            controller.p_train.join(60)
            controller.check_and_close_processes()

    return play
