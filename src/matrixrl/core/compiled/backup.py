"""Optimistic backward induction, compiled with numba: all stages of a plan in one call, for any features."""

from __future__ import annotations

from typing import Any

import numpy as np

from matrixrl.compilation import compiled, internal, lean, summed

__all__ = ["choose", "fill_plan", "maximum", "minimum", "policy_values", "split_all"]

# Positions in the tuples of arguments. Plain tuples are passed from Python to compiled code in half the time that named
# ones take, which matters for one plan.
ROWS, PSI, TOTAL, CORE, SHARES, SUCCESSORS, WIDEST = range(7)
SLACK, HALF_WIDTH, CENTRE, NORM, CONSTANT, IS_NORMALISED = range(6)
BLOCK = 2048  # states that are backed up together, so that what is computed of them stays in the cache


@lean
def maximum(numbers: Any) -> float:
    """Return the largest of some numbers; the method of arrays counts references."""
    most = -np.inf
    for i in range(len(numbers)):
        most = max(most, numbers[i])
    return most


@lean
def minimum(numbers: Any) -> float:
    """Return the smallest of some numbers."""
    least = np.inf
    for i in range(len(numbers)):
        least = min(least, numbers[i])
    return least


@internal
def choose(action: int, q: Any, tie: float, score: Any, chosen: Any) -> None:
    """Take an action where its values q (S,) and what breaks ties are the largest so far; score and chosen (S,) change.

    Actions are chosen as floats, so that all lanes of the loop have one width.
    """
    for s in range(len(q)):
        x = q[s] + tie
        chosen[s] = action if x > score[s] else chosen[s]
        score[s] = max(score[s], x)


@summed
def _moments(v: Any, u: Any) -> tuple[float, float, float, float]:
    """Return uᵀv, ‖u‖², min v and max v."""
    along, size, low, high = 0.0, 0.0, v[0], v[0]
    for j in range(len(v)):
        along += v[j] * u[j]
        size += u[j] * u[j]
        low = min(low, v[j])
        high = max(high, v[j])
    return along, size, low, high


@summed
def _distance(v: Any, u: Any, c: float) -> float:
    """Return ‖v − cu‖₂."""
    total = 0.0
    for j in range(len(v)):
        total += (v[j] - c * u[j]) * (v[j] - c * u[j])
    return float(np.sqrt(total))


@summed
def _largest(v: Any, u: Any, c: float) -> float:
    """Return ‖v − cu‖_∞."""
    most = 0.0
    for j in range(len(v)):
        most = max(most, abs(v[j] - c * u[j]))
    return most


@internal
def split_all(bound: Any, v: Any, u: Any, shift: Any, scale: Any) -> tuple[float, float]:
    """Fill in shift c and scale ‖v − cu‖ of the m members of the set, and return the range of v.

    Args:
        bound: Tuple as in `fill_plan`. Its entry centre selects c: 0 (0), uᵀv/‖u‖² (1), or the middle of the range of
            v/u for constant u (2). Its entry norm selects the norm: two-norm (0), largest absolute entry (1), or the
            constant scale of the entry constant (2).
        v: (d_psi,) ΨᵀV.
        u: (d_psi,) Ψᵀ1.
        shift: (m,) Array that is filled in.
        scale: (m,) Array that is filled in.
    """
    along, size, low, high = _moments(v, u)
    for m in range(len(shift)):
        c = 0.0
        if bound[CENTRE][m] == 1:
            c = along / size
        elif bound[CENTRE][m] == 2:
            c = 0.5 * (low + high) / u[0]
        shift[m] = c
        if bound[NORM][m] == 0:
            scale[m] = _distance(v, u, c)
        elif bound[NORM][m] == 1:
            scale[m] = _largest(v, u, c)
        else:
            scale[m] = bound[CONSTANT][m]
    return low, high


@compiled
def fill_plan(
    estimate: Any,
    bound: Any,
    reward: Any,
    first_replica: int,
    ties: Any,
    end_state: int,
    end_values: Any,
    discount: float,
    choices: Any,
    values: Any,
    policy: Any,
    preference: Any,
    preference_weight: float,
    q_out: Any,
) -> None:
    """Fill in the optimistic values (B, H + 1, S) and the policy (B, H, S) of every replica (YW19 (4)).

    The inner loops run over blocks of states and write to arrays that are allocated here, which nothing else can
    overlap, so the compiler processes four states at a time.

    Args:
        estimate: (rows, psi, total, core, shares, successors, widest): rows (P, d) features φ of all pairs, (0, 0) if
            one-hot; psi (S, d_psi) weighted as in ΨᵀV, (0, 0) if one-hot; total (d_psi,) u; core (B, d, d_psi) M_n, or
            (B, 0, 0) where next states are lists: successors and their entries of M_n, shares, (B, K, P), widest (B,)
            the length of the longest list.
        bound: (slack, half_width, centre, norm, constant, is_normalised): slack (B, P) 1 − φᵀM_n u, or zeros if
            the set is not normalised; half_width (B, m, P) of each member of the set; centre, norm and constant (m,)
            as in `split_all`; whether bounds are clipped to the range of V, else V at `core.backup.Frame.ceilings`.
        reward: (B, P) the largest unit rewards that are believed.
        first_replica: Replica of these arrays that the first row of the arguments below belongs to.
        ties: (B, A) what breaks ties.
        end_state: State whose value is known, or -1.
        end_values: (H,) Its unit value at every stage.
        discount: Factor of the values of the next stage.
        choices: (H, 2) First action of each stage, and the one after its last.
        values: Filled in; values[:, H] is read.
        policy: Filled in.
        preference: (B, H, P) what breaks ties first, in [0, H]; or (0, 0, 0).
        preference_weight: Factor of the preference.
        q_out: (B, H, P) filled in with the optimistic Q; or (0, 0, 0).
    """
    n_replicas, horizon, n_states = policy.shape
    n_members = len(bound[CENTRE])
    rows, psi, total, core = estimate[ROWS], estimate[PSI], estimate[TOTAL], estimate[CORE]
    shares, successors, widest = estimate[SHARES], estimate[SUCCESSORS], estimate[WIDEST]
    d, has_core = rows.shape[1], core.shape[1] > 0
    slack, half_width, is_normalised = bound[SLACK], bound[HALF_WIDTH], bound[IS_NORMALISED]
    weights = np.empty((n_replicas, core.shape[1]))
    shift, scale = np.empty((n_replicas, n_members)), np.empty((n_replicas, n_members))
    low, high = np.empty(n_replicas), np.empty(n_replicas)
    mean, q = np.empty(min(BLOCK, n_states)), np.empty(min(BLOCK, n_states))
    best, score = np.empty((n_replicas, n_states)), np.empty((n_replicas, n_states))
    chosen, following_all = np.empty((n_replicas, n_states)), np.empty((n_replicas, n_states))
    ceiling = 0.0
    for h in range(horizon - 1, -1, -1):
        ceiling = float(horizon) if discount == 1.0 else 1.0 + discount * ceiling  # Frame.ceilings
        if len(q_out) > 0 and choices[h, 1] - choices[h, 0] < ties.shape[1]:
            q_out[:, h] = -np.inf
        for b in range(n_replicas):
            for s in range(n_states):
                following_all[b, s] = discount * values[b, h + 1, s]
            following = following_all[b]
            v = np.dot(following, psi) if len(psi) > 0 else following
            if has_core:
                products = np.dot(core[first_replica + b], v)
                for j in range(len(products)):
                    weights[b, j] = products[j]
            low[b], high[b] = split_all(bound, v, total, shift[b], scale[b])
            if len(psi) > 0:
                low[b], high[b] = minimum(following), maximum(following)
        best[:] = -np.inf
        score[:] = -np.inf
        for start in range(0, n_states, BLOCK):
            n = min(BLOCK, n_states - start)
            for a in range(choices[h, 0], choices[h, 1]):
                first = a * n_states + start
                for b in range(n_replicas):  # inside, so that the features of a block are read from memory once
                    r = first_replica + b
                    if h == horizon - 1:
                        q[:] = 0.0
                    else:
                        # φᵀM_n v, by one of three forms of the estimate
                        if d > 0:
                            np.dot(rows[first : first + n], weights[b], mean[:n])
                        elif has_core:  # one-hot pairs, M_n as a matrix
                            for s in range(n):
                                mean[s] = weights[b, first + s]
                        else:  # one-hot pairs, the next states seen as lists
                            mean[:] = 0.0
                            for k in range(widest[r]):
                                for s in range(n):
                                    mean[s] += shares[r, k, first + s] * following_all[b, successors[r, k, first + s]]
                        q[:] = np.inf
                        for m in range(n_members):
                            c, z = shift[b, m], scale[b, m]
                            for s in range(n):
                                mean_here = mean[s] + c * slack[r, first + s]
                                q[s] = min(q[s], mean_here + z * half_width[r, m, first + s])
                        if is_normalised:
                            least, most = low[b], high[b]
                            for s in range(n):
                                q[s] = min(max(q[s], least), most)
                    for s in range(n):
                        q[s] += reward[r, first + s]
                        best[b, start + s] = max(best[b, start + s], q[s])
                    if len(q_out) > 0:
                        for s in range(n):
                            q_out[b, h, first + s] = q[s]
                    if len(preference) > 0:
                        for s in range(n):
                            q[s] += preference_weight * preference[b, h, first + s]
                    choose(a, q[:n], ties[b, a], score[b, start : start + n], chosen[b, start : start + n])
        for b in range(n_replicas):
            for s in range(n_states):
                values[b, h, s] = best[b, s] if is_normalised else min(max(best[b, s], 0.0), ceiling)
            for s in range(n_states):
                policy[b, h, s] = int(chosen[b, s])
            if end_state >= 0:
                values[b, h, end_state] = end_values[h]


@summed
def _product(rows: Any, p: int, weights: Any) -> float:
    """Return the product of a row and some weights."""
    total = 0.0
    for j in range(len(weights)):
        total += rows[p, j] * weights[j]
    return total


@compiled
def policy_values(
    sign: float,
    estimate: Any,
    bound: Any,
    reward: Any,
    replica: int,
    end_state: int,
    end_values: Any,
    discount: float,
    policy: Any,
    ceiling: Any,
    values: Any,
) -> None:
    """Fill in upper (sign 1) or lower bounds (H + 1, S) on the values of a policy (H, S) of one replica.

    The arguments are those of `fill_plan`, of features or one-hot pairs with M_n as a matrix, except for:

    Args:
        sign: 1 or -1.
        estimate: As in `fill_plan`.
        bound: As in `fill_plan`.
        reward: (B, P) upper or lower bounds on unit rewards.
        replica: Replica of these arrays.
        end_state: State whose value is known, or -1.
        end_values: (H,) Its unit value at every stage.
        discount: Factor of the values of the next stage.
        policy: (H, S) Actions.
        ceiling: (H, S) or more rows, the largest values; or (0, 0) for those of `core.backup.Frame.ceilings`.
        values: Filled in; values[H] is read.
    """
    horizon, n_states = policy.shape
    n_members = len(bound[CENTRE])
    rows, psi, total, core = estimate[ROWS], estimate[PSI], estimate[TOTAL], estimate[CORE][replica]
    slack, half_width = bound[SLACK][replica], bound[HALF_WIDTH][replica]
    shift, scale, following = np.empty(n_members), np.empty(n_members), np.empty(n_states)
    most = 0.0
    for h in range(horizon - 1, -1, -1):
        most = float(horizon) if discount == 1.0 else 1.0 + discount * most  # Frame.ceilings
        for s in range(n_states):
            following[s] = discount * values[h + 1, s]
        v = np.dot(following, psi) if len(psi) > 0 else following
        weights = np.dot(core, v)
        low, high = split_all(bound, v, total, shift, scale)
        if len(psi) > 0:
            low, high = minimum(following), maximum(following)
        for s in range(n_states):
            p = policy[h, s] * n_states + s
            q = 0.0
            if h < horizon - 1:
                mean = _product(rows, p, weights) if len(rows) > 0 else weights[p]
                q = sign * np.inf
                for m in range(n_members):
                    one = mean + shift[m] * slack[p] + sign * scale[m] * half_width[m, p]
                    q = min(q, one) if sign > 0.0 else max(q, one)
                if bound[IS_NORMALISED]:
                    q = min(max(q, low), high)
            q += reward[replica, p]
            values[h, s] = min(max(q, 0.0), ceiling[h, s] if len(ceiling) > 0 else most)
        if end_state >= 0:
            values[h, end_state] = end_values[h]
