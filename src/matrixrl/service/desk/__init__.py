"""Answers to requests, from memory."""

from matrixrl.service.desk.answers import ActionBounds, Answer, Closed, Opened, Recorded, Reply
from matrixrl.service.desk.desk import Desk

__all__ = ["ActionBounds", "Answer", "Closed", "Desk", "Opened", "Recorded", "Reply"]
