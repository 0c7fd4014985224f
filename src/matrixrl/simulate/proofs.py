"""Guarantees in a few words, for the column `proof` of every table."""

from __future__ import annotations

from typing import Literal

__all__ = ["proof_label"]


def proof_label(guarantee: Literal[True] | str | None) -> dict[str, str]:
    """Return a short label of a guarantee, its CSS class and the reason.

    Args:
        guarantee: True if a regret bound is proven, else the reason why not; None if nothing was played so far.

    >>> proof_label("tuned: the bonus was scaled by 0.1")
    {'label': 'tuned', 'kind': 'tuned', 'reason': 'the bonus was scaled by 0.1'}
    """
    if guarantee is None:
        label, reason = "not known yet", "no episodes have been played so far"
    elif guarantee is True:
        label, reason = "proven", "a regret bound is proven for these settings"
    elif guarantee.startswith("misspecification alarm"):
        label, reason = "alarm", guarantee
    else:
        # shrinking the confidence set is tuning too: the bound is proven for the set of full size
        label = "tuned" if guarantee.startswith(("tuned", "exploration ")) else "no proof"
        reason = guarantee.removeprefix("tuned: ")
    return {"label": label, "kind": label.replace(" ", "-"), "reason": reason}
