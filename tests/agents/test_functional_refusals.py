"""What tasks without a list of states refuse."""

from __future__ import annotations

import numpy as np
import pytest

from continuum import aims, hats, line
from hostile import changed, npy
from matrixrl import CheckpointError, InvalidInput, MatrixRL, make
from matrixrl.features import FunctionPhi
from matrixrl.problems import low_rank


def test_a_checkpoint_of_functions_wants_the_same_functions(tmp_path):
    agent = MatrixRL(line(), seed=0, columns=50)
    agent.learn(2)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match=r"env must be the problem.*FunctionalTask"):
        MatrixRL.load(tmp_path / "a")
    with pytest.raises(InvalidInput, match="got one that differs in psi"):
        MatrixRL.load(tmp_path / "a", env=line(psi=lambda states: hats(states[:, 0]) + 1.0))
    MatrixRL.load(tmp_path / "a", env=line()).learn(1)


def test_a_hostile_column_is_refused(tmp_path):
    agent = MatrixRL(make("linear-mdp", n_states=30), seed=0, columns=10, switch_growth=0.5)
    agent.learn(2)
    agent.begin_episode()
    agent.save(tmp_path / "a")
    names = np.load(tmp_path / "a").files
    for name, value in {
        "learned_columns_0": np.full(10, 10**6),
        "learned_design_0": np.zeros((1, 2, 2)),
        "learned_kept_0_columns": np.full(10, -1),
        "learned_kept_0_clock": np.array([0, 0]),
        "plan_0_columns": np.full(10, -1),
        "plan_0_rankings": np.zeros((1, 9)),
    }.items():
        assert name in names
        (tmp_path / "odd.npz").write_bytes(changed((tmp_path / "a").read_bytes(), {f"{name}.npy": npy(value)}))
        with pytest.raises(CheckpointError, match="cannot be restored"):
            MatrixRL.load(tmp_path / "odd.npz")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phi": 3}, "phi must be a function"),
        ({"phi": lambda s: np.zeros((len(s), 3, 2))}, r"phi must return shape \(3, 2, d\)"),
        ({"psi": lambda s: np.full((len(s), 2), np.nan)}, "psi must be finite"),
        ({"sampler": lambda rng, m: (rng.random((m, 1)), np.zeros(m))}, "sampler must return"),
        ({"reward": lambda s: np.full((len(s), 2), 3.0)}, r"reward must lie in \[0, 1\]"),
        ({"start": [0.0, 1.0]}, r"start must be finite numbers of shape \(1,\)"),
        ({"horizon": 0}, "horizon"),
        ({"end_state": [2.0], "reward_range": (0.5, 1.0), "reward": None}, "reward_range must contain 0"),
    ],
)
def test_bad_functions_are_named(changes, message):
    with pytest.raises(InvalidInput, match=message):
        line(**changes)


def test_what_is_missing_is_said():
    with pytest.raises(InvalidInput, match="columns must be given"):
        MatrixRL(line())
    with pytest.raises(InvalidInput, match="reward must be given"):
        MatrixRL(line(reward=None), columns=50, known_reward=True)
    with pytest.raises(InvalidInput, match="columns must be enough"):
        MatrixRL(line(), columns=2)
    with pytest.raises(InvalidInput, match="columns need features"):
        MatrixRL(make("river-swim"), columns=3)
    with pytest.raises(InvalidInput, match="start must be known"):
        MatrixRL(line(start=None), columns=50).certificate()
    agent = MatrixRL(line(), columns=50)
    agent.begin_episode()
    with pytest.raises(InvalidInput, match="obs must be finite numbers"):
        agent.act([np.nan])
    MatrixRL(line(), columns=2, psi_pinv=True).learn(2)


def test_a_function_phi_is_asked_for_and_compared(tmp_path):
    world = low_rank(n_states=20, n_actions=2, d=3, horizon=3, seed=2)
    table = world.features.phi.table
    phi = FunctionPhi(lambda s: 2.0 * table[s], 20, 2)
    agent = MatrixRL(world.mdp, phi=phi, seed=0, columns=10)
    agent.learn(3)
    agent.save(tmp_path / "a")
    with pytest.raises(InvalidInput, match="phi must be the feature map"):
        MatrixRL.load(tmp_path / "a", env=world.mdp)
    with pytest.raises(InvalidInput, match="phi must be the feature map"):
        MatrixRL.load(tmp_path / "a", env=world.mdp, phi=FunctionPhi(lambda s: table[s], 20, 2))
    loaded = MatrixRL.load(tmp_path / "a", env=world.mdp, phi=phi)
    np.testing.assert_array_equal(loaded.learn(2).upper, agent.learn(2).upper)
    MatrixRL.load(tmp_path / "a", phi=phi).begin_episode()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"reward": lambda s: 1.0 - aims(s)[:, :, -1]}, "one that differs in rewards"),
        ({"start": [1.0]}, "one that differs in start"),
        ({"end_state": [2.0]}, "one that differs in end state"),
        ({"horizon": 7}, "one that differs in horizon"),
        ({"reward": None}, "one that differs in rewards"),
    ],
    ids=["reward", "start", "end", "horizon", "no reward"],
)
def test_a_checkpoint_of_functions_wants_the_same_problem(tmp_path, changes, words):
    MatrixRL(line(), seed=0, columns=50).save(tmp_path / "a")
    with pytest.raises(InvalidInput, match=rf"env must be the problem.*; got {words}\."):
        MatrixRL.load(tmp_path / "a", env=line(**changes))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"reward": np.zeros(3)}, "reward must be a function"),
        ({"sampler": lambda rng, m: rng.random((m, 1))}, "sampler must return"),
        ({"sampler": lambda *_: None}, "sampler must return"),
        ({"sampler": lambda rng, m: (rng.random((m, 1)), ["a"] * m)}, "sampler must return"),
        ({"phi": lambda _: [[1.0], [1.0, 2.0]]}, "phi must return shape"),
        ({"phi": lambda s: np.zeros((len(s), 2, len(s)))}, "phi must return shape"),
        ({"psi": lambda s: 1e200 * hats(s[:, 0])}, "psi must be finite"),
        ({"phi": lambda s: aims(s) * 1j}, "phi must return shape"),
        ({"env": 3}, "env must be a Gymnasium environment"),
        ({"n_actions": 3}, "env must have 3 discrete actions"),
    ],
)
def test_more_bad_functions_are_named(changes, message):
    with pytest.raises(InvalidInput, match=message):
        line(**changes)


def test_bad_function_features_and_tables_are_named():
    with pytest.raises(InvalidInput, match="phi must be a function"):
        FunctionPhi(3, 4, 2)
    with pytest.raises(InvalidInput, match="phi must map k states"):
        FunctionPhi(lambda _: np.zeros((1, 2, 3)), 4, 2)
    with pytest.raises(InvalidInput, match="phi must map k states"):
        FunctionPhi(lambda s: np.zeros((len(s), 2, 0)), 4, 2)
    with pytest.raises(InvalidInput, match="policy is a table only"):
        _ = MatrixRL(line(), columns=50).policy
    with pytest.raises(InvalidInput, match="measure_regret must be true, false"):
        MatrixRL(make("river-swim"), measure_regret="x")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"regions": 3}, "regions must be two numbers"),
        ({"regions": (3, 3, 3)}, "regions must be two numbers"),
        ({"side": 3}, "side must be at least 5"),
        ({"step": "x"}, "step"),
        ({"step": -1.0}, "step"),
    ],
)
def test_bad_soft_grids_are_named(settings, message):
    with pytest.raises(InvalidInput, match=message):
        make("soft-grid", **settings)
