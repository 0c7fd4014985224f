"""docs/proofs.md, 13: steps of any policy count, as long as no step was recorded for its outcome."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import binom

from matrixrl import MatrixRL, MDPEnv, Task, evaluate, solve
from matrixrl.core.likelihood.radii import log_marginal
from matrixrl.linalg import OutcomeCounts
from matrixrl.logs import read_log
from matrixrl.problems import Problem, low_rank, tabular
from tolerances import ALGEBRA

STEPS = 9
LAW = np.array([0.2, 0.8])


def mixture(counts):
    """Return m(c) of docs/proofs.md, 9.3, for two outcomes."""
    seen = OutcomeCounts(1, 1, 2)
    n = sum(counts)
    if not n:
        return 1.0
    seen.add(np.zeros((1, n), dtype=int), np.repeat([0, 1], counts)[None])
    return float(np.exp(log_marginal(seen.seen, 2))[0])


def gaussian_mixture(counts):
    """Return the process of section 3 for the noise of outcome 0: det(A)^(-1/2) exp(S²/(2 L² A)), L = ½."""
    n, noise = sum(counts), counts[0] - sum(counts) * LAW[0]
    return float(np.exp(2.0 * noise**2 / (1.0 + n)) / np.sqrt(1.0 + n))


def expected(process, records, *, looks_at_outcome=False):
    """Return the mean of a process of recorded counts, summed over all sequences of outcomes.

    A step is recorded if `records` says so of the outcomes before it, or of those and its own.
    """
    total = 0.0
    for outcomes in product((0, 1), repeat=STEPS):
        chance = float(np.prod(LAW[list(outcomes)]))
        counts = [0, 0]
        for t, outcome in enumerate(outcomes):
            if records(outcomes[: t + looks_at_outcome]):
                counts[outcome] += 1
        total += chance * process(counts) / (1.0 if process is gaussian_mixture else np.prod(LAW**counts))
    return total


BEFORE = {
    "every step": lambda past: len(past) >= 0,
    "until the first 0": lambda past: 0 not in past,
    "after two 1 in a row": lambda past: past[-2:] == (1, 1),
    "while 0 is rare": lambda past: past.count(0) <= 0.2 * len(past),
    "while 0 is frequent": lambda past: past.count(0) >= 0.2 * len(past),
}
AFTER = {
    "only 1": lambda seen: seen[-1] == 1,
    "not the 0 after a 1": lambda seen: seen[-2:] != (1, 0),
}


@pytest.mark.parametrize("name", BEFORE)
def test_a_step_that_is_recorded_before_its_outcome_keeps_the_mean(name):
    """Exactly one for the mixture of likelihoods, at most one for the Gaussian one, whatever the past decides."""
    assert expected(mixture, BEFORE[name]) == pytest.approx(1.0, abs=ALGEBRA)
    assert expected(gaussian_mixture, BEFORE[name]) <= 1.0 + ALGEBRA


@pytest.mark.parametrize("name", AFTER)
def test_a_step_that_is_recorded_for_its_outcome_does_not(name):
    assert expected(mixture, AFTER[name], looks_at_outcome=True) > 1.5


def learned_counts(outcomes, empty, missing):
    """Return how often each outcome was learned, and `selection`, for a log of two episodes with an empty cell or none.

    The next state is the outcome. The cell is of the role `empty`, in the first row of the first episode that comes
    after an outcome 0, or that has it.
    """
    first, log = 6, {name: [0.0] * STEPS for name in ("action", "reward")}
    log |= {"episode": [0] * first + [1] * (STEPS - first), "next_state": list(outcomes)}
    log["state"] = [0.0, *outcomes[: first - 1], 0.0, *outcomes[first:-1]]
    row = (*outcomes[:first], 0).index(0) + (empty in ("state", "action"))
    if row < first:
        log[empty][row] = np.nan
    found = read_log(log, Problem.of(Task(np.zeros((2, 1)), STEPS, start=0)), missing=missing)
    return tuple(np.bincount(found.steps.next_states, minlength=2)), found.plan.selection


def mean_of_learned(empty, missing, *, claimed_only=False):
    """Return the mean of the mixture over its likelihood at the outcomes that are learned, as `expected` does."""
    total = 0.0
    for outcomes in product((0, 1), repeat=STEPS):
        counts, selection = learned_counts(outcomes, empty, missing)
        if not claimed_only or selection is None:
            total += float(np.prod(LAW[list(outcomes)])) * mixture(counts) / np.prod(LAW ** np.array(counts))
    return total


@pytest.mark.parametrize("empty", ["state", "action"])
def test_a_cut_before_a_step_without_its_state_or_action_keeps_the_mean(empty):
    """Whether the cell is empty may depend on everything before the step."""
    assert mean_of_learned(empty, "cut_episode") == pytest.approx(1.0, abs=ALGEBRA)
    assert mean_of_learned(empty, "cut_episode", claimed_only=True) == pytest.approx(1.0, abs=ALGEBRA)


@pytest.mark.parametrize(("empty", "missing"), [("reward", "cut_episode"), ("action", "drop_episode")])
def test_other_removals_choose_outcomes_and_withdraw_the_proof(empty, missing):
    """The mean exceeds one, unless the logs without a claim count as nothing."""
    assert mean_of_learned(empty, missing) > 1.05
    assert mean_of_learned(empty, missing, claimed_only=True) <= 1.0 + ALGEBRA


def test_the_mixture_is_the_one_of_the_proof():
    def dirichlet(a, b):
        return np.exp(gammaln(a + 0.5) + gammaln(b + 0.5) - gammaln(a + b + 1.0)) / np.pi

    for a, b in product(range(4), repeat=2):
        one = 0.5 * ((b == 0) + (a == 0)) if a + b else 1.0  # the two supports of one outcome
        assert mixture((a, b)) == pytest.approx(0.75 * one + 0.25 * dirichlet(a, b), abs=ALGEBRA)


def stubborn(past_rewards, state, rng, n_actions):
    """Choose actions that depend on everything before: the lucky go on with action 0, the others try all."""
    return 0 if np.mean(past_rewards or [0.0]) > 0.5 else int(rng.integers(n_actions))


def recorded(mdp, n_episodes, seed):
    """Return a log of a policy that depends on the past, with episodes that begin late and stop early by the past."""
    env, rng, rows, rewards = MDPEnv(mdp), np.random.default_rng(seed), [], []
    for episode in range(n_episodes):
        obs, _ = env.reset(seed=seed if episode == 0 else None)
        late = int(len(rewards) % 3 == 0)  # the first step is not recorded: decided before it is taken
        for step in range(mdp.horizon):
            action = stubborn(rewards, obs, rng, mdp.n_actions)
            following, reward, _, _, _ = env.step(action)
            if step >= late:
                rows.append((episode, step, int(obs), action, reward, int(following)))
            rewards.append(reward)
            obs = following
            if np.mean(rewards) < 0.3 and step > late:  # gives up after a bad outcome, which is recorded
                break
    names = ("episode", "step", "state", "action", "reward", "next_state")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


@pytest.mark.parametrize(
    "settings", [{}, {"set": "normalised"}, {"known_reward": False}, {"set": "likelihood"}], ids=str
)
def test_certificates_hold_for_logs_of_any_policy(settings):
    """40 logs at δ = 0.2, looked at after each of three parts (chance of a false alarm below 1e-6)."""
    misses = 0
    for seed in range(40):
        mdp = tabular(n_states=3, n_actions=2, horizon=4, seed=seed).mdp
        agent, inside = MatrixRL(mdp, seed=0, delta=0.2, **settings), True
        for part in range(3):
            log = recorded(mdp, 12, seed + 1000 * part)
            log["episode"] += 100 * part
            found = agent.learn_from(log, first_step=0, verbose=False)
            assert found.certificates
            shown = agent.certificate()
            value = evaluate(mdp, agent.policy.table.astype(int))[0] @ mdp.task.start
            inside &= shown.lower <= value + 1e-9 and solve(mdp).start_value <= shown.upper + 1e-9
        misses += not inside
    assert binom.sf(misses - 1, 40, 0.2) > 1e-6


def test_certificates_hold_for_logs_with_features():
    for seed in range(5):
        mdp = low_rank(n_states=10, n_actions=2, d=3, horizon=3, seed=seed).mdp
        agent = MatrixRL(mdp, seed=0)
        agent.learn_from(recorded(mdp, 40, seed), first_step=0, verbose=False)
        shown = agent.certificate()
        assert shown.guarantee
        assert shown.lower <= solve(mdp).start_value <= shown.upper


def test_a_log_that_was_chosen_by_its_outcomes_gives_wrong_bounds():
    """State 0 ends the episode or leads to state 1, each with probability ½; state 1 pays 1 a step: V* = 3.5.

    Nothing in the rows shows that the long episodes were removed; the assumption of the agent names it.
    """
    task = Task([[0.0], [1.0], [0.0]], 8, start=[1.0, 0.0, 0.0], end_state=2)
    rows = {"episode": np.arange(150), "state": np.zeros(150), "action": np.zeros(150), "reward": np.zeros(150)}
    agent = MatrixRL(task, seed=0)
    agent.learn_from({**rows, "terminated": np.ones(150, dtype=bool)}, verbose=False)
    assert agent.certificate().upper < 3.5 - 1.0
    assert "decided before its reward and next state were known" in agent.assumptions


def test_rows_of_the_last_stage_are_left_out_together():
    """Without next states a terminated step is known and another one is not: only the ends would be counted."""
    rng = np.random.default_rng(0)
    rows = []
    for episode in range(400):
        for step in range(2):
            ended = bool(rng.random() < 0.5)
            rows.append((episode, step, 0, 0, 0.0, ended))
            if ended:
                break
    names = ("episode", "step", "state", "action", "reward", "terminated")
    log = {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
    agent = MatrixRL(Task(np.zeros((2, 1)), 2, end_state=1), seed=0)
    found = agent.learn_from(log, verbose=False)
    first = log["step"] == 0
    assert found.plan.n_steps == first.sum() == 400
    assert found.plan.n_left_out == (~first).sum()
    assert agent.algorithm.model.counts.seen.times.tolist() == [
        float((first & ~log["terminated"]).sum()),
        float((first & log["terminated"]).sum()),
    ]
    assert agent.guarantee
    mixed = {**log, "episode": log["episode"] + 1000, "next_state": np.where(log["terminated"] | first, 0.0, np.nan)}
    mixed["next_state"][np.flatnonzero(~first)[0]] = 0.0  # recorded for some rows of the last stage only
    other = MatrixRL(Task(np.zeros((2, 1)), 2, end_state=1), seed=0)
    words = other.learn_from(mixed, verbose=False).guarantee
    assert "rows of the last stage were left out of a log, and others were not" in words.reason


@pytest.mark.parametrize("settings", [{}, {"set": "normalised"}, {"switch_growth": 0.5}], ids=str)
def test_optimism_and_the_regret_bound_hold_for_the_episodes_that_are_played(settings):
    for seed in range(4):
        mdp = tabular(n_states=3, n_actions=2, horizon=4, seed=seed).mdp
        agent = MatrixRL(mdp, seed=seed, **settings)
        agent.learn(5)
        agent.learn_from(recorded(mdp, 60, seed), first_step=0, verbose=False)
        history = agent.learn(25)
        assert agent.guarantee
        assert (history.upper >= solve(mdp).start_value - 1e-9).all()
        assert history.cumulative_regret[-1] <= agent.algorithm.claims.regret_bound(30)
        fresh = MatrixRL(mdp, seed=seed, **settings).algorithm
        assert agent.algorithm.claims.regret_bound(30) == fresh.claims.regret_bound(90)
