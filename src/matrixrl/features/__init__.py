"""Feature maps φ(s, a) and ψ(s'): tables, one-hot, tensor products."""

from matrixrl.features.bundle import Features, one_hot
from matrixrl.features.phi import Blocks, OneHotPhi, Phi, TablePhi, tensor_product
from matrixrl.features.psi import OneHotPsi, Psi, TablePsi

__all__ = [
    "Blocks",
    "Features",
    "OneHotPhi",
    "OneHotPsi",
    "Phi",
    "Psi",
    "TablePhi",
    "TablePsi",
    "one_hot",
    "tensor_product",
]
