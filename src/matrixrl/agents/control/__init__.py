"""KernelMatrixRL on continuous states."""
