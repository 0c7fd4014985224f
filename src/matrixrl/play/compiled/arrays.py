"""Arrays that compiled episodes read and change: the MDP, the data, the bounds, the plans and the results.

B replicas, P pairs of an action and a state (action-major), S states, H stages. Bounds have one entry for each level of
the radius that is used: that of the agent, then that of ties where the estimate breaks them, then the tuned one where
there is an optimism budget, then the proven one where there is a budget or episodes are certified.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Balls", "Budget", "Data", "KLBalls", "Kept", "Lists", "Played", "World"]


class World(NamedTuple):
    """The MDP, known to the simulation."""

    lists: Any  # (P + 1,) Position of the first successor of each pair, whose number is s·A + a here alone; unsigned
    following: Any  # (E,) The successors, unsigned
    chance: Any  # (E,) Their probabilities
    cdf: Any  # (E,) Their running sums, which uniform numbers are compared with
    start: Any  # (S,) The distribution of first states
    start_cdf: Any  # (S,) Its running sums
    reward: Any  # (P,) Expected rewards in the environment's unit
    pays: Any  # (P,) The probability of the high end of the range, where rewards are noisy
    low: float  # Low end of the range
    high: float  # High end of the range
    noisy: bool  # Whether rewards are drawn
    end_state: int  # Absorbing state, or -1
    end_values: Any  # (H,) Its unit value at every stage
    discount: float  # Factor of each step
    choices: Any  # (H, 2) First action of each stage, and the one after its last
    optimal_value: float  # V*(s0), less what steps that are cut off from an endless episode are worth at least
    every: int  # Regret is measured in every so many episodes; 0 measures none
    ones: Any  # (S,) u = Ψᵀ1 of one-hot ψ


class Lists(NamedTuple):
    """Lists of the outcomes of each pair in flat arrays, which `matrixrl.play.compiled.lists` lets grow."""

    firsts: Any  # (B, P) Position of the first entry of a pair; (B, 0) where there are no lists
    lasts: Any  # (B, P) Position after its last entry
    rooms: Any  # (B, P) Position after its room
    outcomes: Any  # (E,) Code of each outcome, ascending inside a pair
    states: Any  # (E,) Next state of each outcome, unsigned
    extras: Any  # (E,) Unit reward of each outcome; empty where the law is of next states alone
    times: Any  # (E,) How often it was seen
    shares: Any  # (E,) Its empirical probability, which is brought up to date before plans
    sizes: Any  # (2,) Number of positions that are in use, and the length of the longest list


class Data(NamedTuple):
    """What was seen."""

    visits: Any  # (B, P) Visits of each pair
    learns_reward: bool  # Whether rewards are learned
    reward_sums: Any  # (B, P) Sums of unit rewards
    paid: Any  # (B, L) Levels of rewards; -1 where unused
    ranks: Any  # (B, L) Levels in ascending order of their rewards, those in use first
    n_paid: Any  # (B,) Number of levels in use
    changed: Any  # (B, P) Pairs that were visited since their bounds were computed
    n_changed: Any  # (B,) Number of these pairs
    is_changed: Any  # (B, P) Whether a pair is one of them


class Balls(NamedTuple):
    """Bounds by balls around M_n on one-hot features, which follow from the visits of a pair."""

    centre: Any  # (m,) Centre of each member of the set, as in `core.compiled.backup.split_all`
    norm: Any  # (m,) Its norm
    constant: Any  # (m,) Its constant scale
    is_normalised: bool  # Whether bounds are clipped to the range of V, else V at `core.backup.Frame.ceilings`
    ridge: float  # λ
    by_visits: Any  # (levels, m, T) Half-widths by visits
    reward_by_visits: Any  # (levels, T) Half-widths of rewards by visits
    half_width: Any  # (levels, B, m, P) Half-width of every pair
    slack: Any  # (B, P) λ/(λ + visits)
    successors: Any  # (B, K, P) Successors of each pair in ascending order
    shares: Any  # (B, K, P) Their entries of M_n; 0 beyond the last
    widest: Any  # (B,) Largest number of successors of a pair
    most: Any  # (levels, B, P) Largest unit reward that is believed
    least: Any  # (B, P) Smallest unit reward that is believed at the last level


class KLBalls(NamedTuple):
    """Bounds by Kullback-Leibler balls around the empirical laws of the pairs."""

    levels: Any  # (levels,) Number of each level in `scales`
    scales: Any  # (4,) Factors of the radius of the agent, of ties, of the tuned plan and of certificates
    log_all: float  # ln(events/δ) of β_D
    log_optimal: float  # ln(events/δ) of β₁; infinite if it is not used
    log_rewards: float  # ln(events/δ) of rewards; infinite if they are known
    tuned: bool  # Whether the radii of the agent and of ties leave out δ and the number of events
    priors: Any  # (n, k₀, 4) Parts of `dirichlet_excess` that were computed before, by this replica or another
    log_gammas: Any  # (n,) ln Γ(i/2) at i
    upper: Any  # (levels, B, P) Radius ε of upper bounds
    lower: Any  # (B, P) Radius ε of lower bounds of certificates; (B, 0) if there are none
    joint: Any  # (levels, B, P) Radius ε of the joint law of reward and next state
    top: Any  # (levels, B, P) Radius ε at ν = top alone, of the joint law where rewards are learned; infinite for none
    no_top: Any  # (B, P) Infinity
    most: Any  # (levels, B, P) Largest unit reward that is believed
    least: Any  # (B, P) Smallest unit reward that is believed, for certificates; (B, 0) if there are none


class Kept(NamedTuple):
    """The plan that each replica plays, until some pair has grown by 1 + κ since it was made."""

    policy: Any  # (B, H, S) Its policy
    values: Any  # (B, H + 1, S) Its optimistic values
    visits: Any  # (B, P) Visits of each pair when it was made; -1 before the first plan
    due: Any  # (B,) Whether the next episode has a new plan
    upper: Any  # (B,) Optimistic value of the start
    regret: Any  # (B,) Regret of its policy, where it was measured
    measured: Any  # (B,) Whether it was; a flag, because the loops assume that there is no NaN
    n_plans: Any  # (B,) Number of plans made by these loops
    growth: float  # κ; 0 plans before every episode


class Budget(NamedTuple):
    """What the rule of the optimism budget knows; arrays are empty where α is 0."""

    alpha: float  # α
    declares_start: bool  # Whether an episode is charged with the mean lack over the start, and not that of its state
    lefts: Any  # (H,) Σ γ^k over the steps from each stage on
    tie_scale: float  # Factor of the numbers that break ties, for a plan without a preference
    charged: Any  # (B,) Λ
    earned: Any  # (B,) Ω
    first_states: Any  # (B, S) Which states episodes began in
    tuned: Any  # (B, H, S) The tuned policy
    lack: Any  # (B, S) What it lacks in optimism
    is_tuned: Any  # (B,) Whether the last episode played it
    turn: Any  # (B,) Number of plans since the data were taken over
    widths: Any  # (B, H, P) Widths of the bounds that are kept until the next plan; (B, 0, 0) if there are none
    turns: Any  # (B, H, P) The turn of each width; those of others are not valid


class Played(NamedTuple):
    """The results of n episodes."""

    states: Any  # (B, n, H + 1) States
    actions: Any  # (B, n, H) Actions
    regret: Any  # (B, n) Regret, in the environment's unit; unchanged where it is not measured
    returns: Any  # (B, n) Returns, likewise
    lengths: Any  # (B, n) Number of steps taken
    upper: Any  # (B, n) The optimistic value of the start, in unit reward
    certified: Any  # (B, n, 2) Lower and upper bound of each episode's certificate, likewise
