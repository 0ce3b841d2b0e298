"""``python -m slotflow.train``: training on a machine with torch, NumPy, SciPy, zuko, safetensors and PyYAML alone.

    python -m slotflow.train --config weights/paper.yaml --out runs/paper --minutes 20
    python -m slotflow.train --resume --out runs/paper --minutes 20
    torchrun --nproc-per-node 4 -m slotflow.train --config weights/paper.yaml --out runs/paper --minutes 20

``slotflow train`` does the same, changes single settings and draws the curves; it needs the packages of the command
line too, which the nodes of a cluster often lack.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from slotflow.network.checkpoint import CheckpointError
from slotflow.network.config import Config
from slotflow.train.folder import TrainingError
from slotflow.train.loop import train

__all__ = ["main"]

STOPPED = 130
"""Exit code after Ctrl-C or SIGTERM; the checkpoint is written."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Trains what the arguments ask for, and gives the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m slotflow.train", description="Trains a model, without pictures and tables."
    )
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--config", type=Path, help="YAML file of model, loss and training")
    source.add_argument("--preset", help="name of a preset instead")
    parser.add_argument("--out", type=Path, required=True, help="folder of checkpoint and model")
    parser.add_argument("--resume", action="store_true", help="go on with the run in the folder")
    parser.add_argument("--init", help="weights to start from: a file, a folder or a name")
    parser.add_argument("--minutes", type=float, help="time budget, fitted by the schedule")
    parser.add_argument("--device", help="cpu or cuda; a GPU if there is one")
    asked = parser.parse_args(arguments)
    if asked.config is None and asked.preset is None and not asked.resume:
        parser.error(
            "expected --config FILE or --preset NAME, received neither; only --resume needs none."
        )
    try:
        if asked.preset is not None:
            config = Config.from_preset(asked.preset)
        else:
            config = Config.from_yaml(asked.config or asked.out / "config.yaml")
        print(
            train(
                config,
                asked.out,
                resume=asked.resume,
                init=asked.init,
                minutes=asked.minutes,
                device=asked.device,
                quiet=True,
            )
        )
    except (ValueError, OSError, CheckpointError, TrainingError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt as stop:
        print(f"stopped: {stop}", file=sys.stderr)
        return STOPPED
    return 0


if __name__ == "__main__":
    sys.exit(main())
