"""How learners without episodes are connected to episodic MDPs in benchmarks/peers."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

PEERS = Path(__file__).parents[2] / "benchmarks" / "peers"
KINDS = ("restart", "jump", "stage")


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PEERS))
    return importlib.import_module("views")


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(PEERS))
    return importlib.import_module("runner")


def ring(horizon: int = 3) -> dict[str, np.ndarray]:
    """Return tables of five states on a ring: action a goes a + 1 states on, or stays with probability 0.1."""
    law = np.zeros((5, 2, 5))
    for state, action in np.ndindex(5, 2):
        law[state, action, (state + action + 1) % 5] = 0.9
        law[state, action, state] = 0.1
    start = np.array([0.5, 0.0, 0.5, 0.0, 0.0])
    return {"P": law, "R": np.random.default_rng(0).random((5, 2)), "H": np.array(horizon), "start": start}


class Recorder:
    """A learner that plays at random and keeps what it receives; as UCRL2, it lists the states it was shown."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(1)
        self.received: list[tuple[int, int, float, int]] = []
        self.previous: list[int] = []

    def reset(self, state: int) -> None:
        self.observations: list[list[int]] = [[state]]

    def play(self, state: int) -> int:
        del state
        return int(self.rng.integers(2))

    def update(self, state: int, action: int, reward: float, next_state: int) -> None:
        self.previous.append(self.observations[0][-1])
        self.observations[0].append(next_state)
        self.received.append((state, action, reward, next_state))


def played(views: ModuleType, runner: ModuleType, kind: str, n_episodes: int = 60):
    tables = ring()
    simulator = runner.Simulator(tables, n_episodes)
    simulator.begin(7, np.inf)
    view = views.View(kind, tables["P"], tables["start"], 3)
    learner = Recorder()
    views.play_episodes(learner, simulator, view, n_episodes)
    return tables, simulator, view, learner


@pytest.mark.parametrize("kind", KINDS)
def test_learner_receives_what_was_played(views: ModuleType, runner: ModuleType, kind: str) -> None:
    """States, actions and rewards that the learner receives are those that the regret is computed from."""
    tables, simulator, view, learner = played(views, runner, kind)
    states, actions = simulator.states.ravel(), simulator.actions.ravel()
    shown = [view.number(i % 3, state) for i, state in enumerate(states)]
    n = len(learner.received)
    assert n == 180 if kind == "restart" else n == 179  # else the next start is not drawn any more
    assert [step[0] for step in learner.received] == shown[:n]
    assert [step[1] for step in learner.received] == actions[:n].tolist()
    assert [step[2] for step in learner.received] == tables["R"][states, actions][:n].tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_learners_own_list_agrees(views: ModuleType, runner: ModuleType, kind: str) -> None:
    """A learner that takes the previous state from its own list counts the same transitions as one that is given it."""
    *_, learner = played(views, runner, kind)
    assert learner.previous == [step[0] for step in learner.received]


def test_restarts_that_are_known_leave_the_law_alone(views: ModuleType, runner: ModuleType) -> None:
    """Every transition obeys P if restarts are known; as transitions, they break it."""
    for kind, obeys in (("restart", True), ("jump", False)):
        tables, *_, learner = played(views, runner, kind)
        assert all(tables["P"][s, a, after] > 0.0 for s, a, _, after in learner.received) is obeys


@pytest.mark.parametrize("kind", ["jump", "stage"])
def test_last_step_leads_to_the_next_start(views: ModuleType, runner: ModuleType, kind: str) -> None:
    _, simulator, view, learner = played(views, runner, kind)
    after = [step[3] for step in learner.received[2::3]]
    assert after == [view.number(0, state) for state in simulator.states[1:, 0]]


def test_pairs_are_those_that_paths_reach(views: ModuleType) -> None:
    """The numbered pairs of stage and state are those on some path, each with its own number."""
    tables = ring(horizon=4)
    tables["start"] = np.eye(5)[0]  # from one state, not every other is reached at once
    paths = [[state] for state in np.flatnonzero(tables["start"])]
    for _ in range(3):
        paths = [[*path, after] for path in paths for a in (0, 1) for after in np.flatnonzero(tables["P"][path[-1], a])]
    pairs = {(stage, state) for path in paths for stage, state in enumerate(path)}
    view = views.View("stage", tables["P"], tables["start"], 4)
    assert sorted(view.number(*pair) for pair in pairs) == list(range(view.n_states))
    assert (view.numbers >= 0).sum() == len(pairs)


def test_average_reward_with_stages_is_the_value_of_an_episode(views: ModuleType) -> None:
    """H times the average reward over (stage, state) is the value by backward induction, for any policy."""
    tables = ring(horizon=4)
    law, reward, start = tables["P"], tables["R"], tables["start"]
    policy = np.random.default_rng(3).dirichlet([1.0, 1.0], size=(4, 5))
    view = views.View("stage", law, start, 4)
    chain, earned = np.zeros((view.n_states, view.n_states)), np.zeros(view.n_states)
    for stage, state in zip(*np.nonzero(view.numbers >= 0), strict=True):
        number = view.number(stage, state)
        earned[number] = policy[stage, state] @ reward[state]
        after = start if stage == 3 else policy[stage, state] @ law[state]
        for next_state in np.flatnonzero(after):
            chain[number, view.number((stage + 1) % 4, next_state)] += after[next_state]
    equations = np.vstack([chain.T - np.eye(view.n_states), np.ones(view.n_states)])
    stationary = np.linalg.lstsq(equations, np.append(np.zeros(view.n_states), 1.0), rcond=None)[0]
    value = np.zeros(5)
    for stage in reversed(range(4)):
        value = (policy[stage] * (reward + law @ value)).sum(axis=1)
    assert 4.0 * stationary @ earned == pytest.approx(start @ value, abs=1e-12)


def test_a_run_that_is_stopped_keeps_the_episodes_that_ended(
    runner: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = ring()
    simulator = runner.Simulator(tables, 10)
    order = {"n_episodes": 10, "limit": 60.0, "seeds": [5], "keep": str(tmp_path / "kept.npz")}

    def play_some() -> None:
        for _ in range(4):
            simulator.begin_episode()
            for _ in range(3):
                simulator.play(0)
        simulator.begin_episode()
        simulator.play(0)
        raise runner.OutOfTime

    runner.play_seeds(order, simulator, lambda _: play_some)
    assert '"seed": 5, "done": 4' in capsys.readouterr().out
    with np.load(tmp_path / "kept.npz") as kept:
        assert kept["states5"].shape == kept["actions5"].shape == (4, 3)
