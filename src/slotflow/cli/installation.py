"""What is installed and where can be computed: for `info` and `doctor`."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from typing import Any

import torch

from slotflow.core.version import __version__

__all__ = ["devices", "installed", "package_version"]


def package_version(name: str) -> str | None:
    """The version of an installed package; None if it is not there."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def installed() -> dict[str, Any]:
    """Versions of the program and of Python, and where they are."""
    return {
        "slotflow": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "executable": sys.executable,
    }


def devices() -> dict[str, Any]:
    """CPU cores, threads that torch uses, and GPUs."""
    gpus = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return {"cpu_cores": os.cpu_count(), "cpu_threads": torch.get_num_threads(), "gpus": gpus}
