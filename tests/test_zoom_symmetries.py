"""The default model's symmetries: other units, another band, another origin of time."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tone_helpers import LONG, SHORT, phase_error
from zoom_helpers import CROWD, FREE, assert_same_answer, observe, white

from slotflow import Observation, Stream
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.signal.simulation import tones


@pytest.fixture(scope="module")
def model(zoom: ZoomSlotFlow) -> ZoomSlotFlow:
    """The default model, which all tests share."""
    return zoom


@pytest.mark.parametrize("s", [0.01, 3.7, 86_400.0])
def test_time_stretched(s: float, model: ZoomSlotFlow, seed: int) -> None:
    """The same numbers on a clock that is slower by s: frequencies over s, all else as it was (to 1 % of an sd)."""
    obs = observe(CROWD, LONG, SHORT, 0.8, seed)
    streams = [Stream(x.values, x.dt * s, x.t0 * s) for x in obs.channels]
    prior = dataclasses.replace(FREE, frequency=(2.5 / s, 3.0 / s))
    a, b = (
        model.infer(obs, prior=FREE, refine=False),
        model.infer(Observation(*streams), prior=prior, refine=False),
    )
    scale = np.array([1, 1, 1 / s])
    assert_same_answer(a, b, 5, lambda centre, sd: (centre * scale, sd * scale))
    with pytest.raises(AssertionError):  # the comparison sees a shift of a twentieth of an sd
        assert_same_answer(a, b, 5, lambda c, sd: ((c + 0.05 * sd) * scale, sd * scale))


@pytest.mark.parametrize("s", [1e-9, 0.3, 1e6])
def test_amplitude_scaled(s: float, model: ZoomSlotFlow, seed: int) -> None:
    """Data and bounds in other units: amplitudes and noise times s, all else as it was (to 1 % of an sd)."""
    obs = observe(CROWD, LONG, SHORT, 0.8, seed)
    streams = [Stream(s * x.values, x.dt, x.t0) for x in obs.channels]
    prior = dataclasses.replace(FREE, amplitude=(0.5 * s, 1.5 * s), sigma=(0.1 * s, 2.0 * s))
    a, b = (
        model.infer(obs, prior=FREE, refine=False),
        model.infer(Observation(*streams), prior=prior, refine=False),
    )
    scale = np.array([s, 1, 1])
    assert_same_answer(a, b, 5, lambda centre, sd: (centre * scale, sd * scale))
    assert b.noise_std == pytest.approx(s * a.noise_std, rel=1e-5)


@pytest.mark.parametrize("bins", [-300, -1, 37, 300])
def test_frequency_shifted_by_whole_bins(bins: int, model: ZoomSlotFlow, seed: int) -> None:
    """Tones and the noise beneath them moved along: the same answer, to what other noise leaks in.

    The noise is moved bin by bin. From bins that do not move along, at a distance of at least d ≈ 300 bins, a sinc's
    tail reaches the tones: √(Σ 1/(πd)²) ≈ 2 % of the noise, and about as much in sds; 10 % are allowed for the largest
    of fifteen. The noise level outside the band changes by 1 %.
    """
    shift = bins / LONG.duration
    noise, fresh = 0.8 * white(LONG, seed), 0.8 * white(LONG, seed + 9)
    old, new = (
        np.fft.rfft(noise),
        np.fft.rfft(fresh),
    )  # bins that nothing is moved to get noise of their own
    source = np.arange(1, LONG.n // 2)
    source = source[(source + bins >= 1) & (source + bins < LONG.n // 2)]
    turn = np.exp(-2j * np.pi * bins * (LONG.n - 1) / (2 * LONG.n))  # phases refer to mid-time
    new[source + bins] = old[source] * turn
    moved = np.fft.irfft(new, LONG.n)
    theta = CROWD.clone()
    theta[..., 2] += shift
    theta[..., 1] -= 2 * math.pi * shift * LONG.mid_time  # the same phase at mid-time
    a = model.infer(
        Observation.from_arrays(tones(CROWD, LONG)[0].numpy() + noise, LONG.dt),
        prior=FREE,
        refine=False,
    )
    prior = dataclasses.replace(FREE, frequency=(2.5 + shift, 3.0 + shift))
    b = model.infer(
        Observation.from_arrays(tones(theta, LONG)[0].numpy() + moved, LONG.dt),
        prior=prior,
        refine=False,
    )

    def change(centre: NDArray[Any], sd: NDArray[Any]) -> Any:
        centre = centre + np.array([0, 0, shift])
        # φ at t = 0 from the phase at mid-time, whose uncertainty does not depend on where the band is.
        centre[:, 1] -= 2 * math.pi * shift * LONG.mid_time
        return centre, sd

    assert_same_answer(a, b, 5, change, tolerance=0.1)


def test_origin_of_time(model: ZoomSlotFlow, seed: int) -> None:
    """Later by t0, as a label: A and f as they were, φ turned back by 2πf t0, with its uncertainty."""
    obs = observe(CROWD, LONG, SHORT, 0.8, seed)
    t0 = -LONG.mid_time
    later = Observation(*(Stream(x.values, x.dt, x.t0 + t0) for x in obs.channels))
    a, b = model.infer(obs, prior=FREE, refine=False), model.infer(later, prior=FREE, refine=False)
    draws, other = a.sample(500, k=5), b.sample(500, k=5)
    np.testing.assert_allclose(other[..., [0, 2]], draws[..., [0, 2]], rtol=1e-9)
    turned = draws[..., 1] - 2 * np.pi * draws[..., 2] * t0
    assert np.abs(phase_error(other[..., 1] - turned)).max() < 1e-6
    np.testing.assert_allclose(b.k_probs, a.k_probs, atol=1e-9)
    epoch = Observation(*(Stream(x.values, x.dt, x.t0 + 1.7e9) for x in obs.channels))
    far = model.infer(epoch, prior=FREE, refine=False).sample(500, k=5)
    np.testing.assert_allclose(far[..., [0, 2]], draws[..., [0, 2]], rtol=1e-6)
