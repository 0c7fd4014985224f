"""Specs that are small and would cost much: refused in time that grows with their length only."""

from __future__ import annotations

import sys
import tomllib

import pytest

from matrixrl.errors import SpecError
from matrixrl_lab.spec import experiment, files, read_spec, work_out
from matrixrl_lab.spec.line_numbers import toml_lines, yaml_lines

HEAD = 'name = "x"\nepisodes = 2\nseeds = 1\n[[env]]\nname = "river-swim"\n[[agent]]\nname = "psrl"\n'


def refused(folder, text, name="spec.toml"):
    """Return the message with which a spec is refused."""
    (folder / name).write_text(text)
    with pytest.raises(SpecError) as caught:
        work_out(read_spec(folder / name))
    return str(caught.value)


def laughs(levels):
    """Return YAML in which each line stands for ten times as many entries as the one before."""
    rows = ["a: &a [x, x, x, x, x, x, x, x, x, x]"]
    for i in range(1, levels):
        rows.append(f"{chr(97 + i)}: &{chr(97 + i)} [{', '.join([f'*{chr(96 + i)}'] * 10)}]")
    return "\n".join(rows)


def test_aliases_of_yaml_are_refused_before_they_are_expanded(tmp_path, monkeypatch):
    walked = []
    monkeypatch.setattr(files, "yaml_lines", lambda root: walked.append(root) or yaml_lines(root))
    for levels in (2, 20):
        words = refused(tmp_path, laughs(levels), "spec.yaml")
        assert words.endswith(
            "spec.yaml:2 is not valid YAML: the alias *a is not allowed in a spec; write the value out"
        )
    assert walked == []


def test_a_merge_of_yaml_is_an_alias_too(tmp_path):
    assert "the alias *a is not allowed" in refused(tmp_path, "x: &a {k: 1}\ny:\n  <<: *a\n", "spec.yaml")


def test_yaml_is_parsed_once(tmp_path, monkeypatch):
    parsed = []
    original = files._PlainLoader.get_single_node
    monkeypatch.setattr(files._PlainLoader, "get_single_node", lambda self: parsed.append(1) or original(self))
    refused(tmp_path, "a: 1", "spec.yaml")
    assert parsed == [1]


class Steps:
    """Counts the lines of Python that run inside a ``with`` statement."""

    def __enter__(self):
        self.count = 0
        sys.settrace(self._trace)
        return self

    def _trace(self, frame, event, argument):
        self.count += 1
        return self._trace

    def __exit__(self, *error):
        sys.settrace(None)


@pytest.mark.parametrize("opening", ["[[", "[", "[[x", "x"])
def test_lines_of_toml_are_found_in_time_that_does_not_grow_with_blanks(opening):
    """A search with three stars over the same blanks took 1 s for 1,000 of them; 100,000 would take eleven days."""
    with Steps() as few:
        toml_lines(opening + " " * 10)
    with Steps() as many:
        found = toml_lines(opening + " " * 100_000 + "\n[[agent]]\nname = 1")
    assert found[("agent", 0, "name")] == 3
    assert many.count < few.count + 200


def test_headers_may_have_blanks_and_comments():
    text = "[ a . b ]  # comment\nk = 1\n[[ c ]] # more\nk = 2\nx = [\n[1, 2],\n]\ny = 3"
    lines = toml_lines(text)
    assert [lines[key] for key in (("a", "b"), ("a", "b", "k"), ("c", 0), ("c", 0, "k"), ("c", 0, "y"))] == [
        1,
        2,
        3,
        4,
        8,
    ]


def test_keys_of_thousands_of_parts_are_refused_before_the_parser_sees_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tomllib, "loads", lambda _: pytest.fail("parsed"))
    for text in (f"{'.'.join('a' * 100_000)} = 1", f"x = {{{'.'.join('a' * 40)} = 1}}", f"[{' . '.join(['b'] * 40)}]"):
        assert "spec.toml:8 has a key of more than 32 parts" in refused(tmp_path, HEAD + text)


def test_numbers_with_dots_are_no_keys(tmp_path):
    values = ", ".join(f"{i}.5" for i in range(100))
    (tmp_path / "spec.toml").write_text(HEAD + f"settings = {{ a = [{values}] }}\n# {'.' * 100}\n")
    assert read_spec(tmp_path / "spec.toml").spec.agent[0].settings["a"][99] == 99.5


VALUES = ", ".join(map(str, range(300)))
SWEEP = f"sweep = {{ {', '.join(f'k{i} = [{VALUES}]' for i in range(5))} }}\n"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            HEAD + SWEEP,
            "spec.toml:8: agent 1, sweep: 1 environments × 2,430,000,000,000 agents are 2,430,000,000,000 cells, "
            "more than the limit of 10,000. Sweep fewer values",
        ),
        (
            HEAD.replace('"river-swim"\n', f'"river-swim"\n{SWEEP}'),
            "spec.toml:6: env 1, sweep: 2,430,000,000,000 environments × 1 agents",
        ),
        (
            HEAD.replace("seeds = 1", "seeds = 100000") + "sweep = { prior = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11] }",
            "1,100,000 runs",
        ),
        (HEAD + f"sweep = {{ {', '.join(f'k{i} = [1, 2]' for i in range(300))} }}\n", "about 10^90 cells"),
    ],
    ids=["agents", "environments", "seeds", "beyond words"],
)
def test_sweeps_with_too_many_cells_are_counted_and_not_made(tmp_path, monkeypatch, text, words):
    monkeypatch.setattr(experiment, "_variants", lambda *_: pytest.fail("cells were made"))
    assert words in refused(tmp_path, text)


def test_the_largest_sweep_is_allowed(tmp_path, monkeypatch):
    class Reached(Exception):
        pass

    def stop(*_):
        raise Reached

    monkeypatch.setattr(experiment, "_variants", stop)
    hundred = ", ".join(map(str, range(100)))
    (tmp_path / "spec.toml").write_text(HEAD + f"sweep = {{ a = [{hundred}], b = [{hundred}] }}\n")
    with pytest.raises(Reached):
        work_out(read_spec(tmp_path / "spec.toml"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("spec.toml", f"{HEAD}settings = {{ a = {'1' * 5000} }}"),
        ("spec.yaml", f"a: {'1' * 5000}"),
        ("spec.yaml", "a: 2020-13-45"),
        ("spec.yaml", "a: " + "[" * 5000),
        ("spec.toml", "a = " + "[" * 5000),
        ("spec.yaml", "? [a]\n: b"),
        ("spec.yaml", "a: !!python/object:os.system x"),
    ],
    ids=["long number", "long number in YAML", "no date", "deep YAML", "deep TOML", "list as a key", "object"],
)
def test_values_that_no_parser_can_read_end_in_one_message(tmp_path, name, text):
    assert f"{name}" in refused(tmp_path, text, name)


def test_a_dictionary_that_is_too_deep_is_refused():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(SpecError, match="spec must contain plain numbers and text only"):
        read_spec({"name": "x", "settings": deep})


def test_a_search_for_changes_is_refused_before_anything_is_played(tmp_path):
    text = HEAD.replace('"psrl"', '"matrix-rl"') + 'settings = { drift = "watch" }\n'
    assert "agent 1, settings, drift: drift must be 'off' in simulations" in refused(tmp_path, text)
