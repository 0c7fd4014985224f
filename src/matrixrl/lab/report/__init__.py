"""What people read: a page with every curve and number of a store, and a figure for a paper."""

from matrixrl.lab.report.figure import draw_paper_figure
from matrixrl.lab.report.html import write_report

__all__ = ["draw_paper_figure", "write_report"]
