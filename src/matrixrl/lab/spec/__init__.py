"""Specs: the files that describe experiments, how they are read and validated, and the cells they define."""

from matrixrl.lab.spec.experiment import Cell, Experiment, work_out
from matrixrl.lab.spec.files import SpecFile, read_spec

__all__ = ["Cell", "Experiment", "SpecFile", "read_spec", "work_out"]
