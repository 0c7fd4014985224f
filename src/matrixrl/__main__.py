"""``python -m matrixrl`` is the command line."""

from matrixrl.cli.main import main

if __name__ == "__main__":
    main()
