r"""Which signals of a batch need no look of their own before the network reads them.

Before an answer, a signal is looked at: is every sample a number, does the series vary, is it of the size that the
prior speaks of, does an offset or a trend stand out? Here these questions are asked of B signals at once, on the device
where they lie. The answer is a screen: a signal that passes needs nothing; one that does not is looked at alone, as
ever (`assume`), where it is decided whether anything is to be done. The screen is therefore a little stricter than the
look, so that what rounding decides is decided there.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from slotflow.data.noise_level import median_power
from slotflow.data.preprocess import (
    LARGEST_RATIO,
    QUIETEST_NOISE,
    SIGNIFICANT,
    SMALLEST_RATIO,
)
from slotflow.data.trend import (
    EXTREME,
    hann_weights,
    line_errors,
    line_filters,
    sample_numbers,
)

__all__ = ["needs_no_look"]

STRICTER = 0.9
"""Share of the significance of offset and trend from which on a signal is looked at alone."""
MARGIN = 0.99
"""Share of the largest size, and inverse share of the smallest, beyond which a signal is looked at alone."""


def needs_no_look(series: Sequence[Tensor], amplitude: float) -> Tensor:
    """Which of B signals can be read as they are, (B,), bool, on the device of the signals.

    Args:
        series: Even, real samples of each channel, (B, N) for each, float64.
        amplitude: Largest amplitude that the prior allows.
    """
    passed = torch.ones(len(series[0]), dtype=torch.bool, device=series[0].device)
    for values in series:
        size = values.abs().amax(-1)
        ratio = size / amplitude
        passed &= values.isfinite().all(-1) & (values.amax(-1) > values.amin(-1))
        passed &= (ratio < MARGIN * LARGEST_RATIO) & (ratio * MARGIN > SMALLEST_RATIO)
        passed &= (size < MARGIN * EXTREME) & (size * MARGIN > 1 / EXTREME)
        passed &= ~_line_stands_out(values / size[:, None])
    return passed


def _line_stands_out(x: Tensor) -> Tensor:
    """Whether an offset or a trend may stand out of series (B, N) of size 1, (B,), bool; see `preprocess.describe`."""
    n = x.shape[-1]
    places = sample_numbers(n)
    errors = torch.tensor(line_errors(places), dtype=x.dtype, device=x.device)
    filters = torch.as_tensor(line_filters(places), device=x.device)  # (2, N)
    line = x @ filters.T  # (B, 2): offset and slope
    window = torch.as_tensor(hann_weights(n).copy(), device=x.device)
    lines = torch.stack([torch.ones(n, dtype=x.dtype), torch.as_tensor(places)]).to(x.device)
    spectrum = torch.fft.rfft(window * (x - line @ lines))[:, 1 : n // 2]
    if not spectrum.shape[-1]:
        return torch.ones(len(x), dtype=torch.bool, device=x.device)
    power = (spectrum.real**2 + spectrum.imag**2) / (window**2).sum()
    noise: Tensor = median_power(power).sqrt().clamp_min(QUIETEST_NOISE)
    sigmas = line.abs() / (noise[:, None] * errors)
    stands_out: Tensor = (sigmas > STRICTER * SIGNIFICANT).any(-1)
    return stands_out
