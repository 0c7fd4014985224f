"""The command line ``matrixrl``."""
