"""Answers to requests, from memory."""

from matrixrl_serve.decisions.answers import ActionBounds, Answer, Closed, Opened, Recorded
from matrixrl_serve.decisions.requests import Decisions

__all__ = ["ActionBounds", "Answer", "Closed", "Decisions", "Opened", "Recorded"]
