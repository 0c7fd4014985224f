"""YW19 Algorithms 1 and 2 as a reader would write them (examples/algorithm_1.py, algorithm_2.py) are the library's."""

from __future__ import annotations

import numpy as np
import pytest

import algorithm_1
import algorithm_2
from matrixrl.algorithms import UCMatrixRL
from matrixrl.problems import Problem, low_rank, tabular
from matrixrl.records import Steps

CLOSE = {"rtol": 0.0, "atol": 1e-8}
WORLDS = {
    "tabular": tabular(n_states=5, n_actions=3, horizon=4, seed=0),
    "d > d'": low_rank(n_states=9, n_actions=2, d=4, d_psi=3, horizon=4, seed=1),
    "d < d', rank of k_psi 4 of 9": low_rank(n_states=9, n_actions=2, d=3, d_psi=4, horizon=5, seed=2),
}


def episodes(world, algorithm, q_of, n_episodes):
    """Yield our Q and the library's bounds on Q of each episode, both from the steps that our greedy policy took."""
    mdp, rng = world.mdp, np.random.default_rng(7)
    table = world.features.phi.table @ world.core @ np.asarray(world.features.psi.table).T
    reward = mdp.task.reward
    history = []
    for n in range(1, n_episodes + 1):
        q = q_of(n, history)
        values = algorithm.plan().values[0]
        bounds = algorithm.model.bounds(algorithm.clock, "agent")[0]
        theirs = [bounds.q(None if h == mdp.horizon - 1 else values[None, h + 1])[0].T for h in range(mdp.horizon)]
        yield q, np.array(theirs), algorithm
        state, episode = 0, []
        for h in range(mdp.horizon):
            action = int(q[h, state].argmax())
            following = int(rng.choice(mdp.n_states, p=table[state, action].clip(0.0)))
            episode.append((state, action, following))
            state = following
        history += episode
        states, actions, after = np.array(episode).T[:, None]
        algorithm.update(Steps.of(states, actions, reward[states, actions], after))


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_algorithm_1(world):
    """M_n, the width, β, the bonus and Q of every stage, state and action, in each of 12 episodes."""
    mdp, phi, psi = world.mdp, world.features.phi.table, np.asarray(world.features.psi.table)
    algorithm = UCMatrixRL(set="frobenius", radius="theorem", n_episodes=12, c=0.3).start(
        Problem.of(mdp, world.features), [0]
    )
    c_core = algorithm.model.confidence.regularity.c_core
    beta = algorithm_1.theorem_radius(phi, psi, mdp.horizon, 12, C_M=c_core, c=0.3)
    found = {}

    def q_of(_, history):
        d = phi.shape[-1]
        states, actions, after = np.array(history, dtype=int).reshape(-1, 3).T
        rows = phi[states, actions]
        found["M"], found["w"], q = algorithm_1.plan(
            mdp.task.reward, phi, psi, np.eye(d) + rows.T @ rows, rows.T @ psi[after], beta, mdp.horizon
        )
        return q

    for q, theirs, library in episodes(world, algorithm, q_of, 12):
        np.testing.assert_allclose(q, theirs, **CLOSE)
        np.testing.assert_allclose(found["M"], library.model.core_matrix()[0], **CLOSE)
        bonus = np.sqrt(beta) * found["w"]
        np.testing.assert_allclose(
            bonus.T.ravel(), library.model.bounds(library.clock, "agent")[0].reaches[0].half_width[0], **CLOSE
        )


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_the_preset_of_the_paper(world):
    """M_n, w and β of Algorithm 1, and Q with the bonus 2·C_ψ·H·√β·w, (8) with the factor H of its proof (E2)."""
    mdp, phi, psi = world.mdp, world.features.phi.table, np.asarray(world.features.psi.table)
    algorithm = UCMatrixRL(preset="paper", n_episodes=12).start(Problem.of(mdp, world.features), [0])
    constants = algorithm.model.confidence.regularity
    beta = algorithm_1.theorem_radius(phi, psi, mdp.horizon, 12, C_M=constants.c_core)
    assert not algorithm.guarantee
    assert "constant c" in algorithm.guarantee.reason

    def q_of(_, history):
        states, actions, after = np.array(history, dtype=int).reshape(-1, 3).T
        rows = phi[states, actions]
        design = np.eye(phi.shape[-1]) + rows.T @ rows
        core, width, _ = algorithm_1.plan(mdp.task.reward, phi, psi, design, rows.T @ psi[after], beta, mdp.horizon)
        bonus = 2.0 * constants.c_psi * mdp.horizon * np.sqrt(beta) * width
        q = np.empty((mdp.horizon, *mdp.task.reward.shape))
        q[-1] = mdp.task.reward
        for h in reversed(range(mdp.horizon - 1)):
            values = np.clip(q[h + 1].max(axis=1), 0, mdp.horizon)
            q[h] = mdp.task.reward + phi @ core @ (psi.T @ values) + bonus
        return q

    for q, theirs, _ in episodes(world, algorithm, q_of, 12):
        np.testing.assert_allclose(q, theirs, **CLOSE)


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_algorithm_2(world):
    """The dual form sees the kernels only; the library sees the features behind them."""
    mdp, phi, psi = world.mdp, world.features.phi.table, np.asarray(world.features.psi.table)
    assert (psi >= 0.0).all()  # where C_ψ of both is exact
    algorithm = UCMatrixRL(set="frobenius-closed", radius="log-det", delta=0.05, exploration=0.01).start(
        Problem.of(mdp, world.features), [0]
    )
    constants = algorithm.model.confidence.regularity
    rows = phi.reshape(-1, phi.shape[-1])
    k_phi, k_psi = rows @ rows.T, psi @ psi.T
    found = {}

    def q_of(n, history):
        states, actions, after = np.array(history, dtype=int).reshape(-1, 3).T
        found["w"], found["x"], logdet = algorithm_2.estimates(k_phi, k_psi, states * mdp.n_actions + actions, after)
        found["eta"] = algorithm_2.bonus_size(k_psi, logdet, n, mdp.horizon, norm=constants.core_norm, c=1e-4)
        return algorithm_2.plan(mdp.task.reward, found["w"], found["x"], found["eta"], mdp.horizon)

    for q, theirs, library in episodes(world, algorithm, q_of, 12):
        np.testing.assert_allclose(q, theirs, **CLOSE)
        np.testing.assert_allclose(
            found["x"], rows @ library.model.core_matrix()[0] @ psi.T, **CLOSE
        )  # x_n(s, a) = φᵀM_nΨᵀ
        bonus = found["eta"] * found["w"].reshape(-1, mdp.n_actions).T.ravel()
        scale = 2.0 * constants.c_psi * mdp.horizon
        np.testing.assert_allclose(
            bonus, scale * library.model.bounds(library.clock, "agent")[0].reaches[0].half_width[0], **CLOSE
        )


@pytest.mark.parametrize(("module", "last"), [(algorithm_1, 1000), (algorithm_2, 100)])
def test_the_regret_that_they_print_flattens(module, last, capsys):
    """The mean regret falls below half of that of the first episodes."""
    module.main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1].split()[1] == str(last)
    first, final = (float(line.split()[-1]) for line in (lines[0], lines[-1]))
    assert final < 0.5 * first
