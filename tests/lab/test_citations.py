"""Tests of the bibliography: every agent has references, entries parse, and reports list those of their agents."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from experiments import SMALL, experiment, finished

from matrixrl.algorithms import ALGORITHMS
from matrixrl_lab.report import write_bibtex, write_report
from matrixrl_lab.report.bibliography import CITATIONS, REFERENCES, STATISTICS, bibtex, cited_by, references_of
from matrixrl_lab.store import Store

_REQUIRED = {
    "article": {"author", "title", "journal", "year"},
    "book": {"author", "title", "publisher", "year"},
    "inproceedings": {"author", "title", "booktitle", "year"},
    "misc": {"title"},
}


def parsed(text):
    """Return kind and fields of every entry by its key; a small parser that fails on braces that do not match."""
    text = "\n".join(line for line in text.split("\n") if not line.startswith("%"))
    entries, at = {}, 0
    while (start := text.find("@", at)) >= 0:
        assert not text[at:start].strip(), "nothing may stand between two entries"
        kind, key = re.match(r"@(\w+)\{([^,\s]+),", text[start:]).groups()
        depth, at = 1, text.index("{", start) + 1
        while depth > 0:
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        body = text[text.index(",", start) + 1 : at - 1]
        fields = dict(re.findall(r"^  (\w+) = \{(.*)\},?$", body, re.MULTILINE))
        assert len(fields) == body.count("\n  "), f"a field of {key} does not parse"
        assert key not in entries
        entries[key] = (kind, fields)
    assert not text[at:].strip()
    return entries


def family_of(author):
    """Return the family name: what is in braces, or the last word."""
    held = re.search(r"\{(.*)\}", author)
    return held[1] if held else author.split()[-1]


def test_every_registered_agent_has_a_reference_and_every_reference_is_cited():
    assert set(CITATIONS) == set(ALGORITHMS)
    assert all(CITATIONS.values())
    assert {key for keys in CITATIONS.values() for key in keys} | {STATISTICS} == set(REFERENCES)


def test_every_entry_parses_with_the_fields_of_its_kind_in_ascii():
    text = bibtex(REFERENCES.values())
    assert text.isascii()
    found = parsed(text)
    assert list(found) == list(REFERENCES)
    for key, (kind, fields) in found.items():
        assert _REQUIRED[kind] <= set(fields), key
        assert all(value.count("{") == value.count("}") for value in fields.values())
        if "author" in fields:
            authors = REFERENCES[key].authors
            assert fields["author"].count(" and ") + 1 == len(authors)
            family, year = re.fullmatch(r"([a-z]+)(\d{4})[a-z]+", key).groups()
            assert fields["year"] == year
            assert family in family_of(authors[0]).lower()


OWN = {"matrix-rl", "doubling-matrix-rl", "kernel-matrix-rl", "kernel-control", "random", "epsilon-greedy"}


def test_the_papers_are_those_of_the_page_on_baselines():
    """A second route: docs/baselines.md names the authors and the year of every baseline."""
    page = (Path(__file__).parents[2] / "docs" / "baselines.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)`[^|]*\| ([^|]*) \|", page, re.MULTILINE))
    for name in set(CITATIONS) - OWN:
        for reference in cited_by([name]):
            assert str(reference.year) in rows[name], name
            for author in reference.authors:
                assert family_of(author).split()[-1] in rows[name], author


def test_references_as_text_name_all_authors():
    for reference in REFERENCES.values():
        text = reference.as_text()
        assert "{" not in text
        assert all(family_of(author) in text for author in reference.authors)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    where = tmp_path_factory.mktemp("citations") / "s"
    finished(where, SMALL)
    return where


def test_a_report_and_a_bibtex_file_hold_the_methods_that_were_used(folder, tmp_path):
    with Store.open_to_read(folder) as store:
        wanted = references_of(store.experiment)
        found = parsed(write_bibtex(store, tmp_path / "refs.bib").read_text())
        page = write_report(store, tmp_path / "report.html").read_text(encoding="utf-8")
    assert list(found) == [reference.key for reference in wanted]
    assert {"yang2020reinforcement", "osband2013more", STATISTICS} <= set(found)
    assert "jaksch2010near" not in found
    for reference in wanted:
        assert f"@{reference.kind}{{{reference.key}," in page
        assert all(family_of(author) in page for author in reference.authors)


def test_agents_of_one_s_own_are_named_in_a_comment_that_bibtex_does_not_read(tmp_path, monkeypatch):
    monkeypatch.delitem(CITATIONS, "psrl")
    with Store.create(tmp_path / "s", experiment(tmp_path, SMALL)) as store:
        text = write_bibtex(store, tmp_path / "refs.bib").read_text()
    assert text.startswith("% no reference: psrl")
    assert "osband2013more" not in parsed(text)
