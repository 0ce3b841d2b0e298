"""Fixtures that every test file shares: seeds, threads, and the two networks that the package holds weights of.

All randomness in the tests starts from one number, SLOTFLOW_TEST_SEED (0 unless the environment says otherwise), so
that `SLOTFLOW_TEST_SEED=1 pytest` repeats the whole suite on other draws.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from pathlib import Path

# Read when NumPy and torch are loaded, and by child processes: as many tests at once as there are cores.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch

from slotflow import SlotFlow
from slotflow.network.config import Config
from slotflow.network.zoom.model import ZoomSlotFlow


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Sums in the same order everywhere, whatever an earlier test has left."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def base_seed() -> int:
    """The number that moves every seed at once."""
    return int(os.environ.get("SLOTFLOW_TEST_SEED", "0"))


@pytest.fixture
def seed(request: pytest.FixtureRequest, base_seed: int) -> int:
    """A seed of the test's own, below 2³⁰ (so that seed + 1, seed + 2, … are valid too)."""
    return (zlib.crc32(request.node.name.encode()) + 1_000_003 * base_seed) % 2**30


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str, str], Path]:
    """Writes a text file and returns its path."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture(scope="session")
def debug_config() -> Config:
    """The small preset."""
    return Config.from_preset("debug")


@pytest.fixture(scope="session")
def debug_model() -> SlotFlow:
    """The small preset's network with the weights inside the package."""
    return SlotFlow.from_pretrained("debug")


@pytest.fixture(scope="session")
def zoom() -> ZoomSlotFlow:
    """The default network, read once for all tests of a process: a test that changes weights must copy it."""
    found = SlotFlow.from_pretrained()
    assert isinstance(found, ZoomSlotFlow)
    return found
