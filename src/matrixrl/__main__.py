"""``python -m matrixrl`` is the command line, and so is the script ``matrixrl``."""

from matrixrl.interrupts import ending_at_once

__all__ = ["main"]


def main() -> None:
    """Import the command line, which takes a second or more, and run it."""
    with ending_at_once():
        from matrixrl.cli.main import main as run
    run()


if __name__ == "__main__":
    main()
