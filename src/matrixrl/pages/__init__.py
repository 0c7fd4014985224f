"""What web pages and web services of the library share."""

from matrixrl.pages.feed import Feed
from matrixrl.pages.folders import PageFolder
from matrixrl.pages.hosts import host_name, is_loopback
from matrixrl.pages.streaming import event_stream

__all__ = ["Feed", "PageFolder", "event_stream", "host_name", "is_loopback"]
