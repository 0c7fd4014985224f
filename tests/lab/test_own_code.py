"""A user's own agent, set, radius and environment in specs: every executor, after a kill, and only with permission."""

from __future__ import annotations

import contextlib
import http.client
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import own_code
import pytest

import matrixrl
from commands import forked
from matrixrl.algorithms import make_algorithm
from matrixrl.errors import InvalidInput, MatrixRLError, SpecError, StoreError, UnknownName, UntrustedCode
from matrixrl.play import run_seeds
from matrixrl.references import is_reference
from matrixrl_lab import Store, play, read_spec, run_experiment, summarise, work_out
from matrixrl_lab.report.sections import how_to_repeat

SOURCE = str(Path(matrixrl.__file__).parents[1])
SPEC = """\
name = "own"
episodes = 40
seeds = 3
block = 15
batch = 2

[[env]]
name = "own_code:Ring"
settings = { n_states = 5 }

[[agent]]
name = "own_code:Counter"
id = "counter"
settings = { bonus = 0.3 }

[[agent]]
name = "own_code:Wide"
id = "wide"
sweep = { bonus = [0.1, 0.3] }

[[agent]]
name = "matrix-rl"
id = "own set"
settings = { preset = "optimistic", set = "own_code:Ball" }

[[agent]]
name = "matrix-rl"
id = "own radius"
settings = { preset = "optimistic", radius = "own_code:slow" }

[[agent]]
name = "matrix-rl"
id = "both"
settings = { preset = "optimistic", set = "own_code:Ball", radius = "own_code:Slow", exploration = 0.5 }
"""


def run(*words, cwd, path=(), **more):
    """Run the command as the installed script does: the current directory is not on the import path by itself."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, *map(str, path)])}
    command = [sys.executable, "-P", "-m", "matrixrl", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False, cwd=cwd, env=env, **more)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A directory with the user's module and a spec that refers to it."""
    folder = tmp_path_factory.mktemp("home")
    shutil.copy(own_code.__file__, folder / "own_code.py")
    (folder / "own.toml").write_text(SPEC)
    return folder


@pytest.fixture(scope="module")
def reference(home):
    """The digest of the rows, played in this process."""
    run_experiment(home / "own.toml", home / "reference", on="serial", trust_code=True)
    return digest(home / "reference")


def digest(folder):
    with Store.open_to_read(folder) as store:
        assert {row.status for row in store.runs()} == {"done"}, {row.reason for row in store.runs()}
        return store.digest()


def test_cells_keep_references_and_constructor_arguments(home):
    cells = work_out(read_spec(home / "own.toml"), trust_code=True).cells
    assert [cell.agent for cell in cells[:3]] == ["own_code:Counter", "own_code:Wide", "own_code:Wide"]
    assert [cell.settings["bonus"] for cell in cells[:3]] == [0.3, 0.1, 0.3]
    assert [cell.settings["set"] for cell in cells[3:]] == ["own_code:Ball", "normalised", "own_code:Ball"]
    assert [cell.settings["radius"] for cell in cells[3:]] == ["block", "own_code:slow", "own_code:Slow"]
    assert cells[3].references == ["own_code:Ring", "own_code:Ball"]
    assert cells[5].settings["exploration"] == 0.5


OWN_CONSTRUCTORS = """\
name = "constructors"
episodes = 12
seeds = 2
block = 5
[[env]]
name = "river-swim"
[[agent]]
name = "own_code:Cooler"
[[agent]]
name = "own_code:Cooler"
settings = { heat = 2.0, prior = 6.0 }
[[agent]]
name = "own_code:Warmer"
settings = { prior = 3.0 }
"""


def test_a_baseline_with_its_own_constructor_is_made_as_given_in_every_block(tmp_path):
    """Resolved settings of the base class are no arguments of the constructor, or mean something else there."""
    (tmp_path / "s.toml").write_text(OWN_CONSTRUCTORS)
    run_experiment(tmp_path / "s.toml", tmp_path / "s", on="serial", trust_code=True)
    made = [own_code.Cooler(), own_code.Cooler(2.0, 6.0), own_code.Warmer(prior=3.0)]
    assert [agent.settings.prior for agent in made] == [2.0, 3.0, 6.0]
    with Store.open_to_read(tmp_path / "s") as store:
        assert [cell.settings for cell in store.experiment.cells] == [{}, {"heat": 2.0, "prior": 6.0}, {"prior": 3.0}]
        for i, agent in enumerate(made):
            expected = run_seeds("river-swim", n_episodes=12, seeds=2, agent=agent)
            assert np.array_equal(store.read(i, "regret"), expected.regret)


def test_the_advice_to_resume_has_the_permission_that_it_needs(home, reference):
    with Store.open_to_read(home / "reference") as store:
        assert store.resume_command == f"matrixrl resume {home / 'reference'} --trust-code"
        assert how_to_repeat(store)["command"] == "matrixrl compare own.toml --trust-code --out own"
    with pytest.raises(StoreError, match=r"continue with matrixrl resume \S+ --trust-code$"):
        Store.create(home / "reference", work_out(read_spec(home / "own.toml"), trust_code=True))


def test_rows_are_those_of_the_objects_in_python(home, reference):
    with Store.open_to_read(home / "reference") as store:
        stored = {cell.id: store.read(i, "regret") for i, cell in enumerate(store.experiment.cells)}
        facts = store.facts(3)
    ring = {"n_episodes": 40, "seeds": 3}
    optimistic = {**ring, "preset": "optimistic"}
    expected = {
        "counter": run_seeds(own_code.Ring(5), agent=own_code.Counter(0.3), **ring),
        "wide bonus=0.1": run_seeds(own_code.Ring(5), agent=own_code.Wide(0.1), **ring),
        "own set": run_seeds(own_code.Ring(5), set=own_code.Ball(), **optimistic),
        "own radius": run_seeds(own_code.Ring(5), radius=own_code.Slow(), **optimistic),
        "both": run_seeds(own_code.Ring(5), set=own_code.Ball(), radius=own_code.Slow(), exploration=0.5, **optimistic),
    }
    for name, result in expected.items():
        assert np.allclose(stored[f"own_code:Ring n_states=5 / {name}"], result.regret, atol=1e-9), name
    assert len({result.final_regret.sum() for result in expected.values()}) == len(expected), "all of them differ"
    assert facts["guarantee"]["reason"] == "the confidence set declares no proof"


@pytest.mark.slow
def test_workers_of_this_process_give_the_same_rows(home, reference, tmp_path):
    run_experiment(home / "own.toml", tmp_path / "s", on="processes", workers=2, trust_code=True)
    assert digest(tmp_path / "s") == reference


@pytest.mark.slow
@pytest.mark.parametrize("on", ["processes", pytest.param("ray", marks=pytest.mark.full)])
def test_the_command_finds_modules_of_the_current_directory(home, reference, tmp_path, on):
    done = run(
        "compare", "own.toml", "--out", str(tmp_path / "s"), "--on", on, "--workers", "2", "--trust-code", cwd=home
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert digest(tmp_path / "s") == reference


@pytest.mark.full  # as the campaigns of test_campaign.py, with own code
def test_killed_and_resumed_gives_the_same_rows(home, reference, tmp_path):
    out = tmp_path / "s"
    command = [sys.executable, "-P", "-m", "matrixrl", "compare", "own.toml", "--out", str(out)]
    env = {**os.environ, "PYTHONPATH": SOURCE}
    process = subprocess.Popen(
        [*command, "--workers", "2", "--trust-code"],
        cwd=home,
        env=env,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline and stored_episodes(out) < 30:
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=60)
    assert 30 <= stored_episodes(out) < 6 * 3 * 40, "killed in the middle"

    before = held(out)
    refused = run("resume", str(out), "--tensorboard", str(tmp_path / "events"), cwd=home)
    assert refused.returncode == 2
    assert refused.stderr.count("\n") == 1
    assert refused.stderr.startswith("error: the reference 'own_code:Ring' would import and run code")
    assert "--trust-code" in refused.stderr
    assert held(out) == before
    assert not (tmp_path / "events").exists()

    done = run("resume", str(out), "--workers", "2", "--trust-code", cwd=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert digest(out) == reference


def stored_episodes(folder):
    if not Store.is_there(folder):
        return 0
    with Store.open_to_read(folder) as store:
        return sum(row.episodes for row in store.runs())


def held(folder):
    with Store.open_to_read(folder) as store:
        return store.digest(), store.runs()


def test_feature_maps_of_one_agent_are_named_in_its_settings(home, tmp_path):
    spec = {"name": "maps", "episodes": 8, "seeds": 2, "env": [{"name": "own_code:Ring", "settings": {"n_states": 6}}]}
    agents = [{"name": "matrix-rl", "id": "shared", "settings": {"phi": "own_code:neighbours", "preset": "tuned"}}]
    spec["agent"] = [*agents, {"name": "matrix-rl", "settings": {"preset": "tuned"}}]
    with pytest.raises(SpecError, match=r"agent 1, settings, phi: .* --trust-code"):
        work_out(read_spec({**spec, "env": [{"name": "river-swim"}]}))
    run_experiment(spec, tmp_path / "out", on="serial", trust_code=True)
    with Store.open_to_read(tmp_path / "out") as store:
        assert store.facts(0)["sizes"]["d"] == 6
        assert store.facts(1)["sizes"]["d"] == 12
        stored = store.read(0, "regret")
    world = own_code.Ring(6)
    direct = run_seeds(world, phi=own_code.neighbours, n_episodes=8, seeds=2, preset="tuned")
    np.testing.assert_array_equal(stored, direct.regret)
    table = own_code.neighbours(world.mdp.task)
    again = run_seeds(world, phi=table, n_episodes=8, seeds=2, preset="tuned")
    np.testing.assert_array_equal(direct.regret, again.regret)
    with pytest.raises(InvalidInput, match="made from the task"):
        run_seeds(world, phi=lambda: table, n_episodes=2, seeds=1)


def test_a_spec_is_refused_without_permission_and_no_store_is_made(home, tmp_path):
    done = forked("compare", "own.toml", "--out", str(tmp_path / "s"), cwd=home)
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error: own.toml:8: env 1, name: environment 'own_code:Ring' would import and run code"
    )
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "s").exists()
    with pytest.raises(SpecError, match="would import and run code"):
        run_experiment(home / "own.toml", tmp_path / "s", on="serial")
    assert not (tmp_path / "s").exists()


def test_playing_a_store_needs_permission_too(home, reference, tmp_path):
    shutil.copytree(home / "reference", tmp_path / "s")
    with Store.open_to_write(tmp_path / "s") as store:
        with pytest.raises(UntrustedCode, match="--trust-code"):
            play(store, on="serial")
        assert store.digest() == reference


TRAP = """\
from pathlib import Path

from own_code import Ball, Counter, Ring, Slow

Path(__file__).with_name("imported").touch()
"""


@pytest.fixture(scope="module")
def trap(tmp_path_factory):
    """A module that leaves a file when it is imported, and a finished store that refers to it."""
    folder = tmp_path_factory.mktemp("trap")
    shutil.copy(own_code.__file__, folder / "own_code.py")
    (folder / "trap.py").write_text(TRAP)
    spec = SPEC.replace("own_code:", "trap:").replace("trap:slow", "trap:Slow").replace("trap:Wide", "trap:Counter")
    (folder / "trap.toml").write_text(spec)
    done = run("compare", "trap.toml", "--out", "s", "--on", "serial", "--trust-code", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (folder / "imported").exists(), "with permission it is imported"
    (folder / "imported").unlink()
    return folder


@pytest.mark.slow
def test_reading_a_store_never_imports_what_it_refers_to(trap):
    words = [
        ["show", "s"],
        ["show", "s", "--json"],
        ["report", "s", "--figure", "f.png"],
        ["export", "s", "--out", "all.csv"],
        ["compare", "trap.toml", "--out", "other"],
        ["resume", "s"],
    ]
    for command in words:
        done = forked(*command, cwd=trap, path=[trap])
        assert (done.returncode, "Traceback" in done.stderr) == (2 if command[0] in ("compare", "resume") else 0, False)
        assert not (trap / "imported").exists(), command
    with Store.open_to_read(trap / "s") as store:
        assert summarise(store)[0].agents[0].id == "counter"
    assert not (trap / "imported").exists()


@pytest.mark.slow
def test_watching_a_store_never_imports_what_it_refers_to(trap):
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([SOURCE, str(trap)])}
    command = [sys.executable, "-P", "-m", "matrixrl", "watch", "s", "--port", "0"]
    process = subprocess.Popen(command, cwd=trap, env=env, stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline().rpartition(":")[2].strip().strip("/"))
        for path, words in (("/", b"<html"), ("/events", b"own radius")):
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
                connection.request("GET", path)
                with connection.getresponse() as answer:
                    assert any(words in answer.readline() for _ in range(20)), path
    finally:
        process.terminate()
        process.communicate(timeout=30)
    assert not (trap / "imported").exists()


@pytest.mark.parametrize("agent", ["os:system", "subprocess:Popen", "builtins:eval", "os:sep", "own_code:Ball"])
def test_an_agent_that_is_no_algorithm_is_refused_and_not_called(home, tmp_path, agent):
    spec = SPEC.replace('"own_code:Counter"', f'"{agent}"').replace(
        "bonus = 0.3", "command = 'touch called', args = ['touch', 'called']"
    )
    (tmp_path / "bad.toml").write_text(spec)
    with pytest.raises(SpecError, match=rf"bad\.toml:12: agent 1, .*subclass of .*Algorithm; got '{agent}'"):
        work_out(read_spec(tmp_path / "bad.toml"), trust_code=True)
    done = forked("compare", "bad.toml", "--out", "s", "--trust-code", cwd=tmp_path, path=[home])
    assert done.returncode == 2
    assert "Algorithm" in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.toml"]


@pytest.mark.parametrize(
    ("setting", "value", "rule"),
    [
        ("set", "subprocess:Popen", "set must be a subclass of ConfidenceSet"),
        ("set", "os:system", "set must be one of tightest, normalised"),
        ("set", "own_code:Slow", "set must be a subclass of ConfidenceSet"),
        ("radius", "own_code:Ball", "radius must be a subclass of Radius"),
        ("radius", "builtins:eval", "radius must be one of block"),
        ("radius", "own_code:Missing", "radius must name something that can be imported"),
        ("set", "no_such_module:Ball", "set must name something that can be imported"),
    ],
)
def test_settings_that_are_not_what_they_should_be_are_refused(home, tmp_path, setting, value, rule):
    spec = SPEC.replace('{ preset = "optimistic", set = "own_code:Ball" }', f'{{ {setting} = "{value}" }}')
    (tmp_path / "bad.toml").write_text(spec)
    with pytest.raises(SpecError) as refusal:
        work_out(read_spec(tmp_path / "bad.toml"), trust_code=True)
    assert f"bad.toml:24: agent 3, settings, {setting}: {rule}" in str(refusal.value)
    with pytest.raises(InvalidInput, match=rule):
        make_algorithm("matrix-rl", {setting: value}, trust_code=True)


@pytest.mark.parametrize(
    ("env", "rule"),
    [
        ("subprocess:Popen", "environment must name a Gymnasium environment"),
        ("own_code:Counter", "environment must name a Gymnasium environment"),
        ("os:getcwd", "environment must make a Gymnasium environment"),
        ("own_code:Missing", "environment must name something that can be imported"),
    ],
)
def test_environments_that_are_none_are_refused(tmp_path, env, rule):
    with pytest.raises(InvalidInput, match=rule):
        matrixrl.make(env, trust_code=True)
    (tmp_path / "bad.toml").write_text(SPEC.replace("own_code:Ring", env).replace("n_states = 5", ""))
    with pytest.raises(SpecError, match=rf"bad\.toml:8: env 1, name: {rule}"):
        work_out(read_spec(tmp_path / "bad.toml"), trust_code=True)


@pytest.mark.parametrize("text", ["a.b:", ":x", "../x:y", "a b:c", "own_code:", "own_code.:Ring", "own_code:Ring\n"])
def test_texts_that_are_no_references_are_unknown_names(text):
    assert not is_reference(text)
    with pytest.raises(UnknownName, match="agent must be one of"):
        make_algorithm(text, trust_code=True)
    with pytest.raises(UnknownName, match="environment must be one of"):
        matrixrl.make(text, trust_code=True)
    with pytest.raises(UnknownName, match="set must be one of"):
        make_algorithm("matrix-rl", {"set": text}, trust_code=True)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("def x(:", "SyntaxError"),
        ("1 / 0", "ZeroDivisionError: division by zero"),
        ("import no_such_module", "No module named 'no_such_module'"),
        ("raise SystemExit(7)", "SystemExit: 7"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_in_one_line(tmp_path, body, words):
    (tmp_path / "broken.py").write_text(body)
    done = forked("run", "river-swim", "--agent", "broken:Agent", "-n", "2", "--trust-code", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith("error: agent must name something that can be imported; got 'broken:Agent' (")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_an_environment_of_a_registered_module_needs_permission_too(tmp_path):
    (tmp_path / "registers.py").write_text(
        "import gymnasium, own_code\ngymnasium.register('OwnRing-v0', entry_point=own_code.Ring)\n"
    )
    shutil.copy(own_code.__file__, tmp_path / "own_code.py")
    spec = SPEC.replace("own_code:Ring", "gym:registers:OwnRing-v0")
    (tmp_path / "gym.toml").write_text(spec.split("[[agent]]")[0] + '[[agent]]\nname = "psrl"\n')
    refused = forked("compare", "gym.toml", "--out", "s", "--on", "serial", cwd=tmp_path)
    assert refused.returncode == 2
    assert "environment 'gym:registers:OwnRing-v0' would import and run code" in refused.stderr
    assert not (tmp_path / "s").exists()
    done = forked("compare", "gym.toml", "--out", "s", "--on", "serial", "--trust-code", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert forked("resume", "s", cwd=tmp_path).returncode == 2
    assert forked("resume", "s", "--trust-code", cwd=tmp_path).returncode == 0


@pytest.mark.slow
def test_run_and_inspect_take_own_code(home, tmp_path):
    words = ["run", "own_code:Ring", "--set", "n_states=5", "--agent", "own_code:Counter", "--agent-set", "bonus=0.3"]
    refused = forked(*words, "-n", "5", cwd=home)
    assert refused.returncode == 2
    assert "would import and run code" in refused.stderr
    done = forked(*words, "-n", "5", "-k", "2", "--trust-code", "--out", str(tmp_path / "o"), cwd=home)
    assert done.returncode == 0, done.stderr
    assert "own_code:Counter" in done.stdout
    made = forked("run", "own_code:make_ring", "--set", "n_states=3", "-n", "3", "--trust-code", cwd=home)
    assert made.returncode == 0, made.stderr
    assert "S=3" in made.stdout
    seen = forked("inspect", "own_code:Ring", "--agent-set", "radius=own_code:Slow", "--trust-code", cwd=home)
    assert seen.returncode == 0, seen.stderr


WALK = """\
name = "walk"
episodes = 30
seeds = 2
block = 7
[[env]]
name = "own_code:Walk"
[[agent]]
name = "matrix-rl"
settings = { known_reward = false, preset = "tuned" }
[[agent]]
name = "random"
settings = { known_reward = false }
"""


def test_an_environment_without_a_table_is_measured_by_returns(tmp_path):
    (tmp_path / "walk.toml").write_text(WALK)
    (walk,) = run_experiment(tmp_path / "walk.toml", tmp_path / "s", on="serial", trust_code=True)
    assert walk.measure == "return"
    with Store.open_to_read(tmp_path / "s") as store:
        expected = run_seeds(
            own_code.Walk(), n_episodes=30, seeds=[1], agent="matrix-rl", known_reward=False, preset="tuned"
        )
        assert np.array_equal(store.read(0, "return", [1]), expected.returns), "played in blocks, the same"
        whole = store.digest()

    # the same in blocks of another size, and stopped in the middle
    class Stop:
        def block(self, order, result):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiment(tmp_path / "walk.toml", tmp_path / "t", on="serial", trust_code=True, observers=[Stop()])
    run_experiment(tmp_path / "walk.toml", tmp_path / "t", on="serial", trust_code=True)
    assert digest(tmp_path / "t") == whole


def test_an_agent_that_needs_rewards_nobody_gave_is_refused_before_it_runs(tmp_path):
    (tmp_path / "walk.toml").write_text(WALK.replace("known_reward = false, ", "known_reward = true, "))
    with pytest.raises(SpecError, match=r"walk\.toml:8: agent 1, .*reward must be given for an environment without"):
        work_out(read_spec(tmp_path / "walk.toml"), trust_code=True)


def test_own_objects_are_refused_where_they_do_not_belong(tmp_path):
    with pytest.raises(MatrixRLError, match="cannot be made with settings"):
        run_seeds("river-swim", n_episodes=2, seeds=1, agent=own_code.Counter, colour="red")
    with pytest.raises(InvalidInput, match="must be left out for an agent that is already made"):
        run_seeds("river-swim", n_episodes=2, seeds=1, agent=own_code.Counter(), bonus=2.0)
