"""The study: experiments that test the claims of the paper and of this library."""

from matrixrl.lab.study.pages import write_pages
from matrixrl.lab.study.question import SIZES, Finding, Question
from matrixrl.lab.study.study import Section, questions, run_study

__all__ = ["SIZES", "Finding", "Question", "Section", "questions", "run_study", "write_pages"]
