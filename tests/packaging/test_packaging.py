from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import matrixrl

ROOT = Path(__file__).parents[2]


def test_import_stays_light():
    code = "import sys, matrixrl; print([m for m in ('sklearn', 'matplotlib', 'plotly', 'typer') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists_and_is_documented():
    assert 15 <= len(matrixrl.__all__) <= 25
    for name in matrixrl.__all__:
        assert getattr(matrixrl, name).__doc__, name
    assert set(matrixrl.__all__) <= set(dir(matrixrl))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = matrixrl.nonsense


def test_version_is_the_project_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == matrixrl.__version__


def test_the_wheel_holds_the_package_and_its_types(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps",
         "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)],
        check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "matrixrl/py.typed" in names
    sources = {p.relative_to(ROOT / "src").as_posix() for p in (ROOT / "src").rglob("*.py")}
    assert sources <= set(names)
    assert not [n for n in names if n.startswith("tests")]


def test_global_random_state_is_never_touched():
    import numpy as np

    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    matrixrl.run_seeds("river-swim", n_episodes=3, seeds=1)
    matrixrl.MatrixRL(matrixrl.make("linear-mdp", n_states=20), seed=0).learn(2)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
