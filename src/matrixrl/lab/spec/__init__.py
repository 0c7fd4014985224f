"""Experiments as files: what they may say, how they are read, what they mean."""

from matrixrl.lab.spec.experiment import Cell, Experiment, work_out
from matrixrl.lab.spec.files import SpecFile, read_spec

__all__ = ["Cell", "Experiment", "SpecFile", "read_spec", "work_out"]
