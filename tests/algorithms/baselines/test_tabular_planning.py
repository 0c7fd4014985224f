"""Each tabular baseline against the algorithm of its paper, written once more with plain loops, or a second oracle."""

from __future__ import annotations

import math
from itertools import chain

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from algorithms.playing import started
from matrixrl.algorithms.baselines.optimistic import Favourable
from matrixrl.algorithms.baselines.psrl import draw_distributions
from matrixrl.problems import FiniteMDP, solve
from small_worlds import WORLDS, random_batch
from tolerances import ALGEBRA, EXACT

S, A, H = 5, 3, 4
WORLD = WORLDS["tabular"](7)
TASK = WORLD.mdp.task


def agent_of(name, *, seeds=(0,), **settings):
    return started(name, WORLD.mdp, seeds, **settings)


def trajectories(rng, episodes, n_replicas=1):
    """Random pairs with the world's next states and random rewards, one episode of H steps after another."""
    for _ in range(episodes):
        batch = random_batch(WORLD, rng, n_replicas, H)
        yield batch.steps(rng.random(batch.states.shape))


def teach(agent, rng, episodes):
    """Plan and learn for some episodes; return the steps of the first replica: (h, s, a, s', r) by episode."""
    seen = []
    for steps in trajectories(rng, episodes, agent.n_replicas):
        agent.plan()
        agent.update(steps)
        numbers = (steps.states, steps.actions, steps.next_states)
        seen.append([(h, *(int(x[0, h]) for x in numbers), steps.rewards[0, h]) for h in range(H)])
    return seen


def empirical(steps):
    """n(s, a), P̂(s, a, ·) and mean rewards of steps, by loops."""
    n, p, r = np.zeros((S, A)), np.zeros((S, A, S)), np.zeros((S, A))
    for _, s, a, following, reward in steps:
        n[s, a] += 1
        p[s, a, following] += 1
        r[s, a] += reward
    for s, a in np.ndindex(S, A):
        p[s, a] = p[s, a] / n[s, a] if n[s, a] else 1.0 / S
        r[s, a] /= max(n[s, a], 1)
    return n, p, r


def test_random_play_plays_every_action_equally_often_at_every_stage_and_state():
    agent = agent_of("random", seeds=[4])
    played = np.stack([agent.plan().policy[0] for _ in range(900)])
    for action in range(A):  # 5 standard deviations of a share of 900 draws
        assert np.abs((played == action).mean(axis=0) - 1 / A).max() < 5 * math.sqrt(1 / A * (1 - 1 / A) / 900)


@pytest.mark.parametrize("known_reward", [True, False])
def test_without_epsilon_the_plan_is_optimal_for_the_empirical_model(rng, known_reward):
    agent = agent_of("epsilon-greedy", epsilon=0.0, known_reward=known_reward)
    _, p, r = empirical(chain.from_iterable(teach(agent, rng, 10)))
    reward = TASK.reward if known_reward else r
    plan, best = agent.plan(), solve(FiniteMDP(p, reward, H))
    np.testing.assert_allclose(plan.values[0], best.values, atol=EXACT)


def test_epsilon_is_the_share_of_random_actions_and_halves_after_its_half_life(rng):
    greedy, exploring = agent_of("epsilon-greedy", epsilon=0.0), agent_of("epsilon-greedy", epsilon=0.4)
    for agent in (greedy, exploring):
        teach(agent, np.random.default_rng(1), 30)
    best = greedy.plan().policy[0]
    share = np.mean([exploring.plan().policy[0] != best for _ in range(1000)])
    assert share == pytest.approx(0.4 * (1 - 1 / A), abs=0.02)  # 20,000 draws: 6 standard deviations
    decaying = agent_of("epsilon-greedy", epsilon=0.4, half_life=3.0)
    assert decaying.epsilon == 0.4
    teach(decaying, rng, 3)
    assert decaying.epsilon == pytest.approx(0.2)


def test_the_advice_of_epsilon_greedy_does_not_explore(rng):
    greedy, exploring = agent_of("epsilon-greedy", epsilon=0.0), agent_of("epsilon-greedy", epsilon=1.0)
    for agent in (greedy, exploring):
        teach(agent, np.random.default_rng(1), 10)
    advice = exploring.advice()
    np.testing.assert_array_equal(advice.values, greedy.plan().values)
    np.testing.assert_array_equal(advice.policy, greedy.advice().policy)
    assert (exploring.plan().policy != advice.policy).any()


def test_the_most_favourable_distribution_is_the_one_of_a_linear_program(rng):
    for radius in (0.0, 0.3, 1.1, 2.0, 7.0):
        mean = rng.dirichlet(np.full(S, 0.4))
        values = rng.random(S).round(1)  # ties among next states too
        # variables p and u >= |p - p̂|: max pV, Σu <= radius, Σp = 1
        eye = np.eye(S)
        rows = np.block([[eye, -eye], [-eye, -eye], [np.zeros((1, S)), np.ones((1, S))]])
        found = linprog(
            np.concatenate([-values, np.zeros(S)]),
            A_ub=rows,
            b_ub=np.concatenate([mean, -mean, [radius]]),
            A_eq=np.concatenate([np.ones(S), np.zeros(S)])[None],
            b_eq=[1.0],
        )
        ours = Favourable(mean[None, None], np.array([[radius]])).next_value(values[None])[0, 0]
        assert ours == pytest.approx(-found.fun, abs=ALGEBRA)


def inner_maximum(mean, radius, values):
    """Figure 2 of Jaksch et al., word for word: raise the best state, then lower the worst ones."""
    order = sorted(range(S), key=lambda s: -values[s])
    p = list(mean)
    p[order[0]] = min(1.0, mean[order[0]] + radius / 2)
    worst = S - 1
    while sum(p) > 1 + 1e-12:
        p[order[worst]] = max(0.0, 1 - sum(p) + p[order[worst]])
        worst -= 1
    return float(np.dot(p, values))


@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize("scale", [1.0, 0.1])
def test_ucrl2_is_extended_value_iteration_over_the_stages(rng, known_reward, scale):
    agent = agent_of("ucrl2", scale=scale, known_reward=known_reward, replan="episode", delta=0.1)
    n, p, r = empirical(chain.from_iterable(teach(agent, rng, 40)))
    t = 40 * H + 1
    values = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        q = np.zeros((S, A))
        for s, a in np.ndindex(S, A):
            many = max(1, n[s, a])
            radius = scale * math.sqrt(14 * S * math.log(2 * A * t / 0.1) / many)
            reward = TASK.reward[s, a]
            if not known_reward:
                reward = min(1.0, r[s, a] + scale * math.sqrt(7 * math.log(2 * S * A * t / 0.1) / (2 * many)))
            q[s, a] = reward + inner_maximum(p[s, a], radius, values[h + 1])
        values[h] = np.minimum(q.max(axis=1), H - h)
    assert n.min() > 0
    np.testing.assert_allclose(agent.plan().values[0], values, atol=ALGEBRA)


def test_ucrl2_thinks_everything_possible_of_a_pair_before_its_first_visit():
    unknown = agent_of("ucrl2", scale=1e-6, known_reward=False).plan().values[0]
    np.testing.assert_array_equal(unknown, np.arange(H, -1, -1.0)[:, None].repeat(S, axis=1))
    best = TASK.reward.max(axis=1)  # with known rewards: the best one here, then the best one anywhere
    known = agent_of("ucrl2", scale=1e-6, known_reward=True).plan().values[0]
    np.testing.assert_allclose(known[:-1], best + np.arange(H - 1, -1, -1.0)[:, None] * best.max(), atol=EXACT)


def test_ucrl2_plans_again_exactly_when_the_visits_of_some_pair_doubled(rng):
    agent = agent_of("ucrl2", seeds=[0, 1])
    planned, before, kept = [], None, None
    for steps in trajectories(rng, 60, 2):
        counts, last = agent.model.counts.copy(), agent.n_plans.copy()
        plan = agent.plan()
        is_new = agent.n_plans - last
        for b in range(2):
            due = before is None or any(
                counts[b, i] - before[b, i] >= max(1, before[b, i]) for i in range(counts.shape[1])
            )
            assert is_new[b] == due
            assert due or np.array_equal(plan.policy[b], kept[b])
        kept = plan.policy
        before = counts.copy() if before is None else np.where(is_new[:, None] == 1, counts, before)
        planned.append(is_new)
        agent.update(steps)
    planned = np.array(planned)
    assert (planned.sum(axis=0) < 40).all()
    assert (planned[:, 0] != planned[:, 1]).any()


def test_posterior_draws_have_the_moments_of_dirichlet_and_beta_laws(rng):
    agent = agent_of("psrl", prior=2.0, reward_prior=0.5, known_reward=False, seeds=[0])
    n, p, r = empirical(chain.from_iterable(teach(agent, rng, 12)))
    draws = np.stack([agent.draw_transitions()[0] for _ in range(4000)])
    rewards = np.stack([agent.draw_rewards()[0] for _ in range(4000)])
    np.testing.assert_allclose(draws.sum(axis=2), 1.0, atol=EXACT)
    for s, a in np.ndindex(S, A):
        law = stats.dirichlet(2.0 / S + (n[s, a] * p[s, a] if n[s, a] else np.zeros(S)))
        sample = draws[:, a * S + s]
        assert (np.abs(sample.mean(axis=0) - law.mean()) < 5 * np.sqrt(law.var() / 4000)).all()
        np.testing.assert_allclose(sample.var(axis=0), law.var(), rtol=0.3)
        beta = stats.beta(0.5 + n[s, a] * r[s, a], 0.5 + n[s, a] * (1 - r[s, a]))
        assert abs(rewards[:, a, s].mean() - beta.mean()) < 5 * beta.std() / math.sqrt(4000)
        assert rewards[:, a, s].var() == pytest.approx(beta.var(), rel=0.3)


def test_psrl_plays_what_is_optimal_for_its_draw(rng):
    agent = agent_of("psrl", known_reward=False)
    teach(agent, rng, 5)
    undo = agent.mark()
    p, reward = agent.draw_transitions()[0].reshape(A, S, S), agent.draw_rewards()[0]
    undo()
    best = solve(FiniteMDP(p.transpose(1, 0, 2), reward.T, H))
    np.testing.assert_allclose(agent.plan().values[0], best.values, atol=EXACT)


def test_a_dirichlet_law_of_tiny_weights_puts_all_on_one_state_in_proportion(rng):
    draws = draw_distributions(np.tile([1e-5, 3e-5], (1, 4000, 1)), [rng])[0]
    assert (rng.standard_gamma(np.full((4000, 2), 2e-5)).sum(axis=1) == 0.0).mean() > 0.5  # plain draws vanish
    np.testing.assert_allclose(draws.sum(axis=1), 1.0, atol=EXACT)
    assert draws[:, 1].mean() == pytest.approx(0.75, abs=5 * math.sqrt(0.75 * 0.25 / 4000))


def algorithm_2(q, n, p, reward, stage, *, bonus, scale, log):
    """Lower Q (H, S, A) as UCB-Q-values does; n (S, A), P̂ (S, A, S), rewards (S, A), visits by stage (H, S)."""
    values = np.zeros((H + 1, S))
    for h in reversed(range(H)):
        for s, a in np.ndindex(S, A):
            if n[s, a] == 0:
                continue  # Q stays at the cap
            many, following = n[s, a], values[h + 1]
            mean = p[s, a] @ following
            if bonus == "hoeffding":
                extra = 7 * H * log / math.sqrt(many)
            else:
                variance = p[s, a] @ (following - mean) ** 2
                extra = math.sqrt(8 * log * variance / many) + 14 * H * log / (3 * many)
                if h < H - 1:
                    most = 100**2 * H**3 * S**2 * A * log**2
                    inner = [min(most / stage[h + 1, y], H**2) if stage[h + 1, y] else H**2 for y in range(S)]
                    extra += math.sqrt(8 * (p[s, a] @ inner) / many)
            q[h, s, a] = min(q[h, s, a], reward[s, a] + mean + scale * extra)
        values[h] = q[h].max(axis=1)


@pytest.mark.parametrize("cap", ["horizon", "remaining"])
@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize(("bonus", "scale"), [("hoeffding", 0.002), ("bernstein", 0.02), ("bernstein", 1e-4)])
def test_ucbvi_is_algorithm_2_with_the_bonus_of_algorithm_3_or_4(rng, bonus, scale, cap, known_reward):
    settings = {"bonus": bonus, "scale": scale, "cap": cap, "known_reward": known_reward}
    agent = agent_of("ucbvi", n_episodes=50, delta=0.2, **settings)
    log = math.log(5 * S * A * 50 * H / 0.2)
    top = np.array([H if cap == "horizon" else H - h for h in range(H)], dtype=float)
    q = np.tile(top[:, None, None], (1, S, A))
    steps, stage = [], np.zeros((H, S))
    for episode in teach(agent, rng, 25):  # which plans before each episode
        n, p, r = empirical(steps)
        reward = TASK.reward
        if not known_reward:
            reward = np.minimum(1.0, r + scale * np.sqrt(log / (2 * np.maximum(n, 1))))
        algorithm_2(q, n, p, reward, stage, bonus=bonus, scale=scale, log=log)
        steps += episode
        for h, s, *_ in episode:
            stage[h, s] += 1
    assert (q < top[:, None, None]).any()
    np.testing.assert_allclose(agent.q[0].transpose(0, 2, 1), q, atol=ALGEBRA)


def much_data(agent, rng, visits):
    """Fill the counts as that many visits of every pair would."""
    table = WORLD.mdp.transitions.rows(np.tile(np.arange(S), A), np.repeat(np.arange(A), S))
    transitions = np.stack([rng.multinomial(visits, row) for row in table])[None].astype(float)
    model = agent.model
    counts = transitions.sum(axis=2)
    rewards = counts * TASK.reward.T.reshape(1, -1)
    model.load_state_dict({**model.state_dict(), "transitions": transitions, "counts": counts, "reward_sums": rewards})


def test_the_last_term_of_algorithm_4_falls_once_the_next_stage_was_visited_often(rng):
    agent = agent_of("ucbvi", bonus="bernstein", n_episodes=50, delta=0.2)
    much_data(agent, rng, 10**5)
    stage = 10.0 ** rng.uniform(8.0, 11.0, (H, S))  # the minimum changes sides at 4·10⁸
    agent.model.stage_visits = stage[None]
    agent.plan()
    transitions = agent.model.transitions[0].reshape(A, S, S).transpose(1, 0, 2)
    q, log = np.full((H, S, A), float(H)), math.log(5 * S * A * 50 * H / 0.2)
    means = transitions / 10**5
    algorithm_2(q, np.full((S, A), 10**5), means, TASK.reward, stage, bonus="bernstein", scale=1.0, log=log)
    assert (q < H).all()
    np.testing.assert_allclose(agent.q[0].transpose(0, 2, 1), q, atol=ALGEBRA)


@pytest.mark.parametrize("known_reward", [True, False])
@pytest.mark.parametrize("name", ["ucbvi", "ucrl2"])
def test_with_the_constants_of_the_paper_values_bound_the_optimum_from_above_and_meet_it(rng, name, known_reward):
    agent = agent_of(name, known_reward=known_reward, n_episodes=100)
    much_data(agent, rng, 10**10)
    excess = agent.plan().values[0] - solve(WORLD.mdp).values
    assert (excess >= 0.0).all()
    assert (excess[: H - 1] > 0.0).all()
    assert excess.max() < 0.05


@pytest.mark.parametrize("n_episodes", [30, None])
@pytest.mark.parametrize("cap", ["horizon", "remaining"])
@pytest.mark.parametrize("known_reward", [True, False])
def test_q_learning_at_once_equals_q_learning_step_by_step(rng, cap, known_reward, n_episodes):
    agent = agent_of("q-learning", scale=0.02, cap=cap, known_reward=known_reward, n_episodes=n_episodes)
    top = [H if cap == "horizon" else H - h for h in range(H)]
    q = [[[float(top[h])] * A for _ in range(S)] for h in range(H)]
    v = [[float(top[h])] * S for h in range(H)] + [[0.0] * S]
    visits = np.zeros((H, S, A))
    for k, episode in enumerate(teach(agent, rng, 30)):
        iota = math.log(S * A * H * (n_episodes or k + 1) / 0.1)
        for h, s, a, following, reward in episode:  # Algorithm 1, lines 5 to 9
            visits[h, s, a] += 1
            t = visits[h, s, a]
            share = (H + 1) / (H + t)
            paid = TASK.reward[s, a] if known_reward else reward
            target = paid + v[h + 1][following] + 0.02 * math.sqrt(H**3 * iota / t)
            q[h][s][a] = (1 - share) * q[h][s][a] + share * target
            v[h][s] = min(top[h], max(q[h][s]))
    np.testing.assert_allclose(agent.q[0].transpose(0, 2, 1), q, atol=EXACT)
    np.testing.assert_allclose(agent.plan().values[0], v, atol=EXACT)
