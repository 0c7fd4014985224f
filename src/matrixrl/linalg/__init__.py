"""What regressions keep for a batch of replicas: A_n, its inverse and widths, or counts of outcomes."""

from typing import TYPE_CHECKING

from matrixrl.linalg.design import DesignMatrix, GramInverse, squared_row_norms
from matrixrl.linalg.outcome_counts import LevelShares, OutcomeCounts, RewardLevels, SeenRows
from matrixrl.linalg.pair_designs import DensePairs, DiagonalPairs, LearningDesign, PairDesign, QueriedPairs
from matrixrl.linalg.span import Span, exact_rank, rounding_level, span_of, span_of_chunks
from matrixrl.linalg.visit_factor import VisitFactor, lost_digits, summation_error
from matrixrl.references import later_names

if TYPE_CHECKING:
    from matrixrl.linalg.inducing import InducingFactor, choose_pivots

__all__ = [
    "DensePairs",
    "DesignMatrix",
    "DiagonalPairs",
    "GramInverse",
    "InducingFactor",
    "LearningDesign",
    "LevelShares",
    "OutcomeCounts",
    "PairDesign",
    "QueriedPairs",
    "RewardLevels",
    "SeenRows",
    "Span",
    "VisitFactor",
    "choose_pivots",
    "exact_rank",
    "lost_digits",
    "rounding_level",
    "span_of",
    "span_of_chunks",
    "squared_row_norms",
    "summation_error",
]

__getattr__ = later_names(__name__, {"InducingFactor": "inducing", "choose_pivots": "inducing"})
