"""Specs: the files that describe experiments, how they are read and validated, and the cells they define."""

from matrixrl.lab.requirements import require_lab

require_lab("pydantic", "yaml")  # before they are imported, for an error that names the extra

from matrixrl.lab.spec.experiment import Cell, Experiment, work_out  # noqa: E402
from matrixrl.lab.spec.files import SpecFile, read_spec  # noqa: E402

__all__ = ["Cell", "Experiment", "SpecFile", "read_spec", "work_out"]
