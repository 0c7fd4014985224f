"""One self-contained page of everything that a store says: no network, no server, nothing beside it."""

from __future__ import annotations

import base64
import hashlib
import json
from datetime import datetime
from html import escape
from importlib import resources
from pathlib import Path
from string import Template
from typing import Any

from matrixrl.errors import MissingExtra
from matrixrl.lab.analysis import EnvSummary, summarise
from matrixrl.lab.report.charts import charts_of
from matrixrl.lab.report.look import looks_of
from matrixrl.lab.report.sections import again, environment, header, settings_of_agents, versions
from matrixrl.lab.store import Store
from matrixrl.simulate.files import write_whole

__all__ = ["write_report"]


def write_report(store: Store, path: Path) -> Path:
    """Write the page of a store, whole or not at all, and return its path.

    A store that is still being written to gives a page of what is there.

    Args:
        store: open to read or to write.
        path: of the page; directories are made, and an earlier page is replaced.

    Raises:
        MissingExtra: plotly is not installed.

    >>> import tempfile
    >>> from matrixrl.lab.spec import read_spec, work_out
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with Store.create(Path(folder), work_out(read_spec("quick"))) as store:
    ...         write_report(store, Path(folder) / "report.html").name
    'report.html'
    """
    text = _page(store, _plotly())
    # a lone surrogate in an id must not cost the page
    data = text.encode("utf-8", errors="xmlcharrefreplace")
    write_whole(path, lambda fresh: fresh.write_bytes(data))
    return path


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs  # slow to import, and optional
    except ImportError as error:
        raise MissingExtra("reports need plotly, which is not installed; pip install 'matrixrl[lab]'") from error
    return str(get_plotlyjs()).replace("\r\n", "\n")


def _page(store: Store, plotly: str) -> str:
    environments, looks = summarise(store), looks_of(store.experiment)
    keys = [f"env-{i + 1}" for i in range(len(environments))]
    charts = [charts_of(env, looks, key) for env, key in zip(environments, keys, strict=True)]
    body = [
        environment(env, looks, made, key, store) for env, made, key in zip(environments, charts, keys, strict=True)
    ]
    body += [settings_of_agents(environments), versions(store), again(store)]
    theme, script = _part("theme.js"), _part("page.js")
    return Template(_part("page.html")).substitute(
        policy=_policy(theme, plotly, script),
        title=escape(store.experiment.title),
        style=_part("page.css"),
        theme=theme,
        header=header(store, datetime.now().astimezone()),
        contents=_contents(environments, keys),
        body="\n".join(body),
        charts=_json([chart for made in charts for chart in made]),
        plotly=plotly,
        script=script,
    )


def _contents(environments: list[EnvSummary], keys: list[str]) -> str:
    links = [(key, env.id) for env, key in zip(environments, keys, strict=True)]
    links += [("settings", "settings"), ("versions", "versions"), ("again", "how to make this again")]
    items = "".join(f'<li><a href="#{key}">{escape(name)}</a></li>' for key, name in links)
    return f'<nav aria-label="Contents"><ul>{items}</ul></nav>'


def _policy(*scripts: str) -> str:
    """Return a content policy: these scripts and no others run, and nothing is fetched from anywhere."""
    digests = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{digest}'" for digest in digests)
    # Plotly writes its own styles, and saves a picture through data: and blob: addresses.
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def _json(data: Any) -> str:
    r"""Return JSON that cannot end the script element that it stands in.

    >>> _json("</script>")
    '"\\u003c/script>"'
    """
    return json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")


def _part(name: str) -> str:
    return (resources.files("matrixrl.lab.report") / name).read_text(encoding="utf-8")
