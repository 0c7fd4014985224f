"""There is one compiled backup, and loops that call it are compiled again when it changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from matrixrl.core.compiled import backup, kl_ball, likelihood, pruning
from matrixrl.simulate.compiled import episodes, likelihood_bounds, likelihood_episodes, outcome_lists, world

WATCHED = {
    "pruning": (pruning.LOOPS_DIGEST, [kl_ball]),
    "likelihood": (likelihood.LOOPS_DIGEST, [backup, kl_ball, pruning]),
    "episodes": (episodes.LOOPS_DIGEST, [backup, world]),
    "likelihood_bounds": (likelihood_bounds.LOOPS_DIGEST, [kl_ball, likelihood, outcome_lists]),
    "likelihood_episodes": (likelihood_episodes.LOOPS_DIGEST, [likelihood, likelihood_bounds, outcome_lists, world]),
}


@pytest.mark.parametrize("module", WATCHED)
def test_the_digest_of_called_loops_is_that_of_their_files(module):
    written, called = WATCHED[module]
    found = hashlib.sha256(b"".join(Path(m.__file__).read_bytes() for m in called)).hexdigest()[:16]
    assert found == written, (
        f"{' or '.join(m.__name__ for m in called)} changed: set the digest in {module}.py to {found!r}, so that numba "
        "compiles its loops again"
    )


def test_compiled_episodes_plan_with_the_backup_of_compiled_plans():
    assert episodes.fill_plan is backup.fill_plan
    assert likelihood_episodes.fill_plan is likelihood.fill_plan
