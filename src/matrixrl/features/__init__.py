"""Feature maps φ(s, a) and ψ(s'): tables, sparse matrices, functions, one-hot, tensor products, own subclasses."""

from typing import TYPE_CHECKING

from matrixrl.extras import later_names
from matrixrl.features.allowed_part import AllowedPart, allowed_part, indicator_groups
from matrixrl.features.bundle import Features, one_hot
from matrixrl.features.phi import Blocks, FunctionPhi, OneHotPhi, Phi, TablePhi, tensor_product
from matrixrl.features.psi import LatentPsi, OneHotPsi, Psi, SparsePsi, TablePsi, latent_psi, weighted_psi

if TYPE_CHECKING:
    from matrixrl.features.from_kernels import features_from_grams, kernel_features, transformer_features

__all__ = [
    "AllowedPart",
    "Blocks",
    "Features",
    "FunctionPhi",
    "LatentPsi",
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
    "kernel_features",
    "latent_psi",
    "one_hot",
    "tensor_product",
    "transformer_features",
    "weighted_psi",
]

_OF_KERNELS = ("features_from_grams", "kernel_features", "transformer_features")
__getattr__ = later_names(__name__, dict.fromkeys(_OF_KERNELS, "from_kernels"))
