"""Feature maps φ(s, a) and ψ(s'): tables, sparse matrices, functions, one-hot, tensor products."""

from matrixrl.features.bundle import Features, one_hot
from matrixrl.features.function_phi import FunctionPhi
from matrixrl.features.kernel_features import features_from_grams, kernel_features, transformer_features
from matrixrl.features.phi import Blocks, OneHotPhi, Phi, TablePhi, tensor_product
from matrixrl.features.psi import OneHotPsi, Psi, TablePsi
from matrixrl.features.sparse_psi import SparsePsi

__all__ = [
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
    "features_from_grams",
    "kernel_features",
    "one_hot",
    "tensor_product",
    "transformer_features",
]
