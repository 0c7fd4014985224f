"""Specs: the files that describe experiments, how they are read and validated, and the cells they define."""

from matrixrl.extras import require_packages

# before they are imported, for an error that names the extra
require_packages(("pydantic", "yaml"), extra="lab", purpose="the lab")

from matrixrl_lab.spec.experiment import Cell, Experiment, work_out  # noqa: E402
from matrixrl_lab.spec.files import SpecFile, read_spec  # noqa: E402

__all__ = ["Cell", "Experiment", "SpecFile", "read_spec", "work_out"]
