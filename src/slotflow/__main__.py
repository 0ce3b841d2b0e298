"""The entry point of the command line: ``slotflow`` and ``python -m slotflow``."""

import os
import sys

from slotflow.core.version import __version__

__all__ = ["main"]


def main() -> None:
    """Runs the command line; Ctrl-C while its modules are imported ends in one line too."""
    if sys.argv[1:] == ["--version"]:
        print(f"slotflow {__version__}")
        return
    # NumPy's matrices are small here: more threads would only wait for each other. torch has its own (--threads).
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from slotflow.cli import main as run

        run()
    except KeyboardInterrupt:
        print("stopped: interrupted; no file is left half-written", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
