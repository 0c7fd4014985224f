"""Experiments made of runs: comparisons and figures."""

from matrixrl.lab.comparison import Contender, compare_settings
from matrixrl.lab.control_plots import draw_control
from matrixrl.lab.demo import DEMO
from matrixrl.lab.plots import draw_regret, require_matplotlib

__all__ = ["DEMO", "Contender", "compare_settings", "draw_control", "draw_regret", "require_matplotlib"]
