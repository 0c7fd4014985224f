"""docs/proofs.md, section 9.9: deterministic problems and known successors, declared and refuted by data.

Backups are compared with dynamic programming in plain Python, means with a convex solver on the possible states alone,
and the price of a support with sums over all supports.
"""

from __future__ import annotations

import itertools
import math

import cvxpy
import gymnasium as gym
import numpy as np
import pytest

from matrixrl import FiniteMDP, MatrixRL, Task, run_seeds
from matrixrl.algorithms.matrix_rl.budget import OptimismBudget
from matrixrl.problems import solve
from tolerances import EXACT, SOLVER

S, A, H = 7, 3, 8


def moves(seed: int) -> np.ndarray:
    """Return the next state of every pair (S, A): one action leads on, the others lead back."""
    rng = np.random.default_rng(seed)
    back = rng.integers(0, np.arange(S)[:, None] + 1, size=(S, A))
    on = rng.integers(0, A, size=S)
    back[np.arange(S), on] = np.minimum(np.arange(S) + 1, S - 1)
    return back


def certain(seed: int, **options) -> FiniteMDP:
    """Return a deterministic MDP whose last state pays most."""
    reward = np.random.default_rng(seed + 1000).integers(0, 3, size=(S, A)) / 16.0
    reward[-1] = 1.0
    return FiniteMDP(np.eye(S)[moves(seed)], reward, H, **options)


def branching(seed: int, **options) -> FiniteMDP:
    """Return an MDP in which one to three states follow a pair."""
    rng = np.random.default_rng(seed)
    table = np.zeros((S, A, S))
    for s, a in np.ndindex(S, A):
        some = rng.choice(S, size=1 + (s + a) % 3, replace=False)
        table[s, a, some] = rng.dirichlet(np.ones(len(some)))
    return FiniteMDP(table, rng.integers(0, 5, size=(S, A)) / 4.0, H, **options)


def possible(mdp: FiniteMDP) -> list[list[list[int]]]:
    """Return the successors of every pair, and one state more."""
    rows = mdp.transitions.law()
    return [[sorted({*np.flatnonzero(rows[s, a]).tolist(), s}) for a in range(A)] for s in range(S)]


def visits_of(agent: MatrixRL, mdp: FiniteMDP) -> dict[tuple[int, int], dict[int, float]]:
    """Return how often each pair that was seen led to each state."""
    seen, found = agent._algorithm.model.counts.seen, {}
    for code, place in zip(seen.ids, range(len(seen.ids)), strict=True):
        a, s = divmod(int(code), mdp.n_states)
        entries = slice(seen.firsts[place], seen.firsts[place] + seen.lengths[place])
        found[s, a] = dict(zip(seen.outcomes[entries].tolist(), seen.times[entries].tolist(), strict=True))
    return found


def exact_bounds(mdp, visits, successors, *, learns: bool, sign: int) -> np.ndarray:
    """Back up what may follow from visits of a deterministic MDP: Q (H, S, A), in plain Python."""
    best, extreme = np.zeros(S), max if sign > 0 else min
    q = np.zeros((H, S, A))
    for h in reversed(range(H)):
        for s, a in np.ndindex(S, A):
            if (s, a) in visits:
                [after] = visits[s, a]
                q[h, s, a] = mdp.task.reward[s, a] + best[after]
            else:
                paid = mdp.task.reward[s, a] if not learns else max(sign, 0)
                q[h, s, a] = paid + extreme(best[t] for t in successors[s][a])
        best = q[h].max(axis=1)
    return q


def q_bounds(agent: MatrixRL) -> tuple[np.ndarray, np.ndarray]:
    """Return lower and upper bounds on Q (H, S, A) at the proven radius."""
    algorithm, found = agent._algorithm, []
    bounds = algorithm.model.bounds(algorithm.clock, "proven")[0]
    for sign in (-1.0, 1.0):
        q = algorithm._empty_q()
        algorithm._greedy(bounds, sign=sign, q_out=q)
        found.append(q[0].transpose(0, 2, 1))
    return found[0], found[1]


class TestDeterministic:
    @pytest.mark.parametrize("learns", [False, True])
    @pytest.mark.parametrize("lists", [False, True])
    def test_bounds_are_those_of_plain_dynamic_programming(self, learns, lists):
        mdp = certain(3)
        successors = possible(mdp) if lists else [[list(range(S))] * A] * S
        declared = {"deterministic": True, "successors": successors if lists else None}
        agent = MatrixRL(mdp, seed=0, known_reward=not learns, **declared)
        for n in (0, 1, 2, 5):
            agent.learn(n) if n else None
            visits, found = visits_of(agent, mdp), q_bounds(agent)
            for sign, q in zip((-1, 1), found, strict=True):
                assert np.abs(q - exact_bounds(mdp, visits, successors, learns=learns, sign=sign)).max() < EXACT
            assert np.abs(agent._algorithm.q_table()[0].transpose(0, 2, 1) - found[1]).max() < EXACT

    @pytest.mark.parametrize("preset", ["optimistic", "budget"])
    @pytest.mark.parametrize("learns", [False, True])
    def test_optimistic_with_certainty_and_regret_only_with_a_new_pair(self, preset, learns):
        for seed in range(4):
            mdp = certain(seed)
            best = solve(mdp).values[0, 0]
            agent, known = MatrixRL(mdp, seed=seed, preset=preset, known_reward=not learns, deterministic=True), set()
            for _ in range(30):
                certificate = agent.certificate()
                assert certificate.upper >= best - EXACT
                assert certificate.lower <= best + EXACT
                history = agent.learn(1)
                now = set(visits_of(agent, mdp))
                if history.regret[-1] > EXACT and preset == "optimistic":
                    assert now > known
                known = now
            assert agent.guarantee
            assert agent.alarm is None
            assert agent.certificate().upper - agent.certificate().lower < EXACT
            assert agent.history.regret.sum() <= H * S * A

    def test_the_regret_bound_counts_pairs(self):
        n = 50
        agent = MatrixRL(certain(0), seed=0, preset="optimistic", deterministic=True)
        path = H * math.sqrt(0.5 * n * H * math.log(1.0 / 0.05))
        ties = 2e-9 * n * H * H
        assert agent._algorithm.claims.regret_bound(n) == pytest.approx(H * S * A + path + ties)
        assert agent._algorithm.claims.bound(n, delay=2) == pytest.approx(3 * H * S * A + path + ties)
        budget = MatrixRL(certain(0), seed=0, deterministic=True, optimism_budget=2.0)
        earned = 2.0 * (H * H * S * A + H * ties + H)
        assert budget._algorithm.claims.regret_bound(n) == pytest.approx(H * S * A + path + ties + earned)

    def test_what_the_budget_earns_is_below_its_bound(self, monkeypatch):
        """Only the first visit of a pair has a width, of which a tuned plan that lacks nothing earns nothing."""
        widths, widths_of = [], OptimismBudget._widths_of

        def noted(*given):
            widths.append(widths_of(*given).sum())
            return widths_of(*given)

        monkeypatch.setattr(OptimismBudget, "_widths_of", noted)
        for seed in range(5):
            agent = MatrixRL(certain(seed), seed=seed, deterministic=True)
            widths.clear()
            agent.learn(60)
            assert 0.0 < sum(widths) <= H * H * S * A
            assert 0.0 <= agent._algorithm.budget.earned[0] <= sum(widths)
            assert agent._algorithm.budget.charged[0] <= agent._algorithm.budget.limit[0]

    @pytest.mark.parametrize("options", [{}, {"known_reward": False}, {"preset": "optimistic"}, {"certify": True}])
    def test_compiled_episodes_are_those_of_numpy(self, options):
        mdp = certain(5)
        one, two = (
            run_seeds(mdp, n_episodes=40, seeds=3, deterministic=True, compiled=compiled, **options)
            for compiled in (False, True)
        )
        assert np.abs(one.regret - two.regret).max() < EXACT
        assert (one.regret > 0.1).sum(axis=1).min() >= 3
        assert (one.regret[:, -1] < EXACT).all()
        assert np.abs(one.upper - two.upper).max() < EXACT

    @pytest.mark.parametrize("compiled", [False, True])
    def test_episodes_that_end_early_refute_nothing(self, compiled):
        """State 0 leads to 1 or to the end, 1 to the end; what is not played after the end is no data."""
        after = np.array([[1, 2], [2, 0], [2, 2]])
        mdp = FiniteMDP(np.eye(3)[after], [[0.25, 0.5], [1.0, 0.0], [0.0, 0.0]], 4, end_state=2, deterministic=True)
        result = run_seeds(mdp, n_episodes=20, seeds=4, known_reward=False, compiled=compiled)
        assert result.guarantee
        assert not result.alarms.any()
        assert (result.regret[:, -1] < EXACT).all()

    def test_a_random_start_and_stages_and_a_discount(self):
        laws = [np.eye(S)[moves(seed)] for seed in range(H)]
        reward = np.random.default_rng(0).random((H, S, A))
        mdp = FiniteMDP(laws, reward, H, start=np.full(S, 1 / S), discount=0.9, deterministic=True)
        best = solve(mdp).values[0] @ mdp.task.start
        agent = MatrixRL(mdp, seed=0)
        agent.learn(300)
        certificate = agent.certificate()
        assert agent.guarantee
        assert certificate.lower - EXACT <= best <= certificate.upper + EXACT
        assert certificate.upper - certificate.lower < 1e-9


class TestSuccessors:
    def test_the_largest_mean_is_over_the_possible_states(self):
        """U over laws on the successors near p̂, by a convex solver; without a visit, the best or the worst of them."""
        mdp = branching(1)
        lists = possible(mdp)
        agent = MatrixRL(mdp, seed=0, successors=lists, set="likelihood", preset="optimistic")
        agent.learn(8)
        visits, rng = visits_of(agent, mdp), np.random.default_rng(0)
        values = rng.random((1, S))
        bounds = agent._algorithm.model.bounds(agent._algorithm.clock, "proven")[0]
        radius = {int(code): eps for code, eps in zip(bounds.seen.ids, bounds.lower, strict=True)}
        for sign in (1.0, -1.0):
            found = bounds.bound(values, sign=sign)[0]
            for s, a in np.ndindex(S, A):
                states = lists[s][a]
                if (s, a) not in visits:
                    wanted = sign * (sign * values[0, states]).max()
                else:
                    counts = np.array([visits[s, a].get(t, 0.0) for t in states])
                    shares, q = counts / counts.sum(), cvxpy.Variable(len(states))
                    inside = [cvxpy.sum(cvxpy.kl_div(shares, q)) <= radius[a * S + s], cvxpy.sum(q) == 1]
                    problem = cvxpy.Problem(cvxpy.Maximize(sign * values[0, states] @ q), inside)
                    wanted = sign * problem.solve(solver="CLARABEL")
                assert found[a, s] == pytest.approx(wanted, abs=SOLVER)

    def test_the_radius_is_that_of_supports_among_the_possible_states(self):
        """β_D by summing over all supports of the largest set of successors, which holds every smaller one."""
        mdp = branching(1)
        lists = possible(mdp)
        agent = MatrixRL(mdp, seed=0, successors=lists, preset="optimistic")
        agent.learn(8)
        size = max(len(states) for row in lists for states in row)
        unknown = sum(len(states) > 1 for row in lists for states in row)
        parts = agent._algorithm.model.confidence.parts
        assert unknown < S * A
        bounds = agent._algorithm.model.bounds(agent._algorithm.clock, "proven")[0]
        for code, radius, n in zip(bounds.seen.ids, bounds.lower, bounds.seen.totals, strict=True):
            a, s = divmod(int(code), S)
            counts = np.array([*visits_of(agent, mdp)[s, a].values()])
            counts = np.append(counts, np.zeros(size - len(counts)))
            chance = 0.0
            for k in range(1, size + 1):
                for support in itertools.combinations(range(size), k):
                    if counts[list(support)].sum() == n:
                        law = math.lgamma(k / 2) - math.lgamma(n + k / 2)
                        law += sum(math.lgamma(counts[i] + 0.5) - math.lgamma(0.5) for i in support)
                        chance += (1 + 1 / size) / (k * (k + 1)) / math.comb(size, k) * math.exp(law)
            likely = sum(c * math.log(c / n) for c in counts if c > 0)
            beta = math.log(unknown / (parts.all_functions * 0.05)) + likely - math.log(chance)
            assert radius * n == pytest.approx(beta, rel=1e-10)

    def test_the_fixed_functions_are_those_of_pairs_that_are_not_known(self):
        mdp = certain(2)
        some = possible(mdp)
        some[0] = [[t] for t in moves(2)[0].tolist()]  # all actions of state 0 are known
        known = MatrixRL(mdp, successors=some)._algorithm.model.confidence
        plain = MatrixRL(mdp)._algorithm.model.confidence
        assert plain.n_targets == ((H - 1) * S, (H - 1) * S * A)
        n_known = sum(len(states) == 1 for row in some for states in row)
        assert known.n_targets[1] == (H - 1) * (S * A - n_known)
        assert known.n_groups == S * A - n_known
        learned = MatrixRL(mdp, successors=some, known_reward=False)._algorithm.model.confidence
        assert learned.n_groups == S * A  # their rewards are not known

    @pytest.mark.parametrize("learns", [False, True])
    @pytest.mark.parametrize("what", ["successors", "deterministic"])
    def test_bounds_are_tighter_on_the_same_data_and_hold(self, learns, what, tmp_path):
        """8 seeds at δ = 0.05: more than 2 false certificates have a chance below 0.6 %; none if deterministic."""
        false = 0
        for seed in range(8):
            mdp = branching(seed) if what == "successors" else certain(seed)
            declared = {"successors": possible(mdp)} if what == "successors" else {"deterministic": True}
            best, options = solve(mdp).values[0, 0], {"preset": "optimistic", "known_reward": not learns}
            told = MatrixRL(mdp, seed=seed, keep_log=True, **declared, **options)
            told.learn(60)
            told.export(tmp_path / f"{seed}.csv")
            plain = MatrixRL(mdp, seed=seed, **options)
            plain.learn_from(tmp_path / f"{seed}.csv")
            again = MatrixRL(mdp, seed=seed, **declared, **options)
            again.learn_from(tmp_path / f"{seed}.csv")
            (low, high), (lowest, highest) = q_bounds(told), q_bounds(plain)
            assert np.array_equal(q_bounds(again), (low, high))
            assert (high <= highest + EXACT).all()
            assert (low >= lowest - EXACT).all()
            certificate = told.certificate()
            false += not certificate.lower - EXACT <= best <= certificate.upper + EXACT
        assert false <= 2 * (what == "successors")

    def test_one_successor_is_known_before_any_visit(self):
        mdp = certain(4)
        lists = [[[int(t)] for t in row] for row in moves(4)]
        agent = MatrixRL(mdp, seed=0, successors=lists)
        certificate = agent.certificate()
        assert certificate.lower == pytest.approx(solve(mdp).values[0, 0], abs=EXACT)
        assert certificate.upper == pytest.approx(solve(mdp).values[0, 0], abs=EXACT)


def asked(agent: MatrixRL, steps: list[tuple[int, int, float, int]]) -> None:
    """Let an agent of ask and tell learn from one episode of steps (s, a, r, s')."""
    episode = agent.begin_episode()
    for state, action, reward, following in steps:
        episode.act(state)
        episode.observe(state, action, reward, following)
    episode.end()


STEPS = {
    "a second next state": ({"deterministic": True}, (1, 0, 0.5, 2), "led to state 1 and to state 2"),
    "a second reward": ({"deterministic": True}, (1, 0, 0.25, 1), "earned 0.25, and 0.416667 on average"),
    "outside": ({"successors": [[[0, 1]] * 2] * 3}, (1, 0, 0.5, 2), "led to state 2"),
}


class TestRefuted:
    @pytest.mark.parametrize("how", STEPS)
    def test_one_step_is_an_alarm_and_withdraws_the_proof(self, how, tmp_path):
        declared, step, words = STEPS[how]
        agent = MatrixRL(Task(n_states=3, n_actions=2, horizon=3, start=0, **declared), seed=0)
        asked(agent, [(0, 0, 0.5, 1), (1, 0, 0.5, 1), (1, 0, 0.5, 1)])
        assert agent.alarm is None
        assert not any(reason in str(agent.guarantee) for reason in ("deterministic", "successors"))
        before = agent._algorithm.claims.charged_regret
        assert before
        asked(agent, [(0, 0, 0.5, 1), step])
        withdrawn = agent._algorithm.claims.charged_regret
        assert not withdrawn
        assert "pair (state 1, action 0)" in str(withdrawn)
        assert words in str(withdrawn)
        assert not agent.certificate().guarantee
        asked(agent, [(0, 0, 0.5, 1)])
        assert words in agent.alarm
        assert not agent.guarantee
        agent.save(tmp_path / "agent")
        again = MatrixRL.load(tmp_path / "agent")
        assert words in str(again._algorithm.claims.charged_regret)
        assert words in again.alarm

    def test_bounds_after_a_refutation_are_between_those_of_all_states(self):
        reward, lists = [[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]], [[[0]] * 2, [[1]] * 2, [[2]] * 2]
        agent = MatrixRL(Task(reward, horizon=3, start=0, successors=lists), seed=0)
        for following in (0, 0, 0, 1):
            asked(agent, [(0, 0, 0.0, following)])
        values, bounds = np.array([[0.2, 1.0, 0.0]]), agent._algorithm.model.bounds(agent._algorithm.clock, "proven")[0]
        low, high = (bounds.bound(values, sign=sign)[0, 0, 0] for sign in (-1.0, 1.0))
        assert bounds.empty.tolist() == [1]
        assert 0.2 <= low <= 0.75 * 0.2 + 0.25 <= high <= 1.0
        assert np.isfinite(agent._algorithm.q_table()).all()

    def test_a_plan_that_is_kept_has_the_alarm_too(self):
        one = Task(n_states=2, n_actions=1, horizon=2, start=0, deterministic=True)
        agent = MatrixRL(one, seed=0, switch_growth=1.0)  # a plan at 64 visits, and at 128
        for _ in range(40):
            asked(agent, [(0, 0, 0.5, 0), (0, 0, 0.5, 0)])
        n_plans = agent._algorithm.n_plans.copy()
        asked(agent, [(0, 0, 0.5, 0), (0, 0, 0.75, 0)])
        assert agent.alarm is None
        asked(agent, [(0, 0, 0.5, 0)])
        assert agent._algorithm.n_plans == n_plans
        assert "pair (state 0, action 0) earned 0.75" in agent.alarm

    def test_the_first_step_of_an_episode_and_the_same_episode_are_compared(self):
        agent = MatrixRL(Task(n_states=3, n_actions=2, horizon=3, start=0, deterministic=True), seed=0)
        asked(agent, [(0, 0, 0.5, 0), (0, 0, 0.5, 1)])
        assert "pair (state 0, action 0) led to state 0 and to state 1" in str(agent._algorithm.claims.charged_regret)


class _Reported(gym.Env):
    """State 0 leads to 1, which pays, or to 2; its action 1 is forbidden, which only visits show."""

    observation_space, action_space = gym.spaces.Discrete(3), gym.spaces.Discrete(2)
    begun = 0

    def _info(self):
        return {"action_mask": np.array([1, self.at != 0], dtype=np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.begun = self.begun % 3, self.begun + 1
        return self.at, self._info()

    def step(self, action):
        reward = float(self.at == 1)
        if self.at == 0:
            self.at = 1 if self.np_random.random() < 0.3 else 2
        return self.at, reward, False, False, self._info()


def test_successors_of_a_pair_that_turns_out_not_to_exist_say_nothing_of_its_group(tmp_path):
    """Both actions of state 0 share a law; that of action 1 was declared to lead to 2 alone."""
    phi = np.repeat(np.eye(3)[:, None], 2, axis=1)
    reward = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    lists = [[[1, 2], [2]], [[1], [1]], [[2], [2]]]
    agent = MatrixRL(_Reported(), reward=reward, horizon=2, phi=phi, successors=lists, seed=0)
    agent.learn(12)
    agent.save(tmp_path / "agent")
    for one in (agent, MatrixRL.load(tmp_path / "agent", _Reported())):
        found = one.certificate(start=0)
        assert found.upper >= 0.3, "V* of state 0"
        assert found.guarantee
