"""A web page that shows an experiment while it runs; the store is only read."""

from matrixrl_lab.live.server import make_app, serve
from matrixrl_lab.live.snapshot import Watcher, snapshot

__all__ = ["Watcher", "make_app", "serve", "snapshot"]
