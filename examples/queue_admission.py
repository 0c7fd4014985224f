"""Admission to a queue: which customers to admit, without knowing how many will come.

python examples/queue_admission.py --episodes 2000 --seeds 8 --out out/cases

Customers who pay 10 and customers who pay 3 arrive at five servers with room for five waiting customers. The usual
policy admits a class while there are fewer customers than its threshold. It gets the best thresholds for the true
rates; the learners know the payments and the cost of waiting, but no rates. docs/cases/queue-admission.md explains the
table and the picture.
"""

from case_study import BASELINES, MATRIX_RL, Case, main
from usual_policies import best_thresholds

AFTER = {"env_settings": {"post_decision": True}}  # one law for each number of customers after the decision
CASE = Case(
    env="queue-admission",
    title="Admission to a queue with five servers",
    unit="earned in 100 events",
    usual=lambda env: {"thresholds": best_thresholds(env)},
    learners=MATRIX_RL
    | {f"{name}, post-decision states": arguments | AFTER for name, arguments in MATRIX_RL.items()}
    | BASELINES,
    certified=MATRIX_RL["MatrixRL, tuned"] | AFTER,
)

if __name__ == "__main__":
    main(CASE)
