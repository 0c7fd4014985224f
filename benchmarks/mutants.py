"""Mutation pass over matrixrl.core: which small changes of the code does no test notice?

    make mutants
    python benchmarks/mutants.py --every 10 --module radius --module sets/balls    # with cosmic-ray installed
    python benchmarks/mutants.py --every 60 --number 20 --against before.json      # after a change of the tests

The sample is the same in every run with the same options, so that two reports can be compared: `--against` lists the
mutants that were killed in an earlier report and survive now, and fails if there is one. `--module agents/checkpoint`
and `--tests` try other modules and tests in the same way.

Cosmic Ray makes the mutants: another arithmetic, comparison or Boolean operator, another number, a removed `not`, a
loop that is left out. Left out are mutants that are the same program (in annotations), and kinds that fail at once
wherever they are executed (bit operations and `is` on numbers, removed decorators), so that the share of killed mutants
is not flattered. Each mutant lives in memory only, in a process of its own that has NumPy, SciPy and pytest loaded;
files are not changed. The tests of its module run first, then further tests of the paper. Compiled loops run as plain
Python.

A mutant that survives is printed as a difference. It is either equivalent (the program computes the same) or a hole in
the tests.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib.machinery
import io
import json
import os
import random
import re
import resource
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_DISABLE_JIT", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src" / "matrixrl"
CORE = SOURCES / "core"
LEFT_OUT = re.compile(
    r"_(RShift|LShift|BitOr|BitAnd|BitXor|FloorDiv|Mod|Is|IsNot)$|Is_|IsNot_|RemoveDecorator|ExceptionReplacer|Invert|Variable"
)
_STAR = re.compile(r"\*\s*(,|$)|\*\*?[a-z_]+\s*[,:)]")
LONGEST = 300  # seconds of computing for one mutant; an endless loop counts as killed

PAPER = "tests/paper"
RADII = ["supermartingale", "block_radius", "radius_theorem", "radius_self_normalised"]
SETS = ["eq6_frobenius_ball", "eq5_column_ball", "normalised_set", "eq7_eq8_closed_forms"]
FIRST = {
    "backup": ["lemma_optimism", "certificates", "special_cases", "ties_by_estimate"],
    "confidence": ["supermartingale", "certificates", "explicit_bound"],
    "dual": ["eq9_kernel_form"],
    "embedding": ["theorems_bounds", "reward_alarm"],
    "matrix_bounds": ["normalised_set", "certificates", "lemma_optimism", "sandwich"],
    "models/ridge": ["eq2_eq3_estimator"],
    "models/sampled": ["large_state_sets"],
    "radius": [*RADII, "explicit_bound", "sandwich"],
    "regularity": ["radius_self_normalised", "explicit_bound", "special_cases", "theorems_bounds", "eq9_kernel_form"],
    "rewards": ["reward_alarm", "given_rewards", "unknown_rewards", "special_cases", "supermartingale"],
    "sets/base": [*SETS, "every_set_and_radius"],
    "sets/balls": [*SETS, "explicit_bound", "every_set_and_radius"],
    "sets/combined": ["sandwich", "explicit_bound", "every_set_and_radius"],
}
"""Tests in tests/paper that are run first, by the name of the module."""
THEN = ["tests/core", "tests/paper"]
EXTRA = {
    "greedy": ["tests/core/test_greedy.py", "tests/paper/test_ties_by_estimate.py"],
    "confidence": ["tests/core/test_confidence.py"],
    "compiled/backup": ["tests/core/test_own_sets_and_radii.py"],
    "matrix_bounds": ["tests/core/test_own_sets_and_radii.py"],
}
"""Tests that are run first, where they are not in tests/paper."""


def tests_of(module: Path) -> list[list[str]]:
    """Return the tests of a module in two stages; the second is run for mutants that survive the first."""
    near = [f"{PAPER}/test_{name}.py" for name in FIRST.get(name_of(module), [])]
    return [[*near, *EXTRA.get(name_of(module), [])] or ["tests/core"], THEN]


def name_of(module: Path) -> str:
    """Return the name of a module: sets/base in core, agents/checkpoint elsewhere."""
    return module.relative_to(SOURCES).with_suffix("").as_posix().removeprefix("core/")


def annotations_of(source: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Return start and end of all annotations, which `from __future__ import annotations` never evaluates."""
    found = [
        annotation
        for node in ast.walk(ast.parse(source))
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if annotation is not None
    ]
    return [((a.lineno, a.col_offset), (a.end_lineno or 0, a.end_col_offset or 0)) for a in found]


def mutants_of(module: Path) -> list[tuple[Path, str, int]]:
    """Return module, operator and occurrence of every mutant outside annotations."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator, operator_names

    source = module.read_text(encoding="utf-8")
    hidden, nodes, found = annotations_of(source), list(ast_nodes(get_ast(source))), []
    lines = source.splitlines()
    for name in operator_names():
        if LEFT_OUT.search(name):
            continue
        operator = get_operator(name)()
        places = [place for node in nodes for place in operator.mutation_positions(node)]
        found += [
            (module, name, occurrence)
            for occurrence, (start, _) in enumerate(places)
            if not any(first <= start < last for first, last in hidden)
            and not _STAR.match(lines[start[0] - 1][start[1] :])  # a star among parameters is no product
        ]
    return found


def source_of(module: Path, name: str, occurrence: int) -> str:
    """Return the source of a mutant."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    mutated: str = mutate_code(module.read_text(encoding="utf-8"), get_operator(name)(), occurrence)
    return mutated


def difference(module: Path, mutated: str) -> str:
    """Return the lines that a mutant changes."""
    lines = difflib.unified_diff(module.read_text(encoding="utf-8").splitlines(), mutated.splitlines(), n=0)
    return "\n".join(line for line in lines if line[:1] in "+-" and line[:3] not in ("+++", "---"))


class FirstFailure:
    """A plugin of pytest that keeps the first test, or the file, that fails."""

    def __init__(self) -> None:
        self.name = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        """Keep the name of a test that failed."""
        self.name = self.name or (report.nodeid if report.failed else "")

    def pytest_collectreport(self, report: Any) -> None:
        """Keep the name of a file that could not be imported."""
        self.name = self.name or (report.nodeid if report.failed else "")


def first_failure(module: Path, mutated: str, tests: list[str]) -> str:
    """Run tests in a child process in which the module has another source; return what failed, "" if nothing did."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        said = "the tests did not run"
        try:
            said = _run(module, mutated, tests)
        finally:
            os.write(writer, said.encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as pipe:
        failed = pipe.read()
    _, status = os.waitpid(child, 0)
    return "an endless loop" if os.waitstatus_to_exitcode(status) else failed


def _run(module: Path, mutated: str, tests: list[str]) -> str:
    import pytest

    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
    original = importlib.machinery.SourceFileLoader.get_code

    def get_code(loader: importlib.machinery.SourceFileLoader, name: str) -> object:
        if Path(loader.path) == module:
            return compile(mutated, loader.path, "exec")
        return original(loader, name)

    importlib.machinery.SourceFileLoader.get_code = get_code  # type: ignore[method-assign]
    os.chdir(ROOT)
    options = ["-x", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:benchmark"]
    options += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # hypothesis is imported before pytest starts
    kept, said = FirstFailure(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(said):
        status = int(pytest.main([*options, "--hypothesis-profile=mutants", *tests], plugins=[kept]))
    return "" if status == 0 else kept.name or f"pytest ended with {status}: {said.getvalue()[-500:]}"


def main() -> None:
    """Run the mutants and write the report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="run every k-th mutant of each module")
    parser.add_argument("--start", type=int, default=0, help="number of the first mutant that is run")
    parser.add_argument("--module", action="append", help="a module, such as sets/base; all of core by default")
    parser.add_argument("--number", type=int, help="run so many of the mutants only")
    parser.add_argument("--tests", nargs="+", help="run these tests, in place of those of the module and the paper")
    parser.add_argument("--against", type=Path, help="report of an earlier run to compare with")
    parser.add_argument("--near", action="store_true", help="run only the tests of the module, not all of the paper")
    parser.add_argument("--minutes", type=float, default=1e9, help="stop after this time")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "mutants.json")
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT / "src"))
    _preload()
    modules = [
        path
        for path in sorted((SOURCES if given.module else CORE).rglob("*.py"))
        if path.stem not in ("__init__", "availability", "jit") and name_of(path) in (given.module or [name_of(path)])
    ]
    made = [mutant for module in modules for mutant in mutants_of(module)]
    chosen = made[given.start :: given.every]
    random.Random(0).shuffle(chosen)  # a pass that is stopped early has seen all modules
    chosen = chosen[: given.number]
    print(f"{len(chosen)} of {len(made)} mutants of {len(modules)} modules", flush=True)
    began, results = time.monotonic(), []
    for number, (module, kind, occurrence) in enumerate(chosen):
        if time.monotonic() - began > 60 * given.minutes:
            break
        mutated = source_of(module, kind, occurrence)
        stages = [given.tests] if given.tests else tests_of(module)[: 1 if given.near else 2]
        failed = next(filter(None, (first_failure(module, mutated, tests) for tests in stages)), "")
        changed = difference(module, mutated)
        results.append({"module": name_of(module), "kind": kind, "killed_by": failed, "change": changed})
        if not failed:
            print(f"survived {number}: {name_of(module)}, {kind}\n{changed}", flush=True)
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(results, indent=1, ensure_ascii=False), encoding="utf-8")
    suspects = sorted({r["killed_by"] for r in results if r["killed_by"].startswith("tests/")})
    own = modules[0]
    if false_alarm := first_failure(own, own.read_text(encoding="utf-8"), suspects):
        sys.exit(f"{false_alarm} fails without any mutant: fix it, and run the pass again")
    dead = sum(bool(r["killed_by"]) for r in results)
    print(f"{dead} of {len(results)} mutants killed ({100 * dead / max(len(results), 1):.1f} %)")
    if given.against:
        _compare(json.loads(given.against.read_text(encoding="utf-8")), results)


def _compare(before: list[dict[str, str]], now: list[dict[str, str]]) -> None:
    """Fail if a mutant survives now that was killed before."""
    killed = {(r["module"], r["kind"], r["change"]): bool(r["killed_by"]) for r in before}
    both = [r for r in now if (r["module"], r["kind"], r["change"]) in killed]
    lost = [r for r in both if not r["killed_by"] and killed[r["module"], r["kind"], r["change"]]]
    print(f"{len(both)} mutants are in both reports, {len(lost)} of them were killed before and survive now")
    for result in lost:
        print(f"{result['module']}, {result['kind']}\n{result['change']}")
    sys.exit(bool(lost))


def _preload() -> None:
    """Import what every child needs, but nothing of matrixrl."""
    import cvxpy  # noqa: F401
    import gymnasium  # noqa: F401
    import hypothesis
    import pytest  # noqa: F401
    import sklearn.cluster
    import sklearn.gaussian_process
    import sklearn.kernel_approximation  # noqa: F401
    import typer  # noqa: F401

    hypothesis.settings.register_profile("mutants", deadline=None, derandomize=True, max_examples=4)


if __name__ == "__main__":
    main()
