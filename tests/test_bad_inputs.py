"""Whatever is passed to the public surface is accepted or refused with one error of the library.

``MATRIXRL_SWEEP=20000 pytest tests/test_bad_inputs.py`` tries more of them; `surface.py` lists what is called.
"""

from __future__ import annotations

import os
import sys
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from matrixrl.cli.main import main
from matrixrl.errors import MatrixRLError
from surface import calls, values

CALLS = calls()
EXAMPLES = int(os.environ.get("MATRIXRL_SWEEP", "250"))
KINDS = st.sampled_from([np.float64, np.int64, np.complex128, np.bool_, np.dtype("U2"), np.object_])
# Whole numbers that are valid sizes cost time, so they are small or far too large.
DRAWN = st.one_of(
    st.integers(-5, 5),
    st.integers(min_value=10**13),
    st.floats(),
    st.text(max_size=8),
    st.binary(max_size=4),
    st.lists(st.one_of(st.none(), st.floats(), st.integers(-3, 3), st.text(max_size=2)), max_size=4),
    st.dictionaries(st.text(max_size=4), st.integers(-3, 3), max_size=2),
    KINDS.flatmap(lambda kind: hnp.arrays(kind, hnp.array_shapes(max_dims=3, max_side=3))),
)
QUIET = settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)


def accepts_or_refuses(name, value):
    """Call with a value; nothing but an error of the library, or a word about an unknown keyword, may come back."""
    words = "accepted"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            CALLS[name](value)
    except MatrixRLError as error:
        words = str(error)
    assert 0 < len(words.strip()) < 2000


@QUIET
@given(name=st.sampled_from(sorted(CALLS)), index=st.integers(0, len(values()) - 1))
def test_values_of_every_kind(name, index):
    accepts_or_refuses(name, values()[index])


@QUIET
@given(name=st.sampled_from(sorted(CALLS)), value=DRAWN)
def test_drawn_values(name, value):
    accepts_or_refuses(name, value)


OPTIONS = ["env", "-n", "-k", "--seed", "--set", "--agent-set", "--agent", "--out", "--record"]
WORDS = st.one_of(
    st.text(max_size=10),
    st.sampled_from(
        ["", "0", "-1", "9" * 20, "1e9", "nan", "a=b", "n_states=-1", "n_states=9e99", "radius=[", "x=1,2"]
    ),
    st.tuples(st.sampled_from(["n_states", "horizon", "delta", "ridge", "preset", "columns"]), st.text(max_size=6)).map(
        "=".join
    ),
)


def typed(monkeypatch, words):
    monkeypatch.setattr(sys, "argv", ["matrixrl", *words])
    with pytest.raises(SystemExit) as done:
        main()
    return done.value.code


@settings(QUIET, max_examples=max(EXAMPLES // 10, 60))
@given(option=st.sampled_from(OPTIONS), word=WORDS)
def test_words_on_the_command_line(option, word, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.chdir(tmp_path_factory.mktemp("cli"))
        words = {"env": "river-swim", "-n": "1", "-k": "1", **{option: word}}
        env = words.pop("env")
        assert typed(patch, ["run", env, *(part for pair in words.items() for part in pair)]) in (0, 2)


@settings(QUIET, max_examples=max(EXAMPLES // 20, 30))
@given(command=st.sampled_from(["inspect", "show", "report", "resume", "compare", "list", "watch"]), word=WORDS)
def test_words_of_other_commands(command, word, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("cli"))
        words = [command, "--port", "x", word] if command == "watch" else [command, word]
        assert typed(patch, words) in (0, 2)
