"""Section 9.10: rewards with a range for each pair, of which only the part between its ends is learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from matrixrl import Features, FiniteMDP, MatrixRL, Task
from matrixrl.algorithms import Steps, UCMatrixRL
from matrixrl.errors import InvalidInput
from matrixrl.problems import Problem, low_rank, tabular
from tolerances import ALGEBRA, EXACT

S, A, H = 4, 2, 5
ALL_LEVELS = ("proven", "agent", "actions", "tuned", "estimate")


def known_table(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((S, A)) * 3.0


def started(task: Task, n_replicas: int = 1, **settings: object) -> UCMatrixRL:
    chosen = {"preset": "optimistic", "known_reward": False, **settings}
    return UCMatrixRL(**chosen).start(Problem.of(task), range(n_replicas))


def random_episodes(n: int, seed: int = 1) -> list[tuple[np.ndarray, ...]]:
    rng = np.random.default_rng(seed)
    draws = []
    for _ in range(n):
        states, actions, following = (rng.integers(0, k, (1, H)) for k in (S, A, S))
        draws.append((states, actions, rng.choice([0.0, 0.25, 1.0], (1, H)), following))
    return draws


def learn(algorithm: UCMatrixRL, known: np.ndarray, width: float, n: int = 12) -> UCMatrixRL:
    """Learn from rewards that are the known ones plus a part of the width."""
    for states, actions, parts, following in random_episodes(n):
        algorithm.update(Steps.of(states, actions, known[states, actions] + width * parts, following))
    return algorithm


def bounds_of(algorithm: UCMatrixRL, level: str):
    return algorithm.model.bounds(algorithm.clock, level)[0]


@pytest.mark.parametrize("name", ["value-targeted", "likelihood", "normalised"])
def test_the_same_range_for_every_pair_changes_nothing(name):
    none = np.zeros((S, A))
    one = learn(started(Task(None, H, n_states=S, n_actions=A), set=name), none, 1.0)
    each = learn(started(Task(None, H, n_states=S, n_actions=A, reward_range=(none, none + 1.0)), set=name), none, 1.0)
    values = np.random.default_rng(2).random((1, S)) * 4.0
    for level in ALL_LEVELS:
        for sign in (1.0, -1.0):
            found = (bounds_of(algorithm, level).q(values, sign=sign) for algorithm in (one, each))
            np.testing.assert_allclose(*found, atol=EXACT)
    plans = [algorithm.plan() for algorithm in (one, each)]
    np.testing.assert_allclose(*(plan.values for plan in plans), atol=ALGEBRA)


@pytest.mark.parametrize("name", ["value-targeted", "likelihood", "normalised"])
@pytest.mark.parametrize("width", [0.1, 2.0])
def test_bounds_on_rewards_are_the_known_part_and_the_scaled_bounds_of_the_rest(name, width):
    """The second route learns the remainder alone, as a reward in [0, 1]."""
    known = known_table()
    task = Task(None, H, n_states=S, n_actions=A, reward_range=(known, known + width))
    whole = learn(started(task, set=name), known, width)
    rest = learn(started(Task(None, H, n_states=S, n_actions=A), set=name), np.zeros((S, A)), 1.0)
    low, unit = task.reward_range[0], task.unit
    for level in ALL_LEVELS:
        ours, theirs = bounds_of(whole, level), bounds_of(rest, level)
        for side in ("most", "least"):
            expected = (known.T + width * getattr(theirs, side) - low) / unit
            np.testing.assert_allclose(getattr(ours, side), expected, atol=ALGEBRA)


def largest_mean(chances: np.ndarray, values: np.ndarray, top: float, radius: float) -> float:
    """Return max{q·values: KL(chances ‖ q) <= radius}, where q may have mass at `top`, by its dual in one variable."""

    def dual(log_gap: float) -> float:
        nu = top + np.exp(log_gap)
        return nu - np.exp(chances @ np.log(nu - values) - radius)

    found = minimize_scalar(dual, bounds=(-25.0, 15.0), method="bounded", options={"xatol": 1e-12})
    return min(float(found.fun), dual(-25.0))


def test_upper_bounds_are_those_of_the_joint_law_of_next_value_and_part():
    known, width = known_table(), 0.7
    task = Task(None, H, n_states=S, n_actions=A, reward_range=(known, known + width))
    algorithm = learn(started(task, set="value-targeted"), known, width, n=20)
    values = np.random.default_rng(3).random((1, S)) * 2.0
    bounds = bounds_of(algorithm, "proven")
    q = bounds.q(values)
    seen = {(s, a): [] for s in range(S) for a in range(A)}
    for states, actions, parts, following in random_episodes(20):
        for s, a, part, after in zip(states[0], actions[0], parts[0], following[0], strict=True):
            seen[s, a].append(width * part / task.unit + values[0, after])
    confidence = algorithm.model.confidence
    log_events = confidence.log_targets()
    law_alone = bounds.bound(values)  # at the radius for all values
    tighter = 0
    for (s, a), totals in seen.items():
        row = int(np.flatnonzero(bounds.joint.seen.ids == bounds.groups[a, s])[0])
        n, least = len(totals), (known[s, a] - task.reward_range[0]) / task.unit
        chances, top = np.full(n, 1.0 / n), width / task.unit + values.max()
        joint = largest_mean(chances, np.array(totals), top, float(bounds.joint.epsilon[row]))
        at_top = top - np.exp(np.log(top + 1e-15 - np.array(totals)).mean() - float(bounds.joint.top[row]))
        at_top = max(at_top, max(totals))
        expected = min(least + min(joint, at_top), bounds.most[0, a, s] + law_alone[0, a, s])
        assert q[0, a, s] == pytest.approx(expected, abs=1e-7)
        tighter += least + joint < bounds.most[0, a, s] + law_alone[0, a, s] - 1e-6
        assert bounds.joint.epsilon[row] > log_events / n
    assert tighter  # the joint law decides somewhere


def test_a_remainder_without_width_is_a_known_reward():
    """The lower side of a known reward at the part of δ that learned rewards leave: 0.45 / 0.7, section 9."""
    known, tiny = known_table(), 1e-11
    learned = learn(
        started(Task(None, H, n_states=S, n_actions=A, reward_range=(known, known + tiny)), set="value-targeted"),
        known,
        tiny,
    )
    ratio = learned.model.confidence.parts.all_functions / 0.7
    given = learn(
        started(
            Task(known, H, reward_range=learned.task.reward_range),
            set="value-targeted",
            known_reward=True,
            delta=0.05 * ratio,
        ),
        known,
        tiny,
    )
    assert given.model.confidence.parts.all_functions == pytest.approx(0.7)
    values = np.random.default_rng(2).random((1, S)) * 4.0
    found = (bounds_of(algorithm, "proven").q(values, sign=-1.0) for algorithm in (learned, given))
    np.testing.assert_allclose(*found, atol=ALGEBRA)


@pytest.mark.parametrize("make_world", [tabular, low_rank])
def test_means_are_inside_their_bounds_as_often_as_promised(make_world):
    """300 runs of 30 episodes, parts 0 or 1 of ranges of different widths; δ = 0.5, half of it or less for rewards."""
    extra = {"d": 3} if make_world is low_rank else {}
    world = make_world(n_states=S, n_actions=A, horizon=H, seed=3, **extra)
    known, rng, runs = known_table(), np.random.default_rng(0), 300
    width = rng.random((S, A)) + 0.1 if make_world is tabular else np.full((S, A), 0.5)
    parts = world.mdp.task.reward  # linear in φ for low_rank
    truth = known + width * parts
    mdp = FiniteMDP(world.mdp.transitions, truth, H, reward_range=(known, known + width))
    problem = Problem.of(mdp, world.features)
    algorithm = UCMatrixRL(preset="optimistic", known_reward=False, delta=0.5).start(problem, range(runs))
    inside = np.ones(runs, dtype=bool)
    for _ in range(30):
        states, actions = rng.integers(0, S, (runs, H)), rng.integers(0, A, (runs, H))
        drawn = rng.random((runs, H)) < parts[states, actions]
        paid = known[states, actions] + width[states, actions] * drawn
        algorithm.update(Steps.of(states, actions, paid, states))
        bounds, unit = bounds_of(algorithm, "proven"), mdp.task.unit_reward.T
        inside &= ((bounds.least <= unit + 1e-9) & (unit <= bounds.most + 1e-9)).all(axis=(1, 2))
    assert binom.sf(int((~inside).sum()) - 1, runs, 0.25) > 1e-6
    if make_world is tabular:
        assert bounds.most.min() < 0.9  # and they are no longer the ends of their ranges
        assert not inside.all() or (bounds.most - bounds.least).max() < 0.6


def stock_mdp(width: float = 1.0, **options: object) -> FiniteMDP:
    """Noisy rewards of which 0.3 of a range above a known table are earned on average."""
    rng, known = np.random.default_rng(5), known_table()
    law = rng.dirichlet(np.ones(S), (S, A))
    span = {"reward_range": (known, known + width), **options}
    return FiniteMDP(law, known + 0.3 * width, H, noisy_rewards=True, start=0, **span)


def test_certificates_follow_the_width_of_what_is_learned():
    """Rewards that are learned as numbers in [0, 4], in a range of width 1, of width 0.1, and known ones."""

    def gap(mdp: FiniteMDP, **settings: object) -> float:
        agent = MatrixRL(mdp, seed=0, **settings)
        agent.learn(400)
        return agent.certificate().gap

    one_range = gap(stock_mdp(reward_range=(0.0, 4.0)), known_reward=False)
    wide, narrow = (gap(stock_mdp(width), known_reward=False) for width in (1.0, 0.1))
    known = gap(FiniteMDP(stock_mdp().transitions, stock_mdp().task.reward, H, reward_range=(0.0, 4.0), start=0))
    assert narrow < wide < 0.5 * one_range
    assert narrow < 1.4 * known


def test_the_regret_bound_is_smaller():
    """It has √(part of rewards) times the largest width, in unit rewards."""
    known = known_table()
    spans = (known, known + 0.1), (float(known.min()), float(known.max()) + 0.1)
    each, one = (started(Task(None, H, n_states=S, n_actions=A, reward_range=span, start=0)) for span in spans)
    assert each.task.unit == one.task.unit
    assert each.claims.bound(1000) < 0.99 * one.claims.bound(1000)


def test_saved_agents_go_on_bit_for_bit(tmp_path):
    agent = MatrixRL(stock_mdp(), known_reward=False, seed=0)
    agent.learn(20)
    agent.save(tmp_path / "agent.npz")
    again = MatrixRL.load(tmp_path / "agent.npz", stock_mdp())
    for one in (agent, again):
        one.learn(20)
    np.testing.assert_array_equal(*(one.algorithm.model.reward_sums for one in (agent, again)))
    assert str(agent.certificate()) == str(again.certificate())
    with pytest.raises(InvalidInput, match="range"):
        MatrixRL.load(tmp_path / "agent.npz", stock_mdp(0.9))


def test_rewards_outside_the_range_of_their_pair_are_refused_or_clipped():
    known = np.array([[0.0, 5.0], [1.0, 2.0]])
    task = Task(None, 2, n_states=2, n_actions=2, reward_range=(known, known + 1.0), start=0)
    agent = MatrixRL(task)
    episode = agent.begin_episode()
    action = episode.act(0)
    paid = float(known[0, action])
    with pytest.raises(InvalidInput, match="of state 0 and action"):
        episode.observe(0, action, paid + 1.5, 1)
    episode.observe(0, action, paid + 0.5, 1)
    rows = {"episode": [0, 0], "step": [0, 1], "state": [0, 1], "action": [0, 0], "reward": [0.5, 0.5]}
    rows |= {"next_state": [1, 0]}
    with pytest.raises(InvalidInput, match="of state 1 and action 0"):
        MatrixRL(task).learn_from(rows)
    clips = MatrixRL(task, reward_outside="clip")
    clips.learn_from(rows)
    sums = clips.algorithm.model.reward_sums.reshape(2, 2)  # by action and state
    assert sums[0, 0] == pytest.approx(0.5)
    assert sums[0, 1] == 0.0


def test_stages_masks_and_ends():
    known = known_table()
    by_stage = np.stack([known + h for h in range(H)])
    task = Task(None, H, n_states=S, n_actions=A, reward_range=(by_stage, by_stage + 1.0))
    assert task.stages.n_classes == H
    assert task.reward_bounds.low.shape == (S, H * A)
    np.testing.assert_array_equal(task.reward_bounds.low[:, 2:4], known + 1)
    ends = Task(None, H, n_states=S, n_actions=A, reward_range=(known + 1, known + 2), may_terminate=True)
    assert ends.reward_range[0] == 0.0
    assert not ends.reward_bounds.high[S].any()
    allowed = np.ones((S, A), dtype=bool)
    allowed[1, 1] = False
    holes = np.where(allowed, known, np.nan)
    masked = Task(None, H, n_states=S, n_actions=A, reward_range=(holes, holes + 1), allowed=allowed)
    agent = MatrixRL(masked, seed=0)
    certificate = agent.certificate()
    assert np.isfinite(certificate.upper)
    assert certificate.trivial == pytest.approx((H * known[allowed].min(), H * (known[allowed].max() + 1.0)))
    both = Task(None, H, n_states=S, n_actions=A, reward_range=(known, known + 1.0)).staged(True)
    assert both.reward_bounds.low.shape == both.reward.shape


def test_groups_share_a_remainder_and_must_have_one_width():
    phi = np.zeros((S, A, 1))
    phi[...] = 1.0
    known = known_table()
    for width, is_good in ((np.ones((S, A)), True), (np.ones((S, A)) + known, False)):
        task = Task(None, H, n_states=S, n_actions=A, reward_range=(known, known + width))
        if is_good:
            learned = learn(started_with(task, phi), known, 1.0)
            bounds = bounds_of(learned, "proven")
            spread = bounds.most[0] * task.unit - known.T
            np.testing.assert_allclose(spread, spread[0, 0], atol=ALGEBRA)
        else:
            with pytest.raises(InvalidInput, match="reward_range"):
                learn(started_with(task, phi), known, 1.0).plan()


def started_with(task: Task, phi: np.ndarray) -> UCMatrixRL:
    problem = replace(Problem.of(task), features=Features(phi, task.features.psi))
    return UCMatrixRL(preset="optimistic", known_reward=False).start(problem, [0])


def test_states_that_differ_in_what_is_known_of_their_rewards_count_apart():
    phi = np.eye(A)[None].repeat(S, axis=0)  # one feature for each action: states are alike but for known rewards
    known = known_table()
    alike, apart = (
        started_with(Task(None, H, n_states=S, n_actions=A, reward_range=(low, low + 1.0)), phi)
        for low in (np.zeros((S, A)) + np.array([0.0, 1.0]), known)
    )
    assert alike.model.confidence.n_targets[0] == H
    assert apart.model.confidence.n_targets[0] == min(S, A) * H


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (np.ones((S, A + 1)), 2.0),
        (np.full((S, A), 2.0), np.ones((S, A))),
        (np.ones((S, A)), np.ones((S, A))),
        (np.full((S, A), np.nan), 1.0),
        (0.0, np.full((S, A), np.inf)),
        (np.ones(S), 2.0),
    ],
)
def test_bad_ranges_are_refused(low, high):
    with pytest.raises(InvalidInput, match="reward_range"):
        Task(None, H, n_states=S, n_actions=A, reward_range=(low, high))


def test_given_rewards_outside_their_range_are_refused():
    with pytest.raises(InvalidInput, match="reward"):
        Task(np.full((S, A), 0.5), H, reward_range=(np.ones((S, A)), 2.0))


def test_noisy_rewards_are_an_end_of_the_range_of_their_pair():
    mdp, rng = stock_mdp(0.1), np.random.default_rng(0)
    states, actions = np.zeros(4000, dtype=np.int64), np.ones(4000, dtype=np.int64)
    earned = mdp.earn(states, actions, rng.random(4000))
    low = known_table()[0, 1]
    assert set(np.round((earned - low) / 0.1, 6).tolist()) == {0.0, 1.0}
    assert earned.mean() == pytest.approx(low + 0.03, abs=0.1 * 5 * 0.5 / 4000**0.5)
