"""Radii √β_n of the confidence sets, each with a statement of what is proven about it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from matrixrl.checks import choice, fail, real_numbers, show_where
from matrixrl.core.regularity import Regularity
from matrixrl.features import Blocks
from matrixrl.linalg import DiagonalPairs, PairDesign
from matrixrl.records import FloatArray, Guarantee

__all__ = [
    "RADII",
    "BlockRadius",
    "ConstantRadius",
    "LogDetRadius",
    "PairwiseRadius",
    "PaperRadius",
    "ProofRadius",
    "Radius",
    "RadiusInputs",
    "SelfNormalisedRadius",
    "TheoremRadius",
    "as_radius",
    "checked_radius",
    "disown",
]


@dataclass(frozen=True, slots=True)
class RadiusInputs:
    """The inputs of a radius.

    Attributes:
        regularity: Constants of the features.
        horizon: Number of steps H of an episode.
        episode: Number n of the episode that is planned, counted from 1.
        n_episodes: Number of episodes N if it is known in advance, else None.
        delta: Probability δ with which the radius may fail.
        design: A_n of every replica, with the widths of the pairs.
        blocks: Blocks of the features.
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
        """Number of replicas B."""
        return len(self.design.width_sq)


def disown(cls: type, base: type, *claims: str) -> None:
    """Set what a class does not claim itself to what a base class says: a proof is about the methods of one class."""
    for claim in claims:
        if claim not in vars(cls):
            setattr(cls, claim, vars(base)[claim])


class Radius(ABC):
    """Base class of the radii √β_n.

    Attributes:
        name: Name of the radius in Python and on the command line.
        summary: One-line description for the command line.
        in_feature_units: Whether the ridge parameter is in units of the largest ‖φ‖², so that results do not depend on
            the scale of φ.
        guarantee: Whether the radius is proven with its constants; a claim about one class, which a subclass makes
            again.
    """

    name: ClassVar[str] = "own radius"
    summary: ClassVar[str] = ""
    in_feature_units: ClassVar[bool] = False
    guarantee: Guarantee = Guarantee(False, "the radius declares no proof")

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        disown(cls, Radius, "guarantee", "is_local", "at_most")

    @abstractmethod
    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n, of shape (B, 1), or (B, P) if it depends on the pair."""

    def is_local(self, n_episodes: int | None) -> bool:  # noqa: ARG002
        """Return whether, for one-hot features, the radius of a pair depends on the data only by its number of visits.

        Args:
            n_episodes: Number of episodes N if it is known in advance, else None.
        """
        return False

    def at_most(self, regularity: Regularity, blocks: Blocks, *, delta: float, n_steps: int) -> float | None:  # noqa: ARG002
        """Return an upper bound on √β that holds for all data of a number of steps, or None if none is declared.

        Args:
            regularity: Constants of the features.
            blocks: Blocks of the features.
            delta: Probability δ with which the radius may fail.
            n_steps: Number of steps T.
        """
        return None


def checked_radius(radius: Radius, inputs: RadiusInputs) -> FloatArray:
    """Return √β_n of a radius, or raise if it is not one finite number >= 0 for each replica, or each pair."""
    found = radius(inputs)
    values = found if isinstance(found, np.ndarray) and found.dtype == np.float64 else real_numbers(found)
    n_replicas, n_pairs = inputs.design.width_sq.shape
    if values.shape not in ((n_replicas, 1), (n_replicas, n_pairs)):
        shown = f"shape {values.shape}" if values.size else repr(found)
        rule = f"must be real numbers of shape ({n_replicas}, 1), or ({n_replicas}, {n_pairs}) with one for each pair"
        fail(f"the radius {radius.name!r}", rule, shown, "Return √β_n as an array of that shape.")
    bad = ~(np.isfinite(values) & (values >= 0.0))
    if bad.any():
        rule = "must be finite and >= 0"
        fail(f"the radius {radius.name!r}", rule, show_where(values, bad), "Check the formula of the radius.")
    return values


class PaperRadius(Radius):
    """Base class of the radii of the paper, which does not give the value of the absolute constant c (erratum E5).

    Args:
        c: Absolute constant c.
    """

    def __init__(self, c: float = 1.0) -> None:
        self.c = c
        words = f"it holds for some absolute constant c that the paper does not give; c = {c:g}"
        self.guarantee = Guarantee(False, words)


class TheoremRadius(PaperRadius):
    r"""Radius of Theorems 1 and 2: \(\beta = c\,(C_M + C_\psi'^2) \ln(N H C_\phi)\, d\).

    The proof requires β >= 1, so a smaller β is replaced by 1. If N is not known in advance, the current n
    replaces it, as in the last display of the proof.

    Args:
        c: Absolute constant c.
    """

    name = "theorem"
    summary = "c·(C_M + C_ψ'²)·ln(N·H·C_φ)·d (Theorems 1, 2); proven for some absolute constant c"

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        k = inputs.regularity
        steps = inputs.horizon * (inputs.episode if inputs.n_episodes is None else inputs.n_episodes)
        logarithm = math.log(max(steps * k.c_phi, 1.0))
        beta = self.c * (k.c_core + k.c_psi_inv**2) * logarithm * k.d
        return np.full((inputs.n_replicas, 1), math.sqrt(max(beta, 1.0)))

    def is_local(self, n_episodes: int | None) -> bool:
        """Return whether N is known; the radius is then a constant."""
        return n_episodes is not None


class LogDetRadius(PaperRadius):
    """Anytime radius of the proofs and of Theorem 3: β_n = C_M d + c C_ψ'² ln det A_n ln(nH/δ), at least 1.

    Args:
        c: Absolute constant c.
    """

    name = "log-det"
    summary = "C_M·d + c·C_ψ'²·ln det A_n·ln(nH/δ) (Theorem 3, the proofs); proven for some absolute constant c"

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        k = inputs.regularity
        logarithm = math.log(inputs.episode * inputs.horizon / inputs.delta)
        beta = k.c_core * k.d + self.c * k.c_psi_inv**2 * inputs.design.logdet * logarithm
        return np.sqrt(np.maximum(beta, 1.0))[:, None]


class ProofRadius(Radius):
    """Smallest β that satisfies both displayed conditions of the concentration proof, with their constants.

    The conditions are β² >= 32 v ln(πnH/δ) + 8⁴ ln⁴(πnH/δ) with v = 8 C_ψ'² β ln det A_n, and
    β/2 >= ‖M*‖_F² + 2 C_ψ'² ln det A_n. This radius is too large for practical use; it shows which radius the printed
    proof requires.
    """

    name = "proof"
    summary = (
        "both conditions of the concentration proof, with their constants; proven only as far as the printed proof is"
    )

    guarantee = Guarantee(
        False,
        "the printed proof bounds ‖η‖ by C_ψ' where only 2C_ψ' holds (E6) and treats ln det A_n as fixed; "
        "the self-normalised radius is the proven one",
    )

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        k, logdet = inputs.regularity, inputs.design.logdet
        log = math.log(math.pi * inputs.episode * inputs.horizon / inputs.delta)
        linear = 32.0 * 8.0 * k.c_psi_inv**2 * logdet * log
        martingale = 0.5 * (linear + np.sqrt(linear**2 + 4.0 * 8.0**4 * log**4))
        drift = 2.0 * (k.core_norm**2 + 2.0 * k.c_psi_inv**2 * logdet)
        return np.sqrt(np.maximum(martingale, drift))[:, None]


class SelfNormalisedRadius(Radius):
    r"""Self-normalised radius \(\sqrt{\beta_n} = \|M^*\| + L\sqrt{2\ln(1/\delta) + \ln\det A_n}\), for all n at once.

    If P = φᵀM*ψ, it bounds the operator norm of \(A_n^{1/2}(M^* - M_n)\) for all n with probability 1 − δ. The proof
    uses the method of mixtures and a Hoeffding lemma in Hilbert space (docs/proofs.md, section 3). ‖M*‖ is replaced by
    its upper bound `Regularity.core_norm` (section 4).
    """

    name = "self-normalised"
    summary = "‖M*‖ + L·√(2 ln(1/δ) + ln det A_n); proven for all n at once if P = φᵀM*ψ"
    guarantee = Guarantee(True)

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        k = inputs.regularity
        noise = np.sqrt(2.0 * math.log(1.0 / inputs.delta) + inputs.design.logdet)
        return (k.core_norm + k.noise_scale * noise)[:, None]

    def at_most(self, regularity: Regularity, blocks: Blocks, *, delta: float, n_steps: int) -> float:  # noqa: ARG002
        """Return √β for the largest ln det A_n, d ln(1 + T C_φ)."""
        logdet = regularity.largest_logdet(n_steps)
        return regularity.core_norm + regularity.noise_scale * math.sqrt(2.0 * math.log(1.0 / delta) + logdet)


class BlockRadius(Radius):
    """Self-normalised radius of each block of features, at δ/K for K blocks of unknown law (docs/proofs.md, section 5).

    ln det A_n is replaced by the log-determinant of the block. For one-hot features every pair is a block, and the bias
    of a pair with n visits is known, so the radius is λC_ψ'/√(λ + n) + L √(2 ln(K/δ) + ln(1 + n/λ)), without the second
    term if n = 0. With a single block it is the self-normalised radius. The preset `optimistic`, certificates and the
    misspecification alarm use it.
    """

    name = "block"
    summary = "self-normalised radius of each block of features at δ/K (one-hot: by visits); proven if P = φᵀM*ψ"
    guarantee = Guarantee(True)

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n of the block of each pair, of shape (B, P), or (B, 1) if there is only one block."""
        k, blocks, design = inputs.regularity, inputs.blocks, inputs.design
        if blocks.one_pair_each and isinstance(design, DiagonalPairs):
            return self._by_visits(k, design, blocks.n_events / inputs.delta)
        # The log-determinant of a single block is that of A_n, which is already computed.
        logdet = design.block_logdet(blocks.members) if blocks.count > 1 else design.logdet[:, None]
        core_norm = math.sqrt(k.ridge) * k.c_psi_inv / np.sqrt(blocks.eigenvalues)
        core_norm = np.minimum(core_norm, k.core_norm)  # the norm of a block of M* is at most that of M*
        noise = np.sqrt(2.0 * math.log(blocks.n_events / inputs.delta) + logdet)
        radius: FloatArray = core_norm + k.noise_scale * noise
        return radius[:, blocks.pair_block] if blocks.count > 1 else radius

    def at_most(self, regularity: Regularity, blocks: Blocks, *, delta: float, n_steps: int) -> float:
        """Return √β for the largest norm of a block of M* and the largest log-determinant of a block."""
        k = regularity
        core_norm = math.sqrt(k.ridge) * k.c_psi_inv / math.sqrt(float(blocks.eigenvalues.min()))
        if not blocks.one_pair_each:  # one-hot pairs do not use a given C_M
            core_norm = min(core_norm, k.core_norm)
        logdet = k.largest_logdet(n_steps, max(map(len, blocks.members)))
        return core_norm + k.noise_scale * math.sqrt(2.0 * math.log(blocks.n_events / delta) + logdet)

    def is_local(self, n_episodes: int | None) -> bool:  # noqa: ARG002
        """Return True: each one-hot pair is a block."""
        return True

    @staticmethod
    def _by_visits(k: Regularity, design: DiagonalPairs, inverse_delta: float) -> FloatArray:
        """Return √β_n (B, P) of one-hot pairs; `inverse_delta` is K/δ."""
        n, ridge = design.counts, design.ridge
        noise = k.noise_scale * np.sqrt(2.0 * math.log(inverse_delta) + np.log1p(n / ridge))
        bias = ridge * k.c_psi_inv / np.sqrt(ridge + n)
        radius: FloatArray = bias + np.where(n > 0, noise, 0.0)
        return radius


class ConstantRadius(Radius):
    """Constant radius √β·C_ψ' for all episodes, to be tuned; nothing is proven about it.

    The factor C_ψ' is the scale of the noise, so that exploration does not depend on the scale of ψ (for one-hot ψ,
    C_ψ' = 1).

    Args:
        beta: Constant β.
    """

    name = "constant"
    in_feature_units = True
    summary = "β·C_ψ'² with a constant β; tuned, nothing is proven"
    guarantee = Guarantee(False, "the constant radius is tuned: nothing is proven about it")

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = beta

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        return np.full((inputs.n_replicas, 1), inputs.regularity.c_psi_inv * math.sqrt(self.beta))

    def is_local(self, n_episodes: int | None) -> bool:  # noqa: ARG002
        """Return True: the radius is a constant."""
        return True


class PairwiseRadius(BlockRadius):
    r"""Block radius whose bias is that of the pair, \(\lambda\|A_n^{-1}\phi\|\,\|M^*\|/w\), which is at most √λ‖M*‖.

    The noise and the parts of δ are those of `BlockRadius`. The ridge moves φᵀM_n by λφᵀA_n⁻¹M*, whose norm is at most
    λ‖A_n⁻¹φ‖‖M*‖; it decreases with the number of visits, while √λ‖M*‖ does not (docs/proofs.md, section 10).
    """

    name = "pairwise"
    summary = "block radius with the bias of each pair, λ‖A_n⁻¹φ‖·‖M*‖; proven if P = φᵀM*ψ"
    guarantee = Guarantee(True)

    is_local = BlockRadius.is_local
    at_most = BlockRadius.at_most  # the bias of a pair is at most that of the block radius

    def __call__(self, inputs: RadiusInputs) -> FloatArray:
        """Return √β_n of each pair, of shape (B, P)."""
        k, blocks, design = inputs.regularity, inputs.blocks, inputs.design
        whole = super().__call__(inputs)
        if blocks.one_pair_each:  # whose bias is already that of the pair
            return whole
        core_norm = math.sqrt(k.ridge) * k.c_psi_inv / np.sqrt(blocks.eigenvalues)
        core_norm = np.minimum(core_norm, k.core_norm)  # of blocks, then of pairs
        core_norm = core_norm[blocks.pair_block] if blocks.count > 1 else core_norm
        width_sq = np.maximum(design.width_sq, np.finfo(np.float64).tiny)
        shrunk = np.sqrt(np.minimum(k.ridge * design.inverse_norms_sq() / width_sq, 1.0))  # √λ‖A⁻¹φ‖/w
        radius: FloatArray = whole - core_norm * (1.0 - shrunk)
        return radius


RADII: dict[str, type[Radius]] = {
    kind.name: kind
    for kind in (BlockRadius, SelfNormalisedRadius, TheoremRadius, LogDetRadius, ProofRadius, ConstantRadius)
}
"""Radii by their names in Python and on the command line."""


def as_radius(argument: str, value: Any) -> Radius:
    """Return a radius: the object given, an instance of the class given, or the radius of a name."""
    made = value() if isinstance(value, type) and issubclass(value, Radius) else value
    remedy = "Or give an object; for a number √β give matrixrl.core.radius.ConstantRadius(beta=…)."
    return made if isinstance(made, Radius) else RADII[choice(argument, made, RADII, remedy=remedy)]()
