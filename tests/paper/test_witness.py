"""docs/proofs.md, 9.11: a saved certificate is checked without solving anything, by a file that imports no package.

The checker is compared with the definitions of the radii in exact fractions, with a generic convex solver, and with the
bounds of the library; certificates that were changed, and files that nobody wrote, are refused.
"""

from __future__ import annotations

import ast
import json
import math
import re
import shutil
import subprocess
import sys
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import combinations
from pathlib import Path

import cvxpy
import numpy as np
import pytest
from scipy.special import betaln

import matrixrl
import witness
from matrixrl import MatrixRL, ProtocolError, check
from tolerances import EXACT, SOLVER


def agent(n_episodes: int = 40, **options) -> MatrixRL:
    made = MatrixRL("river-swim", env_settings={"n_states": 4, "horizon": 6}, seed=0, **options)
    made.learn(n_episodes=n_episodes)
    return made


def entries_of(certificate, path: Path) -> dict:
    certificate.save(path)
    return json.loads(path.read_text())


def rewrite(path: Path, entries: dict) -> None:
    """Write changed entries with digests that fit them."""
    witness.renew(entries)
    path.write_text(json.dumps(entries))


def log_mixture(counts: list[int], size: int) -> float:
    """Return ln m(c) of 9.3 from its definition, in exact fractions: supports one by one."""

    def rising(x: Fraction, n: int) -> Fraction:
        return math.prod((x + j for j in range(n)), start=Fraction(1))

    n, total = sum(counts), Fraction(0)
    for k in range(1, size + 1):
        of_size = Fraction(size + 1, size) / (k * (k + 1)) / math.comb(size, k)
        holding = sum(set(range(len(counts))) <= set(support) for support in combinations(range(size), k))
        of_law = math.prod((rising(Fraction(1, 2), c) for c in counts), start=Fraction(1)) / rising(Fraction(k, 2), n)
        total += of_size * holding * of_law
    return math.log(total)


@pytest.fixture(autouse=True)
def _digits():
    with localcontext(Context(prec=50)):
        yield


class TestRadii:
    @pytest.mark.parametrize(("counts", "size"), [([3], 4), ([1, 1], 2), ([5, 2, 1], 6), ([40, 3], 5), ([1] * 7, 9)])
    def test_the_radius_for_all_functions_is_that_of_the_definition(self, counts, size):
        n, events = sum(counts), 700
        law = Decimal(n), [(i, Decimal(c)) for i, c in enumerate(counts)]
        found = check.Checker.beta_all(fake(), law, size, Decimal(events))
        entropy = sum(c * math.log(c / n) for c in counts)
        assert float(found) == pytest.approx(math.log(events) + entropy - log_mixture(counts, size), rel=EXACT)

    @pytest.mark.parametrize("n", [1, 2, 3, 17, 400])
    def test_the_radius_for_fixed_functions_is_that_of_the_definition(self, n):
        k, worst = np.arange(n + 1), 0.0
        with np.errstate(divide="ignore", invalid="ignore"):
            best = np.nan_to_num(k * np.log(k / n)) + np.nan_to_num((n - k) * np.log(1 - k / n))
        mean = (1 - 1 / 3 - 0.1) * np.exp(betaln(k + 0.5, n - k + 0.5) - betaln(0.5, 0.5))
        mean[0] += 0.1
        mean[-1] += 1 / 3
        worst = float(np.exp(best - np.log(mean)).max())
        assert float(check.beta_one(Decimal(n), Decimal(50))) == pytest.approx(math.log(50 * worst), rel=EXACT)
        assert float(check.beta_top(Decimal(50))) == pytest.approx(math.log(150), rel=EXACT)

    @pytest.mark.parametrize("x", ["0.5", "1", "7.5", "30", "1234567.5"])
    def test_ln_gamma(self, x):
        assert float(check.log_gamma(Decimal(x))) == pytest.approx(math.lgamma(float(x)), rel=EXACT, abs=EXACT)


def fake() -> check.Checker:
    made = object.__new__(check.Checker)
    made.supports = check.Supports()
    return made


class TestBounds:
    def test_claims_are_those_of_a_generic_solver(self, tmp_path):
        """Every stage value is the largest mean over the Kullback-Leibler ball, or the smallest, by a convex solver."""
        path = tmp_path / "certificate.json"
        made = agent(15, set="likelihood")
        entries = entries_of(made.certify(made.greedy()), path)
        n, size, delta = 4, 4, entries["shares"]["all"]
        events, reward = n * 2 / delta, np.array(entries["problem"]["reward"])
        laws = {g: (np.array(outcomes), np.array(counts)) for g, outcomes, counts in entries["data"]["laws"]}
        groups, policy = np.array(entries["problem"]["groups"]), np.array(entries["policy"])

        def mean(group, values, sign):
            if group not in laws:
                return values.max() if sign > 0 else values.min()
            outcomes, counts = laws[group]
            total = counts.sum()
            radius = math.log(events) + counts @ np.log(counts / total) - log_mixture(counts.tolist(), size)
            q = cvxpy.Variable(size)
            ball = cvxpy.sum(cvxpy.rel_entr(counts / total, q[outcomes])) <= radius / total
            problem = cvxpy.Problem(cvxpy.Maximize(sign * (q @ values)), [q >= 0, cvxpy.sum(q) == 1, ball])
            return sign * problem.solve(solver="CLARABEL")

        for name, sign in (("best", 1), ("policy_lower", -1), ("policy_upper", 1)):
            values = np.array(entries["witness"][name]["values"])
            best = np.array(entries["witness"]["best"]["values"])
            for h in range(4, 6):  # the last two stages of six: a convex problem for each pair
                for s in range(n):
                    actions = range(2) if name == "best" else [policy[h, s]]
                    q = max(reward[s, a] + mean(groups[s, a], values[h + 1], sign) for a in actions)
                    q = min(q, best[h, s]) if name == "policy_upper" else q
                    assert values[h, s] == pytest.approx(q, abs=SOLVER)
        assert witness.verdict(path)[0] == 0

    @pytest.mark.parametrize("seed", range(12))
    def test_the_file_has_the_bounds_of_the_library(self, seed, tmp_path):
        rng = np.random.default_rng(100 + seed)
        made = witness.random_agent(rng)
        one = made.certificate()  # the first one: nothing is remembered
        lower, upper = one.save(tmp_path / "one.json")
        assert lower <= one.lower + 1e-12 * abs(one.lower)
        assert upper >= one.upper - 1e-12 * abs(one.upper)
        scale = 1.0 + abs(lower) + abs(upper)
        assert (lower, upper) == pytest.approx((one.lower, one.upper), abs=1e-8 * scale)
        given = made.certify(made.greedy())
        assert given.save(tmp_path / "given.json") == pytest.approx((given.lower, given.upper), abs=1e-8 * scale)
        for name in ("one", "given"):
            assert witness.verdict(tmp_path / f"{name}.json")[0] == 0

    def test_the_digest_of_the_policy_is_that_of_certify(self, tmp_path):
        found = agent().certify(agent().greedy())
        assert entries_of(found, tmp_path / "c.json")["digests"]["policy"] == found.digest


class TestVerdicts:
    @pytest.mark.parametrize(
        ("part", "wanted"), [("valid", "accepted"), ("tampered", "refused"), ("damaged", "refused")]
    )
    def test_what_is_valid_is_accepted_and_what_was_changed_is_refused(self, part, wanted):
        found = witness.run(part, 30, first_seed=500)
        assert sum(found.values()) == 30
        assert all(name.endswith(wanted) for name in found), found

    @pytest.mark.parametrize(
        ("text", "code"),
        [
            ("", 2),
            ("[" * 100_000, 2),
            ('{"format": "matrixrl certificate", "format": 1}', 2),
            ('{"format": "matrixrl certificate", "version": 2}', 2),
            ('{"format": "matrixrl certificate", "version": 1, "x": NaN}', 2),
            ('{"format": "matrixrl certificate", "version": 1, "x": 1e999999}', 2),
            ('{"format": "matrixrl certificate", "version": 1, "x": ' + "9" * 5000 + "}", 2),
            ('{"format": "matrixrl certificate", "version": 1}', 1),
            ('{"format": "a policy"}', 2),
            ('"é"', 2),
        ],
        ids=range(10),
    )
    def test_files_that_nobody_wrote(self, text, code, tmp_path, capsys):
        path = tmp_path / "c.json"
        path.write_text(text)
        assert check.main([str(path)]) == code
        assert len(capsys.readouterr().out.splitlines()) == 1

    def test_a_digit_below_double_precision_is_noticed(self, tmp_path, capsys):
        path = tmp_path / "c.json"
        agent().certificate().save(path)
        text = path.read_text()
        value = max(re.findall(r"0\.\d{10,}", text), key=len)
        path.write_text(text.replace(value, f"{value}0000001", 1))
        assert float(value) == float(f"{value}0000001")
        assert check.main([str(path)]) == 1
        assert "digest" in capsys.readouterr().out

    def test_files_that_are_none(self, tmp_path, capsys):
        large = tmp_path / "large.json"
        with large.open("wb") as file:
            file.truncate(1 << 30)
        assert [check.main([str(path)]) for path in (large, tmp_path, tmp_path / "none")] == [2, 2, 2]
        assert len(capsys.readouterr().out.splitlines()) == 3

    def test_entries_of_other_kinds_are_refused_in_one_line(self, tmp_path, capsys):
        """Every entry and first element is replaced by what nobody would write there, with digests that fit."""
        path = tmp_path / "c.json"
        found = agent(10, known_reward=False).certify([1, 1, 1, 1])
        plain, tried, accepted = entries_of(found, path), 0, set()
        for place in list(places(plain)):
            for wrong in (None, -1, 10**17, 1e300, "x", [[]]):
                changed = json.loads(json.dumps(plain))
                inner = changed
                for key in place[:-1]:
                    inner = inner[key]
                if (
                    place[0] in ("words", "digest", "digests")
                    or place == ["witness", "start"]
                    or inner[place[-1]] == wrong
                ):
                    continue
                inner[place[-1]] = wrong
                rewrite(path, changed)
                code = check.main([str(path)])
                said = capsys.readouterr().out
                assert code == 0 or (code in (1, 2) and len(said.splitlines()) == 1), (place, wrong, said)
                accepted |= {(".".join(map(str, place)), repr(wrong))} if code == 0 else set()
                tried += 1
        assert tried > 300
        assert accepted <= WEAKER


WEAKER = {("claim.upper", "100000000000000000"), ("claim.lower", "-1")}
"""What is accepted of the entries that are tried: they claim less."""


def places(entries, so_far=()):
    """Return the path of every entry of nested dictionaries, and of the first element of each list."""
    items = (
        entries.items() if isinstance(entries, dict) else enumerate(entries[:1]) if isinstance(entries, list) else ()
    )
    for key, inner in items:
        yield [*so_far, key]
        yield from places(inner, [*so_far, key])


def test_the_report_names_the_start_that_was_checked_and_not_the_one_that_is_said(tmp_path, capsys):
    """A file whose start was moved to the best state claims more; it keeps the words of the declared start."""
    path = tmp_path / "c.json"
    plain = entries_of(agent().certificate(), path)
    assert plain["start"] == {"states": [0], "weights": [1.0]}
    problem, witnessed = plain["problem"], plain["witness"]
    low, high = problem["reward_range"]
    values = {"lower": witnessed["policy_lower"]["values"][0][3], "upper": witnessed["best"]["values"][0][3]}
    for states, weights, words in (
        ([3], [1.0], "state 3"),
        ([3, 2], [1.0, 0.0], "states 3 (1), 2 (0); 2 states"),
    ):
        plain["start"] = {"states": states, "weights": weights}
        for name, value in values.items():
            claimed = low * problem["horizon"] + (high - low) * value
            plain["claim"][name] = claimed + (1e-9 if name == "upper" else -1e-9)
        rewrite(path, plain)
        assert check.main([str(path)]) == 0
        checked, _, said = capsys.readouterr().out.partition("said by the file, and not checked:")
        assert f"start         {words}\n" in checked
        assert "state 0" not in checked
        assert "state 0, the declared start" in said


def test_the_report_names_the_parts_of_delta(tmp_path, capsys):
    path = tmp_path / "c.json"
    agent().certificate().save(path)
    assert check.main([str(path)]) == 0
    assert "parts         optimal 0.0125, all 0.035, other 0.0025 of delta" in capsys.readouterr().out


class TestTheFileAlone:
    def test_it_imports_the_standard_library_only(self):
        tree = ast.parse(Path(check.__file__).read_text(encoding="utf-8"))
        names = {a.name for node in ast.walk(tree) if isinstance(node, ast.Import) for a in node.names}
        names |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        assert {name.split(".")[0] for name in names} <= sys.stdlib_module_names

    def test_it_runs_where_no_package_is_installed(self, tmp_path):
        path, alone = tmp_path / "c.json", tmp_path / "alone.py"
        agent().certificate().save(path)
        shutil.copy(check.__file__, alone)
        found = subprocess.run([sys.executable, "-I", "-S", alone, path], capture_output=True, text=True)
        assert found.returncode == 0, found.stderr
        assert found.stdout.startswith("every bound follows: with probability 0.95 the policy earns at least")

    def test_the_module_imports_neither_numpy_nor_gymnasium(self, tmp_path):
        path = tmp_path / "c.json"
        agent().certificate().save(path)
        command = [sys.executable, "-X", "importtime", "-m", "matrixrl.check", path]
        found = subprocess.run(command, capture_output=True, text=True, env=environment())
        assert found.returncode == 0, found.stderr
        assert not {"numpy", "gymnasium", "scipy"} & {line.split("|")[-1].strip() for line in found.stderr.splitlines()}


def environment() -> dict[str, str]:
    return {"PYTHONPATH": str(Path(matrixrl.__file__).parents[1])}


class TestRefusals:
    @pytest.mark.parametrize(
        ("certificate", "words"),
        [
            (lambda: agent(5, set="normalised").certificate(), "no likelihood set"),
            (lambda: agent(5, planner="path").certificate(), "no likelihood set"),
            (lambda: agent(5).certify(np.full((4, 2), 0.5)), "random"),
            (lambda: agent(5).compare([1] * 4, [0] * 4), "cannot be saved"),
            (lambda: matrixrl.Certificate(2.0, 1.0, 0.05, matrixrl.Guarantee(False, "no reason")), "no reason"),
        ],
        ids=["ball", "path", "random", "comparison", "not proven"],
    )
    def test_what_has_no_witness_says_so_and_writes_nothing(self, certificate, words, tmp_path):
        with pytest.raises(ProtocolError, match=words):
            certificate().save(tmp_path / "c.json")
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["reward tables", "censored outcomes"])
def test_what_the_file_cannot_say_is_refused(form, tmp_path):
    """The checker would take learned parts of rewards for rewards, and cells of outcomes for outcomes."""
    reward = np.array([[0.0, 0.1], [1.0, 0.0]])
    laws = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.0, 1.0], [0.5, 0.5]]])
    if form == "reward tables":
        mdp = matrixrl.FiniteMDP(laws, reward, horizon=3, reward_range=(reward - 0.1, reward + 0.4))
        agent = matrixrl.MatrixRL(mdp, known_reward=False, seed=0)
    else:
        options = {"outcomes": 3, "n_states": 3, "n_actions": 1, "horizon": 3, "start": 2, "law": [0.3, 0.3, 0.4]}
        known = matrixrl.KnownDynamics(lambda s, _a, w: (max(s - w, 0), min(s, w)), censored=True, **options)
        agent = matrixrl.MatrixRL(known, seed=0)
    agent.learn(5)
    assert agent.guarantee
    with pytest.raises(matrixrl.ProtocolError, match="no place in the file"):
        agent.certificate().save(tmp_path / "certificate.json")
    assert not any(tmp_path.iterdir())
