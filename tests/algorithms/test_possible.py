"""What data can have made."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import InvalidInput
from matrixrl.algorithms.possible import check_stages


@pytest.mark.parametrize(
    ("visits", "episode", "logged", "fits"),
    [
        ([3, 3, 2], 3, 0, True),
        ([3, 2, 3], 3, 0, False),  # an episode that skips a stage
        ([2, 2, 2], 3, 0, False),  # an episode without a first stage
        ([4, 3, 3], 3, 0, False),
        ([3, 2, 3], 3, 1, True),  # unless it was logged
        ([2, 2, 2], 3, 1, True),
        ([1, 1, 1], 3, 1, False),
        ([2, 1, 3], 3, 1, False),  # two episodes begin late
        ([0, 0, 3], 3, 3, True),
        ([0, 0, 4], 3, 3, False),
    ],
)
def test_visits_of_stages(visits, episode, logged, fits):
    array = np.array([visits], dtype=np.float64)
    if fits:
        check_stages("visits", array, episode, logged)
    else:
        with pytest.raises(InvalidInput, match="visits must"):
            check_stages("visits", array, episode, logged)
