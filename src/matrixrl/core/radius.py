"""Radii √β_n of the confidence sets, each stating what is proven about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from matrixrl.core.regularity import Regularity
from matrixrl.features import Blocks
from matrixrl.linalg import DiagonalPairs, PairDesign
from matrixrl.records import FloatArray

__all__ = [
    "RADII",
    "BlockRadius",
    "ConstantRadius",
    "LogDetRadius",
    "PaperRadius",
    "ProofRadius",
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
        design: A_n of every replica.
        blocks: the blocks of the features.
    """

    regularity: Regularity
    horizon: int
    episode: int
    n_episodes: int | None
    delta: float
    design: PairDesign
    blocks: Blocks

    @property
    def n_replicas(self) -> int:
        """B."""
        return len(self.design.width_sq)


class Radius(ABC):
    """√β_n as a function of what is known at episode n.

    Attributes:
        in_feature_units: Whether the ridge is counted in units of the largest ‖φ‖², so that the scale of φ does not
            matter.
    """

    name: ClassVar[str] = "own radius"
    summary: ClassVar[str] = ""
    in_feature_units: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "__call__" not in cls.__dict__:
            return
        if "guarantee" not in cls.__dict__:
            cls.guarantee = Radius.guarantee  # type: ignore[method-assign]  # another formula needs a proof of its own
        if "is_local" not in cls.__dict__:
            cls.is_local = Radius.is_local  # type: ignore[method-assign]  # and may depend on more than visits

    @property
    def guarantee(self) -> Literal[True] | str:
        """True if the radius is proven for the constants in use, else why not."""
        return "the radius declares no proof"

    @abstractmethod
    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n: (B, 1), or (B, P) if it differs from pair to pair."""

    def is_local(self, n_episodes: int | None) -> bool:  # noqa: ARG002
        """Say whether, with one-hot features, nothing but a pair's own visits changes it; N as given in advance."""
        return False


class PaperRadius(Radius):
    """A radius of the paper, which leaves an absolute constant c open (erratum E5)."""

    def __init__(self, c: float = 1.0) -> None:
        self.c = c

    @property
    def guarantee(self) -> str:
        """The paper does not say which c."""
        return f"it holds for some absolute constant c that the paper does not give; c = {self.c:g}"


class TheoremRadius(PaperRadius):
    r"""Theorems 1 and 2: \(\beta = c\,(C_M + C_\psi'^2) \ln(N H C_\phi)\, d\), at least 1 as the proof asks.

    Without N in advance the running n stands for it, as in the last display of the proof.
    """

    name = "theorem"
    summary = "c·(C_M + C_ψ'²)·ln(N·H·C_φ)·d (Theorems 1, 2); proven for some absolute constant c"
    guarantee = PaperRadius.guarantee

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n: (B, 1)."""
        k = inputs.regularity
        steps = inputs.horizon * (inputs.episode if inputs.n_episodes is None else inputs.n_episodes)
        logarithm = math.log(max(steps * k.c_phi, 1.0))
        beta = self.c * (k.c_core + k.c_psi_inv**2) * logarithm * k.d
        return np.full((inputs.n_replicas, 1), math.sqrt(max(beta, 1.0)))

    def is_local(self, n_episodes: int | None) -> bool:
        """With N it is a constant."""
        return n_episodes is not None


class LogDetRadius(PaperRadius):
    """The proofs' anytime form, β_n = C_M d + c C_ψ'² ln det A_n ln(nH/δ), as in Theorem 3."""

    name = "log-det"
    summary = "C_M·d + c·C_ψ'²·ln det A_n·ln(nH/δ) (Theorem 3, the proofs); proven for some absolute constant c"
    guarantee = PaperRadius.guarantee

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n: (B, 1)."""
        k = inputs.regularity
        logarithm = math.log(inputs.episode * inputs.horizon / inputs.delta)
        beta = k.c_core * k.d + self.c * k.c_psi_inv**2 * inputs.design.logdet * logarithm
        return np.sqrt(np.maximum(beta, 1.0))[:, None]


class ProofRadius(Radius):
    """The smallest β that meets both displayed conditions of the concentration proof, constants and all.

    β² >= 32 v ln(πnH/δ) + 8⁴ ln⁴(πnH/δ) with v = 8 C_ψ'² β ln det A_n, and β/2 >= ‖M*‖_F² + 2 C_ψ'² ln det A_n. Huge:
    it is here to be honest about what the theorem needs.
    """

    name = "proof"
    summary = (
        "both conditions of the concentration proof, constants and all; proven only as far as the printed proof is"
    )

    @property
    def guarantee(self) -> str:
        """The printed proof has gaps of its own."""
        return (
            "the printed proof bounds ‖η‖ by C_ψ' where only 2C_ψ' holds (E6) and treats ln det A_n as fixed; "
            "the self-normalised radius is the proven one"
        )

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n: (B, 1)."""
        k, logdet = inputs.regularity, inputs.design.logdet
        log = math.log(math.pi * inputs.episode * inputs.horizon / inputs.delta)
        linear = 32.0 * 8.0 * k.c_psi_inv**2 * logdet * log
        martingale = 0.5 * (linear + np.sqrt(linear**2 + 4.0 * 8.0**4 * log**4))
        drift = 2.0 * (k.core_norm**2 + 2.0 * k.c_psi_inv**2 * logdet)
        return np.sqrt(np.maximum(martingale, drift))[:, None]


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
        """Return √β_n: (B, 1)."""
        k = inputs.regularity
        noise = np.sqrt(2.0 * math.log(1.0 / inputs.delta) + inputs.design.logdet)
        return (k.core_norm + k.noise_scale * noise)[:, None]


class BlockRadius(Radius):
    """The self-normalised radius inside each block of features, at δ/K for K blocks (docs/proofs.md, 5).

    ln det A_n becomes that of the block alone. For a one-hot pair with n visits the bias is known exactly:
    λC_ψ'/√(λ + n) + L √(2 ln(K/δ) + ln(1 + n/λ)), and there is no noise at n = 0 (docs/proofs.md). With one block it
    is the self-normalised radius: so it is the tightest proven radius for any features, and what `guaranteed`
    uses.
    """

    name = "block"
    summary = "self-normalised inside each block of features at δ/K (one-hot: by visits); proven if P = φᵀM*ψ"

    @property
    def guarantee(self) -> Literal[True]:
        """Proven with its constants."""
        return True

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n of the block of each pair: (B, P), or (B, 1) where there is one block."""
        k, blocks, design = inputs.regularity, inputs.blocks, inputs.design
        if blocks.one_pair_each and isinstance(design, DiagonalPairs):
            return self._by_visits(k, design, blocks.count / inputs.delta)
        # One block is all of A_n, whose log-determinant is at hand.
        logdet = design.block_logdet(blocks.members) if blocks.count > 1 else design.logdet[:, None]
        core_norm = math.sqrt(k.ridge) * k.c_psi_inv / np.sqrt(blocks.eigenvalues)
        core_norm = np.minimum(core_norm, k.core_norm)  # a block of M* is no longer than M*
        noise = np.sqrt(2.0 * math.log(blocks.count / inputs.delta) + logdet)
        radius: FloatArray = core_norm + k.noise_scale * noise
        return radius[:, blocks.pair_block] if blocks.count > 1 else radius

    def is_local(self, n_episodes: int | None) -> bool:  # noqa: ARG002
        """A one-hot pair is a block of its own."""
        return True

    @staticmethod
    def _by_visits(k: Regularity, design: DiagonalPairs, odds: float) -> FloatArray:
        n, ridge = design.counts, design.ridge
        noise = k.noise_scale * np.sqrt(2.0 * math.log(odds) + np.log1p(n / ridge))
        bias = ridge * k.c_psi_inv / np.sqrt(ridge + n)
        radius: FloatArray = bias + np.where(n > 0, noise, 0.0)
        return radius


class ConstantRadius(Radius):
    """A tuned number, the same at every episode: no guarantee.

    It is counted in units of C_ψ'², the size of the noise, so that the same number means the same exploration
    whatever the scale of ψ (one-hot ψ: C_ψ' = 1).
    """

    name = "constant"
    in_feature_units = True
    summary = "β·C_ψ'² with β as given; tuned, nothing is proven"

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    @property
    def guarantee(self) -> str:
        """None."""
        return "the constant radius is tuned: nothing is proven about it"

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β: (B, 1)."""
        return np.full((inputs.n_replicas, 1), inputs.regularity.c_psi_inv * math.sqrt(self.beta))

    def is_local(self, n_episodes: int | None) -> bool:  # noqa: ARG002
        """It is a constant."""
        return True


RADII: dict[str, type[Radius]] = {
    kind.name: kind
    for kind in (
        BlockRadius,
        SelfNormalisedRadius,
        TheoremRadius,
        LogDetRadius,
        ProofRadius,
        ConstantRadius,
    )
}
"""Every radius by the name used in Python and on the command line."""
