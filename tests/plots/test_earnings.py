"""The picture of earnings shows the means of blocks, estimates and bounds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from drawn import labels, river_agent

from matrixrl import plots
from matrixrl.errors import InvalidInput
from matrixrl.records import Guarantee


def test_the_points_are_the_means_of_the_blocks_in_the_middle_of_their_episodes():
    agent = river_agent()
    found = agent.earnings([1, 1, 1, 1], every=25)
    axes = plots.earnings(found)
    received, best, incumbent = axes.lines
    returns = agent.history.returns
    assert received.get_xdata() == pytest.approx([12.0, 37.0, 54.5])
    assert received.get_ydata() == pytest.approx([returns[k : k + 25].mean() for k in (0, 25, 50)])
    assert best.get_ydata() == pytest.approx([found.best.estimate] * 2)
    assert incumbent.get_ydata() == pytest.approx([found.incumbent.estimate] * 2)
    for patch, policy in zip(axes.patches, (found.best, found.incumbent), strict=True):
        corners = patch.get_bbox()
        assert (corners.y0, corners.y1) == pytest.approx((policy.lower, policy.upper))
    low, high = axes.get_ylim()
    assert low < min(line.get_ydata().min() for line in axes.lines if isinstance(line.get_ydata(), np.ndarray)) < high
    gain = found.gain.sum(axis=0)
    assert f"gain over the incumbent: estimated {gain[1]:,.4g} ({gain[0]:,.4g} to {gain[2]:,.4g})" in axes.get_title()


def test_what_is_not_proven_or_not_known_is_said():
    found = river_agent().earnings(every=60)
    axes = plots.earnings(found)
    assert len(axes.lines) == 2
    assert "gain" not in axes.get_title()
    odd = replace(found, best=replace(found.best, estimate=None, guarantee=Guarantee(False, "a reason")))
    assert "not proven" in labels(plots.earnings(odd))[1]
    assert "estimated" not in labels(plots.earnings(odd))[1]
    with pytest.raises(InvalidInput, match="found must be what"):
        plots.earnings(river_agent())
