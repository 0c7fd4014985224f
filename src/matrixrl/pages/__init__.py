"""What web pages and web services of the library share."""

from matrixrl.pages.hosts import host_name, is_loopback

__all__ = ["host_name", "is_loopback"]
