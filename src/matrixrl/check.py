"""Check a certificate that `Certificate.save` wrote, without matrixrl and without NumPy.

    python -m matrixrl.check certificate.json
    python check.py certificate.json            # this file alone, copied anywhere

It solves nothing and trusts no number that matrixrl computed. From the counts, the parts of δ and the numbers ν of the
file it recomputes every radius and every bound (docs/proofs.md, 9.1 to 9.4, 6.1 and 19) and compares them with what is
claimed. Arithmetic is that of `decimal` with 50 digits, whose +, −, ×, ÷, ln and exp are correctly rounded and whose
powers are within one unit of the last place by its specification. Every bound is moved outwards by `MARGIN`, which is
more than all rounding errors together can be for the sizes that are accepted.

Exit code: 0 if every bound follows from the counts, 1 if one does not, 2 if the file is no certificate.
"""

from __future__ import annotations

import hashlib
import json
import struct
import sys
from decimal import MAX_EMAX, MIN_EMIN, ROUND_HALF_EVEN, Context, Decimal, DecimalException, localcontext
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, NoReturn

FORMAT, VERSION = "matrixrl certificate", 1
LARGEST_FILE = 1 << 27  # bytes
LARGEST_SIZE = 10**6  # states, actions, stages, groups or outcomes
LARGEST_COUNT = 10**9  # visits of a group
LARGEST_NUMBER = Decimal(10) ** 12
MOST_TERMS = 10**8  # of all sums over sizes of supports together
MOST_SHOWN = 8  # first states that the report names
MARGIN = Decimal("1e-20")
TOP_SHARE, NO_BET_SHARE = Decimal(1) / 3, Decimal("0.1")  # the special bets of 9.2

Law = tuple[Decimal, list[tuple[int, Decimal]]]  # number of visits n, and (outcome, how often)
ZERO, ONE, HALF = Decimal(0), Decimal(1), Decimal("0.5")
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
# B_2k / (2k (2k − 1)) of Stirling's series
STIRLING = [
    Fraction(a, b)
    for a, b in (
        *((1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360360), (1, 156), (-3617, 122400)),
        *((43867, 244188), (-174611, 125400), (77683, 5796), (-236364091, 1506960), (657931, 300)),
    )
]


class Refused(Exception):
    """The certificate does not prove what it claims."""


class Unreadable(Exception):
    """The file is no certificate."""


def main(arguments: list[str] | None = None) -> int:
    """Check the file that is named, print one line or a short report, and return the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1 or given[0] in ("-h", "--help"):
        print("usage: python -m matrixrl.check CERTIFICATE.json")
        return 0 if given[:1] in (["-h"], ["--help"]) else 2
    try:
        print("\n".join(check(given[0])))
    except Refused as error:
        print(f"refused: {printable(error)}")
        return 1
    except (DecimalException, ArithmeticError) as error:
        print(f"refused: numbers that cannot be computed with ({type(error).__name__})")
        return 1
    except Unreadable as error:
        print(f"not a certificate: {printable(error)}")
        return 2
    except (OSError, MemoryError, RecursionError, LookupError, TypeError, ValueError) as error:
        print(f"not a certificate: {type(error).__name__} while reading it: {printable(error)}")
        return 2
    return 0


def printable(value: object, most: int = 300) -> str:
    """Return text on one line, without characters that a terminal would obey."""
    text = str(value)
    text = text if len(text) <= most else f"{text[:most]}…"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def check(path: str) -> list[str]:
    """Return what a file proves, as lines, or raise `Refused` or `Unreadable`."""
    with localcontext(Context(prec=50, rounding=ROUND_HALF_EVEN, Emin=MIN_EMIN, Emax=MAX_EMAX)):
        return Checker(read(path)).run()


def read(path: str) -> dict[str, Any]:
    """Return the entries of a file with exact numbers, or raise if its digest is not that of its entries."""
    with Path(path).open("rb") as file:
        data = file.read(LARGEST_FILE + 1)
    if len(data) > LARGEST_FILE:
        raise Unreadable(f"it is larger than {LARGEST_FILE:,} bytes")
    try:
        text = data.decode("ascii")
        entries = json.loads(
            text, parse_float=_decimal, parse_int=_whole, parse_constant=_constant, object_pairs_hook=_once
        )
    except RecursionError:
        raise Unreadable("it is nested too deeply") from None
    except ValueError as error:
        raise Unreadable(f"it is no JSON text ({error})") from None
    if not isinstance(entries, dict) or entries.get("format") != FORMAT:
        raise Unreadable(f"its entry format is not {FORMAT!r}")
    if entries.get("version") != VERSION:
        raise Unreadable(f"it has version {entries.get('version')!r}, and this program checks version {VERSION}")
    plain = json.loads(text, parse_float="~".__add__)
    found = plain.pop("digest", None)
    if found != digest(plain):
        raise Refused("its digest is not that of its entries: it was changed or damaged")
    for name in ("data", "problem"):
        if plain["digests"][name] != digest(plain[name]):
            raise Refused(f"the digest of the {name} is not that of its entries")
    return entries


def digest(plain: Any) -> str:
    """Return the SHA-256 of plain data: of its JSON text in ASCII with sorted names and without spaces.

    Numbers with a point count as the text that they are written with, after a tilde: no digit of them may change.
    """
    exact = json.loads(json.dumps(plain, allow_nan=False), parse_float="~".__add__)
    text = json.dumps(exact, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _decimal(text: str) -> Decimal:
    number = Decimal(text)
    if len(text) > 40 or not -320 < number.adjusted() < 320:
        raise Unreadable(f"the number {printable(text, 50)} has too many digits or is too large")
    return number


def _whole(text: str) -> int:
    if len(text) > 18:
        raise Unreadable(f"the number {printable(text, 50)} is too large")
    return int(text)


def _constant(text: str) -> NoReturn:
    raise Unreadable(f"it holds {text}")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise Unreadable("an entry is given twice")
    return entries


def integer(value: Any, name: str, low: int, high: int) -> int:
    """Return a whole number of a range, or refuse it."""
    if type(value) is not int or not low <= value <= high:
        raise Refused(f"{name} must be a whole number from {low} to {high:,}, got {printable(value, 40)}")
    return value


def number(value: Any, name: str, low: Decimal = -LARGEST_NUMBER, high: Decimal = LARGEST_NUMBER) -> Decimal:
    """Return a number of a range, or refuse it."""
    if type(value) not in (int, Decimal) or not low <= value <= high:
        raise Refused(f"{name} must be a number from {low:.12g} to {high:.12g}, got {printable(value, 40)}")
    return Decimal(value)


def table(value: Any, name: str, *sizes: int) -> list[Any]:
    """Return nested lists of given lengths, or refuse them."""
    if type(value) is not list or len(value) != sizes[0]:
        raise Refused(f"{name} must be a list of {sizes[0]:,} entries")
    for row in value if len(sizes) > 1 else ():
        table(row, name, *sizes[1:])
    return value


@lru_cache(1 << 16)
def log_gamma(x: Decimal) -> Decimal:
    """Return ln Γ(x), x > 0, by Stirling's series at x >= 30, whose error is below its first term left out, 5e-36."""
    product = ONE
    while x < 30:
        product *= x
        x += 1
    series, power = (x - HALF) * x.ln() - x + (2 * PI).ln() / 2, x
    for term in STIRLING:
        series += Decimal(term.numerator) / (term.denominator * power)
        power *= x * x
    return series - product.ln()


def beta_one(n: Decimal, events: Decimal) -> Decimal:
    """Return an upper bound on β₁(n) = ln(events) + ln C_n of 9.2."""
    gain, rest = PI.ln() / 2 + log_gamma(n + 1) - log_gamma(n + HALF), 1 - TOP_SHARE - NO_BET_SHARE
    most = -(min(TOP_SHARE, NO_BET_SHARE) + rest * (-gain).exp()).ln()
    if n > 1:
        most = max(most, gain + (2 - 1 / n).ln() + (n - 1) * (1 - 1 / n).ln() - rest.ln())
    return most + events.ln() + MARGIN


def beta_top(events: Decimal) -> Decimal:
    """Return an upper bound on β_⊤ of 9.2."""
    return (events / TOP_SHARE).ln() + MARGIN


def ceiling(law: Law, values: list[Decimal], most: Decimal, beta: Decimal, beyond: Decimal) -> Decimal:
    """Return ν − e^{−β/n} Π (ν − V)^(c/n) at ν = max V + `beyond`, rounded up: an upper bound on the mean (9.1)."""
    n, entries = law
    top, product, logs = most + beyond, ONE, -beta
    for outcome, times in entries:
        distance = top - values[outcome]
        if times == int(times) or not distance:
            product *= distance**times
        else:
            logs += times * distance.ln()
    bound = top - ((product.ln() + logs) / n).exp() if product > 0 else top
    return min(bound, most) + MARGIN * (1 + abs(top))


class Supports:
    """ln of the sum over supports in m(c) of 9.3, rounded down; computed once for each n and number of outcomes."""

    def __init__(self) -> None:
        self.known: dict[tuple[Decimal, int, int], Decimal] = {}
        self.terms = 0

    def log(self, n: Decimal, seen: int, size: int) -> Decimal:
        """Return ln Σ_{k>=seen} w_k C(S−seen, k−seen)/C(S, k) Γ(k/2)/Γ(n + k/2) for S = size."""
        key = n, seen, size
        if key not in self.known:
            self.known[key] = self._log(n, seen, size)
        return self.known[key]

    def _log(self, n: Decimal, seen: int, size: int) -> Decimal:
        # In units of the term at k = seen, without w_k: ratios of neighbours are rational where k grows by 2.
        first = log_gamma(Decimal(seen) / 2) - log_gamma(n + Decimal(seen) / 2)
        second = log_gamma(Decimal(seen + 1) / 2) - log_gamma(n + Decimal(seen + 1) / 2)
        gammas = [ONE, (second - first).exp()]
        chances, total = ONE, ZERO  # C(S−seen, k−seen)/C(S, k) in units of that at k = seen
        for k in range(seen, size + 1):
            place = (k - seen) % 2
            term = chances * gammas[place] / (k * (k + 1))
            total += term
            self.terms += 1
            gammas[place] *= k / (k + 2 * n)
            chances *= Decimal(k + 1) / (k + 1 - seen)
            if term < total * Decimal("1e-45"):
                break  # what is left out makes the radius larger
        if self.terms > MOST_TERMS:
            raise Refused("it is too large to be checked")
        # 1/C(S, seen) = seen! (S − seen)!/S!
        of_first = log_gamma(Decimal(seen + 1)) + log_gamma(Decimal(size - seen + 1)) - log_gamma(Decimal(size + 1))
        return total.ln() + (1 + ONE / size).ln() + of_first + first - MARGIN * (1 + n)


class Checker:
    """The entries of a file, read and checked one after the other; values are of unit rewards in [0, 1]."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self.entries, self.supports = entries, Supports()
        self.read_problem(entries["problem"])
        self.read_data(entries["data"])
        self.policy = [
            [integer(a, "an action of the policy", 0, self.n_actions - 1) for a in row]
            for row in table(entries["policy"], "policy", self.horizon, self.n)
        ]
        for h, row in enumerate(self.policy):
            for s, action in enumerate(row):
                if s != self.end and action not in self.choices[h][s]:
                    raise Refused(f"the policy takes action {action} in state {s} at stage {h}, which is not allowed")
        self.read_shares(entries["shares"], entries["claim"])

    def read_problem(self, problem: dict[str, Any]) -> None:
        """Read sizes, groups, allowed actions, and rewards or dynamics."""
        self.n = n = integer(problem["n_states"], "n_states", 1, LARGEST_SIZE)
        self.n_actions = n_actions = integer(problem["n_actions"], "n_actions", 1, LARGEST_SIZE)
        self.horizon = integer(problem["horizon"], "horizon", 1, LARGEST_SIZE)
        self.discount = number(problem["discount"], "discount", Decimal("1e-12"), ONE)
        self.is_endless = bool(integer(problem["endless"], "endless", 0, int(self.discount < 1)))
        low, high = (number(x, "an end of reward_range") for x in table(problem["reward_range"], "reward_range", 2))
        self.low, self.unit = low, number(high - low, "the size of reward_range", Decimal("1e-12"))
        end = problem["end_state"]
        self.end = None if end is None else integer(end, "end_state", 0, n - 1)
        self.n_observed = integer(problem["n_observed"], "n_observed", 1, n)
        if self.n_observed < n and (self.n_observed, self.end) != (n - 1, n - 1):
            raise Refused("only an end state that comes last may be one that is never observed")
        if self.end is not None and not low <= 0 <= high:
            raise Refused("reward_range must contain 0, the reward of the end state")
        pairs = "groups", n, n_actions
        self.groups = [
            [integer(g, "a group", 0, LARGEST_SIZE) for g in row] for row in table(problem["groups"], *pairs)
        ]
        allowed, choices = problem["allowed"], problem["choices"]
        masks = [list(range(n_actions))] * n
        if allowed is not None:
            rows = table(allowed, "allowed", n, n_actions)
            masks = [[a for a, one in enumerate(row) if integer(one, "allowed", 0, 1)] for row in rows]
        spans = [[0, n_actions]] * self.horizon if choices is None else table(choices, "choices", self.horizon, 2)
        by_span: dict[tuple[int, int], list[tuple[int, ...]]] = {}
        self.choices = []  # allowed actions by stage and state
        for first, stop in spans:
            span = integer(first, "choices", 0, n_actions), integer(stop, "choices", 0, n_actions)
            if span not in by_span:
                by_span[span] = [tuple(a for a in mask if span[0] <= a < span[1]) for mask in masks]
            self.choices.append(by_span[span])
            if not all(allowed or s == self.end for s, allowed in enumerate(by_span[span])):
                raise Refused("every state must allow an action at every stage")
        self.lefts = [ZERO]  # what can still be earned at each stage
        for _ in range(self.horizon):
            self.lefts.append(1 + self.discount * self.lefts[-1])
        self.lefts.reverse()
        self.reward = self.paid = None
        if problem["reward"] is not None:
            self.reward = [[self.unit_reward(r) for r in row] for row in table(problem["reward"], "reward", *pairs[1:])]
        if problem["dynamics"] is not None:
            self.n_outcomes = integer(problem["dynamics"]["n_outcomes"], "n_outcomes", 1, LARGEST_SIZE)
            sizes = n, n_actions, self.n_outcomes
            following = table(problem["dynamics"]["next"], "next", *sizes)
            paid = table(problem["dynamics"]["reward"], "reward", *sizes)
            self.paid = [[[self.unit_reward(r) for r in pair] for pair in row] for row in paid]
            self.next = [[[integer(s, "next", 0, n - 1) for s in pair] for pair in row] for row in following]
            if self.reward is not None:
                raise Refused("rewards are either given, or follow from outcomes")
        else:
            self.n_outcomes = n
        self.is_learned = self.reward is None and self.paid is None

    def unit_reward(self, value: Any) -> Decimal:
        """Return a reward mapped to [0, 1]."""
        return number((number(value, "a reward") - self.low) / self.unit, "a reward in its range", ZERO, ONE)

    def read_data(self, data: dict[str, Any]) -> None:
        """Read counts, and sums and levels of rewards; refuse those that contradict each other."""
        self.laws: dict[int, Law] = {}
        for row in data["laws"]:
            group, law = self.law(row, self.n_outcomes, whole=True)
            if group in self.laws:
                raise Refused(f"group {group} has counts twice")
            self.laws[group] = law
        self.places = {group: place for place, group in enumerate(self.laws)}
        self.first_states: Law | None = None
        if data["first_states"] is not None:
            self.first_states = self.law([0, *data["first_states"]], self.n_observed, whole=True)[1]
        self.joint: dict[int, Law] = {}
        self.levels: list[Decimal] = []
        if not self.is_learned:
            return
        sums = table(data["reward_sums"], "reward_sums", len(self.laws))
        self.sums = {g: number(x, "a sum of rewards", ZERO) for g, x in zip(self.laws, sums, strict=True)}
        for group, (n, _) in self.laws.items():
            if self.sums[group] > n + tolerance(n):
                raise Refused(f"the rewards of group {group} have a sum above its number of visits")
        if data["joint"] is None:
            return
        self.levels = [number(x, "a level", ZERO, ONE) for x in data["levels"]]
        for row in data["joint"]:
            group, law = self.law(row, self.n * len(self.levels), whole=False)
            if group in self.joint:
                raise Refused(f"group {group} has joint counts twice")
            self.joint[group] = law
        for group, (n, entries) in self.laws.items():
            if group not in self.joint:
                raise Refused(f"group {group} has no joint counts")
            left, paid = dict(entries), ZERO
            for code, times in self.joint[group][1]:
                state, level = divmod(code, len(self.levels))
                left[state] = left.get(state, ZERO) - times
                paid += times * self.levels[level]
            if max(abs(x) for x in [*left.values(), paid - self.sums[group]]) > tolerance(n):
                raise Refused(f"joint counts and counts of group {group} contradict each other")

    def law(self, row: Any, n_outcomes: int, *, whole: bool) -> tuple[int, Law]:
        """Return a group and its counts."""
        group, outcomes, times = table(row, "a row of counts", 3)
        integer(group, "a group", 0, LARGEST_SIZE)
        known = [integer(x, "an outcome", 0, n_outcomes - 1) for x in table(outcomes, "outcomes", len(outcomes))]
        if whole:
            counts = [Decimal(integer(x, "a count", 1, LARGEST_COUNT)) for x in table(times, "counts", len(known))]
        else:
            counts = [number(x, "a count", Decimal("1e-30")) for x in table(times, "counts", len(known))]
        if not known or len(set(known)) < len(known):
            raise Refused(f"group {group} must have outcomes, each of them once")
        return group, (sum(counts, ZERO), list(zip(known, counts, strict=True)))

    def read_shares(self, shares: dict[str, Any], claim: dict[str, Any]) -> None:
        """Read the parts of δ, which must not add up to more than δ, and compute all radii."""
        self.delta = number(claim["delta"], "delta", Decimal("1e-300"), Decimal("0.999999"))
        given = {name: number(shares[name], f"the part {name} of delta", ZERO, ONE) for name in SHARES}
        if sum(times * given[name] for name, times in SHARES.items()) > self.delta:
            raise Refused("the parts of delta add up to more than delta")
        if not given["all"] or (self.is_learned and not given["reward"]):
            raise Refused("a radius that is needed has no part of delta")
        n_groups, n_targets = self.numbers_of_events()
        every = n_groups / given["all"]
        self.beta = {group: self.beta_all(law, self.n_outcomes, every) for group, law in self.laws.items()}
        self.targeted: dict[int, Decimal] = {}
        self.top: Decimal | None = None
        if given["optimal"]:
            events = n_targets / given["optimal"]
            self.targeted = {group: beta_one(n, events) for group, (n, _) in self.laws.items()}
            self.top = beta_top(events)
        self.paid_most: dict[int, Decimal] = {}
        self.paid_least: dict[int, Decimal] = {}
        if self.is_learned:
            self.bound_rewards(n_groups / given["reward"])
        self.start_part = given["start"]

    def numbers_of_events(self) -> tuple[Decimal, Decimal]:
        """Return the number K of groups of unknown law, and J, of functions that β₁ holds for (9.2, 19)."""
        matters = [
            [self.paid is None or len(set(zip(self.next[s][a], self.paid[s][a], strict=True))) > 1 for a in row]
            for s, row in enumerate([range(self.n_actions)] * self.n)
        ]
        unknown = {
            id(choices): {
                s: [a for a in actions if matters[s][a]] for s, actions in enumerate(choices) if s != self.end
            }
            for choices in self.choices
        }
        groups = {self.groups[s][a] for states in unknown.values() for s, actions in states.items() for a in actions}
        if self.paid is not None:
            n_states = len({s for states in unknown.values() for s, actions in states.items() if actions})
            return Decimal(max(len(groups), 1)), Decimal(max(self.horizon * n_states, 1))
        n_targets, known = 0, {}
        for choices in self.choices[: self.horizon - (not self.is_learned)]:
            if id(choices) not in known:
                states = unknown[id(choices)]
                used = {self.groups[s][a] for s, actions in states.items() for a in actions}
                alike = {
                    tuple((a, self.groups[s][a], None if self.reward is None else self.reward[s][a]) for a in actions)
                    for s, actions in states.items()
                }
                known[id(choices)] = min(len(used), len(alike))
            n_targets += known[id(choices)]
        return Decimal(max(len(groups), 1)), Decimal(max(n_targets, 1))

    def beta_all(self, law: Law, size: int, events: Decimal) -> Decimal:
        """Return an upper bound on β_D = ln(events) + Σ c ln(c/n) − ln m(c) of 9.3."""
        n, entries = law
        if len(entries) > size:
            raise Refused("there are more outcomes than possible ones")
        total = events.ln() - self.supports.log(n, len(entries), size)
        for _, times in entries:
            total += times * (times / n).ln() - log_gamma(times + HALF) + PI.ln() / 2
        return max(total, ZERO) + MARGIN * (1 + n)

    def bound_rewards(self, events: Decimal) -> None:
        """Bound the mean reward of every group with data from both sides, from its sum (9.4)."""
        above, below = table(self.entries["witness"]["reward"], "the numbers ν of rewards", 2, len(self.laws))
        top = beta_top(events)
        for place, (group, (n, _)) in enumerate(self.laws.items()):
            paid = min(self.sums[group], n)
            law = n, [(value, times) for value, times in ((0, n - paid), (1, paid)) if times > 0]
            radii, ends = (beta_one(n, events), top), ([ZERO, ONE], [ZERO, -ONE])
            self.paid_most[group] = self.bound(law, ends[0], ONE, radii, above[place])
            self.paid_least[group] = max(-self.bound(law, ends[1], ZERO, radii, below[place]), ZERO)

    def bound(
        self, law: Law | None, values: Any, most: Decimal, radii: tuple[Decimal, Decimal | None], beyond: Any
    ) -> Decimal:
        """Return the smaller of the bounds at ν and at max V, whose radii are given; max V without data."""
        if law is None:
            return most
        found = ceiling(law, values, most, radii[0], number(beyond, "ν − max V", ZERO))
        if radii[1] is not None:
            seen = max(values[outcome] for outcome, _ in law[1])
            found = min(found, max(ceiling(law, values, most, radii[1], ZERO), seen))
        return found

    def offsets(self, given: Any, name: str, n_columns: int) -> list[list[Decimal]]:
        """Return ν − max V of every stage (H, n)."""
        return [[number(x, name, ZERO) for x in row] for row in table(given, name, self.horizon, n_columns)]

    def values(self, given: Any, name: str) -> list[list[Decimal]]:
        """Return claimed values (H + 1, S), those after the last stage being 0."""
        rows = table(given, name, self.horizon + 1, self.n)
        found = [[number(x, name, ZERO) for x in row] for row in rows]
        if any(found[-1]):
            raise Refused(f"{name} after the last stage must be 0")
        return found

    def compare(self, h: int, s: int, claimed: Decimal, bound: Decimal, sign: int) -> None:
        """Refuse a claimed value that is on the wrong side of the bound that was recomputed."""
        if s == self.end:  # its reward is 0 in the own unit
            bound = -self.low / self.unit * self.lefts[h]
        limit = min(bound, self.lefts[h]) if sign > 0 else max(bound, ZERO)
        if sign * (claimed - limit) < 0:
            side = "upper" if sign > 0 else "lower"
            raise Refused(f"stage {h}, state {s}: the {side} bound {claimed:.12g} does not follow, {limit:.12g} does")

    def check_best(self) -> list[list[Decimal]]:
        """Check the upper bounds on V* by backward induction, and return them."""
        given = self.entries["witness"]["best"]
        values, is_paired = self.values(given["values"], "upper values"), self.paid is not None
        n_rows = self.n * self.n_actions if is_paired else len(self.laws)
        beyond = self.offsets(given["nu"], "ν − max V", n_rows)
        uses_joint = self.is_learned and bool(self.joint) and bool(self.targeted)
        joint = self.offsets(given["joint"], "ν − max V of joint laws", n_rows) if uses_joint else []
        for h in reversed(range(self.horizon)):
            following = [self.discount * v for v in values[h + 1]]
            most, of_group = max(following), {}
            for group, law in () if is_paired else self.laws.items():
                place = self.places[group]
                of_group[group] = self.bound(law, following, most, self.radii(group), beyond[h][place])
            both = {}
            for group, law in self.joint.items() if uses_joint else ():
                totals = {c: following[c // len(self.levels)] + self.levels[c % len(self.levels)] for c, _ in law[1]}
                radii = self.targeted[group], self.top
                both[group] = self.bound(law, totals, most + 1, radii, joint[h][self.places[group]])
            for s, actions in enumerate(self.choices[h]):
                q = ZERO
                for a in actions if s != self.end else ():
                    group = self.groups[s][a]
                    if is_paired:
                        q = max(q, self.of_pair(s, a, following, self.radii(group), beyond[h][s * self.n_actions + a]))
                        continue
                    one = self.most(s, a) + of_group.get(group, most)
                    q = max(q, min(one, both.get(group, one)))
                self.compare(h, s, values[h][s], q, 1)
        return values

    def radii(self, group: int) -> tuple[Decimal, Decimal | None]:
        """Return the radii of upper bounds on V*: the smaller one for any ν, and that at max V alone."""
        if group not in self.laws:
            return ZERO, None
        beta = self.beta[group]
        if self.is_learned or not self.targeted:  # with learned rewards β₁ is about their sum with V*
            return beta, None
        return min(beta, self.targeted[group]), self.top

    def of_pair(
        self,
        s: int,
        a: int,
        following: list[Decimal],
        radii: tuple[Decimal, Decimal | None],
        beyond: Any,
        sign: int = 1,
    ) -> Decimal:
        """Return a bound on the mean of reward and next value of a pair of known dynamics, times the sign."""
        assert self.paid is not None
        worth = [sign * r + following[x] for r, x in zip(self.paid[s][a], self.next[s][a], strict=True)]
        return self.bound(self.laws.get(self.groups[s][a]), worth, max(worth), radii, beyond)

    def most(self, s: int, a: int) -> Decimal:
        """Return the reward of a pair, or an upper bound on it."""
        return self.paid_most.get(self.groups[s][a], ONE) if self.reward is None else self.reward[s][a]

    def check_policy(self, name: str, sign: int, best: list[list[Decimal]] | None) -> list[list[Decimal]]:
        """Check lower (sign -1) or upper bounds on the values of the policy, for all values, and return them."""
        given = self.entries["witness"][name]
        values = self.values(given["values"], f"{name} values")
        beyond = self.offsets(given["nu"], f"ν − max V of {name}", self.n)
        for h in reversed(range(self.horizon)):
            following = [sign * self.discount * v for v in values[h + 1]]
            most = max(following)
            for s, action in enumerate(self.policy[h]):
                q = ZERO
                if s != self.end:
                    group = self.groups[s][action]
                    radii = self.beta.get(group, ZERO), None
                    if self.paid is not None:
                        q = self.of_pair(s, action, following, radii, beyond[h][s], sign) * sign
                    else:
                        mean = self.bound(self.laws.get(group), following, most, radii, beyond[h][s]) * sign
                        least = self.paid_least.get(group, ZERO) if self.reward is None else self.reward[s][action]
                        q = mean + (self.most(s, action) if sign > 0 else least)
                self.compare(h, s, values[h][s], q if best is None else min(q, best[h][s]), sign)
        return values

    def at_start(self, values: list[Decimal], sign: int) -> Decimal:
        """Return a bound on the mean of values at first states, in the own unit, from values of the same side."""
        start, inside = self.entries["start"], [sign * v for v in values]
        if start is None:
            law, radius = self.first_states, ZERO
            if not self.start_part:
                raise Refused("first states that are estimated need a part of delta")
            if law is not None:
                radius = self.beta_all(law, self.n_observed, 1 / self.start_part)
            beyond = self.entries["witness"]["start"][sign < 0]
            mean = sign * self.bound(law, inside, max(inside[: self.n_observed]), (radius, None), beyond)
        else:
            states, weights = start["states"], start["weights"]
            table(states, "states", len(weights))
            chances = [number(w, "the weight of a first state", ZERO, ONE) for w in weights]
            total = sum(chances, ZERO)
            if abs(total - 1) > Decimal("1e-9"):
                raise Refused("the weights of first states must sum to 1")
            known = [integer(s, "a first state", 0, self.n_observed - 1) for s in states]
            mean = sum((w * values[s] for s, w in zip(known, chances, strict=True)), ZERO) / total
            mean += sign * MARGIN * (1 + self.lefts[0])
        weight, tail = self.lefts[0], ZERO
        if self.is_endless:
            weight = 1 / (1 - self.discount)
            tail = weight - self.lefts[0]
        return self.low * weight + self.unit * (mean + (tail if sign > 0 else ZERO))

    def run(self) -> list[str]:
        """Check everything, and return what is proven."""
        entries, claim = self.entries, self.entries["claim"]
        plain = [[0 if s == self.end else a for s, a in enumerate(row)] for row in self.policy]
        acts = hashlib.sha256(b"".join(struct.pack(f"<{self.n}q", *row) for row in plain)).hexdigest()
        if entries["digests"]["policy"] != acts:
            raise Refused("the digest of the policy is not that of its actions")
        upper, lower = (
            number(claim[name], name, -(LARGEST_NUMBER**2), LARGEST_NUMBER**2) for name in ("upper", "lower")
        )
        if claim["upper_of"] not in ("best", "policy"):
            raise Refused("the upper bound must be that of the best policy, or of the policy")
        best = self.check_best()
        top = best if claim["upper_of"] == "best" else self.check_policy("policy_upper", 1, best)
        bottom = self.check_policy("policy_lower", -1, None)
        for name, value, of, sign in (("upper", upper, top, 1), ("lower", lower, bottom, -1)):
            bound = self.at_start(of[0], sign)
            if sign * (value - bound) < 0:
                raise Refused(f"the {name} bound {value:.12g} does not follow, {bound:.12g} does")
        if lower > upper:
            raise Refused("the lower bound is above the upper one: the assumptions are false (or a δ event)")
        words, digests = entries["words"], entries["digests"]
        visits = sum((n for n, _ in self.laws.values()), ZERO)
        whose = "no policy earns more than" if claim["upper_of"] == "best" else "and at most"
        return [
            f"every bound follows: with probability {1 - self.delta} the policy earns at least {lower:.10g}, "
            f"{whose} {upper:.10g}",
            f"  policy        SHA-256 {acts}",
            f"  start         {self.start_words()}",
            f"  problem       {self.n:,} states, {self.n_actions:,} actions, {self.horizon:,} stages; "
            f"SHA-256 {printable(digests['problem'], 64)}",
            f"  data          {visits:,} visits; SHA-256 {printable(digests['data'], 64)}",
            f"  parts         {self.shares_words()}",
            "said by the file, and not checked:",
            f"  start         {printable(words['start'])}",
            f"  about         {printable(words['about'])}",
            f"  assumptions   {printable(words['assumptions'], 2000)}",
        ]

    def start_words(self) -> str:
        """Return the start that the bounds are about, by numbers of states: words of the file may say another one."""
        start = self.entries["start"]
        if start is None:
            n = ZERO if self.first_states is None else self.first_states[0]
            return f"the distribution that {n:,} first states come from"
        states, weights = start["states"], start["weights"]
        if len(states) == 1:
            return f"state {states[0]}"
        shown = ", ".join(f"{s} ({float(w):.6g})" for s, w in list(zip(states, weights, strict=True))[:MOST_SHOWN])
        return f"states {shown}{', …' * (len(states) > MOST_SHOWN)}; {len(states):,} states"

    def shares_words(self) -> str:
        """Return the parts of δ in words."""
        given = {name: self.entries["shares"][name] for name in SHARES}
        return ", ".join(f"{name} {float(share):.6g}" for name, share in given.items() if share) + " of delta"


SHARES = {"optimal": 1, "all": 1, "reward": 2, "start": 1, "other": 1}
"""Parts of δ, and how often each is used: that of rewards on both sides. `other` is for bounds that are not here."""


def tolerance(n: Decimal) -> Decimal:
    """Return how far sums over so many visits, which were computed in double precision, may be apart."""
    return Decimal("1e-9") * (1 + n)


if __name__ == "__main__":
    sys.exit(main())
