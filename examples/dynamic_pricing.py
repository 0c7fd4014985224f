"""Dynamic pricing: which price to ask for ten seats in the twenty weeks before a flight.

python examples/dynamic_pricing.py --episodes 3000 --seeds 8 --out out/cases

Customers who come late pay more, so that demand depends on the price and on the week. The usual policies ask one price,
or the prices of the fluid problem, which is solved again every week. They get the true demand of every week, while the
learners know neither the demand nor how it changes. Learners differ in what the weeks share: nothing, their law inside
the early, the middle and the late weeks, or one law, which is wrong. The agent whose policy is certified also has the
records of 2,000 flights with one price. docs/cases/dynamic-pricing.md explains the table and the picture.
"""

from typing import Any

import numpy as np

from case_study import BASELINES, MATRIX_RL, Case, main
from usual_policies import best_fixed_price, fluid_prices

PARTS = np.arange(20) * 3 // 20  # early, middle and late weeks


def shared_by(classes: Any) -> Any:
    """Return a function of the task that makes features with one law for each class of weeks, state and price."""

    def phi(task: Any) -> Any:
        n_stages, n_own = len(classes), task.n_own_actions
        groups = np.arange((max(classes) + 1) * task.n_states * n_own).reshape(-1, task.n_states, n_own)
        by_stage = groups[classes]  # (H, S, A): the pairs of stage h have the numbers of its class
        return np.eye(groups.size)[by_stage.transpose(1, 0, 2).reshape(task.n_states, n_stages * n_own)]

    return phi


TUNED = MATRIX_RL["MatrixRL, tuned"]
CASE = Case(
    env="dynamic-pricing",
    title="Ten seats, twenty weeks until the flight",
    unit="revenue of a flight",
    usual=lambda env: {"one price": best_fixed_price(env), "fluid prices": fluid_prices(env)},
    learners={
        "MatrixRL, tuned": TUNED,
        "MatrixRL, tuned, three parts": TUNED | {"phi": shared_by(PARTS)},
        "MatrixRL, tuned, one law for all weeks": TUNED | {"phi": shared_by(0 * PARTS)},
        "MatrixRL, optimistic": MATRIX_RL["MatrixRL, optimistic"],
    }
    | BASELINES,
    settings={"known_reward": False},
    n_logged=2000,
    episodes=3000,
)

if __name__ == "__main__":
    main(CASE)
