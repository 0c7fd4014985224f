"""Pages of the lab; their templates, styles and scripts are in this folder."""

from matrixrl.pages import PageFolder

__all__ = ["PAGES"]

PAGES = PageFolder(__name__, extra="lab")
