"""What blocks of episodes received, beside what an incumbent and the best policy are expected to earn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from matrixrl.agents import Earnings
from matrixrl.checks import fail, shown
from matrixrl.colours import COLOURS
from matrixrl.display import in_digits
from matrixrl.plots.style import add_grid, axes_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["earnings"]


def earnings(found: Earnings, *, ax: Axes | None = None) -> Axes:
    """Draw the mean return of each block, and what the incumbent and the best policy earn: estimates and bounds.

    Bounds that are further away than the returns are cut off; the legend has their numbers. The title has the gain and
    the cost of all blocks.

    Args:
        found: What `Agent.earnings` returned.
        ax: Axes to draw on; those of a new figure by default.

    Raises:
        InvalidInput: An argument is something else.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=60)
    >>> earnings(agent.earnings(every=10)).get_ylabel()
    'mean return'
    """
    if not isinstance(found, Earnings):
        fail("found", "must be what agent.earnings returned", shown(found), "Such as agent.earnings(policy, every=7).")
    axes = axes_of(ax, (7.0, 4.2))
    middle = found.first + 0.5 * (found.n_episodes - 1)
    end = found.first[-1] + found.n_episodes[-1] - 1
    axes.plot(middle, found.mean_received, "o-", color=COLOURS[0], markersize=4, label="received", zorder=3)
    policies = [("best policy", found.best, COLOURS[2])]
    if found.incumbent is not None:
        policies.append(("incumbent", found.incumbent, COLOURS[1]))
    lines = found.mean_received.tolist() + [one.estimate for _, one, _ in policies if one.estimate is not None]
    room = 0.6 * (max(lines) - min(lines)) or 0.1 * abs(lines[0]) or 1.0
    for name, policy, colour in policies:
        bounds = f"{in_digits(policy.lower)} to {in_digits(policy.upper)}{', not proven' * (not policy.guarantee)}"
        axes.axhspan(policy.lower, policy.upper, color=colour, alpha=0.08, linewidth=0)
        if policy.estimate is None:
            axes.plot([], [], color=colour, label=f"{name}: {bounds}")
        else:
            label = f"{name}: estimated {in_digits(policy.estimate)} ({bounds})"
            axes.axhline(policy.estimate, color=colour, linestyle="--", linewidth=1.4, label=label)
    axes.set_ylim(min(lines) - room, max(lines) + room)
    axes.set_xlim(found.first[0] - 0.5, end + 0.5)
    axes.set_xlabel("episode")
    if room > 10.0:
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylabel("mean return")
    axes.set_title(_title(found), fontsize=10)
    add_grid(axes)
    axes.legend(fontsize=8.5, loc="best", framealpha=0.9)
    return axes  # type: ignore[no-any-return]


def _title(found: Earnings) -> str:
    """Return the sums of all blocks in words."""
    gain = [] if found.incumbent is None else [("gain over the incumbent", found.gain)]
    words = []
    for name, table in [*gain, ("cost of learning", found.cost)]:
        low, guess, high = table.sum(axis=0).tolist()
        known = "" if np.isnan(guess) else f"estimated {in_digits(guess)} "
        words.append(f"{name}: {known}({in_digits(low)} to {in_digits(high)})")
    return "\n".join(words)
