"""Bibliography: the papers of the algorithms in ``references.bib``, as text and as BibTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from matrixrl.archive import atomic_write
from matrixrl.display import printable
from matrixrl_lab.spec import Experiment
from matrixrl_lab.store import Store

__all__ = [
    "CITATIONS",
    "REFERENCES",
    "STATISTICS",
    "Reference",
    "bibtex",
    "citation_section",
    "cited_by",
    "references_of",
    "write_bibtex",
]

_ACCENTS = {
    **{r"{\'a}": "á", r"{\'e}": "é", r"{\'E}": "É", r"{\'o}": "ó", r"{\"o}": "ö", r"{\"u}": "ü"},
    **{r"\&": "&", r"\%": "%", r"\_": "_"},
}
_ENTRY = re.compile(r"@(\w+)\{(\w+),\n(.*?)\n\}", re.DOTALL)
_FIELD = re.compile(r"^  (\w+) = \{(.*)\},?$", re.MULTILINE)


@dataclass(frozen=True)
class Reference:
    """One publication.

    Attributes:
        key: BibTeX key.
        kind: BibTeX type: article, book, inproceedings or misc.
        fields: BibTeX fields as text; braces hold what BibTeX must not change together.
        entry: The BibTeX entry, in ASCII.
    """

    key: str
    kind: str
    fields: dict[str, str]
    entry: str

    @property
    def authors(self) -> list[str]:
        """Names of the authors, given name first; none for the library itself."""
        return self.fields["author"].split(" and ") if "author" in self.fields else []

    @property
    def year(self) -> str:
        """Year; empty if there is none."""
        return self.fields.get("year", "")

    def as_text(self) -> str:
        """Return the reference in one line.

        >>> REFERENCES["jaksch2010near"].as_text()
        'T. Jaksch, R. Ortner, P. Auer: Near-optimal Regret Bounds for Reinforcement Learning. Journal of Machine
        Learning Research 11, 1563–1600, 2010.'
        """
        who = ", ".join(map(_initials, self.authors))
        title = self.fields["title"].replace("{", "").replace("}", "")
        place = next((self.fields[name] for name in ("journal", "booktitle", "publisher") if name in self.fields), "")
        if "volume" in self.fields:
            place += f" {self.fields['volume']}"
        parts = [place, self.fields.get("pages", "").replace("--", "–"), self.year]
        rest = ", ".join(part for part in parts if part)
        end = "" if title.endswith("?") else "."
        return (f"{who}: " if who else "") + title + end + (f" {rest}." if rest else "")


def _initials(name: str) -> str:
    """Return a name with its first given name as an initial, and without the braces that hold a family name together.

    >>> _initials("Benjamin {Van Roy}"), _initials("Michael I. Jordan")
    ('B. Van Roy', 'M. I. Jordan')
    """
    given, _, rest = name.partition(" ")
    return f"{given[0]}. {rest}".replace("{", "").replace("}", "")


def _read() -> dict[str, Reference]:
    """Return the entries of ``references.bib`` by their keys."""
    found = {}
    for match in _ENTRY.finditer(resources.files("matrixrl_lab.report").joinpath("references.bib").read_text("ascii")):
        kind, key, body = match.groups()
        for command, character in _ACCENTS.items():
            body = body.replace(command, character)
        found[key] = Reference(key, kind, dict(_FIELD.findall(body)), match[0])
    return found


REFERENCES = _read()
"""Every reference by its BibTeX key."""

CITATIONS: dict[str, tuple[str, ...]] = {
    "matrix-rl": ("yang2020reinforcement", "matrixrl"),
    "doubling-matrix-rl": ("yang2020reinforcement", "matrixrl"),
    "kernel-matrix-rl": ("yang2020reinforcement", "matrixrl"),
    "kernel-control": ("matrixrl", "rasmussen2006gaussian"),
    "random": ("matrixrl",),
    "epsilon-greedy": ("sutton2018reinforcement",),
    "ucrl2": ("jaksch2010near",),
    "psrl": ("osband2013more",),
    "ucbvi": ("azar2017minimax",),
    "q-learning": ("jin2018q",),
    "rlsvi": ("osband2016generalization", "russo2019worst"),
    "lsvi-ucb": ("jin2020provably",),
    "ucrl-vtr": ("ayoub2020model",),
    "kernel-ucbvi": ("domingues2021kernel",),
    "lin-ucb": ("abbasi2011improved",),
    "kernel-ucb": ("valko2013finite",),
}
"""BibTeX keys of the publications of each algorithm, by the name of the algorithm."""

STATISTICS = "agarwal2021deep"
"""Key of the publication of interquartile means, stratified intervals and performance profiles."""


def cited_by(names: Iterable[str]) -> list[Reference]:
    """Return the references of these algorithms in the order of `REFERENCES`; a user's own algorithm has none.

    Args:
        names: Names of algorithms; others are left out.

    >>> [reference.key for reference in cited_by(["psrl", "mine:Counter", "rlsvi"])]
    ['osband2013more', 'osband2016generalization', 'russo2019worst']
    """
    keys = {key for name in names for key in CITATIONS.get(name, ())}
    return [reference for key, reference in REFERENCES.items() if key in keys]


def bibtex(references: Iterable[Reference]) -> str:
    """Return a BibTeX file with these entries."""
    return "\n\n".join(reference.entry for reference in references) + "\n"


def references_of(experiment: Experiment) -> list[Reference]:
    """Return the references of the algorithms of an experiment and of the statistics of its report."""
    found = cited_by(dict.fromkeys(cell.agent for cell in experiment.cells))
    return [*found, *(() if REFERENCES[STATISTICS] in found else (REFERENCES[STATISTICS],))]


def citation_section(experiment: Experiment) -> dict[str, Any]:
    """Return what each agent cites, the references as text, the BibTeX entries, and agents without a reference."""
    agents: dict[str, list[str]] = {}
    for cell in experiment.cells:
        ids = agents.setdefault(cell.agent, [])
        if cell.agent_id not in ids:
            ids.append(cell.agent_id)
    cited = {
        key: [i for name, ids in agents.items() if key in CITATIONS.get(name, ()) for i in ids] for key in REFERENCES
    }
    cited[STATISTICS] = ["interquartile means, stratified intervals and performance profiles"]
    references = references_of(experiment)
    return {
        "rows": [(reference.key, reference.as_text(), ", ".join(cited[reference.key])) for reference in references],
        "without": [i for name, ids in agents.items() if name not in CITATIONS for i in ids],
        "bibtex": bibtex(references),
    }


def write_bibtex(store: Store, path: Path) -> Path:
    """Write the references of a store as a BibTeX file and return its path; an existing file is replaced.

    Agents of your own have no reference; a comment names them.

    Args:
        store: Store, open for reading or writing.
        path: File to write, such as refs.bib.
    """
    section = citation_section(store.experiment)
    note = "".join(f"% no reference: {_commented(agent_id)}\n" for agent_id in section["without"])
    data = (note + section["bibtex"]).encode("utf-8", errors="backslashreplace")
    atomic_write(path, lambda fresh: fresh.write_bytes(data))
    return path


def _commented(agent_id: str) -> str:
    """Return an id for a comment of BibTeX, which reads entries in comments too: without the sign of an entry."""
    return printable(agent_id).replace("@", "(at)")
