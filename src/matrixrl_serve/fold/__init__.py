"""What follows from the events of a log in their order."""

from matrixrl_serve.fold.book import Book, misfit
from matrixrl_serve.fold.episode import EPISODE_NAME, Asked, EpisodeState, Follows, Step, Told

__all__ = ["EPISODE_NAME", "Asked", "Book", "EpisodeState", "Follows", "Step", "Told", "misfit"]
