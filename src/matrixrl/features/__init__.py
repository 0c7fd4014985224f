"""Feature maps φ(s, a) and ψ(s'): tables, sparse matrices, functions, one-hot, tensor products, own subclasses."""

from matrixrl.features.allowed_part import AllowedPart, allowed_part
from matrixrl.features.blocks import Blocks
from matrixrl.features.bundle import Features, one_hot
from matrixrl.features.function_phi import FunctionPhi
from matrixrl.features.indicator import indicator_groups, is_indicator
from matrixrl.features.kernel_features import features_from_grams, kernel_features, transformer_features
from matrixrl.features.one_hot import OneHotPhi, OneHotPsi
from matrixrl.features.phi import Phi
from matrixrl.features.psi import Psi
from matrixrl.features.sparse_psi import SparsePsi
from matrixrl.features.table_phi import TablePhi, tensor_product
from matrixrl.features.table_psi import TablePsi

__all__ = [
    "AllowedPart",
    "Blocks",
    "Features",
    "FunctionPhi",
    "OneHotPhi",
    "OneHotPsi",
    "Phi",
    "Psi",
    "SparsePsi",
    "TablePhi",
    "TablePsi",
    "allowed_part",
    "features_from_grams",
    "indicator_groups",
    "is_indicator",
    "kernel_features",
    "one_hot",
    "tensor_product",
    "transformer_features",
]
