"""The dashboard: what a service has learned and does, for people; its page, style and script are in this folder."""

from matrixrl.pages import PageFolder
from matrixrl_serve.dashboard.dashboard import Dashboard
from matrixrl_serve.dashboard.states import SORTS

__all__ = ["PAGES", "SORTS", "Dashboard"]

PAGES = PageFolder(__name__, extra="serve")
