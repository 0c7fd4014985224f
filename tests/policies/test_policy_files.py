"""A policy survives JSON and npz, and files that nobody saved are refused with one error."""

from __future__ import annotations

import csv
import hashlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hostile import DAMAGE, HOSTILE_VALUES, LYING_DIRECTORIES, RESEALED, compressed
from matrixrl import CheckpointError, InvalidInput, MatrixRL, Policy
from matrixrl.certificates import Certificate
from matrixrl.policies import FORMAT, VERSION
from matrixrl.records import Guarantee

SHOWN = Certificate(upper=5.25, lower=1.0 / 3.0, delta=0.05, guarantee=Guarantee(True), optimal_lower=2.0)
BOUNDS = {name: getattr(SHOWN, name) for name in ("lower", "upper", "optimal_lower", "delta")}
BOUNDS |= {"guarantee": SHOWN.guarantee.as_dict(), "start": ""}


def policy(**changes):
    table = np.random.default_rng(0).integers(0, 3, (4, 5))
    chosen = {"n_actions": 3, "first_state": 1, "first_action": 2, "n_unobserved": 1, "certificate": SHOWN}
    return Policy(table, **{**chosen, "description": "a test, “quoted”", "basis": "returns", **changes})


def read(path):
    return json.loads(path.read_text())


def saved(path, **changes):
    """Write a JSON file with changed entries and the digest that belongs to them, as somebody could on purpose."""
    policy().save(path)
    found = {**read(path), **changes}
    found = {name: value for name, value in found.items() if value is not ...}
    entries = {name: value for name, value in found.items() if name not in ("format", "version", "digest", "table")}
    text = json.dumps(entries, sort_keys=True, separators=(",", ":"))
    table = np.array(found["table"], dtype="<i8").tobytes() if "table" in found and "table" not in changes else b""
    if "digest" in found and "digest" not in changes:
        found["digest"] = hashlib.sha256(text.encode() + table).hexdigest()
    path.write_text(json.dumps(found))
    return path


class TestRoundTrip:
    @given(
        table=hnp.arrays(np.int64, hnp.array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.integers(0, 299)),
        first=st.integers(-5, 5),
        words=st.text(max_size=30),
        bounds=st.none() | st.tuples(st.floats(-1e9, 1e9), st.floats(0, 1e9), st.text(max_size=20)),
    )
    @settings(max_examples=60, deadline=None, derandomize=True, database=None)
    def test_both_formats_keep_everything(self, table, first, words, bounds, tmp_path_factory):
        folder = tmp_path_factory.mktemp("policies")
        certificate = None
        if bounds is not None:
            certificate = Certificate(bounds[0] + bounds[1], bounds[0], 0.1, Guarantee.unless(bounds[2]))
        one = Policy(
            table, n_actions=300, description=words, first_state=first, first_action=-first, certificate=certificate
        )
        for name in ("p.json", "p.npz"):
            one.save(folder / name)
            again = Policy.load(folder / name)
            assert again == one
            assert again.certificate == one.certificate
            assert again.description == words
            np.testing.assert_array_equal(again.table, one.table)
            assert again.table.dtype == one.table.dtype

    @pytest.mark.parametrize("guarantee", [Guarantee(True), Guarantee(False, "an alarm")])
    def test_certificate_and_basis_come_back(self, guarantee, tmp_path):
        one = policy(certificate=Certificate(2.0, 1.0, 0.1, guarantee))
        for name in ("p.json", "p.npz"):
            one.save(tmp_path / name)
            again = Policy.load(tmp_path / name)
            assert (again.certificate, again.basis) == (one.certificate, "returns")

    def test_the_digest_is_that_of_the_documented_text(self, tmp_path):
        one = policy()
        one.save(tmp_path / "p.json")
        one.save(tmp_path / "p.npz")
        found = read(tmp_path / "p.json")
        entries = {name: value for name, value in found.items() if name not in ("format", "version", "digest", "table")}
        text = json.dumps(entries, sort_keys=True, separators=(",", ":")).encode()
        digest = hashlib.sha256(text + np.array(found["table"], dtype="<i8").tobytes()).hexdigest()
        with np.load(tmp_path / "p.npz", allow_pickle=False) as file:
            header = json.loads(file["header"].tobytes())
            np.testing.assert_array_equal(file["table"], one.table)
        assert digest == found["digest"] == one.digest == header["digest"]
        assert (found["format"], found["version"]) == (FORMAT, VERSION) == ("matrixrl policy", 3)
        assert header == {name: value for name, value in found.items() if name != "table"}

    def test_a_file_may_be_formatted_anew(self, tmp_path):
        one = policy()
        one.save(tmp_path / "p.json")
        (tmp_path / "q.json").write_text(json.dumps(read(tmp_path / "p.json"), indent=4, sort_keys=True))
        assert Policy.load(tmp_path / "q.json") == one

    def test_whole_numbers_for_floats_are_the_same_numbers(self, tmp_path):
        one = policy(certificate=Certificate(2.0, 1.0, 0.5, Guarantee(True)))
        one.save(tmp_path / "p.json")
        (tmp_path / "q.json").write_text((tmp_path / "p.json").read_text().replace("2.0,", "2,"))
        assert Policy.load(tmp_path / "q.json") == one

    def test_csv_has_the_numbers_of_the_environment(self, tmp_path):
        one = policy()
        one.to_csv(tmp_path / "p.csv")
        with (tmp_path / "p.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 4 * 4
        for row in rows:
            assert int(row["action"]) == one.act(int(row["state"]), int(row["stage"]))
        assert {row["state"] for row in rows} == {"1", "2", "3", "4"}

    def test_a_large_table_is_smaller_as_npz(self, tmp_path):
        large = Policy(np.random.default_rng(0).integers(0, 200, (20, 10_000)), n_actions=200)
        large.save(tmp_path / "p.npz")
        large.save(tmp_path / "p.json")
        assert (tmp_path / "p.npz").stat().st_size < 210_000 < (tmp_path / "p.json").stat().st_size
        assert Policy.load(tmp_path / "p.npz") == Policy.load(tmp_path / "p.json") == large

    def test_what_cannot_be_read_is_not_written(self, tmp_path, monkeypatch):
        monkeypatch.setattr("matrixrl.policies.policy._LARGEST_JSON", 400)
        with pytest.raises(CheckpointError, match=r"more than 400; .*\.npz"):
            policy().save(tmp_path / "p.json")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("path", ["p", "p.pkl", "p.csv", "p.JSON.gz"])
    def test_the_suffix_says_the_format(self, path, tmp_path):
        with pytest.raises(InvalidInput, match=r"path must end in \.json or \.npz"):
            policy().save(tmp_path / path)

    def test_a_folder_that_is_not_there(self, tmp_path):
        for write in (policy().save, policy().to_csv):
            with pytest.raises(CheckpointError, match="cannot write"):
                write(tmp_path / "no" / "p.json")


class TestRefusals:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(CheckpointError, match="is not a file"):
            Policy.load(tmp_path / "none.json")

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"version": 4}, "has format 4, newer than the 3 that this matrixrl reads; upgrade"),
            ({"version": 2}, "has format 2, older than the 3"),
            ({"version": 0}, "has no valid format version"),
            ({"version": True}, "has no valid format version"),
            ({"version": "1"}, "has no valid format version"),
            ({"format": "matrixrl agent"}, "does not have the format 'matrixrl policy'"),
            ({"digest": "0" * 64}, "its digest is that of another policy"),
            ({"digest": ...}, "must have the entries"),
            ({"extra": 1}, "must have the entries"),
            ({"n_actions": ...}, "must have the entries"),
            ({"horizon": 5}, "the table must have"),
            ({"n_states": 4}, "the table must have"),
            ({"n_observed": 6}, "n_unobserved"),
            ({"n_observed": 0}, "n_unobserved"),
            ({"n_actions": 2}, "table must hold actions 0 … 1"),
            ({"n_actions": 10**30}, "n_actions must be at most"),
            ({"first_state": 0.5}, "first_state"),
            ({"description": 7}, "description"),
            ({"basis": "x"}, "basis must be"),
            ({"certificate": {"lower": 1}}, "the certificate must have"),
            ({"certificate": {**BOUNDS, "lower": 9.0}}, "the certificate must have"),
            ({"table": [[0, 1], [0]]}, "has a table that is not"),
            ({"table": []}, "has a table that is not"),
            ({"table": [[]]}, "cannot be restored"),
            ({"table": [[0.0] * 5] * 4}, "has a table that is not"),
            ({"table": [[True] * 5] * 4}, "has a table that is not"),
            ({"table": [[2**40] * 5] * 4}, "has a table that is not"),
            ({"table": [[-1] * 5] * 4}, "has a table that is not"),
            ({"table": "x"}, "has a table that is not"),
            ({"table": ...}, "has a table that is not"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_json_that_nobody_saved(self, changes, words, tmp_path):
        with pytest.raises(CheckpointError, match=words):
            Policy.load(saved(tmp_path / "p.json", **changes))

    @pytest.mark.parametrize("name", ["lower", "upper", "optimal_lower", "delta", "guarantee"])
    @pytest.mark.parametrize("value", [-2.0e300 * 1e300, [], False, 10**400, 7.5e999, {}, ""], ids=str)
    def test_certificates_that_nobody_saved(self, name, value, tmp_path):
        policy().save(tmp_path / "p.json")
        bounds = {**read(tmp_path / "p.json")["certificate"], name: value}
        with pytest.raises(CheckpointError):
            Policy.load(saved(tmp_path / "p.json", certificate=bounds))

    @pytest.mark.parametrize(
        "text",
        [
            b"",
            b"{}",
            b"null",
            b"[" * 100_000,
            b'{"a":' * 20_000,
            b"\xff\xfe{}",
            b'{"format": "matrixrl policy", "format": "matrixrl policy"}',
            b'{"format": "matrixrl policy", "version": NaN}',
            b'{"format": "matrixrl policy", "version": ' + b"1" * 5000 + b"}",
            b"PK",
            b"PK\x03\x04" + bytes(100),
            b"\x80\x04\x95cos\nsystem\n(S'true'\ntR.",
        ],
        ids=range(12),
    )
    def test_bytes_that_are_no_policy(self, text, tmp_path):
        (tmp_path / "p").write_bytes(text)
        with pytest.raises(CheckpointError):
            Policy.load(tmp_path / "p")

    def test_every_changed_byte_of_json_is_found(self, tmp_path):
        """What is still read says the same: only spaces, or another way to write the same text, may change."""
        one, rng = policy(), np.random.default_rng(0)
        one.save(tmp_path / "p.json")
        data = (tmp_path / "p.json").read_bytes()
        refused = 0
        for _ in range(300):
            odd = bytearray(data)
            odd[rng.integers(len(odd))] = int(rng.integers(256))
            (tmp_path / "q.json").write_bytes(bytes(odd))
            try:
                assert Policy.load(tmp_path / "q.json") == one
            except CheckpointError:
                refused += 1
        for size in rng.integers(0, len(data) - 2, 50):
            (tmp_path / "q.json").write_bytes(data[:size])
            with pytest.raises(CheckpointError):
                Policy.load(tmp_path / "q.json")
        assert refused > 220

    @pytest.mark.parametrize("name", sorted(policy().entries()))
    def test_hostile_values_of_every_entry(self, name, tmp_path):
        refused = 0
        for value in HOSTILE_VALUES:
            try:
                found = Policy.load(saved(tmp_path / "p.json", **{name: value}))
                assert found.entries()[name] == value  # it is a policy, though another one
            except CheckpointError:
                refused += 1
        assert refused > 10

    @pytest.mark.parametrize(
        "make", [*DAMAGE, *RESEALED, compressed, *LYING_DIRECTORIES], ids=lambda make: make.__name__
    )
    def test_npz_files_that_nobody_saved(self, make, tmp_path):
        one, other, rng = policy(), Policy(2 - policy().table, n_actions=3), np.random.default_rng(0)
        for name, each in (("p.npz", one), ("q.npz", other)):
            each.save(tmp_path / name)
        data, theirs = ((tmp_path / name).read_bytes() for name in ("p.npz", "q.npz"))
        refused = 0
        for _ in range(60):
            (tmp_path / "odd.npz").write_bytes(make(data, rng, theirs))
            try:
                found = Policy.load(tmp_path / "odd.npz")
                assert found == one or (found == other and make not in LYING_DIRECTORIES)
            except CheckpointError:
                refused += 1
        # The directory of a zip file is not read: a file whose directory lies is the policy that it was.
        assert refused >= (0 if make in LYING_DIRECTORIES else 50 if make in DAMAGE else 20)

    def test_an_agent_is_no_policy_and_a_policy_no_agent(self, tmp_path):
        agent = MatrixRL("river-swim", seed=0)
        agent.save(tmp_path / "a.npz")
        with pytest.raises(CheckpointError, match="does not have the format 'matrixrl policy'"):
            Policy.load(tmp_path / "a.npz")
        agent.policy.save(tmp_path / "p.npz")
        with pytest.raises(CheckpointError, match="does not have the format"):
            MatrixRL.load(tmp_path / "p.npz")
