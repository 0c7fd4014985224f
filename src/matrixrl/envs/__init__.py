"""Gymnasium environments: with a known optimum, registered as ``matrixrl/…-v0``, and classic control.

The classes are imported when they are first used, so that registering the environments, which importing this
package does, imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from matrixrl.envs.registry import (
    ENVIRONMENTS,
    EnvEntry,
    checked_settings,
    make,
    open_problem,
    refuse_env_settings,
    register_all,
)
from matrixrl.extras import later_names

if TYPE_CHECKING:
    from matrixrl.envs.cases import policy_value
    from matrixrl.envs.classic import CombinationLock, DeepSea, LinearMDP, RiverSwim
    from matrixrl.envs.control import CONTROL, GridActions, NoisyActions, PointObservations, SparseReward, make_control
    from matrixrl.envs.dynamic_pricing import DynamicPricing
    from matrixrl.envs.embedded import EmissionRiver, Factors, Hypercube, LinearLock
    from matrixrl.envs.grids import DoubleIntegrator, FourRooms, GridWorld, SoftGrid
    from matrixrl.envs.icu_sepsis import ICUSepsis
    from matrixrl.envs.inventory import LostSales, PerishableStock
    from matrixrl.envs.queue_admission import QueueAdmission
    from matrixrl.envs.swing_up import CartPoleSwingUp

_MODULES = {
    **{entry.class_name: entry.module for entry in ENVIRONMENTS.values()},
    "CartPoleSwingUp": "swing_up",
    **dict.fromkeys(("CONTROL", "GridActions", "NoisyActions", "PointObservations"), "control"),
    **dict.fromkeys(("SparseReward", "make_control"), "control"),
    "policy_value": "cases",
}

__all__ = [
    "CONTROL",
    "ENVIRONMENTS",
    "CartPoleSwingUp",
    "CombinationLock",
    "DeepSea",
    "DoubleIntegrator",
    "DynamicPricing",
    "EmissionRiver",
    "EnvEntry",
    "Factors",
    "FourRooms",
    "GridActions",
    "GridWorld",
    "Hypercube",
    "ICUSepsis",
    "LinearLock",
    "LinearMDP",
    "LostSales",
    "NoisyActions",
    "PerishableStock",
    "PointObservations",
    "QueueAdmission",
    "RiverSwim",
    "SoftGrid",
    "SparseReward",
    "checked_settings",
    "make",
    "make_control",
    "open_problem",
    "policy_value",
    "refuse_env_settings",
    "register_all",
]


__getattr__ = later_names(__name__, _MODULES)
register_all()
