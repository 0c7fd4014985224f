"""ICU-Sepsis: learn to treat simulated sepsis patients, starting from what clinicians did. Not for medical practice.

python examples/icu_sepsis.py --episodes 10000 --seeds 4 --out out/cases

Needs the extra `cases` (pip install 'matrixrl[cases]'). The problem is a benchmark of algorithms; as its authors
(Choudhary et al. 2024) stress, it should not be used to draw conclusions that guide medical practice. The usual policy
is that of the clinicians in the records. The agent whose policy is certified learns from 10,000 simulated episodes of
that policy before it plays; the learners of the table start from nothing. A new plan is made once some pair has twice
the visits that it had at the last one.
"""

from case_study import MATRIX_RL, Case, main
from matrixrl.envs.icu_sepsis import clinicians_policy

DOUBLED = {name: {**settings, "switch_growth": 1.0} for name, settings in MATRIX_RL.items()}
CASE = Case(
    env="icu-sepsis",
    title="ICU-Sepsis (a benchmark, not for medical practice)",
    unit="probability of survival",
    usual=lambda _: {"clinicians": clinicians_policy()},
    learners=DOUBLED | {"Q-learning, tuned": {"agent": "q-learning", "preset": "tuned"}},
    certified=DOUBLED["MatrixRL, tuned"],
    n_logged=10_000,
    episodes=10_000,
    digits=3,
)

if __name__ == "__main__":
    main(CASE)
