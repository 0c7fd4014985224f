"""Maps and tables show what the agent and the solution have: actions, values, bounds, visits, widths."""

from __future__ import annotations

import numpy as np
import pytest
from drawn import ball_agent, labels, river_agent

import matrixrl
from matrixrl import plots
from matrixrl.errors import InvalidInput, ProtocolError
from matrixrl.problems import optimal_q


def test_action_bounds_are_those_of_the_agent_around_q_star():
    agent = river_agent()
    axes = plots.action_bounds(agent, state=2, stage=3)
    tables = agent.action_tables(agent.plan_ahead())
    drawn = np.array([[bar.get_x(), bar.get_x() + bar.get_width()] for bar in axes.patches])
    assert np.allclose(drawn, np.stack([tables.lower[3, 2], tables.upper[3, 2]], axis=1))
    truth = next(line for line in axes.lines if line.get_label() == "Q*").get_xdata()
    assert np.allclose(truth, optimal_q(agent.problem.mdp)[3, 2])
    assert (drawn[:, 0] <= truth).all()
    assert (truth <= drawn[:, 1]).all()
    dotted = next(line for line in axes.lines if line.get_label() == "largest lower bound")
    assert dotted.get_xdata()[0] == drawn[:, 0].max()
    assert set(labels(axes)) == {"largest lower bound", "Q*"}


def test_drawing_changes_nothing_that_the_agent_does():
    agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3, "horizon": 6}, seed=0)
    agent.learn(5)
    before = agent.algorithm.state()
    for draw in (plots.visits, plots.widths, plots.policy, plots.value, plots.regret):
        draw(agent)
    plots.action_bounds(agent, 0)
    plots.confidence_region(agent, 1, 1)
    after = agent.algorithm.state()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_actions_that_are_not_allowed_are_left_out():
    allowed = np.array([[True, True, False]] * 3)
    mdp = matrixrl.FiniteMDP(np.full((3, 3, 3), 1 / 3), np.full((3, 3), 0.5), 4, allowed=allowed)
    agent = matrixrl.MatrixRL(mdp, seed=0)
    agent.learn(5)
    assert len(plots.action_bounds(agent, 0).patches) == 2
    assert np.isnan(plots.widths(agent).images[0].get_array().filled(np.nan)[2]).all()
    with pytest.raises(InvalidInput, match="action must be allowed in state 0"):
        plots.confidence_region(agent, 0, 2)


def test_visits_are_those_of_the_exported_log(tmp_path):
    agent = river_agent()
    agent.export(tmp_path / "log.csv")
    rows = np.genfromtxt(tmp_path / "log.csv", delimiter=",", names=True, dtype=None, encoding="utf-8")
    expected = np.zeros((4, 2))
    np.add.at(expected, (rows["state"], rows["action"]), 1)
    assert np.array_equal(agent.visits, expected)
    axes = plots.visits(agent)
    drawn = axes.images[0].get_array()
    assert np.array_equal(drawn.filled(0.0), expected.T)
    assert {text.get_text() for text in axes.texts} == {f"{n:,.0f}" for n in expected.ravel() if n}


@pytest.mark.parametrize("make", [river_agent, ball_agent])
def test_widths_of_one_hot_features_are_one_over_the_root_of_visits(make):
    agent = make()
    ridge = getattr(agent.algorithm, "ridge", 1.0)
    drawn = plots.widths(agent).images[0].get_array()
    assert np.allclose(drawn, (1.0 / np.sqrt(ridge + agent.visits)).T)


def test_widths_of_dense_features_are_norms_in_the_inverse_design():
    agent = matrixrl.MatrixRL("linear-mdp", env_settings={"n_states": 8, "horizon": 4}, seed=0)
    agent.learn(20)
    phi = agent.problem.features.phi.table  # (S, A, d)
    design = agent.algorithm.model.ridge * np.eye(phi.shape[2]) + np.einsum("sa,sai,saj->ij", agent.visits, phi, phi)
    expected = np.sqrt(np.einsum("sai,ij,saj->sa", phi, np.linalg.inv(design), phi))
    assert np.allclose(plots.widths(agent).images[0].get_array(), expected.T)


def test_widths_at_a_stage_are_distances_of_the_bounds():
    agent = river_agent()
    drawn = plots.widths(agent, 2).images[0].get_array()
    bars = plots.action_bounds(agent, 1, 2).patches
    assert np.allclose(drawn[:, 1], [bar.get_width() for bar in bars])


def test_values_and_arrows_of_rooms_lie_where_the_cells_are():
    env = matrixrl.make("four-rooms", size=5)
    found = matrixrl.solve(env.unwrapped.mdp)
    axes = plots.policy(env, ax=plots.value(env))
    table = axes.images[0].get_array()
    free = [(r, c) for r in range(5) for c in range(5) if 2 not in (r, c) or (r, c) in {(2, 1), (2, 4), (1, 2), (4, 2)}]
    assert table.mask.sum() == 25 - len(free)
    assert [table[cell] for cell in free] == found.values[0].tolist()
    arrows = axes.collections[0]
    assert arrows.XY.tolist() == [[c, r] for r, c in free]
    ways = {0: (0.0, -1.0), 1: (1.0, 0.0), 2: (0.0, 1.0), 3: (-1.0, 0.0)}  # up, right, down, left; y grows downwards
    drawn = np.stack([arrows.U, arrows.V], axis=1) / 0.62
    assert np.allclose(drawn, [ways[a] for a in found.policy[0]])


@pytest.mark.parametrize(
    "name", ["grid-world", "four-rooms", "river-swim", "deep-sea", "combination-lock", "soft-grid"]
)
def test_a_sure_action_leads_to_where_its_arrow_points(name):
    """The most probable next state, where an action moves at all, lies in the direction of the layout."""
    settings = {"soft-grid": {"side": 8, "regions": (4, 4)}, "grid-world": {"size": 4}, "four-rooms": {"size": 5}}
    env = matrixrl.make(name, **settings.get(name, {})).unwrapped
    layout, mdp = env.layout, env.mdp
    assert layout.n_states == mdp.n_states
    assert len({tuple(cell) for cell in layout.cells.tolist()}) == mdp.n_states
    checked = 0
    for s in range(mdp.n_states):
        for a in range(mdp.n_actions):
            law = mdp.transitions.rows(np.array([s]), np.array([a]))[0]
            mean = law @ layout.cells - layout.cells[s]
            aim = layout.moves_of(np.full(mdp.n_states, a))[s]
            inside = ((layout.cells[s] + aim >= 0) & (layout.cells[s] + aim < layout.shape)).all()
            is_free = (layout.cells == layout.cells[s] + aim).all(axis=1).any()
            if inside and is_free and np.abs(aim).any() and s != mdp.n_states - 1:
                assert mean @ aim > 0.0, (s, a)
                checked += 1
    assert checked >= mdp.n_states


@pytest.mark.parametrize("bound", ["plan", "lower", "upper"])
def test_values_of_an_agent_are_its_plan_or_its_proven_bounds(bound):
    agent = river_agent()
    drawn = plots.value(agent, 2, bound=bound).images[0].get_array()[0]
    truth = matrixrl.solve(agent.problem.mdp).values[2]
    tables = agent.action_tables(agent.plan_ahead())
    expected = {"plan": tables.scores, "lower": tables.lower, "upper": tables.upper}[bound][2].max(axis=1)
    assert np.allclose(drawn, np.clip(expected, 0.0, 10.0))
    assert (drawn <= truth + 1e-9).all() if bound == "lower" else (drawn >= truth - 1e-9).all()


def test_an_agent_a_policy_and_a_solution_draw_the_same_arrows():
    agent = river_agent()
    found = [
        plots.policy(agent, 1).collections[0].U,
        plots.policy(agent.policy, 1, layout=agent.problem.env).collections[0].U,
        np.where(agent.policy.table[1] == 1, 0.62, -0.62),
    ]
    assert np.array_equal(found[0], found[1])
    assert np.allclose(found[0], found[2])
    solution = matrixrl.solve(agent.problem.mdp)
    assert (plots.policy(solution, layout=agent.problem.env).collections[0].U > 0).all()


def test_actions_that_are_no_moves_are_written_and_an_end_state_has_no_cell():
    agent = matrixrl.MatrixRL("gym:FrozenLake-v1", seed=0)
    agent.learn(5)
    axes = plots.policy(agent, layout=(4, 4))
    assert [int(text.get_text()) for text in axes.texts] == agent.policy.table[0, :16].tolist()
    lake = plots.Layout.grid(4, 4, moves=("left", "down", "right", "up"))
    arrows = plots.policy(agent, layout=lake).collections[0]
    ways = np.array([(-1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, -1.0)])
    assert np.allclose(np.stack([arrows.U, arrows.V], axis=1), 0.62 * ways[agent.policy.table[0, :16]])


def test_the_value_of_vectors_is_drawn_over_the_plane():
    agent = matrixrl.KernelMatrixRL("mountain-car", env_settings={"horizon": 15}, budget=30, seed=0)
    agent.learn(2)
    value, width = plots.value(agent), plots.widths(agent)
    assert value.collections[0].get_array().size == width.collections[0].get_array().size == 61 * 61
    x, y = 30, 10
    places = [np.linspace(*limits, 61)[k] for limits, k in ((value.get_xlim(), x), (value.get_ylim(), y))]
    expected = agent.algorithm.value(agent.algorithm.advice(), 0, np.array([places]))
    found = [axes.collections[0].get_array().reshape(61, 61)[y, x] for axes in (value, width)]
    assert np.allclose(found, np.ravel(expected))
    turned = plots.value(agent, coordinates=(1, 0)).collections[0].get_array().reshape(61, 61)
    assert np.allclose(turned, value.collections[0].get_array().reshape(61, 61).T)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: plots.policy(3), InvalidInput, "layout must be given"),
        (lambda: plots.policy(3, layout=(2, 2)), InvalidInput, "must be something with a policy or values"),
        (lambda: plots.value(river_agent().policy, layout=(1, 4)), InvalidInput, "a policy alone has not"),
        (lambda: plots.value(river_agent(), bound="middle"), InvalidInput, "bound must be one of plan, lower, upper"),
        (lambda: plots.value(river_agent(), layout=(3, 4)), InvalidInput, "a cell for each of 4 states; got 12 cells"),
        (lambda: plots.value(matrixrl.make("linear-mdp")), InvalidInput, "layout must be given"),
        (lambda: plots.policy(river_agent(), 99), InvalidInput, "stage must be in 0 … 11"),
        (lambda: plots.action_bounds(river_agent(), 77), InvalidInput, "state must be in 0 … 3"),
        (lambda: plots.action_bounds(matrixrl.Agent("river-swim", "psrl"), 0), ProtocolError, "no bounds of single"),
        (lambda: plots.widths(matrixrl.Agent("river-swim", "psrl")), ProtocolError, "has no widths"),
        (lambda: plots.visits("river-swim"), InvalidInput, "agent must be an agent"),
        (lambda: plots.visits(matrixrl.MatrixRL("river-swim", keep_log=False)), ProtocolError, "keep_log=True"),
        (lambda: plots.Layout.grid(0, 2), InvalidInput, "n_rows must be at least 1"),
        (lambda: plots.Layout.grid(2, 2, moves=("up", "north")), InvalidInput, "moves must be one of"),
        (lambda: plots.Layout.chain(2, moves=3), InvalidInput, "moves must be the direction"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_line(call, error, words):
    with pytest.raises(error, match=words) as refused:
        call()
    assert "\n" not in str(refused.value)
