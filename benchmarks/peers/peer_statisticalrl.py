"""Runs one learner of statisticalrl inside its environment; `runner.read_order` says what it is given."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from runner import OutOfTime, Simulator, play_seeds, read_order
from statisticalrl_learners.MDPs_discrete.IMED_RL import IMEDRL
from statisticalrl_learners.MDPs_discrete.KLUCRL import KLUCRL
from statisticalrl_learners.MDPs_discrete.PSRL import PSRL
from statisticalrl_learners.MDPs_discrete.UCRL2 import UCRL2
from statisticalrl_learners.MDPs_discrete.UCRL2B import UCRL2B
from statisticalrl_learners.MDPs_discrete.UCRL3 import UCRL3
from views import View, play_episodes

warnings.filterwarnings("ignore")

DELTA = 0.05


class UCRL3ByItsBounds(UCRL3):
    """UCRL3 with the bounds of its paper for pairs that were always followed by one state.

    As shipped, such a pair with n visits has the lower bound 0.5^(1/n), which is wrong with probability up to 1/2.
    """

    def compute_ranges(self) -> None:
        super().compute_ranges()
        for state, action in np.ndindex(self.nS, self.nA):
            for next_state in self.supports[state, action]:
                share, visits = self.p_estimate[state, action][next_state], self.Nk[state, action]
                if share >= 1.0 and visits >= 1:
                    self.p_lower[state, action][next_state] = self.q_lower(share, visits, self.deltaSA)


def make(agent: str, n_states: int, n_actions: int) -> Any:
    """Return a new learner with its defaults and δ = 0.05."""
    if agent == "imed-rl":  # has no δ
        return IMEDRL(n_states, n_actions)
    kinds = {
        "ucrl2": UCRL2, "ucrl2b": UCRL2B, "ucrl3": UCRL3, "ucrl3-by-its-bounds": UCRL3ByItsBounds, "kl-ucrl": KLUCRL,
        "psrl": PSRL,
    }  # fmt: skip
    return kinds[agent](n_states, n_actions, DELTA)


def _stop(*_: Any) -> None:
    raise OutOfTime


def main() -> None:
    order, tables = read_order()
    simulator = Simulator(tables, order["n_episodes"])
    view = View(order["settings"]["view"], tables["P"], tables["start"], simulator.horizon)
    signal.signal(signal.SIGPROF, _stop)

    def prepare(seed: int):
        np.random.seed(seed)  # noqa: NPY002 the package draws from NumPy's global generator
        learner = make(order["agent"], view.n_states, simulator.reward.shape[1])

        def play_all() -> None:
            # One plan may take minutes, or forever: UCRL2B's has no largest number of iterations.
            signal.setitimer(signal.ITIMER_PROF, max(simulator.deadline - time.process_time(), 1e-3))
            try:
                # Plans that do not converge are reported by print, where the answer is expected.
                with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
                    play_episodes(learner, simulator, view, order["n_episodes"])
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0.0)

        return play_all

    play_seeds(order, simulator, prepare)


if __name__ == "__main__":
    main()
