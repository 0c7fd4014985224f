"""UC-MatrixRL (YW19 Algorithm 1) on finite problems and on sampled columns."""
