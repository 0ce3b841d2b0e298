"""The quick look at a spectrum: long white series are not taken for coloured ones, coloured ones are seen."""

import pytest
import torch

from slotflow.infer.look import unremarkable

BAND, DURATION = (2.5, 3.0), 300.0


@pytest.mark.parametrize(("samples", "series"), [(3_000, 400), (48_000, 100), (96_000, 60)])
def test_white_noise_is_unremarkable_however_long_it_is(samples: int, series: int) -> None:
    x = torch.randn(series, samples, dtype=torch.float64, generator=torch.manual_seed(1))
    assert float(unremarkable(x, DURATION, BAND).double().mean()) >= 0.98


@pytest.mark.parametrize("samples", [3_000, 96_000])
def test_a_floor_that_falls_tenfold_is_not(samples: int) -> None:
    x = torch.randn(20, samples, dtype=torch.float64, generator=torch.manual_seed(2))
    x = x[:, 1:] + 0.6 * x[:, :-1]  # power falls by (1.6/0.4)² = 16
    assert not bool(unremarkable(x, DURATION, BAND).any())
