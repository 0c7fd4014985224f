"""What regressions keep for a batch of replicas: A_n, its inverse and widths, or counts of outcomes."""

from matrixrl.linalg.design import (
    DensePairs,
    DesignMatrix,
    DiagonalPairs,
    LearningDesign,
    PairDesign,
    lost_digits,
    summation_error,
    widths,
)
from matrixrl.linalg.outcome_counts import OutcomeCounts, RewardLevels, SeenRows
from matrixrl.linalg.span import Span, exact_rank, rounding_level, span_of, span_of_chunks

__all__ = [
    "DensePairs",
    "DesignMatrix",
    "DiagonalPairs",
    "LearningDesign",
    "OutcomeCounts",
    "PairDesign",
    "RewardLevels",
    "SeenRows",
    "Span",
    "exact_rank",
    "lost_digits",
    "rounding_level",
    "span_of",
    "span_of_chunks",
    "summation_error",
    "widths",
]
