"""References to a user's own code, ``package.module:Name``."""

from __future__ import annotations

import sys

import pytest

from matrixrl import InvalidInput
from matrixrl.errors import UntrustedCode
from matrixrl.references import is_reference, load_reference, reference_of, refuse_untrusted


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Write modules into a package that can be imported, and forget them afterwards."""
    home = tmp_path / "own_package_of_tests"
    home.mkdir()
    (home / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, text):
        (home / f"{name}.py").write_text(text)
        return f"own_package_of_tests.{name}"

    yield write
    for name in [name for name in sys.modules if name.startswith("own_package_of_tests")]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("package.module:Name", True),
        ("module:Name", True),
        ("module:Outer.Inner", True),
        ("_m1:_N1", True),
        ("river-swim", False),
        ("gym:CartPole-v1", False),
        ("gym:CartPole", False),
        ("gym:module:CartPole-v1", False),
        ("package.module", False),
        ("package.module:", False),
        (":Name", False),
        ("package..module:Name", False),
        ("package/module:Name", False),
        ("package.module:Name()", False),
        ("package.module:Name\n", False),
        ("1module:Name", False),
        ("a:b:c", False),
        ("C:\\path:x", False),
        (3, False),
        (None, False),
        (str, False),
    ],
)
def test_what_has_the_form_of_a_reference(value, expected):
    assert is_reference(value) is expected


def test_nothing_is_imported_without_trust(package):
    name = package("trap", "raise SystemError('the trap was sprung')\n")
    with pytest.raises(
        UntrustedCode, match=r"agent 'own_package_of_tests.trap:Name' would import and run code.*--trust"
    ):
        load_reference("agent", f"{name}:Name", trust_code=False)
    assert name not in sys.modules
    refuse_untrusted("agent", name, trust_code=True)


def test_classes_functions_and_inner_names(package):
    name = package("fine", "class Outer:\n    class Inner: pass\ndef function(): return 3\nvalue = 7\n")
    assert load_reference("agent", f"{name}:Outer", trust_code=True).__name__ == "Outer"
    assert load_reference("agent", f"{name}:Outer.Inner", trust_code=True).__qualname__ == "Outer.Inner"
    assert load_reference("agent", f"{name}:function", trust_code=True)() == 3
    assert load_reference("agent", f"{name}:value", trust_code=True) == 7


def test_what_is_missing_is_named(package):
    name = package("empty", "")
    with pytest.raises(InvalidInput, match=r"kernel must name something.*No module"):
        load_reference("kernel", "own_missing_of_tests:Name", trust_code=True)
    with pytest.raises(InvalidInput, match="has no attribute 'Name'"):
        load_reference("kernel", f"{name}:Name", trust_code=True)
    with pytest.raises(InvalidInput, match="has no attribute 'Inner'"):
        load_reference("kernel", "matrixrl.references:is_reference.Inner", trust_code=True)


@pytest.mark.parametrize(
    ("text", "cause", "words"),
    [
        ("1 / 0\n", ZeroDivisionError, r"\(ZeroDivisionError: division by zero\)"),
        ("raise ValueError('bad data')\n", ValueError, r"\(ValueError: bad data\)"),
        ("def broken(:\n", SyntaxError, "SyntaxError"),
        ("import own_missing_of_tests\n", ImportError, "No module named 'own_missing_of_tests'"),
    ],
)
def test_an_error_of_the_users_module_is_invalid_input_with_its_cause(package, text, cause, words):
    """One line for the command line, and the whole traceback of the module for its author."""
    name = package("broken", text)
    with pytest.raises(InvalidInput, match=words) as caught:
        load_reference("environment", f"{name}:Name", trust_code=True)
    assert isinstance(caught.value.__cause__, cause)
    assert f"{name}:Name" in str(caught.value)


def test_an_interrupt_passes_through_and_an_exit_is_an_error_of_the_module(package):
    name = package("interrupted", "raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        load_reference("environment", f"{name}:Name", trust_code=True)
    name = package("leaving", "raise SystemExit(3)\n")
    with pytest.raises(InvalidInput, match=r"\(SystemExit: 3\)"):
        load_reference("environment", f"{name}:Name", trust_code=True)


class Here:
    class Inner:
        pass


def test_references_of_objects():
    assert reference_of(Here) == reference_of(Here()) == f"{__name__}:Here"
    assert reference_of(Here.Inner()) == f"{__name__}:Here.Inner"
    assert reference_of(is_reference) == "matrixrl.references:is_reference"
    assert load_reference("it", reference_of(is_reference), trust_code=True) is is_reference
    assert reference_of(lambda: 0) is None
    assert reference_of(3) is None
    assert reference_of(len) is None
    local = type("Local", (), {})
    local.__qualname__ = "test.<locals>.Local"
    assert reference_of(local()) is None


def test_an_environment_and_an_agent_by_reference():
    from matrixrl import make
    from matrixrl.algorithms import make_algorithm

    name = "matrixrl.envs.classic:RiverSwim"
    assert make(name, trust_code=True, n_states=4).unwrapped.mdp.n_states == 4
    with pytest.raises(UntrustedCode):
        make(name)
    with pytest.raises(InvalidInput, match=r"cannot be made with settings \['colour'\]"):
        make(name, trust_code=True, colour=3)
    with pytest.raises(InvalidInput, match="must name a Gymnasium environment"):
        make("fractions:Fraction", trust_code=True)
    chosen = make_algorithm("matrixrl.algorithms.baselines:PSRL", {"preset": "tuned"}, trust_code=True)
    assert chosen.settings.prior == 0.5
    with pytest.raises(InvalidInput, match="agent must be a name"):
        make_algorithm("matrixrl.references:is_reference", trust_code=True)
    with pytest.raises(UntrustedCode, match="set 'matrixrl"):
        make_algorithm("matrix-rl", {"set": "matrixrl.core.sets.balls:FrobeniusBall"})
    made = make_algorithm("matrix-rl", {"set": "matrixrl.core.sets.balls:FrobeniusBall"}, trust_code=True)
    assert type(made.settings.set).__name__ == "FrobeniusBall"
