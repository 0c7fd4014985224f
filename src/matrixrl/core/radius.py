"""Radii √β_n of the confidence sets, each stating what is proven about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from matrixrl.core.regularity import Regularity
from matrixrl.records import FloatArray

__all__ = [
    "RADII",
    "ConstantRadius",
    "Radius",
    "RadiusInputs",
    "SelfNormalisedRadius",
    "TheoremRadius",
]


@dataclass(frozen=True, slots=True)
class RadiusInputs:
    """What a radius may depend on.

    Attributes:
        regularity: constants of the features.
        horizon: H.
        episode: n, counted from 1, of the episode that is planned.
        n_episodes: N where it is known in advance, else None.
        delta: the probability with which the guarantee may fail.
        logdet: (B,) ln det(A_n / λ).
    """

    regularity: Regularity
    horizon: int
    episode: int
    n_episodes: int | None
    delta: float
    logdet: FloatArray


class Radius(ABC):
    """√β_n as a function of what is known at episode n."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @property
    @abstractmethod
    def guarantee(self) -> Literal[True] | str:
        """True if `summary` is proven for the constants in use, else why not."""

    @abstractmethod
    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n of every replica: (B,)."""


class TheoremRadius(Radius):
    r"""Theorems 1 and 2: \(\beta = c\,(C_M + C_\psi'^2) \ln(N H C_\phi)\, d\), at least 1 as the proof asks.

    Without N in advance the running n stands for it, as in the last display of the proof.
    """

    name = "theorem"
    summary = "c·(C_M + C_ψ'²)·ln(N·H·C_φ)·d (Theorems 1, 2); proven for some absolute constant c"

    def __init__(self, c: float = 1.0) -> None:
        self.c = c

    @property
    def guarantee(self) -> str:
        """The paper does not say which c (erratum E5)."""
        return f"the theorem holds for some absolute constant c that the paper does not give; c = {self.c:g}"

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n: (B,)."""
        k = inputs.regularity
        steps = inputs.horizon * (inputs.episode if inputs.n_episodes is None else inputs.n_episodes)
        logarithm = math.log(max(steps * k.c_phi, 1.0))
        beta = self.c * (k.c_core + k.c_psi_inv**2) * logarithm * k.d
        return np.full(inputs.logdet.shape, math.sqrt(max(beta, 1.0)))


class SelfNormalisedRadius(Radius):
    r"""\(\sqrt{\beta_n} = \|M^*\| + L\sqrt{2\ln(1/\delta) + \ln\det A_n}\), at all n at once.

    With probability 1 − δ it bounds the operator norm of A^{1/2}(M* − M_n) for every n, if the features embed P
    (docs/proofs.md): the method of mixtures, uniform over directions by a Hoeffding lemma in Hilbert space.
    """

    name = "self-normalised"
    summary = "‖M*‖ + L·√(2 ln(1/δ) + ln det A_n); proven for all n at once if P = φᵀM*ψ"

    @property
    def guarantee(self) -> Literal[True]:
        """Proven with its constants."""
        return True

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n: (B,)."""
        k = inputs.regularity
        noise: FloatArray = np.sqrt(2.0 * math.log(1.0 / inputs.delta) + inputs.logdet)
        return k.core_norm + k.noise_scale * noise


class ConstantRadius(Radius):
    """A tuned number, the same at every episode: no guarantee.

    It is counted in units of C_ψ'², the size of the noise, so that the same number means the same exploration
    whatever the scale of ψ (one-hot ψ: C_ψ' = 1).
    """

    name = "constant"
    summary = "β·C_ψ'² with β as given; tuned, nothing is proven"

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    @property
    def guarantee(self) -> str:
        """None."""
        return "the constant radius is tuned: nothing is proven about it"

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β: (B,)."""
        return np.full(inputs.logdet.shape, inputs.regularity.c_psi_inv * math.sqrt(self.beta))


RADII: dict[str, type[Radius]] = {r.name: r for r in (TheoremRadius, SelfNormalisedRadius, ConstantRadius)}
"""Every radius by the name used in Python and on the command line."""
