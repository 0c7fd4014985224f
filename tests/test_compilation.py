"""There is one compiled backup, and all loops are compiled again when one of their files changes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

import matrixrl
from matrixrl import compilation
from matrixrl.core.compiled import backup, kl_ball, likelihood, pruned
from matrixrl.play.compiled import bounds, episodes, lists

LOOPS = [backup, bounds, episodes, kl_ball, likelihood, lists, pruned]


def watched():
    root = Path(matrixrl.__file__).parent
    files = {pattern: sorted(root.glob(pattern)) for pattern in compilation._SOURCES}
    assert all(files.values()), "a file or folder of loops was moved"
    return [path for found in files.values() for path in found]


def loops():
    return [loop for module in LOOPS for loop in vars(module).values() if hasattr(loop, "py_func")]


def test_compiled_episodes_plan_with_the_backup_of_compiled_plans():
    assert bounds.backup is backup
    assert bounds.likelihood is likelihood


def test_numba_watches_the_files_of_all_loops():
    files = {str(path) for path in watched()}
    assert {loop.py_func.__code__.co_filename for loop in loops()} <= files
    cached = [loop for loop in loops() if loop._cache.cache_path is not None]
    for loop in cached:
        assert loop._cache._cache_file._version.endswith(compilation._sources_stamp())
    # Python calls these; a cache of the others would be read by nobody
    names = "_collect", "_pack", "play_episodes", "refresh_changed", *2 * ("fill_plan", "policy_values")
    assert sorted({id(loop): loop.py_func.__name__ for loop in cached}.values()) == sorted(names)


def test_arrays_of_loops_are_writable_and_contiguous_and_copied_only_if_they_are_not():
    own = np.arange(6.0).reshape(2, 3)
    assert compilation.loop_array(own) is own
    for other in (own.T, np.broadcast_to(own, (4, 2, 3))):
        array = compilation.loop_array(other)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        np.testing.assert_array_equal(array, other)


def test_a_cache_of_other_files_is_not_read(tmp_path, monkeypatch):
    loop = compilation.compiled(_add_up)
    loop._cache._cache_file._version += str(tmp_path)  # not that of an earlier test
    assert loop(1, 2) == 3
    kept = loop._cache._cache_file
    assert kept._load_index()
    kept._version += " "
    assert not kept._load_index()


def test_a_changed_file_changes_the_stamp(tmp_path, monkeypatch):
    for pattern in compilation._SOURCES:
        path = tmp_path / pattern.replace("*", "loops")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.setattr(compilation, "__file__", str(tmp_path / "compilation.py"))
    before = compilation._sources_stamp.__wrapped__()
    os.utime(tmp_path / "core" / "compiled" / "loops.py", (1.0, 1.0))
    assert compilation._sources_stamp.__wrapped__() != before


def _add_up(a, b):
    return a + b
