"""Runs the command line: ``python -m slotflow``."""

from slotflow.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
