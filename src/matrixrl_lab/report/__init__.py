"""The HTML report of a store, and its figure, table and references for a paper."""

from matrixrl_lab.report.bibliography import write_bibtex
from matrixrl_lab.report.figure import draw_paper_figure
from matrixrl_lab.report.html import write_report
from matrixrl_lab.report.markdown import table_form, write_table

__all__ = ["draw_paper_figure", "table_form", "write_bibtex", "write_report", "write_table"]
