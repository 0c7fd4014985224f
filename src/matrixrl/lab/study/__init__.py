"""The claims of the paper, and ours, measured."""

from matrixrl.lab.study.pages import write_pages
from matrixrl.lab.study.question import SIZES, Answer, Question
from matrixrl.lab.study.study import Section, questions, run_study

__all__ = ["SIZES", "Answer", "Question", "Section", "questions", "run_study", "write_pages"]
