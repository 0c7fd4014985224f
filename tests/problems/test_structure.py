"""Declared structure of problems: how it is read, refused, compared with a known P, saved and repeated for stages."""

from __future__ import annotations

import numpy as np
import pytest

from matrixrl import FiniteMDP, InvalidInput, KernelMatrixRL, KnownDynamics, MatrixRL, Task, make, run_seeds
from matrixrl.features import Features, OneHotPhi, TablePhi, TablePsi
from matrixrl.play.player import why_not_compiled
from matrixrl.problems import Problem, read_problem

EYE = np.eye(3)
STAY = np.stack([EYE, EYE], axis=1)  # (S, A, S): every action stays
LISTS = [[[0, 1], [0]], [[1], [1, 2]], [[2], [2]]]


def lists_of(task: Task) -> list[list[list[int]]]:
    """Return the successors that a task has, by state and action."""
    n = task.n_states
    pairs, following = np.divmod(task.structure.codes, n)
    return [[following[pairs == a * n + s].tolist() for a in range(task.n_actions)] for s in range(n)]


def task(**options) -> Task:
    return Task(n_states=3, n_actions=2, horizon=3, **options)


class TestReading:
    def test_lists_masks_and_nested_lists_of_booleans_are_equal(self):
        mask = np.zeros((3, 2, 3), dtype=bool)
        for s, a in np.ndindex(3, 2):
            mask[s, a, LISTS[s][a]] = True
        for given in (LISTS, mask, mask.tolist(), [[np.array(one) for one in row] for row in LISTS]):
            assert lists_of(task(successors=given)) == LISTS

    def test_without_a_declaration_there_is_none(self):
        assert task().structure is None
        assert task(deterministic=False).structure is None
        assert Problem.of(task()).task.declared(None, None).structure is None

    def test_the_end_state_that_was_added_may_follow_every_pair_unless_it_is_given(self):
        free = Task(n_states=3, n_actions=2, horizon=3, may_terminate=True, successors=LISTS)
        assert lists_of(free) == [[[*one, 3] for one in row] for row in LISTS] + [[[3], [3]]]
        some = [[[0, 1], [0]], [[1], [1, 2]], [[3], [2]]]
        assert lists_of(Task(n_states=3, n_actions=2, horizon=3, may_terminate=True, successors=some))[:3] == some

    def test_actions_that_are_not_allowed_need_no_successor(self):
        allowed = [[True, False], [True, True], [True, True]]
        some = [[[0, 1], []], *LISTS[1:]]
        assert lists_of(task(allowed=allowed, successors=some))[0] == [[0, 1], [0]]

    def test_stages_repeat_it(self):
        once = task(successors=LISTS)
        for found in (once.staged(True), task(successors=LISTS, stage_dependent=True)):
            assert lists_of(found) == [row * 3 for row in LISTS]

    def test_an_environment_is_told_by_the_agent(self):
        env = make("deep-sea", size=4)
        assert read_problem(env, deterministic=True).task.structure.deterministic
        assert read_problem(env, deterministic=False).task.structure is None


BAD = {
    "no bool": ({"deterministic": "yes"}, "deterministic"),
    "a number": ({"successors": 3}, "successors"),
    "an array without axes": ({"successors": np.array(3)}, "successors"),
    "too few states": ({"successors": LISTS[:2]}, "successors"),
    "too few actions": ({"successors": [row[:1] for row in LISTS]}, r"successors\[0\]"),
    "a state outside": ({"successors": [[[0, 3], [0]], *LISTS[1:]]}, r"successors\[0\]\[0\]"),
    "a negative state": ({"successors": [[[-1], [0]], *LISTS[1:]]}, r"successors\[0\]\[0\]"),
    "no state": ({"successors": [[[], [0]], *LISTS[1:]]}, "successors"),
    "words": ({"successors": [[["a"], [0]], *LISTS[1:]]}, r"successors\[0\]\[0\]"),
    "probabilities": ({"successors": np.full((3, 2, 3), 1 / 3)}, r"successors\[0\]\[0\]"),
    "a mask of numbers": ({"successors": np.ones((3, 2, 3), dtype=int)}, r"successors\[0\]\[0\]"),
    "a short mask": ({"successors": np.ones((3, 2, 2), dtype=bool)}, r"successors\[0\]\[0\]"),
    "a ragged list": ({"successors": [[[[0], [1, 2]], [0]], *LISTS[1:]]}, r"successors\[0\]\[0\]"),
}


class TestRefusing:
    @pytest.mark.parametrize("what", BAD)
    def test_one_error_names_the_argument(self, what):
        options, argument = BAD[what]
        with pytest.raises(InvalidInput, match=f"^{argument} "):
            task(**options)

    def test_a_known_p_must_agree(self):
        coin = np.array([[[0.5, 0.5, 0.0]] * 2, *STAY[1:]])
        reward = np.zeros((3, 2))
        for options in ({}, {"stage_dependent": True}):
            with pytest.raises(InvalidInput, match=r"^deterministic must agree .* state 0 and action 0"):
                FiniteMDP(coin, reward, 3, deterministic=True, **options)
            with pytest.raises(InvalidInput, match=r"^successors must agree .* next state 0 of state 0"):
                FiniteMDP(coin, reward, 3, successors=[[[1]] * 2, [[1]] * 2, [[2]] * 2], **options)
        with pytest.raises(InvalidInput, match=r"^deterministic must agree"):
            MatrixRL(FiniteMDP(coin, reward, 3), deterministic=True)
        with pytest.raises(InvalidInput, match=r"^deterministic must be left out if rewards are noisy"):
            FiniteMDP(STAY, reward, 3, noisy_rewards=True, deterministic=True)
        allowed = [[False, True], [True, True], [True, True]]
        FiniteMDP(np.array([[[0.5, 0.5, 0.0], [1, 0, 0]], *STAY[1:]]), reward, 3, allowed=allowed, deterministic=True)

    def test_it_is_declared_once(self):
        with pytest.raises(InvalidInput, match=r"^deterministic cannot be declared"):
            MatrixRL(task(deterministic=True), deterministic=True)

    def test_vectors_and_known_dynamics_have_none(self):
        with pytest.raises(InvalidInput, match=r"^deterministic"):
            KernelMatrixRL("cart-pole", deterministic=True)
        known = KnownDynamics(lambda s, a, w: (s, 0.0 * a * w), outcomes=2, n_states=2, n_actions=1, horizon=2)
        with pytest.raises(InvalidInput, match=r"^successors"):
            MatrixRL(known, successors=[[[0]], [[1]]])
        MatrixRL(known, deterministic=False)

    def test_states_that_psi_does_not_tell_apart(self):
        psi = TablePsi([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
        one = task(deterministic=True, features=Features(OneHotPhi(3, 2), psi))
        with pytest.raises(InvalidInput, match=r"^psi must tell all states apart"):
            MatrixRL(one)

    def test_groups_without_a_common_successor(self):
        phi = TablePhi(np.repeat([[[1.0, 0.0]], [[1.0, 0.0]], [[0.0, 1.0]]], 2, axis=1))
        features = Features(phi, TablePsi(EYE))
        shared = MatrixRL(task(successors=[[[0, 1]] * 2, [[1, 2]] * 2, [[2]] * 2], features=features))
        assert shared._algorithm.model.declared.successors.states.tolist() == [1, 2]
        with pytest.raises(InvalidInput, match=r"^successors must have a next state that all pairs of one feature"):
            MatrixRL(task(successors=[[[0]] * 2, [[1]] * 2, [[2]] * 2], features=features))


class TestUse:
    def test_files_keep_it(self, tmp_path):
        mdp = FiniteMDP(STAY, np.zeros((3, 2)), 3)
        agent = MatrixRL(mdp, deterministic=True, successors=LISTS, seed=0)
        agent.learn(3)
        agent.save(tmp_path / "agent")
        again = MatrixRL.load(tmp_path / "agent", mdp)
        assert again.problem.task.structure.deterministic
        assert lists_of(again.problem.task) == LISTS
        one, two = agent.learn(3), again.learn(3)
        assert np.array_equal(one.returns, two.returns)

    def test_a_file_of_another_structure_is_refused(self, tmp_path):
        agent = MatrixRL(FiniteMDP(STAY, np.zeros((3, 2)), 3, successors=LISTS), seed=0)
        agent.save(tmp_path / "agent")
        with pytest.raises(InvalidInput, match="declared structure"):
            MatrixRL.load(tmp_path / "agent", FiniteMDP(STAY, np.zeros((3, 2)), 3, deterministic=True))

    def test_successors_are_played_without_compiled_loops(self):
        agent = MatrixRL(FiniteMDP(STAY, np.zeros((3, 2)), 3, successors=LISTS))
        assert "successors are declared" in why_not_compiled(agent.problem.mdp, agent._algorithm, 10)
        run_seeds(FiniteMDP(STAY, np.zeros((3, 2)), 3, successors=LISTS), n_episodes=3, seeds=2, compiled=True)

    def test_balls_do_not_use_it(self):
        agent = MatrixRL(task(deterministic=True), set="normalised")
        assert "declared" not in agent.assumptions
        assert "as declared (deterministic)" in MatrixRL(task(deterministic=True)).assumptions


class TestMessagesOfStages:
    """Users know their own actions, not the inner ones of classes of stages."""

    def test_of_a_known_law(self):
        law = np.broadcast_to(STAY, (3, 3, 2, 3)).copy()
        law[2, 1, 1] = [0.5, 0.5, 0.0]
        with pytest.raises(InvalidInput, match="next state 'x' of state 'y' and action 'go' at stage 2"):
            FiniteMDP(
                law,
                np.zeros((3, 2)),
                3,
                successors=[[[s]] * 2 for s in range(3)],
                states=["x", "y", "z"],
                actions=["stay", "go"],
            )

    def test_of_pairs_of_one_feature(self):
        phi = np.zeros((3, 2, 2))
        phi[:, 0, 0] = phi[:, 1, 1] = 1.0
        given = task(successors=[[[0, 1, 2], [s]] for s in range(3)], stage_dependent=True)
        with pytest.raises(InvalidInput, match="none for those of state 0 and action 1"):
            MatrixRL(given, phi=phi)
