"""Tables of a store."""

from __future__ import annotations

__all__ = ["COLUMNS", "FILE", "FORMAT_VERSION", "LOCK", "SCHEMA"]

FORMAT_VERSION = 2
FILE = "results.sqlite"
LOCK = "writer.lock"

COLUMNS = ("regret", "return", "optimistic", "lower", "upper", "seconds")
"""Series with one float64 number for each episode: exact regret, realised return, optimistic value of the start, lower
and upper bound of the certificate, and wall time in seconds divided by the number of seeds played together."""

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE cells (
    cell INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    facts TEXT
) STRICT;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    cell INTEGER NOT NULL REFERENCES cells,
    seed INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed')),
    episodes INTEGER NOT NULL DEFAULT 0,
    reason TEXT,
    outcome TEXT,
    UNIQUE (cell, seed)
) STRICT;
CREATE TABLE blocks (
    run INTEGER NOT NULL REFERENCES runs,
    series TEXT NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (run, series, first)
) STRICT;
CREATE TABLE alarms (
    run INTEGER NOT NULL REFERENCES runs,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (run, first)
) STRICT;
CREATE TABLE states (
    cell INTEGER NOT NULL REFERENCES cells,
    first_seed INTEGER NOT NULL,
    episodes INTEGER NOT NULL,
    data BLOB NOT NULL,
    PRIMARY KEY (cell, first_seed)
) STRICT;
"""
