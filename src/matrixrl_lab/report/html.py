"""The report of a store: one self-contained HTML file that works without a network or a server."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime
from pathlib import Path

from matrixrl.archive import atomic_write
from matrixrl_lab.analysis import aggregate, summarise
from matrixrl_lab.pages import PAGES
from matrixrl_lab.report.bibliography import citation_section
from matrixrl_lab.report.charts import charts_of, looks_of, profile_chart
from matrixrl_lab.report.sections import (
    agent_settings,
    aggregate_section,
    environment_section,
    failures,
    how_to_repeat,
    size_text,
    state_text,
)
from matrixrl_lab.store import Store

__all__ = ["write_report"]


def write_report(store: Store, path: Path) -> Path:
    """Write the report of a store in one atomic step and return its path.

    The report of an unfinished experiment shows the episodes that are stored so far.

    Args:
        store: Store, open for reading or writing.
        path: HTML file to write; missing directories are created and an existing file is replaced.

    Raises:
        MissingExtra: plotly or jinja2 is not installed.

    >>> import tempfile
    >>> from matrixrl_lab.spec import read_spec, work_out
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder), work_out(read_spec("quick"))) as store:
    ...         write_report(store, Path(folder) / "report.html").name
    'report.html'
    """
    # an id may hold a lone surrogate, which UTF-8 cannot encode
    data = _page(store, PAGES.plotly_script()).encode("utf-8", errors="xmlcharrefreplace")
    atomic_write(path, lambda fresh: fresh.write_bytes(data))
    return path


def _page(store: Store, plotly: str) -> str:
    environments, looks = summarise(store), looks_of(store.experiment)
    keys = [f"env-{i + 1}" for i in range(len(environments))]
    charts = [charts_of(env, looks, key) for env, key in zip(environments, keys, strict=True)]
    together = aggregate(environments)
    profile = None if together is None else profile_chart(together, looks)
    links = [(key, env.id) for env, key in zip(environments, keys, strict=True)]
    links += [("all", "all environments together")] if together is not None else []
    links += [("settings", "settings"), ("references", "references"), ("versions", "versions")]
    links += [("repeat", "how to repeat this experiment")]
    theme, script = PAGES.read("theme.js"), PAGES.read("report.js")
    return PAGES.render(
        "report.html.j2",
        policy=_content_policy(theme, plotly, script),
        title=store.experiment.title,
        style=PAGES.stylesheet("report"),
        theme=theme,
        plotly=plotly,
        script=script,
        experiment=store.experiment,
        created=datetime.now().astimezone(),
        state=state_text(store),
        size=size_text(store),
        failures=failures(store),
        contents=[{"id": key, "text": text} for key, text in links],
        environments=[
            environment_section(env, looks, own, key, store)
            for env, own, key in zip(environments, charts, keys, strict=True)
        ],
        together=aggregate_section(together, profile),
        settings=agent_settings(environments),
        citations=citation_section(store.experiment),
        versions=store.versions,
        repeat=how_to_repeat(store),
        charts=[chart for own in [*charts, [] if profile is None else [profile]] for chart in own],
    )


def _content_policy(*scripts: str) -> str:
    """Return a Content-Security-Policy that allows only these scripts and no network requests."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    # Plotly adds inline styles, and saves an image through data: and blob: addresses
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
