"""Tables of a store. The last column of every table is a checksum of the others."""

from __future__ import annotations

__all__ = ["COLUMNS", "FILE", "FORMAT_VERSION", "LOCK", "META", "SCHEMA", "TABLES"]

FORMAT_VERSION = 4
FILE = "results.sqlite"
LOCK = "writer.lock"

COLUMNS = ("regret", "return", "optimistic", "lower", "upper", "seconds")
"""Series with one float64 number for each episode: exact regret, realised return, optimistic value of the start, lower
and upper bound of the certificate, and wall time in seconds, without compiling, divided by the number of seeds
played together."""

META = ("format", "experiment", "hash", "source", "command", "versions")
"""Keys of the table `meta`."""

TABLES = {
    "meta": ("key", "value"),
    "cells": ("cell", "id", "facts"),
    "runs": ("run", "cell", "seed", "status", "episodes", "reason", "outcome", "alarms", "series"),
    "blocks": ("run", "series", "first", "count", "data"),
    "states": ("cell", "first_seed", "episodes", "data"),
}
"""Columns of every table, in the order in which the checksum covers them."""

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL, checksum BLOB NOT NULL) STRICT;
CREATE TABLE cells (
    cell INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    facts TEXT,
    checksum BLOB NOT NULL
) STRICT;
CREATE TABLE runs (
    run INTEGER PRIMARY KEY,
    cell INTEGER NOT NULL REFERENCES cells,
    seed INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('pending', 'running', 'done', 'failed')),
    episodes INTEGER NOT NULL,
    reason TEXT,
    outcome TEXT,
    alarms INTEGER NOT NULL,
    series TEXT NOT NULL,
    checksum BLOB NOT NULL,
    UNIQUE (cell, seed)
) STRICT;
CREATE TABLE blocks (
    run INTEGER NOT NULL REFERENCES runs,
    series TEXT NOT NULL,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (run, series, first)
) STRICT;
CREATE TABLE states (
    cell INTEGER NOT NULL REFERENCES cells,
    first_seed INTEGER NOT NULL,
    episodes INTEGER NOT NULL,
    data BLOB NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (cell, first_seed)
) STRICT;
"""
