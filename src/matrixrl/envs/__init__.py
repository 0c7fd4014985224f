"""Gymnasium environments: with a known optimum, registered as ``matrixrl/…-v0``, and classic control."""

from matrixrl.envs.combination_lock import CombinationLock
from matrixrl.envs.control import CONTROL, GridActions, NoisyActions, SparseReward, make_control
from matrixrl.envs.deep_sea import DeepSea
from matrixrl.envs.double_integrator import DoubleIntegrator
from matrixrl.envs.four_rooms import FourRooms
from matrixrl.envs.grid_world import GridWorld
from matrixrl.envs.linear_mdp import LinearMDP
from matrixrl.envs.point_observations import PointObservations
from matrixrl.envs.registry import ENVIRONMENTS, EnvEntry, is_control, make, make_continuous, make_gym, register_all
from matrixrl.envs.river_swim import RiverSwim
from matrixrl.envs.soft_grid import SoftGrid

__all__ = [
    "CONTROL",
    "ENVIRONMENTS",
    "CombinationLock",
    "DeepSea",
    "DoubleIntegrator",
    "EnvEntry",
    "FourRooms",
    "GridActions",
    "GridWorld",
    "LinearMDP",
    "NoisyActions",
    "PointObservations",
    "RiverSwim",
    "SoftGrid",
    "SparseReward",
    "is_control",
    "make",
    "make_continuous",
    "make_control",
    "make_gym",
    "register_all",
]
