"""Perishable stock: how many platelets to order when they expire after two days.

python examples/perishable_stock.py --episodes 3000 --seeds 8 --out out/cases

The problem is experiment 1 with a shelf life of two days of De Moor et al. (2022). The usual policies order up to a
base-stock level, without and with the waste that is to be expected. They get the best level for the true demand, while
the learners know neither the demand nor the costs. The agent whose policy is certified also has the records of 2,000
months with the usual policy. docs/cases/perishable-stock.md explains the table and the picture.
"""

from case_study import Case, main
from usual_policies import best_base_stock, best_base_stock_with_waste

CASE = Case(
    env="perishable-stock",
    title="Perishable stock with a shelf life of two days",
    unit="minus the cost of 30 days",
    usual=lambda env: {
        "base stock": best_base_stock(env),
        "base stock with waste": best_base_stock_with_waste(env),
    },
    settings={"known_reward": False},
    n_logged=2000,
    episodes=3000,
)

if __name__ == "__main__":
    main(CASE)
