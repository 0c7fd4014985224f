"""References of the methods that an experiment used: a BibTeX file, and a section of the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matrixrl.archive import atomic_write
from matrixrl.display import printable
from matrixrl_lab.report.bibliography import CITATIONS, REFERENCES, STATISTICS, Reference, bibtex, cited_by
from matrixrl_lab.spec import Experiment
from matrixrl_lab.store import Store

__all__ = ["citation_section", "references_of", "write_bibtex"]


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
