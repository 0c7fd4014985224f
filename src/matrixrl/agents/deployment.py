"""The policies that an agent gives out to be deployed, and how they compare with the one that is in use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from matrixrl.agents import certification
from matrixrl.agents.ask_and_tell import PlannedAhead, numbering
from matrixrl.agents.episodes import OpenEpisode
from matrixrl.algorithms import FiniteAlgorithm
from matrixrl.algorithms.finite import permitted
from matrixrl.checks import fail, index, shown
from matrixrl.errors import ProtocolError
from matrixrl.play.ledger import CertifiedPolicy
from matrixrl.policies import Policy
from matrixrl.records import FloatArray, IntArray

if TYPE_CHECKING:
    from matrixrl.agents.agent import Agent

__all__ = ["greedy", "predict", "recommend"]


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
    table = self._algorithm.policy_table(plan)[0]
    words = "chosen by estimate: best in the estimated model, without a bonus"
    if not self._algorithm.claims.certifies and start is None:
        return named_policy(self, table, words)
    found = certification.certificate_of(self, plan, start)
    found = certification.described(self, found, table, "the policy that is best by the estimate", start)
    return named_policy(self, table, words, certificate=found, basis="model")


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
    words = f"chosen by proof: largest certified lower bound so far, from the {best.basis}"
    certificate = certification.described(self, certificate, best.table, "the policy with the best proof", start)
    return named_policy(self, best.table, words, certificate=certificate, basis=best.basis)


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
    scores = own_table(algorithm.q_table(), algorithm)
    lower, upper = own_bounds(algorithm, *algorithm.certifier.bound_actions())
    forbidden = np.isneginf(scores)
    lower[forbidden] = upper[forbidden] = np.nan
    policy = algorithm.task.stages.own(algorithm.policy_table(permitted(algorithm, plan))[0])
    return ActionTables(np.asarray(policy), scores, lower, upper)


def own_bounds(algorithm: FiniteAlgorithm, lower: FloatArray, upper: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return bounds (1, H, A, S) on Q in unit rewards as (H, S, A) in the environment's unit.

    Those of actions that are not allowed are NaN.
    """
    frame, task = algorithm.frame, algorithm.task
    left = frame.lefts()[:, None, None]
    after = np.zeros_like(left)  # weight of the steps that are cut off from an endless episode
    if task.is_endless:
        after = (task.discount ** np.arange(frame.horizon, 0, -1.0) / (1.0 - task.discount))[:, None, None]
    tables = own_table(lower, algorithm), own_table(upper, algorithm)
    least, most = (np.where(np.isneginf(tables[1]), np.nan, np.clip(table, 0.0, left)) for table in tables)
    low = (left + after) * task.reward_range[0]
    return task.unit * least + low, task.unit * (most + after) + low


def own_table(table: FloatArray, algorithm: FiniteAlgorithm) -> FloatArray:
    """Return a table (1, H, A, S) as (H, S, A), with the actions of each stage only."""
    own: FloatArray = algorithm.task.stages.at_stages(table[0])
    return np.ascontiguousarray(own.transpose(0, 2, 1))


def named_policy(self: Agent, table: IntArray, words: str, **proof: Any) -> Policy:
    """Return the policy of a table (H, S) of a plan, which says by what, on and from what it was learned."""
    origin = f"{self._algorithm.name} on {self.problem.name[:100]}, {self.n_episodes} episodes"
    return numbering(self, "policy").policy(self.problem.task.stages.own(table), f"{origin}: {words}", **proof)
