"""Lost-sales inventory: order well without knowing the demand, and prove how well.

python examples/lost_sales.py --episodes 2000 --seeds 8 --out out/cases

A shop orders every day; demand that it cannot meet is lost. The usual policy orders up to a base-stock level. Here it
gets the best level for the true demand, while the learners know neither the demand nor the costs.
The agent whose policy is certified also has the records of 2,000 months with the usual policy.
docs/cases/lost-sales.md explains the table and the picture.
"""

from case_study import Case, main
from usual_policies import best_base_stock

CASE = Case(
    env="lost-sales",
    title="Lost-sales inventory, lead time one day",
    unit="minus the cost of 30 days",
    usual=lambda env: {"base stock": best_base_stock(env)},
    settings={"known_reward": False},
    n_logged=2000,
)

if __name__ == "__main__":
    main(CASE)
