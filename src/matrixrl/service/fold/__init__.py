"""What follows from the events of a log in their order."""

from matrixrl.service.fold.book import Book
from matrixrl.service.fold.episode import Asked, EpisodeState, Follows, Step, Told

__all__ = ["Asked", "Book", "EpisodeState", "Follows", "Step", "Told"]
