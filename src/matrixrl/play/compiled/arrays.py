"""Arrays that compiled episodes read and change: the MDP, the data, the bounds, the plans and the results.

B replicas, P pairs of an action and a state (action-major), S states, H stages. Bounds have one entry for each level of
the radius that is used: that of the agent, then that of ties where the estimate breaks them, then the proven one where
episodes are certified.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Balls", "Data", "KLBalls", "Kept", "Lists", "Played", "World"]


class World(NamedTuple):
    """The MDP, known to the simulation.

    Attributes:
        lists: (P + 1,) Position of the first successor of each pair, whose number is s·A + a here alone; unsigned.
        following: (E,) The successors, unsigned.
        chance: (E,) Their probabilities.
        cdf: (E,) Their running sums, which uniform numbers are compared with.
        start: (S,) The distribution of first states.
        start_cdf: (S,) Its running sums.
        reward: (P,) Expected rewards in the environment's unit.
        pays: (P,) The probability of the high end of the range, where rewards are noisy.
        low: Low end of the range.
        high: High end of the range.
        noisy: Whether rewards are drawn.
        end_state: Absorbing state, or -1.
        end_values: (H,) Its unit value at every stage.
        discount: Factor of each step.
        choices: (H, 2) First action of each stage, and the one after its last.
        optimal_value: V*(s0), less what steps that are cut off from an endless episode are worth at least.
        every: Regret is measured in every so many episodes; 0 measures none.
        ones: (S,) u = Ψᵀ1 of one-hot ψ.
    """

    lists: Any
    following: Any
    chance: Any
    cdf: Any
    start: Any
    start_cdf: Any
    reward: Any
    pays: Any
    low: float
    high: float
    noisy: bool
    end_state: int
    end_values: Any
    discount: float
    choices: Any
    optimal_value: float
    every: int
    ones: Any


class Lists(NamedTuple):
    """Lists of the outcomes of each pair in flat arrays, which `matrixrl.play.compiled.lists` lets grow.

    Attributes:
        firsts: (B, P) Position of the first entry of a pair; (B, 0) where there are no lists.
        lasts: (B, P) Position after its last entry.
        rooms: (B, P) Position after its room.
        outcomes: (E,) Code of each outcome, ascending inside a pair.
        states: (E,) Next state of each outcome, unsigned.
        extras: (E,) Unit reward of each outcome; empty where the law is of next states alone.
        times: (E,) How often it was seen.
        shares: (E,) Its empirical probability, which is brought up to date before plans.
        sizes: (2,) Number of positions that are in use, and the length of the longest list.
    """

    firsts: Any
    lasts: Any
    rooms: Any
    outcomes: Any
    states: Any
    extras: Any
    times: Any
    shares: Any
    sizes: Any


class Data(NamedTuple):
    """What was seen.

    Attributes:
        visits: (B, P) Visits of each pair.
        learns_reward: Whether rewards are learned.
        reward_sums: (B, P) Sums of unit rewards.
        paid: (B, L) Levels of rewards; -1 where unused.
        ranks: (B, L) Levels in ascending order of their rewards, those in use first.
        n_paid: (B,) Number of levels in use.
        changed: (B, P) Pairs that were visited since their bounds were computed.
        n_changed: (B,) Number of these pairs.
        is_changed: (B, P) Whether a pair is one of them.
    """

    visits: Any
    learns_reward: bool
    reward_sums: Any
    paid: Any
    ranks: Any
    n_paid: Any
    changed: Any
    n_changed: Any
    is_changed: Any


class Balls(NamedTuple):
    """Bounds by balls around M_n on one-hot features, which follow from the visits of a pair.

    Attributes:
        centre: (m,) Centre of each member of the set, as in `core.compiled.backup.split_all`.
        norm: (m,) Its norm.
        constant: (m,) Its constant scale.
        is_normalised: Whether bounds are clipped to the range of V, else V at `core.backup.Frame.ceilings`.
        ridge: λ.
        by_visits: (levels, m, T) Half-widths by visits.
        reward_by_visits: (levels, T) Half-widths of rewards by visits.
        half_width: (levels, B, m, P) Half-width of every pair.
        slack: (B, P) λ/(λ + visits).
        successors: (B, K, P) Successors of each pair in ascending order.
        shares: (B, K, P) Their entries of M_n; 0 beyond the last.
        widest: (B,) Largest number of successors of a pair.
        most: (levels, B, P) Largest unit reward that is believed.
        least: (B, P) Smallest unit reward that is believed at the last level.
    """

    centre: Any
    norm: Any
    constant: Any
    is_normalised: bool
    ridge: float
    by_visits: Any
    reward_by_visits: Any
    half_width: Any
    slack: Any
    successors: Any
    shares: Any
    widest: Any
    most: Any
    least: Any


class KLBalls(NamedTuple):
    """Bounds by Kullback-Leibler balls around the empirical laws of the pairs.

    Attributes:
        levels: (levels,) Number of each level in `scales`.
        scales: (3,) Factors of the radius of the agent, of ties and of certificates.
        log_all: ln(events/δ) of β_D.
        log_optimal: ln(events/δ) of β₁; infinite if it is not used.
        log_rewards: ln(events/δ) of rewards; infinite if they are known.
        tuned: Whether the radii of the agent and of ties leave out δ and the number of events.
        priors: (n, k₀, 4) Parts of `dirichlet_excess` that were computed before.
        upper: (levels, B, P) Radius ε of upper bounds.
        lower: (B, P) Radius ε of lower bounds of certificates; (B, 0) if there are none.
        joint: (levels, B, P) Radius ε of the joint law of reward and next state.
        top: (levels, B, P) Radius ε at ν = top alone, of the joint law where rewards are learned; infinite for none.
        no_top: (B, P) Infinity.
        most: (levels, B, P) Largest unit reward that is believed.
        least: (B, P) Smallest unit reward that is believed, for certificates; (B, 0) if there are none.
    """

    levels: Any
    scales: Any
    log_all: float
    log_optimal: float
    log_rewards: float
    tuned: bool
    priors: Any
    upper: Any
    lower: Any
    joint: Any
    top: Any
    no_top: Any
    most: Any
    least: Any


class Kept(NamedTuple):
    """The plan that each replica plays, until some pair has grown by 1 + κ since it was made.

    Attributes:
        policy: (B, H, S) Its policy.
        values: (B, H + 1, S) Its optimistic values.
        visits: (B, P) Visits of each pair when it was made; -1 before the first plan.
        due: (B,) Whether the next episode has a new plan.
        upper: (B,) Optimistic value of the start.
        regret: (B,) Regret of its policy, where it was measured.
        measured: (B,) Whether it was; a flag, because the loops assume that there is no NaN.
        n_plans: (B,) Number of plans made by these loops.
        growth: κ; 0 plans before every episode.
    """

    policy: Any
    values: Any
    visits: Any
    due: Any
    upper: Any
    regret: Any
    measured: Any
    n_plans: Any
    growth: float


class Played(NamedTuple):
    """The results of n episodes.

    Attributes:
        states: (B, n, H + 1) States.
        actions: (B, n, H) Actions.
        regret: (B, n) Regret, in the environment's unit; unchanged where it is not measured.
        returns: (B, n) Returns, likewise.
        lengths: (B, n) Number of steps taken.
        upper: (B, n) The optimistic value of the start, in unit reward.
        certified: (B, n, 2) Lower and upper bound of each episode's certificate, likewise.
    """

    states: Any
    actions: Any
    regret: Any
    returns: Any
    lengths: Any
    upper: Any
    certified: Any
