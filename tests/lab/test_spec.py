from __future__ import annotations

import json
from pathlib import Path

import pytest

from matrixrl.errors import SpecError, UnknownName
from matrixrl_lab.shipped import shipped_specs, shipped_titles
from matrixrl_lab.spec import Experiment, read_spec, work_out
from matrixrl_lab.spec.line_numbers import toml_lines
from matrixrl_lab.store import Store

GOOD = """\
name = "mine"
episodes = 10
seeds = 2

[[env]]
name = "river-swim"
sweep = { n_states = [4, 6] }

[[agent]]
name = "matrix-rl"
settings = { preset = "tuned" }

[[agent]]
name = "random"
"""

AS_YAML = """\
name: mine
episodes: 10
seeds: 2
env:
  - name: river-swim
    sweep: {n_states: [4, 6]}
agent:
  - name: matrix-rl
    settings:
      preset: tuned
  - name: random
"""


def written(folder: Path, text: str, name: str = "spec.toml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def test_sweeps_become_cells_with_readable_ids(tmp_path):
    experiment = work_out(read_spec(written(tmp_path, GOOD)))
    assert [cell.id for cell in experiment.cells] == [
        "river-swim n_states=4 / matrix-rl preset=tuned",
        "river-swim n_states=4 / random",
        "river-swim n_states=6 / matrix-rl preset=tuned",
        "river-swim n_states=6 / random",
    ]
    assert experiment.seeds == [0, 1]


def test_toml_and_yaml_of_one_spec_have_one_hash(tmp_path):
    both = [
        work_out(read_spec(written(tmp_path, text, name))) for text, name in ((GOOD, "a.toml"), (AS_YAML, "a.yaml"))
    ]
    assert both[0] == both[1]
    assert both[0].hash == both[1].hash


def test_settings_are_resolved_so_that_later_defaults_change_nothing(tmp_path):
    cell = work_out(read_spec(written(tmp_path, GOOD))).cells[0]
    assert cell.settings["exploration"] == 0.3
    assert cell.settings["set"] == "value-targeted"  # what the default means for these features
    assert cell.settings["ties"] == "random"
    assert cell.settings["n_episodes"] == 10
    kernel = GOOD.replace('"matrix-rl"', '"kernel-matrix-rl"').replace("tuned", "optimistic")
    cell = work_out(read_spec(written(tmp_path, kernel))).cells[0]
    assert (cell.settings["set"], cell.settings["ties"]) == ("normalised", "estimate")


def test_the_hash_sees_what_changes_rows_and_nothing_else(tmp_path):
    first = work_out(read_spec(written(tmp_path, GOOD)))
    titled = work_out(read_spec(written(tmp_path, GOOD.replace('name = "mine"', 'name = "other"\ntitle = "Other"'))))
    assert titled.hash == first.hash
    changes = [
        GOOD.replace("episodes = 10", "episodes = 11"),
        GOOD.replace("seeds = 2", "seeds = 3"),
        GOOD.replace("tuned", "optimistic"),
        GOOD.replace("[4, 6]", "[4, 7]"),
    ]
    hashes = {work_out(read_spec(written(tmp_path, text))).hash for text in changes}
    assert len(hashes | {first.hash}) == len(changes) + 1


def test_the_executor_is_kept_and_does_not_change_the_hash(tmp_path):
    plain = work_out(read_spec(written(tmp_path, GOOD)))
    assert plain.executor == "processes"
    for name in ("serial", "processes", "ray"):
        chosen = work_out(read_spec(written(tmp_path, f'executor = "{name}"\n{GOOD}')))
        assert chosen.executor == name
        assert chosen.hash == plain.hash
        assert Experiment.from_json(chosen.to_json()).executor == name
    assert {**json.loads(plain.to_json()), "executor": "ray"} == json.loads(chosen.to_json())


def test_what_a_cell_is_measured_by_follows_from_its_environment(tmp_path):
    text = GOOD.replace("sweep = { n_states = [4, 6] }", '[[env]]\nname = "cart-pole"')
    experiment = work_out(read_spec(written(tmp_path, text.replace('"matrix-rl"', '"kernel-matrix-rl"'))))
    seen = [(cell.env, cell.agent, cell.measure, cell.batched, cell.certifies) for cell in experiment.cells]
    assert seen == [
        ("river-swim", "kernel-matrix-rl", "regret", True, True),
        ("river-swim", "random", "regret", True, False),
        ("cart-pole", "kernel-matrix-rl", "return", False, False),
        ("cart-pole", "random", "return", False, False),
    ]
    assert all(cell.references == [] for cell in experiment.cells)


def test_an_experiment_survives_json():
    experiment = work_out(read_spec("quick"))
    again = Experiment.from_json(experiment.to_json())
    assert again == experiment
    assert again.hash == experiment.hash


@pytest.mark.parametrize("name", shipped_specs())
def test_shipped_specs_can_be_run(name):
    experiment = work_out(read_spec(name))
    assert experiment.name == name
    assert len({cell.id for cell in experiment.cells}) == len(experiment.cells)
    assert shipped_titles()[name] == experiment.title


BAD = {
    "unknown key": (GOOD.replace("seeds = 2", "seedz = 2"), "spec.toml:3: seedz: is not a key of a spec"),
    "unknown key of an agent": (GOOD + "presett = 1\n", "spec.toml:15: agent 2, presett: is not a key of a spec"),
    "unknown agent": (GOOD.replace('"random"', '"randon"'), "spec.toml:14: agent 2, name: agent must be one of"),
    "unknown environment": (GOOD.replace("river-swim", "river-swam"), "spec.toml:6: env 1, name: environment must be"),
    "unknown agent setting": (
        GOOD.replace("{ preset", "{ colour = 1, preset"),
        "spec.toml:11: agent 1, settings, colour: agent setting must be one of",
    ),
    "bad value of a setting": (
        GOOD.replace('"tuned"', '"fast"'),
        "spec.toml:11: agent 1, settings, preset: preset must",
    ),
    "unknown environment setting": (
        GOOD.replace("n_states =", "n_state ="),
        "spec.toml:7: env 1, sweep, n_state: river-swim",
    ),
    "bad environment setting": (
        GOOD.replace("[4, 6]", "[4, 1]"),
        "spec.toml:7: env 1, sweep, n_states: n_states must be",
    ),
    "negative episodes": (GOOD.replace("episodes = 10", "episodes = -5"), "spec.toml:2: episodes: must be greater"),
    "episodes as text": (GOOD.replace("episodes = 10", 'episodes = "10"'), "spec.toml:2: episodes: must be a valid"),
    "seeds as text": (GOOD.replace("seeds = 2", 'seeds = "two"'), "spec.toml:3: seeds: must be a number of seeds"),
    "no seeds": (GOOD.replace("seeds = 2", "seeds = []"), "spec.toml:3: seeds: must not be empty"),
    "repeated seeds": (GOOD.replace("seeds = 2", "seeds = [1, 1]"), "spec.toml:3: seeds: must differ"),
    "empty sweep": (GOOD.replace("[4, 6]", "[]"), "spec.toml:7: env 1, sweep, n_states: list must have at least"),
    "same value twice": (
        GOOD.replace("[4, 6]", "[4, 4]"),
        "spec.toml:5: env 1: id 'river-swim n_states=4' appears twice",
    ),
    "duplicate id": (GOOD + '\n[[agent]]\nname = "random"\n', "spec.toml:16: agent 3: id 'random' appears twice"),
    "set and swept": (
        GOOD.replace('"river-swim"', '"river-swim"\nsettings = { n_states = 5 }'),
        "spec.toml:8: env 1, sweep, n_states: is in settings too",
    ),
    "fewer planned than played": (
        GOOD.replace('preset = "tuned"', "n_episodes = 5"),
        "spec.toml:11: agent 1, settings, n_episodes: n_episodes must not be below the 10 episodes",
    ),
    "an agent that cannot play there": (
        GOOD.replace('"random"', '"lin-ucb"'),
        "spec.toml:14: agent 2, name: horizon must be 1 for lin-ucb",
    ),
    "a kernel that is none": (
        GOOD.replace('"matrix-rl"', '"kernel-matrix-rl"').replace('preset = "tuned"', "length_scale = -1"),
        "spec.toml:11: agent 1, settings, length_scale: length_scale must be",
    ),
    "seeds beyond what can be stored": (GOOD.replace("seeds = 2", f"seeds = [{2**63}]"), "spec.toml:3: seeds: must be"),
    "no agents": (GOOD.partition("[[agent]]")[0], "spec.toml: agent: must be given"),
    "syntax": (GOOD.replace("seeds = 2", "seeds = = 2"), "spec.toml is not valid TOML: Invalid value (at line 3"),
    "name with a slash": (GOOD.replace('"mine"', '"../mine"'), "spec.toml:1: name: string must match pattern"),
    "a tabular agent on a control task": (
        GOOD.replace('"river-swim"', '"cart-pole"')
        .replace("sweep = { n_states = [4, 6] }", "")
        .replace('"matrix-rl"', '"kernel-matrix-rl"')
        .replace('"random"', '"psrl"'),
        "spec.toml:14: agent 2, name: problem must have numbered states for psrl; got cart-pole, with vectors",
    ),
    "a control task and an agent for finite problems": (
        GOOD.replace('"river-swim"', '"cart-pole"')
        .replace("sweep = { n_states = [4, 6] }", "")
        .replace('"random"', '"psrl"'),
        "spec.toml:10: agent 1, name: problem must have numbered states or functions of states for matrix-rl; got",
    ),
    "unknown executor": (
        GOOD.replace("seeds = 2", 'seeds = 2\nexecutor = "cloud"'),
        "spec.toml:4: executor: must be 'serial', 'processes' or 'ray'; got 'cloud'",
    ),
    "executor that is no name": (
        GOOD.replace("seeds = 2", "seeds = 2\nexecutor = 3"),
        "spec.toml:4: executor: must be 'serial', 'processes' or 'ray'; got 3",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_spec_is_refused_with_its_line_and_key(case, tmp_path):
    text, message = BAD[case]
    path = written(tmp_path, text)
    with pytest.raises(SpecError) as refusal:
        work_out(read_spec(path))
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_yaml_errors_have_lines_too(tmp_path):
    cases = [
        (AS_YAML.replace("preset: tuned", "preset: fast"), "spec.yaml:10: agent 1, settings, preset"),
        (AS_YAML.replace("episodes: 10", "episodes: 0"), "spec.yaml:2: episodes"),
        (AS_YAML + "seeds: 3\n", "spec.yaml:12: seeds appears twice"),
        (AS_YAML.replace("name: mine", "name: [mine"), "is not valid YAML"),
        ("- 1\n", "must be a table of keys"),
        ("!!python/object/apply:os.system ['true']", "is not valid YAML"),
    ]
    for text, message in cases:
        with pytest.raises(SpecError, match=r"spec\.yaml") as refusal:
            work_out(read_spec(written(tmp_path, text, "spec.yaml")))
        assert message in str(refusal.value)


def test_files_that_are_no_specs(tmp_path):
    with pytest.raises(SpecError, match="cannot read"):
        read_spec(tmp_path / "missing.toml")
    with pytest.raises(SpecError, match="not text in UTF-8"):
        (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
        read_spec(tmp_path / "binary.toml")
    with pytest.raises(SpecError, match="larger than"):
        read_spec(written(tmp_path, "#" * (1 << 21)))
    with pytest.raises(UnknownName, match="Did you mean 'riverswim'"):
        read_spec("riverswin")


def test_files_may_begin_with_a_byte_order_mark(tmp_path):
    path = tmp_path / "mark.toml"
    path.write_text(GOOD, encoding="utf-8-sig")
    assert work_out(read_spec(path)).name == "mine"


def test_ids_with_slashes_do_not_collide(tmp_path):
    text = GOOD.replace('name = "matrix-rl"', 'name = "matrix-rl"\nid = "c"').replace(
        'name = "random"', 'name = "random"\nid = "b / c"'
    )
    text = text.replace("sweep = { n_states = [4, 6] }", 'id = "a"\n[[env]]\nname = "river-swim"\nid = "a / b"')
    experiment = work_out(read_spec(written(tmp_path, text)))
    with Store.create(tmp_path / "s", experiment) as store:
        assert len(store.runs()) == 8


def test_the_command_names_the_kind_of_file(tmp_path):
    assert read_spec(written(tmp_path, AS_YAML, "a.yml"), {"seeds": 3}).command == "mine.yaml --seeds 3"
    assert read_spec("quick").command == "quick.toml"
    assert read_spec(
        {"name": "x", "episodes": 1, "seeds": 1, "env": [{"name": "a"}], "agent": [{"name": "b"}]}
    ).command == ("x.yaml")


def test_lines_are_found_below_tables_and_in_arrays_of_tables():
    lines = toml_lines('a = 1\n[b]\nc = 2\n[[d]]\ne = 3\n[[d]]\n"e" = 4\n[d.f]\ng.h = 5\n')
    assert lines[("a",)] == 1
    assert lines[("b", "c")] == 3
    assert lines[("d", 1, "e")] == 7
    assert lines[("d", 1, "f", "g", "h")] == 9
    json.dumps([list(path) for path in lines])
