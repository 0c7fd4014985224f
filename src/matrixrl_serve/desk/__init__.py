"""Answers to requests, from memory."""

from matrixrl_serve.desk.answers import ActionBounds, Answer, Closed, Opened, Recorded, Reply
from matrixrl_serve.desk.desk import Desk

__all__ = ["ActionBounds", "Answer", "Closed", "Desk", "Opened", "Recorded", "Reply"]
