"""A file of reports, one for each race: a report is a section that begins with its own heading of the first level."""

from __future__ import annotations

from pathlib import Path


def put_section(path: Path, written: str) -> None:
    """Write a report into a file: in place of the section with the same heading, or at the end."""
    sections: list[str] = []
    for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
        if line.startswith("# ") or not sections:
            sections.append("")
        sections[-1] += line
    heading = written.splitlines()[0]
    headings = [section.splitlines()[0] for section in sections]
    if heading in headings:
        sections[headings.index(heading)] = written
    else:
        sections.append(written)
    path.write_text("\n".join(section.strip("\n") + "\n" for section in sections))
