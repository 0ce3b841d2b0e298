"""Seeds: streams that have nothing in common, and signals that stay what they are."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
import torch

import slotflow
from slotflow import Config, Prior, simulate
from slotflow.core.seeds import RandomStream, spread_seed, stream_seed


def test_spread_is_one_to_one() -> None:
    assert len({spread_seed(seed) for seed in range(-1000, 1000)}) == 2000


def test_streams_of_a_seed_differ(seed: int) -> None:
    """All streams of many seeds, also in the 32 bits that torch's generator on the CPU looks at."""
    seeds = [seed + i for i in range(50)]
    values = [stream_seed(s, stream) for s, stream in itertools.product(seeds, RandomStream)]
    assert len(set(values)) == len({v % 2**32 for v in values}) == len(seeds) * len(RandomStream)


def test_every_stream_has_a_number_of_its_own() -> None:
    """`unique` refuses a second name for one number; the control has one."""
    from enum import IntEnum, unique

    with pytest.raises(ValueError, match="duplicate"):
        unique(IntEnum("Streams", {"radii": 5, "grids": 5}))  # type: ignore[arg-type]


def test_no_other_module_has_a_stream_constant() -> None:
    """Constants that are mixed into seeds stand in core/seeds.py alone."""
    root = Path(slotflow.__file__).parent
    pattern = re.compile(r"0x[0-9A-Fa-f]{8,}")
    found = {str(p.relative_to(root)) for p in root.rglob("*.py") if pattern.search(p.read_text())}
    assert found == {"core/seeds.py"}


SIGMAS = [1.4050653247974028, 0.29896557267950746, 0.32049088842444745]


def test_signals_of_a_seed_are_those_of_version_0_1() -> None:
    """Counts, parameters, noise levels and samples that version 0.1 gave for seed 7, with one prior and with many."""
    config = Config.from_preset("zoom")
    model = config.model
    plain = simulate(Prior(), 5, model.long, model.short, seed=7)
    assert plain.k.tolist() == [3, 4, 10, 1, 6]
    first = torch.tensor([0.6129428216304955, 4.7722312964913565, 2.7584153312119573])
    torch.testing.assert_close(plain.theta[0, 0], first.double(), rtol=1e-6, atol=0)
    torch.testing.assert_close(plain.sigma[:3], torch.tensor(SIGMAS).double(), rtol=1e-6, atol=0)
    samples = torch.tensor([0.04228400066494942, 5.630125522613525, 1.536257266998291])
    torch.testing.assert_close(plain.long[0, :3], samples, rtol=1e-5, atol=1e-6)

    mixed = simulate(model.prior, 5, model.long, model.short, seed=7, mixture=config.mixture)
    assert mixed.k.tolist() == [8, 0, 8, 1, 9]
    assert mixed.prior is not None
    assert mixed.prior.min_separation.tolist() == [0.01, 0.0, 0.01, 0.01, 0.004]
    torch.testing.assert_close(
        mixed.long[-1, -1], torch.tensor(-0.8290807008743286), rtol=1e-5, atol=1e-6
    )
