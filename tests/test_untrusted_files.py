"""A file is data: no file that the library reads makes it import code, and no child process runs a file of the cwd."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import gymnasium as gym
import pytest
from typer.testing import CliRunner

import matrixrl
from matrixrl import MatrixRL
from matrixrl.cli.main import app
from matrixrl.envs import make
from matrixrl.errors import InvalidInput, MatrixRLError, UntrustedCode
from matrixrl_lab import run_experiment
from matrixrl_serve.log import Draft, EventLog
from matrixrl_serve.problem import ProblemFile, ServedProblem, read_problem
from matrixrl_serve.service import Service

MODULE = "module_of_a_stranger"


@pytest.fixture
def stranger(tmp_path, monkeypatch):
    """A module that can be imported, and leaves a mark when it is."""
    folder = tmp_path / "strange"
    folder.mkdir()
    mark = folder / "ran"
    (folder / f"{MODULE}.py").write_text(
        f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
        "from matrixrl.core.sets import NormalisedBall\nclass Name(NormalisedBall): pass\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    yield mark
    sys.modules.pop(MODULE, None)


SETTINGS = [
    {"trust_code": True, "set": f"{MODULE}:Name"},
    {"set": f"{MODULE}:Name"},
    {"radius": f"{MODULE}:Name"},
    {"trust_code": True, "env_settings": {"set": f"{MODULE}:Name"}},
    {"phi": f"{MODULE}:Name", "trust_code": True},
    {"reward_outside": "clip"},
    {"late_episodes": "learn"},
    {"allowed": "all"},
]


def problem_of(settings):
    return {"states": 3, "actions": 2, "horizon": 2, "settings": settings}


@pytest.mark.parametrize("settings", SETTINGS)
def test_a_problem_file_holds_settings_of_the_algorithm_and_no_others(tmp_path, stranger, settings):
    with pytest.raises(InvalidInput, match="settings"):
        Service(ProblemFile(**problem_of(settings)), tmp_path / "data")
    assert not stranger.exists()


def test_a_problem_file_in_toml_runs_no_code(tmp_path, stranger):
    path = tmp_path / "problem.toml"
    inside = f'settings = {{trust_code = true, set = "{MODULE}:Name"}}'
    path.write_text(f"states = 3\nactions = 2\nhorizon = 2\n{inside}\n")
    with pytest.raises(InvalidInput, match="settings"):
        ServedProblem(read_problem(path)).agent()
    path.write_text("states = 3\nactions = 2\nhorizon = 2\nsettings = {switch_growth = 0.5, set = 'normalised'}\n")
    assert ServedProblem(read_problem(path)).agent().algorithm.settings.switch_growth == 0.5
    assert not stranger.exists()


@pytest.mark.parametrize("command", ["replay", "check"])
def test_the_log_of_a_stranger_runs_no_code(tmp_path, stranger, command):
    (tmp_path / "data").mkdir()
    log = EventLog(tmp_path / "data")
    problem = ProblemFile(**problem_of(SETTINGS[0]))
    body = {"problem": problem.model_dump(), "digest": problem.digest, "library": "0"}
    log.begin(Draft("created", "local", body))
    log.close()
    result = CliRunner().invoke(app, ["serve", command, str(tmp_path / "data")])
    assert not stranger.exists()
    if command == "replay":
        assert isinstance(result.exception, InvalidInput)
        assert "settings" in str(result.exception)
        with pytest.raises(MatrixRLError, match="settings"):
            Service(None, tmp_path / "data")
    assert not stranger.exists()


@pytest.mark.parametrize(
    ("env", "agent"),
    [
        ('name = "river-swim"', f'name = "matrix-rl"\nsettings = {{trust_code = true, set = "{MODULE}:Name"}}'),
        ('name = "river-swim"\nsettings = {trust_code = true}', f'name = "{MODULE}:Name"'),
        ('name = "river-swim"\nsettings = {trust_code = true}', 'name = "matrix-rl"'),
        (f'name = "{MODULE}:Name"\nsettings = {{trust_code = true}}', 'name = "matrix-rl"'),
        (f'name = "gym:FrozenLake-v1"\nsettings = {{map_name = "{MODULE}:Name"}}', 'name = "matrix-rl"'),
    ],
)
def test_a_spec_runs_no_code(tmp_path, stranger, env, agent):
    path = tmp_path / "spec.toml"
    path.write_text(f'name = "a"\ntitle = "t"\nepisodes = 2\nseeds = 1\n[[env]]\n{env}\n[[agent]]\n{agent}\n')
    with pytest.raises(MatrixRLError):
        run_experiment(path, tmp_path / "store")
    assert not stranger.exists()


class Compatible(gym.Env):
    """Makes another environment by its name, importing a module if the name says so, as that of Shimmy does."""

    observation_space = gym.spaces.Discrete(2)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, env_id, make_kwargs=None, render_mode=None):
        for name in (env_id, *(make_kwargs or {}).values()):
            if ":" in name:
                __import__(name.partition(":")[0])

    def reset(self, *, seed=None, options=None):
        return 0, {}

    def step(self, action):
        return 0, 0.0, True, False, {}


@pytest.mark.parametrize(
    "settings",
    [{"env_id": f"{MODULE}:X"}, {"env_id": "X", "make_kwargs": {"env": f"{MODULE}:X"}}],
)
def test_a_setting_of_a_gymnasium_environment_imports_no_module(stranger, monkeypatch, settings):
    monkeypatch.setitem(gym.registry, "GymV26Environment-v0", gym.envs.registration.EnvSpec(
        "GymV26Environment-v0", entry_point=Compatible
    ))  # fmt: skip
    with pytest.raises(UntrustedCode, match=MODULE):
        make("gym:GymV26Environment-v0", horizon=3, **settings)
    with pytest.raises(UntrustedCode, match=MODULE):
        MatrixRL("gym:GymV26Environment-v0", env_settings=settings, horizon=3, discount=0.9)
    assert not stranger.exists()
    make("gym:GymV26Environment-v0", horizon=3, trust_code=True, **settings)
    assert stranger.exists()


def test_settings_of_an_environment_cannot_allow_code(stranger):
    with pytest.raises(InvalidInput, match="trust_code"):
        MatrixRL(f"{MODULE}:Name", env_settings={"trust_code": True})
    assert not stranger.exists()


LAB = """
from matrixrl_lab import run_experiment
if __name__ == "__main__":
    run_experiment("spec.toml", "store", on="processes", workers=2)
    print("played")
"""
SERVICE = """
from matrixrl_serve.problem import ProblemFile
from matrixrl_serve.service import Service
if __name__ == "__main__":
    with Service(ProblemFile(states=2, actions=2, horizon=2), "data") as service:
        print("served", service.decisions.newest.version)
"""
SPEC = 'name = "a"\ntitle = "t"\nepisodes = 2\nseeds = 2\n[[env]]\nname = "river-swim"\n[[agent]]\nname = "matrix-rl"\n'


@pytest.mark.parametrize(("script", "says"), [(LAB, "played"), (SERVICE, "served 1")], ids=["lab", "service"])
def test_child_processes_run_no_file_of_the_current_directory(tmp_path, script, says):
    """Modules that children import while they start: those of loky, of multiprocessing, and of the library."""
    elsewhere, here = tmp_path / "scripts", tmp_path / "here"
    elsewhere.mkdir()
    here.mkdir()
    (elsewhere / "run.py").write_text(script)
    (here / "spec.toml").write_text(SPEC)
    mark = here / "ran"
    hostile = f"import os\nwith open({str(mark)!r}, 'a') as file:\n    print(__name__, file=file)\nos._exit(3)\n"
    for name in ("loky", "signal", "multiprocessing", "pickle", "numpy", "matrixrl", "sqlalchemy", "argparse", "json"):
        (here / f"{name}.py").write_text(textwrap.dedent(hostile))
    source = str(Path(matrixrl.__file__).parents[1])
    ran = subprocess.run(
        [sys.executable, str(elsewhere / "run.py")],
        cwd=here,
        env={**os.environ, "PYTHONPATH": source, "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert not mark.exists(), mark.read_text()
    assert says in ran.stdout, ran.stderr[-2000:]
