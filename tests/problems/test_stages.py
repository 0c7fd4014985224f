"""Problems whose laws depend on the stage, and discounts: what is accepted, what is refused, and what is kept."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest
from scipy import sparse

from continuum import line
from matrixrl import FiniteMDP, InvalidInput, MatrixRL, Task, evaluate, from_gymnasium, make, solve
from matrixrl.errors import CheckpointError
from matrixrl.problems import MDPEnv, fingerprint, read_problem
from matrixrl.problems.serialization import save_problem, unpack_problem
from small_worlds import calendar, same_problem
from worlds import Hidden

S, A, H = 3, 2, 4
RNG = np.random.default_rng(0)
P = RNG.dirichlet(np.ones(S), (H, S, A))
R = RNG.random((H, S, A))
MASK = np.array(
    [[[1, 1], [1, 0], [1, 1]], [[0, 1], [1, 1], [1, 1]], [[1, 1], [1, 1], [0, 1]], [[1, 0], [1, 1], [1, 1]]]
)
WEEK = [0, 0, 1, 1]


def allowed_at(problem, state, stage):
    """Return which actions (A,) a state allows at a stage."""
    return problem.task.allowed[state, slice(*problem.task.choices[stage])]


def matrix(law):
    return sparse.csr_array(law.reshape(S * A, S))


def changed(array, entry, value):
    other = array.copy()
    other[entry] = value
    return other


def lake(**options):
    return gym.make("FrozenLake-v1", **options)


# What is accepted


@pytest.mark.parametrize(
    ("given", "classes"),
    [
        (True, [0, 1, 2, 3]),
        ([5, 5, 2, 5], [1, 1, 0, 1]),
        (["work", "work", "free", "work"], [0, 0, 1, 0]),
        (np.array([1, 0, 1, 0]), [1, 0, 1, 0]),
        ((0, 0, 0, 1), [0, 0, 0, 1]),
    ],
)
@pytest.mark.parametrize(
    "made",
    [
        lambda given: FiniteMDP(P[0], R[0], H, stage_dependent=given).task,
        lambda given: Task(R[0], H, stage_dependent=given),
        lambda given: Task(n_states=S, n_actions=A, horizon=H, stage_dependent=given),
        lambda given: read_problem(FiniteMDP(P[0], R[0], H), stage_dependent=given).finite_task,
        lambda given: read_problem(Task(R[0], H), stage_dependent=given).finite_task,
        lambda given: read_problem(MDPEnv(FiniteMDP(P[0], R[0], H)), stage_dependent=given).finite_task,
        lambda given: read_problem(Hidden(), stage_dependent=given, horizon=H, known_reward=False).finite_task,
        lambda given: read_problem(lake(), stage_dependent=given, horizon=H).finite_task,
        lambda given: make("gym:FrozenLake-v1", stage_dependent=given, horizon=H).unwrapped.mdp.task,
    ],
)
def test_classes_are_numbered_in_the_order_of_their_numbers_and_words_as_they_appear(given, classes, made):
    task = made(given)
    assert task.stages.classes.tolist() == classes
    assert task.n_actions == task.stages.n_classes * task.n_own_actions


@pytest.mark.parametrize("wanted", [None, False, [7] * H])
def test_equal_tables_of_one_class_are_one_law(wanted):
    same = {"transitions": np.repeat(P[:1], H, axis=0), "reward": np.repeat(R[:1], H, axis=0)}
    mdp = FiniteMDP(**same, horizon=H, stage_dependent=[7] * H)
    assert mdp.stages.n_classes == 1
    assert same_problem(fingerprint(mdp), fingerprint(FiniteMDP(P[0], R[0], H, stage_dependent=wanted)))
    assert FiniteMDP(P[:1], R[:1], 1).stages.n_classes == 1  # one stage is an ordinary problem
    assert Task(R[:1], 1).n_actions == A
    for bad in ({"transitions": P}, {"reward": R}):
        with pytest.raises(InvalidInput, match=r"(P|reward) must be the same at stages 0 and 1, which stage_dependent"):
            FiniteMDP(**{**same, **bad}, horizon=H, stage_dependent=False)


def test_rewards_or_laws_alone_may_depend_on_the_stage():
    for mdp, law, reward in (
        (FiniteMDP(P, R[0], H), P, np.repeat(R[:1], H, axis=0)),
        (FiniteMDP(P[0], R, H), np.repeat(P[:1], H, axis=0), R),
        (FiniteMDP(matrix(P[0]), R, H), np.repeat(P[:1], H, axis=0), R),
    ):
        whole = FiniteMDP(law, reward, H)
        assert same_problem(fingerprint(mdp), fingerprint(whole))
        assert mdp.stages.n_classes == H


def test_what_was_given_is_not_changed():
    law, reward, mask = P.copy(), R.copy(), MASK.copy()
    MatrixRL(FiniteMDP(law, reward, H, allowed=mask), seed=0).learn(3)
    for one, other in ((law, P), (reward, R), (mask, MASK)):
        np.testing.assert_array_equal(one, other)
    plain = FiniteMDP(P[0], R[0], H)
    MatrixRL(plain, stage_dependent=True, seed=0)
    assert plain.stages.n_classes == 1
    assert plain.n_actions == A


# What is refused

_SHARED = r", which stage_dependent puts in one class; got other numbers\. Put them in different classes\."


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: FiniteMDP(P, R, H, stage_dependent=[0, 1]), r"stage_dependent must be"),
        (lambda: Task(R, H, stage_dependent=WEEK[:3]), r"for each of the 4 stages"),
        (lambda: Task(R[0], H, stage_dependent="week"), r"stage_dependent must be .*; got 'week'"),
        (lambda: Task(R[0], H, stage_dependent=2), r"stage_dependent must be .*; got 2"),
        (lambda: Task(R[0], H, stage_dependent=[0.5] * H), r"stage_dependent must be"),
        (lambda: FiniteMDP(P[:3], R, H), r"P must be one \(S, A, S\) for all stages, or one for each of the 4 stages;"),
        (lambda: FiniteMDP(P, R[:3], H), r"reward must be one \(S, A\) for all stages, or .* 4 stages; got 3\."),
        (lambda: FiniteMDP(P[:3], R[0], H, stage_dependent=WEEK), r"the 4 stages or 2 classes; got 3\. Give P\[h\]"),
        (
            lambda: FiniteMDP([*P[:3], np.full((2, 2, 2), 0.5)], R, H),
            r"P must have the same shape \(S, A, S\) at every stage; got \(2, 2, 2\), \(3, 2, 3\)\.",
        ),
        (lambda: FiniteMDP([matrix(P[0]), *P[1:]], R, H), r"P must be arrays at all stages, or sparse matrices at all"),
        (lambda: FiniteMDP([P[0], *map(matrix, P[1:])], R, H), r"P must be arrays at all stages, or sparse matrices"),
        (
            lambda: FiniteMDP([*map(matrix, P[:3]), sparse.csr_array(np.full((4, 2), 0.5))], R, H),
            r"P must have the same shape \(S, A, S\) at every stage; got \(2, 2, 2\), \(3, 2, 3\)\.",
        ),
        (lambda: FiniteMDP(P, [*R[:3], R[3][:2]], H), r"reward must be an array of numbers"),
        (lambda: FiniteMDP(P, R[None], H), r"reward must have shape \(any, any\); got shape \(1, 4, 3, 2\)"),
        (
            lambda: FiniteMDP(P, R[[0, 0, 1, 1]], H, stage_dependent=WEEK),
            rf"P must be the same at stages 0 and 1{_SHARED}",
        ),
        (
            lambda: FiniteMDP(P[[0, 0, 1, 1]], R, H, stage_dependent=WEEK),
            rf"reward must be the same .* 0 and 1{_SHARED}",
        ),
        (lambda: Task(R[:2], H, allowed=MASK, stage_dependent=WEEK), rf"allowed must be the same .* 0 and 1{_SHARED}"),
        (lambda: FiniteMDP(changed(P, (2, 1, 1), 0.5), R, H), r"P\[2\] rows must sum to one; got sum 1\.5 at \[1, 1\]"),
        (
            lambda: FiniteMDP([*map(matrix, changed(P, (2, 1, 1), 0.5))], R, H),
            r"P\[2\] rows must sum to one; got sum 1\.5 at row 3",
        ),
        (lambda: FiniteMDP(changed(P, (3, 0, 1, 2), np.nan), R, H), r"P\[3\] must be finite; got nan at \[0, 1, 2\]"),
        (lambda: FiniteMDP(P, changed(R, (2, 1, 0), 7.0), H), r"reward\[2\] must lie in \[0, 1\]; got 7 at \[1, 0\]"),
        (lambda: Task(changed(R, (1, 2, 1), np.nan), H), r"reward\[1\] must be finite; got nan at \[2, 1\]"),
        (
            lambda: Task(R, H, allowed=changed(MASK, (3, 1), 0)),
            r"allowed\[3\] must allow at least one .* none in state 1",
        ),
        (
            lambda: Task(R, H, allowed=MASK[:3]),
            r"allowed must be one \(S, A\) for all stages, or one for each of the 4",
        ),
        (
            lambda: Task(R[0], H, allowed=MASK),
            r"allowed must have shape .* One for each stage needs stage_dependent=True",
        ),
        (
            lambda: read_problem(FiniteMDP(P, R, H), stage_dependent=WEEK),
            r"stage_dependent cannot be changed on a problem",
        ),
        (
            lambda: read_problem(FiniteMDP(P, R, H), stage_dependent=False),
            r"cannot be changed on a problem that has its",
        ),
        (
            lambda: read_problem(FiniteMDP(P, R, H), phi=np.ones((S, 5, 2))),
            r"phi must cover the 2 actions, or the 8 inner",
        ),
        (lambda: read_problem(FiniteMDP(P, R, H), phi=np.ones((2, A, 2))), r"phi must cover 3 states"),
    ],
)
def test_other_stages_are_refused_with_one_clear_error(made, words):
    with pytest.raises(InvalidInput, match=words):
        made()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"discount": 0}, r"discount must be above 0; got 0\.0\. Give a horizon of 1"),
        ({"discount": 1.5}, r"discount must be finite and in \[0, 1\]; got 1\.5\."),
        ({"discount": np.nan}, r"discount must be finite and in \[0, 1\]; got nan\."),
        ({"discount": "much"}, r"discount must be a number; got 'much'"),
        ({"discount": True}, r"discount must be a number; got True"),
    ],
)
def test_other_discounts_are_refused(options, words):
    for horizon in (H, None):
        for made in (
            lambda h=horizon: FiniteMDP(P[0], R[0], h, **options),
            lambda h=horizon: Task(R[0], h, **options),
            lambda h=horizon: read_problem(Hidden(), horizon=h, known_reward=False, **options),
            lambda h=horizon: read_problem(lake(), horizon=h, **options),
            lambda h=horizon: from_gymnasium(lake(), horizon=h, **options),
            lambda h=horizon: make("gym:FrozenLake-v1", horizon=h, **options),
        ):
            with pytest.raises(InvalidInput, match=words):
                made()


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: FiniteMDP(P[0], R[0]), r"horizon must be a whole number; got None\. .* or a discount below 1\."),
        (lambda: Task(R[0], discount=1.0), r"horizon must be a whole number; got None"),
        (lambda: read_problem(Hidden(), known_reward=False), r"horizon must be given for Hidden"),
        (lambda: read_problem(Hidden(), known_reward=False, discount=1.0), r"horizon must be given for Hidden"),
        (lambda: Task(R[0], discount=0.9, accuracy=0), r"accuracy must be finite and in \(0, 1\); got 0\.0"),
        (lambda: Task(R[0], 5, discount=0.9, accuracy=7), r"accuracy must be finite and in \(0, 1\); got 7"),
        (lambda: Task(R[0], discount=1 - 1e-9), r"discount must not need more than 1,000,000 steps"),
        (lambda: Task(R[0], discount=0.9, stage_dependent=True), r"stage_dependent must be left out of .* forever"),
        (
            lambda: FiniteMDP(P[0], R[0], discount=0.9, stage_dependent=[0, 1] * 22),
            r"got 2 classes of 44 stages\. Give",
        ),
        (lambda: read_problem(FiniteMDP(P[0], R[0], discount=0.9), stage_dependent=True), r"goes on forever; got 44"),
        (
            lambda: read_problem(lake(), discount=0.9, stage_dependent=True),
            r"must be left out of a problem that goes on",
        ),
        (
            lambda: read_problem(Hidden(), discount=0.9, stage_dependent=True, known_reward=False),
            r"that goes on forever",
        ),
        (lambda: read_problem(lake(), horizon=5, accuracy=0.1), r"accuracy must be left out unless a discount below 1"),
        (
            lambda: read_problem(Hidden(), horizon=5, discount=0.9, accuracy=0.1, known_reward=False),
            r"accuracy must be left out unless a discount below 1 chooses the horizon",
        ),
        (lambda: read_problem(FiniteMDP(P[0], R[0], H), discount=0.9), r"discount cannot be changed on a FiniteMDP"),
        (lambda: read_problem(Task(R[0], H), accuracy=0.1), r"accuracy cannot be changed on a Task, which has its own"),
        (
            lambda: read_problem(make("river-swim"), discount=0.9),
            r"discount cannot .* Build a FiniteMDP with that value",
        ),
        (lambda: from_gymnasium(make("river-swim"), discount=0.9), r"discount cannot be changed on an environment of"),
        (lambda: from_gymnasium(make("river-swim"), stage_dependent=True), r"stage_dependent cannot be changed on an"),
        (
            lambda: read_problem(lake(max_episode_steps=10), discount=0.95),
            r"discount must not need more steps than the time limit of the environment, 10; got 90 steps\. Make",
        ),
        (
            lambda: read_problem(gym.wrappers.TimeLimit(Hidden(), 10), discount=0.95, known_reward=False),
            r"discount must not need more steps than the time limit .* or a larger accuracy\.",
        ),
    ],
)
def test_discounts_and_horizons_that_do_not_fit(made, words):
    with pytest.raises(InvalidInput, match=words):
        made()


@pytest.mark.parametrize("name", ["stage_dependent", "discount", "accuracy"])
def test_states_without_numbers_have_no_stages_and_no_discount(name):
    value = {"stage_dependent": True, "discount": 0.9, "accuracy": 0.1}[name]
    for given, options in ((gym.make("CartPole-v1"), {"horizon": 20}), (line(), {})):
        with pytest.raises(InvalidInput, match=rf"{name} must be left out for an? .*, whose states are not numbered"):
            read_problem(given, **{name: value}, **options)
        assert read_problem(given, stage_dependent=False, **options).task.stages.n_classes == 1


def test_settings_of_an_environment_without_a_table_go_to_the_agent():
    with pytest.raises(InvalidInput, match=r"discount is not a setting .*discount=…"):
        make("gym:Blackjack-v1", discount=0.5)
    options = {"known_reward": False, "reward_range": (-1.0, 1.0), "seed": 0}
    assert MatrixRL("gym:Blackjack-v1", discount=0.5, **options).problem.finite_task.is_endless
    assert MatrixRL("gym:Blackjack-v1", horizon=9, stage_dependent=True, **options).problem.task.stages.n_classes == 9
    assert MatrixRL("gym:CliffWalking-v1", discount=0.5, seed=0).problem.task.horizon == 7  # it has no time limit


# Masks


@pytest.mark.parametrize(
    "problem",
    [
        lambda mask: read_problem(FiniteMDP(P, R, H, allowed=mask)),
        lambda mask: read_problem(Task(R, H, allowed=mask)),
        lambda mask: read_problem(FiniteMDP(P, R, H), allowed=mask),
        lambda mask: read_problem(FiniteMDP(P[0], R[0], H), allowed=mask, stage_dependent=True),
        lambda mask: read_problem(Task(R[0], H), allowed=mask, stage_dependent=True),
        lambda mask: read_problem(MDPEnv(FiniteMDP(P, R, H)), allowed=mask),
        lambda mask: read_problem(Hidden(), horizon=H, known_reward=False, allowed=mask, stage_dependent=True),
        lambda mask: read_problem(Hidden(), horizon=H, reward=R, allowed=mask),
        lambda mask: read_problem(Hidden(), horizon=H, reward=np.where(mask, R, np.nan), allowed=mask),
    ],
)
def test_masks_of_every_stage(problem):
    read = problem(MASK)
    for h in range(H):
        for s in range(S):
            assert allowed_at(read, s, h).tolist() == MASK[h, s].astype(bool).tolist()
    assert read.finite_task.n_pairs == MASK.sum() + (2 * H if read.finite_task.end_is_added else 0)
    again = problem(MASK.tolist())
    assert same_problem(fingerprint(read.task), fingerprint(again.task))


@pytest.mark.parametrize("mask", [MASK[0], lambda s: np.flatnonzero(MASK[0, s]), MASK[:1].repeat(H, axis=0)])
def test_masks_that_all_stages_share(mask):
    for read in (
        read_problem(FiniteMDP(P, R, H, allowed=mask)),
        read_problem(FiniteMDP(P, R, H), allowed=mask),
        read_problem(Hidden(), horizon=H, known_reward=False, allowed=mask, stage_dependent=True),
    ):
        for h in range(H):
            np.testing.assert_array_equal([allowed_at(read, s, h) for s in range(S)], MASK[0])


def test_masks_of_a_table_of_gymnasium_may_depend_on_the_stage():
    mask = np.ones((3, 16, 4), dtype=bool)
    mask[1, :, 0] = False
    for read in (
        read_problem(lake(), horizon=3, stage_dependent=True, allowed=mask),
        MatrixRL("gym:FrozenLake-v1", horizon=3, stage_dependent=True, allowed=mask, seed=0).problem,
    ):
        assert [int(allowed_at(read, 5, h).sum()) for h in range(3)] == [4, 3, 4]
    taxi = read_problem(gym.make("Taxi-v4"), horizon=3, stage_dependent=[0, 0, 1])
    assert taxi.finite_task.n_pairs == 2 * 1398


def test_a_mask_of_a_staged_problem_cannot_be_changed():
    mdp = FiniteMDP(P, R, H, allowed=MASK)
    assert read_problem(mdp, allowed=MASK).finite_task.n_pairs == MASK.sum()
    for other in ("all", MASK[0], MASK[::-1]):
        with pytest.raises(InvalidInput, match="allowed cannot be changed"):
            read_problem(mdp, allowed=other)


# The environment and its policies speak the user's actions


def test_the_environment_plays_the_law_of_its_stage():
    """Laws without chance: at stage h, action a leads from s to s + h + a and pays (h + a) / 10."""
    law, reward = np.zeros((H, S, A, S)), np.zeros((H, S, A))
    for h in range(H):
        for a in range(A):
            law[h, np.arange(S), a, (np.arange(S) + h + a) % S] = 1.0
            reward[h, :, a] = (h + a) / 10
    env = MDPEnv(FiniteMDP(law, reward, H, allowed=MASK))
    assert env.action_space == gym.spaces.Discrete(A)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        state, info = env.reset(seed=seed)
        for h in range(H):
            assert info["action_mask"].tolist() == MASK[h, state].tolist()
            assert env.action_masks().tolist() == MASK[h, state].astype(bool).tolist()
            action = int(rng.choice(np.flatnonzero(MASK[h, state])))
            following, earned, _, truncated, info = env.step(action)
            assert following == (state + h + action) % S
            assert earned == pytest.approx((h + action) / 10)
            assert truncated == (h == H - 1)
            state = following


def test_messages_about_masks_name_actions_of_the_user():
    mdp = FiniteMDP(P, R, H, allowed=MASK)
    env = MDPEnv(mdp)
    env.reset(seed=0)
    env._stage, env._state = 2, 2
    with pytest.raises(InvalidInput, match=r"action must be .*\[1\], .*state 2 at stage 2"):
        env.step(0)
    with pytest.raises(InvalidInput, match="action must be in 0 … 1"):
        env.step(5)
    policy = solve(mdp).policy.copy()
    policy[3, 0] = 1
    with pytest.raises(InvalidInput, match=r"policy must be .*\[0\], .*state 0 at stage 3"):
        evaluate(mdp, policy)
    policy[3, 0] = 5
    with pytest.raises(InvalidInput, match="policy must be in 0 … 1"):
        evaluate(mdp, policy)


# Fingerprints and saved problems

CHANGES = {
    "classes": ({"stage_dependent": WEEK}, {"stage_dependent": [0, 1, 0, 1]}, "classes of stages"),
    "more classes": ({"stage_dependent": WEEK}, {"stage_dependent": True}, "classes of stages"),
    "no classes": ({"stage_dependent": WEEK}, {}, "classes of stages"),
    "discount": ({"discount": 0.9}, {"discount": 0.8}, "one that differs in discount"),
    "no discount": ({"discount": 0.9}, {}, "one that differs in discount"),
    "endless": (
        {"horizon": None, "discount": 0.3, "accuracy": 0.01},
        {"horizon": 4, "discount": 0.3},
        "one that differs in discount",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_classes_and_discounts_are_part_of_the_fingerprint_and_of_the_message(name, tmp_path):
    one, other, words = CHANGES[name]
    mdps = [FiniteMDP(P[0], R[0], **{"horizon": H, **options}) for options in (one, other)]
    assert mdps[0].horizon == mdps[1].horizon == H
    for kind in (lambda mdp: mdp, lambda mdp: mdp.task):
        assert not same_problem(*(fingerprint(kind(mdp)) for mdp in mdps))
        assert same_problem(
            fingerprint(kind(mdps[0])), fingerprint(kind(FiniteMDP(P[0], R[0], **{"horizon": H, **one})))
        )
    MatrixRL(mdps[0], seed=0).save(tmp_path / "a")
    if name not in ("classes", "more classes", "no classes"):  # an agent says itself how it shares data
        with pytest.raises(CheckpointError, match=rf"env must be the problem .* saved from; got {words}"):
            MatrixRL.load(tmp_path / "a", mdps[1])
    elif name != "no classes":
        with pytest.raises(CheckpointError, match=words):
            MatrixRL.load(tmp_path / "a", mdps[1])
    assert MatrixRL.load(tmp_path / "a", mdps[0]).problem.mdp is not None


@pytest.mark.parametrize(
    "problem",
    [
        lambda: read_problem(FiniteMDP(P, R, H, allowed=MASK)),
        lambda: read_problem(FiniteMDP(P[:2], R[:2], H, stage_dependent=WEEK)),
        lambda: read_problem(FiniteMDP(P[0], R[0], H), stage_dependent=WEEK),
        lambda: read_problem(make("river-swim"), stage_dependent=True),
        lambda: read_problem(FiniteMDP(P[0], R[0], discount=0.8)),
        lambda: read_problem(FiniteMDP(P, R, H, discount=0.8)),
        lambda: read_problem(Hidden(), horizon=H, reward=R, allowed=MASK),
        lambda: read_problem(Hidden(), horizon=H, known_reward=False, stage_dependent=WEEK, discount=0.5),
        lambda: read_problem(Hidden(), known_reward=False, discount=0.5, accuracy=0.2),
        lambda: read_problem(lake(), discount=0.9),
        lambda: read_problem(lake(), horizon=6, discount=0.9, stage_dependent=[0, 0, 1, 1, 0, 1]),
    ],
)
def test_a_saved_problem_is_read_again(problem):
    """With its environment, which knows nothing of stages and discounts, and without."""
    read = problem()
    header, arrays = save_problem(read)
    for env in (None, read.env if read.mdp is None or "Lake" in read.name else read.mdp):
        restored = unpack_problem(header, {name: array.copy() for name, array in arrays.items()}).attach(env)
        assert same_problem(fingerprint(restored.task), fingerprint(read.task))
        task, wanted = restored.finite_task, read.finite_task
        assert wanted.stages.same(task.stages)
        assert (task.discount, task.is_endless, task.horizon) == (wanted.discount, wanted.is_endless, wanted.horizon)
        assert (task.total_weight, task.tail) == (wanted.total_weight, wanted.tail)


def test_what_an_agent_prints_of_its_problem():
    assert "2 actions, 4 steps, laws of their own at every stage" in str(MatrixRL(FiniteMDP(P, R, H), seed=0))
    week = FiniteMDP(P[:2], R[:2], H, stage_dependent=WEEK)
    assert "4 steps, laws of their own in 2 classes of stages" in str(MatrixRL(week, seed=0))
    endless = str(MatrixRL(FiniteMDP(P[0], R[0], discount=0.9), seed=0))
    assert "44 steps, discount 0.9 forever: the steps that are cut off weigh 0.0097 of all" in endless
    assert "4 steps, discount 0.9;" in str(MatrixRL(FiniteMDP(P[0], R[0], H, discount=0.9), seed=0))


def test_the_best_action_of_a_state_differs_between_stages():
    """The world that other tests use does what it says."""
    best = solve(calendar()).policy
    assert (best.max(axis=0) > best.min(axis=0)).all()


@pytest.mark.parametrize("classes", [[1, 1, 0], [7, 7, 3], [1, 0, 0]], ids=str)
def test_tables_of_classes_follow_the_numbers_of_the_classes(classes):
    """The same problem by stage and by class has the same values; the order of first appearance would swap them."""
    rng = np.random.default_rng(0)
    laws, rewards = rng.dirichlet(np.ones(3), size=(2, 3, 2)), rng.random((2, 3, 2))
    masks = np.array([[[1, 0]] * 3, [[1, 1]] * 3], dtype=bool)
    ranks = [sorted(set(classes)).index(label) for label in classes]
    for tables in ((laws, rewards, None), (laws, rewards, masks), (list(laws), rewards[0], masks[1])):
        by_stage = [table[ranks] if np.ndim(table) > 3 - (i > 0) else table for i, table in enumerate(tables[1:], 1)]
        one = FiniteMDP(
            tables[0], tables[1], horizon=3, reward_range=(0, 1), stage_dependent=classes, allowed=tables[2]
        )
        other = FiniteMDP(
            [laws[rank] for rank in ranks], by_stage[0], horizon=3, reward_range=(0, 1), allowed=by_stage[1]
        )
        np.testing.assert_allclose(solve(one).values, solve(other).values)
        np.testing.assert_array_equal(solve(one).policy, solve(other).policy)
    task = Task(rewards, 3, reward_range=(0, 1), stage_dependent=classes, allowed=masks)
    agent = MatrixRL(task, seed=0)
    for stage in np.flatnonzero(np.array(ranks) == 0):
        assert [agent.predict(s, stage) for s in range(3)] == [0, 0, 0]
    with pytest.raises(InvalidInput, match="policy must be one of"):
        agent.compare(np.ones(3, dtype=int), np.zeros(3, dtype=int))


def test_tables_that_may_be_of_stages_or_of_classes_are_refused():
    rewards = np.arange(8.0).reshape(2, 2, 2) / 8.0
    with pytest.raises(InvalidInput, match="reward must be clear"):
        Task(rewards, 2, reward_range=(0, 1), stage_dependent=[1, 0])
    assert Task(rewards, 2, reward_range=(0, 1), stage_dependent=[0, 1]).stages.n_classes == 2
    assert Task(rewards[[0, 0]], 2, reward_range=(0, 1), stage_dependent=[1, 0]).stages.n_classes == 2
    with pytest.raises(InvalidInput, match="stage_dependent must be"):
        Task(rewards, 2, reward_range=(0, 1), stage_dependent=[1, "free"])
