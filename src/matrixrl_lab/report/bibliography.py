"""Bibliography: the papers of the algorithms, as text and as BibTeX. This is the one place that lists them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
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

_LATEX = {
    **{"á": r"{\'a}", "é": r"{\'e}", "É": r"{\'E}", "ó": r"{\'o}", "ö": r"{\"o}", "ü": r"{\"u}"},
    **{"&": r"\&", "%": r"\%", "_": r"\_"},
}
_ICML = "Proceedings of the {} International Conference on Machine Learning"
_NEURIPS = "Advances in Neural Information Processing Systems"


@dataclass(frozen=True)
class Reference:
    """One publication.

    Attributes:
        key: BibTeX key.
        kind: BibTeX type: article, book, inproceedings or misc.
        authors: Names of the authors, given name first; empty for the library itself.
        title: Title, with braces around what BibTeX must not write in lower case.
        year: Year, or None.
        fields: Further BibTeX fields: journal or book title, volume, pages, publisher, note.
    """

    key: str
    kind: str
    authors: tuple[str, ...]
    title: str
    year: int | None
    fields: dict[str, str] = field(default_factory=dict)

    def as_text(self) -> str:
        """Return the reference in one line.

        >>> REFERENCES["jaksch2010near"].as_text()
        'T. Jaksch, R. Ortner, P. Auer: Near-optimal Regret Bounds for Reinforcement Learning. Journal of Machine
        Learning Research 11, 1563–1600, 2010.'
        """
        who = ", ".join(map(_initials, self.authors))
        title = self.title.replace("{", "").replace("}", "")
        place = next((self.fields[name] for name in ("journal", "booktitle", "publisher") if name in self.fields), "")
        if "volume" in self.fields:
            place += f" {self.fields['volume']}"
        parts = [place, self.fields.get("pages", "").replace("--", "–"), str(self.year or "")]
        rest = ", ".join(part for part in parts if part)
        end = "" if title.endswith("?") else "."
        return (f"{who}: " if who else "") + title + end + (f" {rest}." if rest else "")

    def as_bibtex(self) -> str:
        r"""Return the BibTeX entry, in ASCII.

        >>> print(REFERENCES["matrixrl"].as_bibtex())
        @misc{matrixrl,
          title = {{matrixrl}: Reinforcement learning that explores with a proof},
          note = {Python package}
        }
        """
        year = {} if self.year is None else {"year": str(self.year)}
        own = {"author": " and ".join(self.authors)} if self.authors else {}
        rows = {**own, "title": self.title, **self.fields, **year}
        body = ",\n".join(f"  {name} = {{{_in_latex(value)}}}" for name, value in rows.items())
        return f"@{self.kind}{{{self.key},\n{body}\n}}"


def _initials(name: str) -> str:
    """Return a name with its first given name as an initial, and without the braces that hold a family name together.

    >>> _initials("Benjamin {Van Roy}"), _initials("Michael I. Jordan")
    ('B. Van Roy', 'M. I. Jordan')
    """
    given, _, rest = name.partition(" ")
    return f"{given[0]}. {rest}".replace("{", "").replace("}", "")


def _in_latex(text: str) -> str:
    return "".join(_LATEX.get(c, c) for c in text)


def _pmlr(book: str, volume: int, **more: str) -> dict[str, str]:
    """Return the fields of a paper in the Proceedings of Machine Learning Research."""
    return {"booktitle": book, "volume": str(volume), "series": "Proceedings of Machine Learning Research", **more}


_ALL = (
    Reference(
        "yang2020reinforcement",
        "inproceedings",
        ("Lin F. Yang", "Mengdi Wang"),
        "Reinforcement Learning in Feature Space: Matrix Bandit, Kernels, and Regret Bound",
        2020,
        _pmlr(_ICML.format("37th"), 119, pages="10746--10756", note="arXiv:1905.10389, 2019"),
    ),
    Reference(
        "jaksch2010near",
        "article",
        ("Thomas Jaksch", "Ronald Ortner", "Peter Auer"),
        "Near-optimal Regret Bounds for Reinforcement Learning",
        2010,
        {"journal": "Journal of Machine Learning Research", "volume": "11", "pages": "1563--1600"},
    ),
    Reference(
        "osband2013more",
        "inproceedings",
        ("Ian Osband", "Daniel Russo", "Benjamin {Van Roy}"),
        "({More}) Efficient Reinforcement Learning via Posterior Sampling",
        2013,
        {"booktitle": _NEURIPS, "volume": "26", "pages": "3003--3011"},
    ),
    Reference(
        "osband2016generalization",
        "inproceedings",
        ("Ian Osband", "Benjamin {Van Roy}", "Zheng Wen"),
        "Generalization and Exploration via Randomized Value Functions",
        2016,
        _pmlr(_ICML.format("33rd"), 48, note="arXiv:1402.0635"),
    ),
    Reference(
        "russo2019worst",
        "inproceedings",
        ("Daniel Russo",),
        "Worst-Case Regret Bounds for Exploration via Randomized Value Functions",
        2019,
        {"booktitle": _NEURIPS, "volume": "32", "note": "arXiv:1906.02870"},
    ),
    Reference(
        "azar2017minimax",
        "inproceedings",
        ("Mohammad {Gheshlaghi Azar}", "Ian Osband", "Rémi Munos"),
        "Minimax Regret Bounds for Reinforcement Learning",
        2017,
        _pmlr(_ICML.format("34th"), 70, pages="263--272"),
    ),
    Reference(
        "jin2018q",
        "inproceedings",
        ("Chi Jin", "Zeyuan Allen-Zhu", "Sébastien Bubeck", "Michael I. Jordan"),
        "Is {Q}-Learning Provably Efficient?",
        2018,
        {"booktitle": _NEURIPS, "volume": "31", "note": "arXiv:1807.03765"},
    ),
    Reference(
        "jin2020provably",
        "inproceedings",
        ("Chi Jin", "Zhuoran Yang", "Zhaoran Wang", "Michael I. Jordan"),
        "Provably Efficient Reinforcement Learning with Linear Function Approximation",
        2020,
        _pmlr("Conference on Learning Theory", 125, pages="2137--2143"),
    ),
    Reference(
        "ayoub2020model",
        "inproceedings",
        ("Alex Ayoub", "Zeyu Jia", "Csaba Szepesvári", "Mengdi Wang", "Lin F. Yang"),
        "Model-Based Reinforcement Learning with Value-Targeted Regression",
        2020,
        _pmlr(_ICML.format("37th"), 119, pages="463--474"),
    ),
    Reference(
        "domingues2021kernel",
        "inproceedings",
        ("Omar {Darwiche Domingues}", "Pierre Ménard", "Matteo Pirotta", "Emilie Kaufmann", "Michal Valko"),
        "Kernel-Based Reinforcement Learning: A Finite-Time Analysis",
        2021,
        _pmlr(_ICML.format("38th"), 139, pages="2783--2792"),
    ),
    Reference(
        "abbasi2011improved",
        "inproceedings",
        ("Yasin Abbasi-Yadkori", "Dávid Pál", "Csaba Szepesvári"),
        "Improved Algorithms for Linear Stochastic Bandits",
        2011,
        {"booktitle": _NEURIPS, "volume": "24", "pages": "2312--2320"},
    ),
    Reference(
        "valko2013finite",
        "inproceedings",
        ("Michal Valko", "Nathan Korda", "Rémi Munos", "Ilias Flaounas", "Nello Cristianini"),
        "Finite-Time Analysis of Kernelised Contextual Bandits",
        2013,
        {
            "booktitle": "Proceedings of the 29th Conference on Uncertainty in Artificial Intelligence",
            "pages": "654--663",
            "note": "arXiv:1309.6869",
        },
    ),
    Reference(
        "sutton2018reinforcement",
        "book",
        ("Richard S. Sutton", "Andrew G. Barto"),
        "Reinforcement Learning: An Introduction",
        2018,
        {"edition": "Second", "publisher": "MIT Press"},
    ),
    Reference(
        "rasmussen2006gaussian",
        "book",
        ("Carl Edward Rasmussen", "Christopher K. I. Williams"),
        "Gaussian Processes for Machine Learning",
        2006,
        {"publisher": "MIT Press"},
    ),
    Reference(
        "agarwal2021deep",
        "inproceedings",
        ("Rishabh Agarwal", "Max Schwarzer", "Pablo Samuel Castro", "Aaron C. Courville", "Marc G. Bellemare"),
        "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
        2021,
        {"booktitle": _NEURIPS, "volume": "34", "note": "arXiv:2108.13264"},
    ),
    Reference(
        "matrixrl",
        "misc",
        (),
        "{matrixrl}: Reinforcement learning that explores with a proof",
        None,
        {"note": "Python package"},
    ),
)

REFERENCES: dict[str, Reference] = {reference.key: reference for reference in _ALL}
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
    return "\n\n".join(reference.as_bibtex() for reference in references) + "\n"


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
