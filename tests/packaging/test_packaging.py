from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from importlib import import_module
from pathlib import Path

import pytest
from typer.main import get_group

import matrixrl
from matrixrl.cli.main import commands

ROOT = Path(__file__).parents[2]


def test_import_stays_light():
    heavy = ("sklearn", "matplotlib", "plotly", "typer", "numba")
    code = f"import sys, matrixrl; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.slow
def test_a_plain_install_has_everything_but_the_lab(tmp_path):
    """Without the optional packages `run` and `list` work, and the lab says in one line what is missing."""
    lab = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["lab"]
    names = [re.split("[<>=]", requirement)[0].replace("pyyaml", "yaml") for requirement in lab] + ["ray"]
    names.remove("pydantic")  # the command line itself may bring it (Typer's neighbourhood)
    blocked = tuple(names)
    code = f"""
import importlib.util, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
real = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {blocked} else real(name, package)
sys.meta_path.insert(0, Missing())
from matrixrl.cli.main import main
sys.argv[0] = "matrixrl"
main()
"""

    def run(*words):
        command = [sys.executable, "-c", code, *words]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert run("list").returncode == 0
    assert run("run", "river-swim", "-n", "2", "-k", "1").returncode == 0
    refused = run("compare", "quick")
    assert refused.returncode == 2
    assert refused.stderr.startswith("error: the lab needs yaml, loky")
    assert "pip install 'matrixrl[lab]'" in refused.stderr


@pytest.mark.parametrize("package", ["agents", "algorithms", "core", "envs", "features", "problems", "play"])
def test_packages_are_attributes_of_the_library_in_a_fresh_interpreter(package):
    """As ``class Mine(matrixrl.algorithms.FiniteAlgorithm)`` after ``import matrixrl`` alone."""
    code = f"import matrixrl; print(matrixrl.{package}.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert said == f"matrixrl.{package}\n"


def sources():
    """Return the syntax tree of every module of the package by its path."""
    files = sorted((ROOT / "src").rglob("*.py"))
    return {file: ast.parse(file.read_text(encoding="utf-8")) for file in files}


def test_no_two_classes_share_a_name():
    homes = defaultdict(list)
    for file, tree in sources().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                homes[node.name].append(file.relative_to(ROOT).as_posix())
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_no_module_is_named_by_a_gerund():
    nouns = {"doubling", "dynamic_pricing", "embedding", "inducing", "learning"}  # nouns of the field
    names = {part for file in sources() for part in file.relative_to(ROOT / "src").with_suffix("").parts}
    assert {name for name in names if name.endswith("ing")} <= nouns


def test_the_command_line_knows_the_other_packages_by_name_only():
    """So that its help is fast, and the learner can be installed without the lab and the service."""
    code = "import sys, matrixrl.cli.main; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.startswith(("matrixrl_lab", "matrixrl_serve"))] == []
    for name, module in commands().items():
        assert name in get_group(import_module(module).app).commands


def test_every_public_name_exists_and_is_documented():
    assert 15 <= len(matrixrl.__all__) <= 27
    for name in matrixrl.__all__:
        assert getattr(matrixrl, name).__doc__, name
    assert set(matrixrl.__all__) <= set(dir(matrixrl))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = matrixrl.nonsense


def test_version_is_the_project_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == matrixrl.__version__


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_its_types(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--quiet", "--no-deps",
         "--no-build-isolation", "--wheel-dir", str(tmp_path), str(ROOT)],
        check=True,
    )  # fmt: skip
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "matrixrl/py.typed" in names
    kinds = ("*.py", "*.toml", "*.html", "*.css", "*.js", "*.j2")
    sources = {p.relative_to(ROOT / "src").as_posix() for kind in kinds for p in (ROOT / "src").rglob(kind)}
    assert "matrixrl_lab/shipped/quick.toml" in sources
    assert sources <= set(names)
    assert not [n for n in names if n.startswith("tests")]


def test_global_random_state_is_never_touched():
    import numpy as np

    np.random.seed(0)  # noqa: NPY002
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    matrixrl.run_seeds("river-swim", n_episodes=3, seeds=1)
    matrixrl.MatrixRL(matrixrl.make("linear-mdp", n_states=20), seed=0).learn(2)
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
