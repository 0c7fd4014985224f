"""Batched learners: MatrixRL, the continuous agent and the baselines."""
