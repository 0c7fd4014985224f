"""Gymnasium environments with a known optimum, registered as ``matrixrl/…-v0``."""

from matrixrl.envs.combination_lock import CombinationLock
from matrixrl.envs.deep_sea import DeepSea
from matrixrl.envs.four_rooms import FourRooms
from matrixrl.envs.grid_world import GridWorld
from matrixrl.envs.linear_mdp import LinearMDP
from matrixrl.envs.registry import ENVIRONMENTS, EnvEntry, make, register_all
from matrixrl.envs.river_swim import RiverSwim
from matrixrl.envs.soft_grid import SoftGrid

__all__ = [
    "ENVIRONMENTS",
    "CombinationLock",
    "DeepSea",
    "EnvEntry",
    "FourRooms",
    "GridWorld",
    "LinearMDP",
    "RiverSwim",
    "SoftGrid",
    "make",
    "register_all",
]
