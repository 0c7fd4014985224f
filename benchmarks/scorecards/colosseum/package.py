"""Colosseum's classes, in an interpreter that has it and newer versions of what it needs."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np

from matrixrl.problems import FiniteMDP
from matrixrl.records import IntArray

__all__ = ["make_agent", "make_mdp"]

_EPISODIC = "colosseum.agent.agents.episodic"
_MODULES = {"PSRLEpisodic": "posterior_sampling", "QLearningEpisodic": "q_learning"}


def _prepare() -> None:
    """Put back, in this process, what newer versions removed, and leave out what tabular agents do not need.

    NumPy 2 moved the module that has its error of memory; since Python 3.11 the text of a member of IntEnum is a
    number, which gin refuses as a name; and the package of episodic agents imports deep ones, which need TensorFlow.
    """
    if _EPISODIC in sys.modules:
        return
    if importlib.util.find_spec("numpy._core") is not None:
        sys.modules.setdefault("numpy.core._exceptions", importlib.import_module("numpy._core._exceptions"))
    gin: Any = importlib.import_module("gin")
    gin.constants_from_enum = lambda kind: kind
    agents = importlib.import_module("colosseum.agent.agents")
    episodic = types.ModuleType(_EPISODIC)
    episodic.__path__ = [str(Path(folder) / "episodic") for folder in agents.__path__]
    sys.modules[_EPISODIC] = episodic
    sys.setrecursionlimit(max(20_000, sys.getrecursionlimit()))  # its MDPs are built by a recursion over states


def _module(name: str) -> Any:
    _prepare()
    return importlib.import_module(name)


def make_mdp(mdp: FiniteMDP, seed: int) -> tuple[Any, IntArray]:
    """Return Colosseum's MDP of a table, and the state of the table that each of its observations is.

    Every step pays its mean reward.

    Args:
        mdp: Table.
        seed: Seed of its transitions.
    """
    module, deterministic = _module("colosseum.mdp.custom_mdp"), _module("colosseum.utils.miscellanea").deterministic
    states, actions = np.divmod(np.arange(mdp.n_states * mdp.n_actions), mdp.n_actions)
    law = mdp.transitions.rows(states, actions).reshape(mdp.n_states, mdp.n_actions, mdp.n_states)
    pairs = zip(states.tolist(), actions.tolist(), strict=True)
    made = module.CustomEpisodic(
        seed=seed,
        T_0={int(s): float(mdp.task.start[s]) for s in np.flatnonzero(mdp.task.start)},
        T=law,
        R={(s, a): deterministic(float(mdp.task.reward[s, a])) for s, a in pairs},
        H=mdp.horizon,
        randomize_actions=False,
    )
    made._H = mdp.horizon  # it raises the horizon to the longest of the shortest paths, which Taxi's own class does not
    return made, np.array([made.index_to_node[k].ID for k in range(made.n_states)])


def make_agent(settings: dict[str, Any], env: Any, n_steps: int, seed: int) -> Any:
    """Return one of Colosseum's agents.

    Args:
        settings: The name of its class as `agent`, and its arguments.
        env: Colosseum's MDP.
        n_steps: Steps of the run.
        seed: Seed of the agent.
    """
    name, given = settings["agent"], {k: v for k, v in settings.items() if k != "agent"}
    if name == "PSRLEpisodic":
        priors = _module("colosseum.agent.mdp_models.bayesian_models")
        given["reward_prior_model"] = priors.RewardsConjugateModel.N_NIG
        given["transitions_prior_model"] = priors.TransitionsConjugateModel.M_DIR
    kind = getattr(_module(f"{_EPISODIC}.{_MODULES[name]}"), name)
    specs = _module("colosseum.utils.acme.specs").make_mdp_spec(env)
    agent = kind(seed=seed, mdp_specs=specs, optimization_horizon=n_steps, **given)
    if name == "QLearningEpisodic":  # since NumPy 2 the square of a 32-bit count has 32 bits, too few from 46,341 on
        agent._mdp_model.N = agent._mdp_model.N.astype(np.int64)
    return agent
