"""Who races: ours and the peers', each with its settings and what is proven about it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

PROOF: Literal["proof"] = "proof"
AVERAGE: Literal["average"] = "average"
TUNED: Literal["tuned"] = "tuned"


@dataclass(frozen=True)
class Contestant:
    """One algorithm with its settings.

    Attributes:
        name: short and unique.
        side: "ours", or which of the peers' environments it runs in.
        agent: the algorithm's name on its side.
        guarantee: "proof" where the bonus or radius is at least that of a proof, "average" where that proof is about
            the average reward of a chain without restarts, else "tuned".
        settings: for the algorithm.
        knows_reward: whether it knows the rewards; no peer does.
        grows: whether an episode costs more the later it comes.
        on_a_line: whether it needs coordinates of states.
    """

    name: str
    side: Literal["ours", "rlberry", "scool", "statisticalrl"]
    agent: str
    guarantee: Literal["proof", "average", "tuned"]
    settings: dict[str, Any] = field(default_factory=dict)
    knows_reward: bool = False
    grows: bool = False
    on_a_line: bool = False


def _matrix_rl() -> list[Contestant]:
    return [
        Contestant(
            f"matrix-rl {preset}" + ("" if known else ", rewards learned"),
            "ours",
            "matrix-rl",
            PROOF if preset == "optimistic" else TUNED,
            {"preset": preset, "known_reward": known},
            knows_reward=known,
        )
        for preset in ("optimistic", "tuned")
        for known in (True, False)
    ]


def _baselines() -> list[Contestant]:
    # The paper presets of PSRL and Kernel-UCBVI have no proof for one problem (docs/baselines.md).
    proven = {"ucbvi", "q-learning", "rlsvi", "lsvi-ucb"}
    return [
        Contestant(
            f"our {agent}, {preset}",
            "ours",
            agent,
            PROOF if preset == "paper" and agent in proven else TUNED,
            {"preset": preset, "known_reward": False},
            on_a_line=agent == "kernel-ucbvi",
        )
        for agent in ("ucbvi", "psrl", "rlsvi", "q-learning", "lsvi-ucb", "kernel-ucbvi")
        for preset in ("tuned", "paper")
    ]


MAIN = [
    *_matrix_rl(),
    *(
        Contestant(
            f"matrix-rl {preset}, rewards learned, switch_growth=1",
            "ours",
            "matrix-rl",
            PROOF if preset == "optimistic" else TUNED,
            {"preset": preset, "known_reward": False, "switch_growth": 1.0},
        )
        for preset in ("optimistic", "tuned")
    ),
    Contestant(
        "matrix-rl optimistic, rewards learned, ties by estimate",
        "ours",
        "matrix-rl",
        PROOF,
        {"preset": "optimistic", "known_reward": False, "ties": "estimate"},
    ),
]
BASELINES = _baselines()
# "paper" asks the runner for the bonus of the paper, in place of the simplified one that rlberry is shipped with;
# "as_shipped" for rlberry's own simulator and log, in place of the lean ones that all others get.
PEERS = [
    Contestant("rlberry UCBVI", "rlberry", "ucbvi", TUNED),
    Contestant("rlberry UCBVI, bonus renewed at all stages", "rlberry", "ucbvi-all-stages", TUNED),
    Contestant("rlberry UCBVI, paper's bonus", "rlberry", "ucbvi", PROOF, {"paper": True}),
    Contestant("rlberry UCBVI-RTDP", "rlberry", "ucbvi-rtdp", TUNED),
    Contestant("rlberry UCBVI-RTDP, paper's bonus", "rlberry", "ucbvi-rtdp", PROOF, {"paper": True}),
    Contestant("rlberry PSRL", "rlberry", "psrl", TUNED),
    Contestant("rlberry RLSVI", "rlberry", "rlsvi", TUNED),
    Contestant("rlberry OptQL", "rlberry", "optql", TUNED),
    Contestant("rlberry OptQL, paper's bonus", "rlberry", "optql", PROOF, {"paper": True}),
    Contestant("rlberry LSVI-UCB", "rlberry", "lsvi-ucb", TUNED, grows=True),
    Contestant("rlberry RS-UCBVI", "rlberry", "rs-ucbvi", TUNED, on_a_line=True),
    Contestant("rlberry RS-Kernel-UCBVI", "rlberry", "rs-kernel-ucbvi", TUNED, on_a_line=True),
    Contestant("rlberry-scool UCBVI", "scool", "ucbvi", TUNED),
    Contestant("rlberry-scool UCBVI, paper's bonus", "scool", "ucbvi", PROOF, {"paper": True}),
    Contestant("rlberry UCBVI, own simulator and log", "rlberry", "ucbvi", TUNED, {"as_shipped": True}),
    Contestant("rlberry PSRL, own simulator and log", "rlberry", "psrl", TUNED, {"as_shipped": True}),
    Contestant("rlberry-scool UCBVI, own simulator and log", "scool", "ucbvi", TUNED, {"as_shipped": True}),
    Contestant("rlberry-scool LSVI-UCB", "scool", "lsvi-ucb", TUNED, grows=True),
]


def _statisticalrl() -> list[Contestant]:
    # What the learner is shown (views.py) decides which proof applies; UCRL3 as shipped leaves its own (README.md).
    shown = {"restart": "restarts known", "jump": "restarts as transitions", "stage": "stage in the state"}
    proofs: dict[str, Literal["proof", "average", "tuned"]] = {"restart": AVERAGE, "jump": TUNED, "stage": PROOF}
    learners = [
        ("UCRL2", "ucrl2", True),
        ("UCRL2B", "ucrl2b", True),
        ("KL-UCRL", "kl-ucrl", True),
        ("UCRL3 by its bounds", "ucrl3-by-its-bounds", True),
        ("UCRL3 as shipped", "ucrl3", False),
        ("PSRL", "psrl", False),
        ("IMED-RL", "imed-rl", False),
    ]
    return [
        Contestant(
            f"{name}, {shown[view]}",
            "statisticalrl",
            agent,
            proofs[view] if proven else TUNED,
            {"view": view},
        )
        for view in shown
        for name, agent, proven in learners
    ]


AVERAGE_REWARD = _statisticalrl()
