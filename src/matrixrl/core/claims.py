"""What a subclass may inherit of a proof: a claim holds only for the methods that it was made about."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["inherits_claim"]


def inherits_claim(cls: type, claim: str, about: Iterable[str]) -> bool:
    """Say whether a class attribute was declared no earlier than everything that it is about.

    The order is that of the bases (the MRO), so that a method of a mixin counts as well as one of the class itself.

    >>> class Proven: proof, bound = True, 1
    >>> class Twice: bound = 2
    >>> class Mixed(Twice, Proven): pass
    >>> inherits_claim(Proven, "proof", ["bound"]), inherits_claim(Mixed, "proof", ["bound"])
    (True, False)
    """

    def place(name: str) -> int:
        return next((i for i, base in enumerate(cls.__mro__) if name in base.__dict__), len(cls.__mro__))

    return all(place(claim) <= place(name) for name in about)
