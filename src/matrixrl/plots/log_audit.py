"""The audit of a log: what is proven about each policy, and which pairs need data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from matrixrl.agents import Audit
from matrixrl.checks import fail, shown
from matrixrl.colours import COLOURS, REFERENCE
from matrixrl.display import printable
from matrixrl.plots.style import add_grid, require_matplotlib

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["log_audit"]

_MOST = 10  # pairs that are drawn
_LONGEST = 28  # characters of a name


def log_audit(audit: Any) -> Axes:
    """Draw the intervals of all policies of an audit with their estimates, and the shares of pairs in the width.

    The dotted line is what no policy exceeds.

    Args:
        audit: What `matrixrl.agents.audit_log` returned.

    >>> import matrixrl
    >>> from matrixrl.agents import audit_log
    >>> task = matrixrl.Task([[0.0, 0.1], [0.0, 1.0]], 2, start=0)
    >>> log = {"episode": [0, 0], "state": [0, 1], "action": [1, 1], "reward": [0.1, 1.0], "next_state": [1, 1]}
    >>> [text.get_text() for text in log_audit(audit_log(log, task)).get_yticklabels()]
    ["the log's policies", 'safest', 'as the log']
    """
    if not isinstance(audit, Audit):
        fail("audit", "must be an audit", shown(audit), "Such as that of matrixrl.agents.audit_log(log, problem).")
    require_matplotlib()
    from matplotlib import pyplot  # slow to import, and optional

    rows = [(one.name, (one.lower, one.upper), one.estimate) for one in audit.policies]
    if audit.logged is not None:
        rows.insert(
            0, ("the log's policy" if audit.fixed_policy else "the log's policies", audit.logged, audit.mean_return)
        )
    pairs = audit.pairs[:_MOST]
    height = 1.6 + 0.36 * max(len(rows), len(pairs))
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(9.6, height), layout="constrained", width_ratios=(3, 2))
    for place, (_, (low, high), estimate) in enumerate(rows):
        left.barh(place, high - low, left=low, height=0.45, color=REFERENCE if place == 0 else COLOURS[0], alpha=0.55)
        if estimate is not None:
            left.plot(estimate, place, marker="|", markersize=14, markeredgewidth=2.0, color=COLOURS[1])
    left.axvline(audit.optimum, color="black", linewidth=0.9, linestyle=":", label="no policy earns more")
    left.legend(fontsize=8.5, loc="lower left", bbox_to_anchor=(0.0, 1.0), framealpha=0.0, borderpad=0.0)
    left.set_yticks(range(len(rows)), [_short(name) for name, _, _ in rows])
    left.invert_yaxis()
    left.set_xlabel("value of an episode: bounds, and estimate")
    left.set_title("proven" if audit.guarantee else "not proven", fontsize=10, loc="right")
    right.barh(range(len(pairs)), [100.0 * one.share for one in pairs], height=0.6, color=COLOURS[0])
    right.set_yticks(range(len(pairs)), [_short(f"{one.action} in {one.state}  ({one.visits:,})") for one in pairs])
    right.invert_yaxis()
    right.set_xlabel("% of the width of safest")
    right.set_title("action in state (visits)", fontsize=10)
    for axes in (left, right):
        axes.use_sticky_edges = False
        axes.margins(x=0.04)
        add_grid(axes, "x")
    right.set_xlim(left=0.0)
    figure.suptitle(_short(audit.verdict, 90), fontsize=10)
    return left  # type: ignore[no-any-return]


def _short(words: str, most: int = _LONGEST) -> str:
    text = printable(words)
    return text if len(text) <= most else text[: most - 1] + "…"
