"""There is one compiled backup, and compiled episodes notice when it changes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from matrixrl.core.compiled import backup
from matrixrl.simulate.compiled import episodes


def test_the_digest_of_the_backup_is_the_one_that_episodes_were_compiled_with():
    found = hashlib.sha256(Path(backup.__file__).read_bytes()).hexdigest()[:16]
    assert found == episodes.BACKUP_DIGEST, (
        f"core/compiled/backup.py changed: set BACKUP_DIGEST = {found!r} in simulate/compiled/episodes.py, so that "
        "numba compiles the episodes again"
    )


def test_compiled_episodes_plan_with_the_backup_of_compiled_plans():
    assert episodes.fill_plan is backup.fill_plan
