"""The policies that an agent gives out to be deployed, and how they compare with the one that is in use."""

from __future__ import annotations

from typing import Any

from matrixrl.agents.certified import CertifiedPolicy
from matrixrl.agents.certifying import Certifying
from matrixrl.agents.heeding import check_policy
from matrixrl.errors import ProtocolError
from matrixrl.policies import Comparison, Numbering, Policy, read_actions
from matrixrl.records import FloatArray, IntArray

__all__ = ["Deploying"]


class Deploying(Certifying):
    """The methods of an agent that return policies as plain tables; docs/guides/deploy.md."""

    @property
    def policy(self) -> Policy:
        """The policy that `predict` follows, as a table of a problem with numbered states."""
        table = self._own_table(self._advised_plan())
        return self._numbering("policy").policy(table, f"{self._origin()}: the plan that predict follows")

    def greedy(self, *, start: Any = None) -> Policy:
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
        numbering = self._numbering("greedy")
        plan = self._algorithm.estimated_plan()
        table = self._own_table(plan)
        words = f"{self._origin()}: best in the estimated model, without a bonus"
        if not self._algorithm.certifies and start is None:
            return numbering.policy(table, words)
        found = self._certificate_of(plan) if start is None else self._named_certificate(plan, start)
        return numbering.policy(table, words, certificate=found, basis="model")

    def recommend(self, *, start: Any = None) -> Policy:
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
        self._check_certifies("recommend")
        if start is None:
            best, certificate = self._safest()
        else:
            plan = self._algorithm.safest_plan()
            certificate = self._named_certificate(plan, start)
            best = CertifiedPolicy(certificate.lower, self._algorithm.policy_table(plan)[0], "model")
        words = f"{self._origin()}: largest certified lower bound, from the {best.basis}"
        own = self.problem.own_number(best.table)
        return self._numbering("recommend").policy(own, words, certificate=certificate, basis=best.basis)

    def compare(self, policy: Any, incumbent: Any, *, start: Any = None) -> Comparison:
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
        self._check_certifies("compare")
        sizes = self._numbering("compare")
        tables = read_actions("policy", policy, sizes), read_actions("incumbent", incumbent, sizes)
        for name, table in zip(("policy", "incumbent"), tables, strict=True):
            check_policy(self._algorithm, name, table)
        first, of_start = self._first.start() if start is None else self._first.named(start)
        stages = self.problem.stages
        if stages is not None:
            tables = stages.inner_policy(tables[0]), stages.inner_policy(tables[1])
        self._heed_masks()
        found = self._algorithm.bound_policies(tables[0][None], tables[1][None], first)
        first_bounds, second_bounds = (
            self._cut(table, (float(low), float(high)), is_named=start is not None)
            for table, low, high in zip(tables, found.lower[:2, 0], found.upper[:2, 0], strict=True)
        )
        lower = max(float(found.lower[2, 0]), first_bounds[0] - second_bounds[1])
        upper = min(float(found.upper[2, 0]), first_bounds[1] - second_bounds[0])
        if start is None:
            self._certified.contradict(upper=upper, lower=lower)
        words = self._certificate_words(bool(found.empty[0]), named=start is not None)
        lower, upper = min(lower, upper), max(lower, upper)
        return Comparison(lower, upper, first_bounds, second_bounds, self._algorithm.delta, words, of_start)

    def _cut(
        self, table: IntArray | FloatArray, interval: tuple[float, float], *, is_named: bool
    ) -> tuple[float, float]:
        """Return an interval of a policy's value, cut to what was certified so far unless bounds contradict it."""
        if is_named:
            return interval
        lower, upper = self._certified.tighten(table if table.ndim == 2 else None, interval)
        self._certified.contradict(upper=upper, lower=lower)
        return (lower, upper) if lower <= upper else interval

    def _own_table(self, plan: Any) -> IntArray:
        """Return the policy of a plan (H, S), actions counted from 0."""
        own: IntArray = self.problem.own_number(self._algorithm.policy_table(plan)[0])
        return own

    def _numbering(self, call: str) -> Numbering:
        """Return the sizes and numbers of the problem; refuse one without numbered states."""
        problem = self.problem
        if problem.kind != "finite":
            raise ProtocolError(
                f"{call} gives a table, which needs numbered states; agent.predict(obs, stage) acts on other "
                "observations, and agent.save keeps the agent"
            )
        task = problem.finite_task
        assert problem.states is not None
        return Numbering.of(task.horizon, task.n_states, problem.states, problem.actions)

    def _origin(self) -> str:
        """Return what a policy was learned by, on and from, in words."""
        return f"{self._algorithm.name} on {self.problem.name[:100]}, {self.n_episodes} episodes"
