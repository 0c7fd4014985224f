"""Colosseum's own agents, as far as they need no Colosseum: the regret of what they play, and the worker's process."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from commands import forked
from matrixrl import evaluate, make, solve
from matrixrl.errors import InvalidInput, MatrixRLError
from scorecards.colosseum.own_agents import THEIRS, interpreter, play_theirs
from scorecards.colosseum.rows import play_tables
from scorecards.colosseum.worker import SCORED_EVERY, mean_regrets
from scorecards.tables import find_tables, write_table
from scorecards.workers import answers, follow, interpreter_of, missing_packages, tell
from tolerances import EXACT


@pytest.fixture
def mdp():
    return make("river-swim", n_states=3, horizon=6).unwrapped.mdp


@pytest.fixture
def folder(tmp_path, mdp):
    law = np.stack([mdp.transitions.rows(np.arange(3), np.full(3, a)) for a in range(2)], axis=1)
    write_table(tmp_path / "ergodic-SwimEpisodic-prms_0.npz", law, mdp.task.reward, mdp.task.start, 6)
    return tmp_path


class Env:
    """Six steps in one state, as dm_env tells them."""

    def reset(self):
        self.h = 0
        return SimpleNamespace(last=lambda: False)

    def step(self, action):
        self.h += 1
        return SimpleNamespace(last=lambda: self.h == 6)


class Agent:
    """Plays one policy in each episode, whose Q names the states in another order."""

    def __init__(self, policies, states):
        self.policies, self.states, self.updates = iter(policies), states, []

    def before_start_interacting(self):
        q = np.zeros((7, 3, 2))  # one stage more, as PSRL has it
        q[:6] = np.eye(2)[next(self.policies)][:, self.states]
        self._actor = SimpleNamespace(_q_values=q)

    @property
    def current_optimal_stochastic_policy(self):
        self.updates.append("advised")
        return np.eye(2)[np.ones((7, 3), dtype=int)]  # always to the right

    def select_action(self, now, stage):
        return 0

    def step_update(self, now, action, following, stage):
        self.updates.append(stage)

    def episode_end_update(self):
        self.updates.append("end")
        self.before_start_interacting()


def test_regret_is_the_mean_over_the_policies_that_played(mdp):
    rng = np.random.default_rng(0)
    policies = rng.integers(2, size=(5, 6, 3))
    policies[3] = policies[2]  # no change
    states = np.array([2, 0, 1])
    agent = Agent(policies, states)
    best = solve(mdp).start_value
    expected = [best - mdp.task.start @ evaluate(mdp, policy)[0] for policy in policies[:4]]
    played, advised = mean_regrets(mdp, Env(), agent, states, 4)
    assert played == pytest.approx(np.mean(expected), abs=EXACT)
    right = evaluate(mdp, np.ones((6, 3), dtype=int))[0]
    assert advised == pytest.approx(best - mdp.task.start @ right, abs=EXACT)
    assert agent.updates == ["advised"] + [0, 1, 2, 3, 4, 5, "end"] * 4


def test_advice_is_scored_as_often_as_in_colosseums_loop(mdp):
    n_episodes = 400
    agent = Agent(np.ones((n_episodes + 1, 6, 3), dtype=int), np.arange(3))
    mean_regrets(mdp, Env(), agent, np.arange(3), n_episodes)
    assert agent.updates.count("advised") == n_episodes * 6 // SCORED_EVERY + 1


def test_the_worker_reads_what_was_kept_without_colosseum(folder):
    """The process is the real one; nothing is left to play, so Colosseum is not imported."""
    paths, runs, agents = find_tables(folder), folder / "runs", list(THEIRS)
    [ours] = [row for _, _, row in play_tables(paths, runs, agents=["tuned"], n_steps=60) if row]
    kept = json.loads((runs / paths[0].stem / "tuned.json").read_text())
    for agent in agents:
        kept["asked"]["settings"] = THEIRS[agent]
        (runs / paths[0].stem / f"{agent.replace(' ', '-')}.json").write_text(json.dumps(kept))
    told = list(play_theirs(Path(sys.executable), paths, runs, agents=agents, n_steps=60, n_seeds=1))
    assert [(mdp, agent) for mdp, agent, _ in told] == [(paths[0].stem, agent) for agent in agents for _ in range(2)]
    assert [row.regret for _, _, row in told if row] == [ours.regret] * 2


def test_a_worker_without_colosseum_says_what_is_missing(folder):
    played = play_theirs(
        Path(sys.executable), find_tables(folder), folder / "runs", agents=["colosseum psrl"], n_steps=60, n_seeds=1
    )
    with pytest.raises(MatrixRLError, match="the worker of Colosseum failed: ModuleNotFoundError"):
        list(played)


def test_an_environment_without_colosseum_says_how_to_install_it(tmp_path):
    assert missing_packages(Path(sys.executable), ["json", "nothing_such"]) == ["nothing_such"]
    assert missing_packages(interpreter_of(tmp_path), ["json"]) == ["json"]
    with pytest.raises(InvalidInput, match=r"--env must be .*https://github"):
        interpreter(tmp_path)


def test_their_agents_need_an_environment(folder):
    command = ["colosseum", "--data", str(folder), "--agent", "colosseum psrl"]
    answer = forked(*command, of="scorecards", cwd=folder)
    assert answer.returncode == 2
    assert "--env must be given to play colosseum psrl" in answer.stderr
    answer = forked(*command, "--env", "nowhere", of="scorecards", cwd=folder)
    assert answer.returncode == 2
    assert "MichelangeloConserva/Colosseum" in answer.stderr


def test_a_worker_that_writes_something_else_is_refused_in_one_line(tmp_path):
    fake = tmp_path / "python"
    fake.write_text("#!/bin/sh\necho 'Warning: not JSON'\n")
    fake.chmod(0o755)
    with pytest.raises(MatrixRLError, match="the worker of Colosseum wrote 'Warning"):
        list(answers(fake, "a.module", "run", {}, package="Colosseum"))


def test_what_a_package_prints_is_no_answer(capfd, monkeypatch):
    def order_of(order):
        print("loading")  # as packages do
        tell(given=order["given"])

    monkeypatch.setattr(sys, "argv", ["worker", "run", '{"given": 1}'])
    follow({"run": order_of})
    assert capfd.readouterr().err == "loading\n"
