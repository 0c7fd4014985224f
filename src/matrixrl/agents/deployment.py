"""The policies that an agent gives out to be deployed, and how they compare with the one that is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from matrixrl.agents import certification
from matrixrl.agents.ask_and_tell import PlannedAhead
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.finite import permitted
from matrixrl.checks import fail, index, shown
from matrixrl.errors import ProtocolError
from matrixrl.play.ledger import CONTRADICTION, CertifiedPolicy, contradictory
from matrixrl.policies import Comparison, Policy, PolicySpace, read_actions
from matrixrl.records import FloatArray, Guarantee, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["compare", "greedy", "predict", "recommend"]


class ActionTables(NamedTuple):
    """A plan of a problem with numbered states; states and actions count from 0.

    Attributes:
        policy: (H, S) Action of the plan.
        scores: (H, S, A) Q of the plan in unit rewards, by which the best of some actions is chosen; −∞ for an action
            that is not allowed.
        lower: (H, S, A) Lower bounds on Q*, in the environment's unit; NaN for an action that is not allowed.
        upper: (H, S, A) Upper bounds on Q*, likewise.
    """

    policy: IntArray
    scores: FloatArray
    lower: FloatArray
    upper: FloatArray


def predict(self: Agent, obs: Any, stage: int | None = None, *, episode: OpenEpisode | None = None) -> Any:
    """Return the action that is best by the estimates from all finished episodes, without exploration.

    It is that of `greedy` where the algorithm has a model, and that of `policy` where it has none. It changes
    nothing, not even a random stream. The action to play while learning is `act` of an episode, which explores.

    Args:
        obs: Observation.
        stage: Stage h, counted from 0.
        episode: Open episode to take the stage from instead.
    """
    if (stage is None) == (episode is None):
        received = "neither" if stage is None else "both"
        fail("stage", "must be given, or an episode to take it from", received, "Such as stage=0.")
    if episode is not None and episode not in self.open_episodes:
        received = "one that was ended, abandoned or begun by another agent"
        what = received if isinstance(episode, OpenEpisode) else shown(episode)
        fail("episode", "must be an open episode of this agent", what, "Such as agent.begin_episode().")
    h = episode.stage if episode is not None else stage
    h = index("stage", h, size=self.problem.task.horizon, remedy="Stages count from 0.")
    state = np.asarray(self.problem.state("obs", obs))
    action = self._algorithm.act(certification.estimated_plan(self), h, state[None], explore=False)
    return self.problem.env_action(int(action[0]))


def greedy(self: Agent, *, start: Any = None) -> Policy:
    """Return the policy that is best in the estimated model, without any bonus, with its certificate.

    `recommend` returns the policy about which most is proven, so it avoids pairs that were tried too rarely for a
    proof. `greedy` takes the estimates as they are. It is the better choice while the certificate of `recommend`
    still says little, which is the case long after estimates have become good, and wherever the policy that
    probably earns most is wanted rather than the one with the best promise. The certificate of `greedy` says what
    is proven about it all the same; it is None for algorithms without certificates. With few data both are poor.

    The estimate of a pair that was never tried depends on the algorithm: with likelihood sets it is the smallest
    value of the next stage, with other sets the ridge estimate, and for baselines with counts a uniform next state.

    Args:
        start: A state that the certificate is about, as in `certificate`.

    Raises:
        ProtocolError: States are not numbered (use `predict`), or the algorithm has no model.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=200)
    >>> policy = agent.greedy()
    >>> policy.act(2, stage=0)
    1
    """
    numbering(self, "greedy")
    plan = self._algorithm.estimated_plan()
    table, words = self._algorithm.policy_table(plan)[0], "best in the estimated model, without a bonus"
    if not self._algorithm.claims.certifies and start is None:
        return named_policy(self, table, words)
    return named_policy(self, table, words, certificate=certification.certificate_of(self, plan, start), basis="model")


def recommend(self: Agent, *, start: Any = None) -> Policy:
    """Return the policy with the largest certified lower bound so far, with its certificate.

    The lower bound comes from the confidence set, for the policy that is greedy in it, or from the returns of a
    policy that was frozen earlier, whichever is larger; `basis` says which.

    Args:
        start: A state, as it is observed, that the certificate is about, as in `certificate`; the policy is then
            that of the confidence set as it is now.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=200)
    >>> chosen = agent.recommend()
    >>> chosen.certificate.lower <= chosen.certificate.upper
    True
    """
    certification.check_certifies(self, "recommend")
    if start is None:
        best, certificate = certification.safest(self)
    else:
        plan = self._algorithm.certifier.safest_plan()
        certificate = certification.certificate_of(self, plan, start)
        best = CertifiedPolicy(certificate.lower, self._algorithm.policy_table(plan)[0], "model")
    words = f"largest certified lower bound, from the {best.basis}"
    return named_policy(self, best.table, words, certificate=certificate, basis=best.basis)


def compare(self: Agent, policy: Any, incumbent: Any, *, start: Any = None) -> Comparison:
    """Return an interval of V^policy(s0) − V^incumbent(s0) that holds with probability 1 − δ.

    It is computed from what the agent has seen, under any policy. On the event of probability 1 − δ on which
    certificates hold, all comparisons of the agent hold together, so any number of policies may be compared, also
    those that the agent has learned. Where both policies take the same action, what is unknown about it cancels
    (docs/proofs.md, section 12). Values are those of the declared start, or of the distribution of first states if
    none is declared; `Comparison.start` says which.

    Args:
        policy: A `Policy`; an array of whole numbers (S,) or (H, S), the actions counted from 0; an array of
            probabilities (S, A) or (H, S, A); or a function of observation and stage that returns an action, in the
            environment's numbers.
        incumbent: The policy to compare it with, likewise.
        start: A state, as it is observed, in which the episode begins, in place of that start; what was certified
            so far is then not used.

    Raises:
        ProtocolError: The algorithm has no certificates, or not for given policies.
        InvalidInput: An argument is no policy of this problem, or takes actions that are not allowed.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", env_settings={"n_states": 3}, seed=0)
    >>> _ = agent.learn(n_episodes=200)
    >>> agent.compare(agent.recommend(), lambda obs, stage: 0).probably_better
    True
    """
    certification.check_certifies(self, "compare")
    sizes = numbering(self, "compare")
    given = {"policy": read_actions("policy", policy, sizes), "incumbent": read_actions("incumbent", incumbent, sizes)}
    tables = [self._algorithm.masks.read_policy(name, table) for name, table in given.items()]
    first, of_start = self._ledger.start() if start is None else self._ledger.named_start(start)
    certification.heed_masks(self)
    found = self._algorithm.certifier.bound_policies(tables[0][None], tables[1][None], first)
    first_bounds, second_bounds = (
        _cut(self, table, (float(low), float(high)), is_named=start is not None)
        for table, low, high in zip(tables, found.lower[:2, 0], found.upper[:2, 0], strict=True)
    )
    lower = max(float(found.lower[2, 0]), first_bounds[0] - second_bounds[1])
    upper = min(float(found.upper[2, 0]), first_bounds[1] - second_bounds[0])
    if start is None:
        self._ledger.contradict(upper=upper, lower=lower)
    claim = certification.certificate_claim(self, bool(found.empty[0]), named=start is not None)
    crossed = [contradictory(upper=b, lower=a) for a, b in ((lower, upper), first_bounds, second_bounds)]
    if start is not None and any(crossed):  # nothing is remembered of a state that is named
        claim = claim and Guarantee(False, CONTRADICTION)
    lower, upper = min(lower, upper), max(lower, upper)
    return Comparison(lower, upper, first_bounds, second_bounds, self._algorithm.claims.delta, claim, of_start)


def _cut(
    self: Agent, table: IntArray | FloatArray, interval: tuple[float, float], *, is_named: bool
) -> tuple[float, float]:
    """Return an interval of a policy's value, cut to what was certified so far unless bounds contradict it."""
    if is_named:
        return interval
    lower, upper = self._ledger.tighten(table if table.ndim == 2 else None, interval)
    self._ledger.contradict(upper=upper, lower=lower)
    return (lower, upper) if lower <= upper else interval


def action_tables(self: Agent, ahead: PlannedAhead) -> ActionTables:
    """Return a plan that was just made as tables, with the bounds of every action on the same data.

    >>> import matrixrl
    >>> agent = matrixrl.MatrixRL("river-swim", seed=0)
    >>> tables = agent.action_tables(agent.plan_ahead())
    >>> bool((tables.lower <= tables.upper).all())
    True
    """
    algorithm, plan = self._algorithm, ahead.plan
    if not isinstance(algorithm, FiniteAlgorithm) or algorithm.problem.kind != "finite":
        raise ProtocolError("tables of actions need numbered states; matrix-rl has them")
    frame, task = algorithm.frame, algorithm.task
    scores = algorithm.q_table()
    lower, upper = algorithm.certifier.bound_actions()
    left = frame.lefts()[:, None, None]
    after = np.zeros_like(left)  # weight of the steps that are cut off from an endless episode
    if task.is_endless:
        after = (task.discount ** np.arange(frame.horizon, 0, -1.0) / (1.0 - task.discount))[:, None, None]
    least, most = ((np.clip(_own(table, algorithm), 0.0, left)) for table in (lower, upper))
    low = (left + after) * task.reward_range[0]
    forbidden = np.isneginf(_own(scores, algorithm))
    least, most = task.unit * least + low, task.unit * (most + after) + low
    least[forbidden] = most[forbidden] = np.nan
    policy = task.stages.own(algorithm.policy_table(permitted(algorithm, plan))[0])
    return ActionTables(np.asarray(policy), _own(scores, algorithm), least, most)


def _own(table: FloatArray, algorithm: FiniteAlgorithm) -> FloatArray:
    """Return a table (1, H, A, S) as (H, S, A), with the actions of each stage only."""
    own: FloatArray = algorithm.task.stages.at_stages(table[0])
    return np.ascontiguousarray(own.transpose(0, 2, 1))


def numbering(self: Agent, call: str) -> PolicySpace:
    """Return the sizes and numbers of the problem; refuse one without numbered states."""
    problem = self.problem
    if problem.kind != "finite":
        raise ProtocolError(
            f"{call} gives a table, which needs numbered states; agent.predict(obs, stage) acts on other "
            "observations, and agent.save keeps the agent"
        )
    task = problem.finite_task
    assert problem.states is not None
    return PolicySpace(task.horizon, task.n_states, problem.states, problem.actions)


def named_policy(self: Agent, table: IntArray, words: str, **proof: Any) -> Policy:
    """Return the policy of a table (H, S) of a plan, which says by what, on and from what it was learned."""
    origin = f"{self._algorithm.name} on {self.problem.name[:100]}, {self.n_episodes} episodes"
    return numbering(self, "policy").policy(self.problem.task.stages.own(table), f"{origin}: {words}", **proof)
