"""The study: experiments that test the claims of the paper and of this library."""

from study.pages import write_pages
from study.question import SIZES, Finding, Question
from study.study import Section, questions, run_study

__all__ = ["SIZES", "Finding", "Question", "Section", "questions", "run_study", "write_pages"]
