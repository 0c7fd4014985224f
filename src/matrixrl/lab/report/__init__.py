"""The HTML report of a store, and a figure of its curves for a paper."""

from matrixrl.lab.report.figure import draw_paper_figure
from matrixrl.lab.report.html import write_report

__all__ = ["draw_paper_figure", "write_report"]
