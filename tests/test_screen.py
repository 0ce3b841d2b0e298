"""Tests of residuals and of changing tones for many signals, against those of single ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slotflow import Prior, simulate
from slotflow.data.sampling import Grid
from slotflow.exact.batch.changes import score_tests, steady
from slotflow.exact.batch.fits import fitted
from slotflow.exact.directed.scores import DIRECTIONS, scores
from slotflow.posterior.verdict import FALSE_ALARM
from slotflow.posterior.whiteness import check_residual
from slotflow.posterior.whiteness.screen import screen
from slotflow.signal.likelihood import Statistics
from slotflow.signal.waveforms import TONE

LONG, SHORT = Grid(1200, 0.1), Grid(512, 1 / 512)
PRIOR = Prior(k_max=4, min_separation=0.03, sigma=(0.1, 0.4))


def residuals(
    n: int, k: int, seed: int, short: bool = True
) -> tuple[list[torch.Tensor], tuple[Grid, ...], torch.Tensor]:
    """Series of k tones in white noise, their grids, and the true frequencies, (n, k)."""
    sim = simulate(PRIOR, n, LONG, SHORT if short else None, mode="physical", seed=seed, k=k)
    grids = (LONG, SHORT) if short else (LONG,)
    observations = [sim.observation(i) for i in range(n)]
    series = [
        torch.stack([torch.as_tensor(o.channels[s].values).double() for o in observations])
        for s in range(len(grids))
    ]
    return series, grids, TONE.place_of(sim.theta[:, :k].double()).sort(dim=-1).values


@pytest.mark.parametrize("short", [True, False])
@pytest.mark.parametrize("sigma", [None, 0.3])
def test_every_p_value_is_that_of_a_single_signal(short: bool, sigma: float | None) -> None:
    series, grids, places = residuals(6, 3, 0, short)
    series[0][1] += 0.3 * torch.cos(2 * torch.pi * 1.0 * torch.arange(1200) * 0.1)  # outside
    series[0][2, :300] *= 3  # a burst
    series[0][3, 1:] += 0.5 * series[0][3, :-1].clone()  # colour
    series[0][4] = series[0][4].clamp(-1.0, 1.0)  # clipped
    statistics = Statistics.from_arrays(series, grids)
    z = fitted(statistics, places, PRIOR).z
    found = screen(statistics, z, PRIOR.frequency, sigma)
    assert found is not None
    passed = found.pass_at(FALSE_ALARM)
    assert passed[[0, 5]].tolist() == [sigma is None] * 2 or sigma is not None
    assert not passed[1:5].any() and found.odd.tolist() == [False] * 4 + [True, False]
    for i in range(6):
        one = statistics.take(torch.tensor([i]))
        theta = one.to_theta(z[i]).numpy()
        checks = {c.name: c for c in check_residual(one, theta, PRIOR.frequency, sigma)}
        assert set(checks) == set(found.p_values)
        for name, check in checks.items():
            if not name.startswith("repeats"):
                p = found.p_values[name][i]
                np.testing.assert_allclose(p, check.p_value, rtol=1e-5, atol=1e-14, err_msg=name)


def test_changes_are_those_of_single_signals() -> None:
    """χ² of every tone and kind; a tone that drifts is not steady."""
    series, grids, places = residuals(5, 3, 1)
    t = torch.arange(1200) * 0.1
    series[0][3] += torch.cos(2 * torch.pi * (2.75 * t + 0.5 * 1e-4 * (t - 60) ** 2)).double()
    statistics = Statistics.from_arrays(series, grids)
    z = fitted(statistics, places, PRIOR).z
    chi_square, tested, _ = score_tests(statistics, z)
    for i in range(5):
        one = statistics.take(torch.tensor([i]))
        alone = scores(one, z[i].numpy(), np.ones(3, dtype=bool))
        assert {score.tone for score in alone} == set(np.flatnonzero(tested[i]).tolist())
        for score in alone:
            kind = list(DIRECTIONS).index(score.kind)
            np.testing.assert_allclose(chi_square[i, score.tone, kind], score.chi_square, rtol=1e-6)
    drifting = torch.cos(2 * torch.pi * (2.75 * t + 0.5 * 2e-4 * (t - 60) ** 2)).double()
    quiet = 0.1 * torch.randn(2, 1200, generator=torch.Generator().manual_seed(0)).double()
    lone = torch.cos(2 * torch.pi * 2.75 * t).double()
    both = Statistics.from_arrays([quiet + torch.stack([drifting, lone])], (LONG,))
    starts = torch.full((2, 1), 2.75, dtype=torch.float64)
    assert steady(both, fitted(both, starts, PRIOR).z).tolist() == [False, True]
