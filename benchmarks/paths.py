"""How far the most used paths are from what the machine could do: time of the path over time of its bare arithmetic.

    OPENBLAS_NUM_THREADS=1 python benchmarks/paths.py

Both are timed in turn in one process; the least of several rounds of each counts. The bare side does only the matrix
products, draws, or bytes that the path cannot do without.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import sparse

from matrixrl.algorithms import UCMatrixRL
from matrixrl.envs import make
from matrixrl.play import Simulation
from matrixrl.problems import RegretEvaluator, tabular
from matrixrl_lab.spec import read_spec, work_out
from matrixrl_lab.store import Store
from test_planning import learner_of, random_steps
from timing import alternate

Pair = tuple[Callable[[], object], Callable[[], object]]


def planning(n_states: int, n_actions: int, d: int, horizon: int, replicas: int, *, compiled: bool = False) -> Pair:
    one = learner_of(n_states, n_actions, d, horizon)
    algorithm = UCMatrixRL().start(one.problem, range(replicas))
    algorithm.use_compiled(compiled)
    rows, psi, core = one.features.phi.flat, one.features.psi.table, algorithm.model.core_matrix()
    values = np.random.default_rng(1).random((replicas, n_states))

    def bare() -> None:
        for _ in range(horizon):
            (core @ (values @ psi)[:, :, None])[:, :, 0] @ rows.T

    return algorithm.plan, bare


def learning(n_states: int, n_actions: int, d: int, horizon: int) -> Pair:
    algorithm = learner_of(n_states, n_actions, d, horizon)
    rng, rows = np.random.default_rng(2), algorithm.problem.features.phi.flat
    factor = rng.random((d, horizon))

    def update() -> None:
        algorithm.update(random_steps(rng, n_states, n_actions, horizon))

    return update, lambda: rows @ factor


def river(replicas: int, *, compiled: bool) -> Pair:
    """Episodes of RiverSwim-6, all of them, against 24 × (one batched product and one draw) of the same shapes each."""
    count = 100 if compiled else 1
    simulation = Simulation(
        "river-swim", n_episodes=10**6, seeds=range(replicas), window=range(10**5), compiled=compiled
    )
    core, values = np.ones((replicas, 12, 6)), np.ones((replicas, 6, 1))
    rngs = [np.random.default_rng(i) for i in range(replicas)]

    def bare() -> None:
        for _ in range(count):
            np.stack([rng.random(25) for rng in rngs])
            for _ in range(24):
                core @ values  # the plan
                core @ values  # the regret

    return lambda: simulation.advance(count), bare


def random_table(n_states: int) -> Pair:
    """Compiled episodes of a random MDP without regret, against the sparse products of their plans (scipy)."""
    mdp = tabular(n_states=n_states, n_actions=2, horizon=20, n_successors=5, seed=0).mdp
    simulation = Simulation(mdp, n_episodes=10**5, seeds=[0], compiled=True, measure_regret=False)
    simulation.advance(200)
    seen, values = sparse.csr_array(simulation.algorithm.model.cross_moment[0]), np.ones(n_states)

    def bare() -> None:
        for _ in range(100 * 19):
            seen @ values

    return lambda: simulation.advance(100), bare


def exact_regret(replicas: int) -> Pair:
    mdp = make("linear-mdp", n_states=1000, n_actions=10, d=10).unwrapped.mdp
    evaluator = RegretEvaluator(mdp)
    policies = np.zeros((replicas, mdp.horizon, mdp.n_states), dtype=np.uint8)
    values = np.ones((replicas, mdp.n_states))

    def bare() -> None:
        for _ in range(mdp.horizon):
            mdp.transitions.expect(values)

    return lambda: evaluator.regret(policies), bare


def sampling(kind: str) -> Pair:
    simulation = Simulation("river-swim", n_episodes=10, seeds=range(32), agent=kind)
    simulation.advance(5)
    rngs, shape = [np.random.default_rng(i) for i in range(32)], np.ones((12, 6))
    return simulation.algorithm.plan, lambda: [rng.standard_gamma(shape) for rng in rngs]


def storing(folder: Path) -> tuple[Pair, Pair]:
    spec = {"name": "x", "episodes": 10**6, "seeds": 32, "env": [{"name": "river-swim"}], "agent": [{"name": "random"}]}
    store = Store.create(folder / "s", work_out(read_spec(spec)))
    numbers = np.random.default_rng(0).random((32, 1000))
    columns = {"regret": numbers, "return": numbers, "seconds": numbers}
    state = {"n": 0}

    def write() -> None:
        store.write_block(0, range(32), state["n"], columns, state=None)
        state["n"] += 1000

    def bare_write() -> None:
        with (folder / "bytes").open("ab") as file:
            for _ in columns:
                file.write(numbers.tobytes())

    for _ in range(20):
        write()
        bare_write()

    def bare_read() -> float:
        return float(np.fromfile(folder / "bytes", dtype="<f8", count=32 * state["n"]).reshape(32, -1).mean())

    return (write, bare_write), (lambda: store.read(0, "regret").mean(), bare_read)


def main() -> None:
    print("| path | time (ms) | bare (ms) | ratio |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        write, read = storing(Path(folder))
        paths: dict[str, Pair] = {
            "plan, S,A,d,H = 10,000,10,200,10, one seed": planning(10_000, 10, 200, 10, 1),
            "plan, 10,000,10,100,20, one seed": planning(10_000, 10, 100, 20, 1),
            "plan, 1,000,10,100,20, one seed": planning(1_000, 10, 100, 20, 1),
            "plan, 1,000,10,100,20, 32 seeds": planning(1_000, 10, 100, 20, 32),
            "learn an episode, 10,000,10,200,10 (bare: Φ·G)": learning(10_000, 10, 200, 10),
            "plan, 1,000,10,10,10, one seed": planning(1_000, 10, 10, 10, 1),
            "plan, 1,000,10,10,10, one seed, compiled": planning(1_000, 10, 10, 10, 1, compiled=True),
            "plan, 100,4,10,10, one seed": planning(100, 4, 10, 10, 1),
            "plan, 100,4,10,10, one seed, compiled": planning(100, 4, 10, 10, 1, compiled=True),
            "episode of RiverSwim-6, one seed": river(1, compiled=False),
            "100 of them, compiled": river(1, compiled=True),
            "episode of RiverSwim-6, 32 seeds": river(32, compiled=False),
            "100 of them, 32 seeds, compiled": river(32, compiled=True),
            "100 episodes of a random MDP, S = 1,000, compiled": random_table(1_000),
            "exact regret, 1,000 × 10, low rank, one seed": exact_regret(1),
            "exact regret, 1,000 × 10, low rank, 32 seeds": exact_regret(32),
            "PSRL plan, RiverSwim-6, 32 seeds (bare: its draws)": sampling("psrl"),
            "store: write 32 × 1,000 episodes (bare: the bytes)": write,
            "store: read a column (bare: the bytes)": read,
        }
        for label, (path, bare) in paths.items():
            took, least = alternate(path, bare, rounds=9)
            print(f"| {label} | {took * 1e3:.3g} | {least * 1e3:.3g} | {took / least:.2f} |", flush=True)


if __name__ == "__main__":
    main()
