"""Experiments as files: what they may say, how they are read, what they mean."""

from matrixrl.lab.spec.experiment import Cell, Experiment, work_out
from matrixrl.lab.spec.files import SpecFile, read_spec, shipped_specs

__all__ = ["Cell", "Experiment", "SpecFile", "read_spec", "shipped_specs", "work_out"]
