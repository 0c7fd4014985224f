"""The files of policies are read by the code of docs/guides/deploy.md where matrixrl cannot be imported."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from matrixrl import Policy

PAGE = (Path(__file__).parents[2] / "docs" / "guides" / "deploy.md").read_text(encoding="utf-8")
SECTION = PAGE.split("\n## Read the file without matrixrl\n")[1].split("\n## ")[0]
JSON_READER, NUMPY_READER = re.findall(r"^```python\n(.*?)^```$", SECTION, flags=re.DOTALL | re.MULTILINE)
BLOCKED = "import sys\nsys.modules['matrixrl'] = None\n"
TABLE = np.random.default_rng(0).integers(0, 3, (20, 5))


@pytest.fixture
def folder(tmp_path):
    """A folder with the files of a policy of 4 states, from 0 on, and an end state."""
    policy = Policy(TABLE, n_actions=3, first_action=-1, n_unobserved=1, description="é “quoted”")
    policy.save(tmp_path / "policy.json")
    policy.save(tmp_path / "policy.npz")
    return tmp_path


def run(code, folder):
    done = subprocess.run([sys.executable, "-c", BLOCKED + code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_json_alone_acts_like_the_policy(folder):
    code = JSON_READER + "print([[act(obs, stage) for obs in range(4)] for stage in range(20)])\n"
    assert "numpy" not in code
    assert len(JSON_READER.split("\n\n\nprint")[0].splitlines()) <= 10
    policy = Policy.load(folder / "policy.json")
    expected = [[policy.act(obs, stage) for obs in range(4)] for stage in range(20)]
    assert run(code, folder).splitlines()[-1] == str(expected)


def test_numpy_reads_the_table_and_verifies_the_digest(folder):
    printed = run(NUMPY_READER, folder).split()
    assert printed == [str(TABLE[0, 0] - 1), "True"]
    changed = NUMPY_READER.replace("entries =", "table = table + 1\nentries =")
    assert run(changed, folder).split()[-1] == "False"


def test_matrixrl_is_out_of_reach(folder):
    with pytest.raises(AssertionError, match="matrixrl"):
        run("import matrixrl\n", folder)
