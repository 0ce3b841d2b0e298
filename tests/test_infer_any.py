"""The one way in for any data: uneven, complex, coloured, with offsets and strong neighbours, in several channels."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.core.numeric import log_sum_exp
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.infer.assume import assume
from slotflow.infer.band import checked_band, proposed_band, whole_band
from slotflow.infer.offsets import wanted_order
from slotflow.infer.statement import Statement
from slotflow.noise import ar
from slotflow.signal.likelihood import likelihood_of
from slotflow.signal.noise.choice import choose_noise
from slotflow.signal.noise.model import ChannelNoise
from slotflow.signal.waveforms import TONE

Tone = tuple[float, float, float]


def model_of(t: np.ndarray, *tones: Tone) -> np.ndarray:
    return sum(a * np.cos(2 * np.pi * f * t + phi) for a, phi, f in tones) + np.zeros(len(t))


def found(post: Any) -> np.ndarray:
    """Medians of the parameters, (K, 3)."""
    return post.summary()[["amplitude_median", "phase_median", "frequency_median"]].to_numpy()


def check_tones(post: Any, *tones: Tone, sds: float = 5.0) -> None:
    """The right number of tones, each within a few standard deviations of the truth."""
    assert post.k_map == len(tones), (post.k_probs, post.verdict)
    draws = post.sample(1000)
    a, f = draws[..., 0], draws[..., 2]
    for i, (amplitude, _, frequency) in enumerate(sorted(tones, key=lambda tone: tone[2])):
        assert abs(f[:, i].mean() - frequency) < sds * f[:, i].std()
        assert abs(a[:, i].mean() - amplitude) < sds * a[:, i].std()


def red(n: int, coefficient: float, rng: np.random.Generator) -> np.ndarray:
    """AR(1) noise of unit innovations."""
    x, burn = rng.standard_normal(n + 500), 0.0
    for i in range(len(x)):
        burn = x[i] = coefficient * burn + x[i]
    return x[500:]


# --- sampling --------------------------------------------------------------------------------------


def test_gaps(zoom: SlotFlow, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = 0.1 * np.arange(3000)
    truth = ((1.0, 0.3, 2.62), (0.5, 2.0, 2.80))
    x = model_of(t, *truth) + 0.8 * rng.standard_normal(3000)
    x[rng.random(3000) < 0.05] = np.nan
    x[700:1100] = np.nan
    obs = Observation.from_arrays(values=x, dt=0.1)
    post = zoom.infer(obs, prior={"frequency": (2.5, 3.0)})
    check_tones(post, *truth)
    assert post.verdict.status == "exact", post.verdict
    assert post.proposed_by == "zoom and classical"
    assert post.noise is not None and post.noise.level.mean == pytest.approx(0.8, rel=0.1)


def test_uneven_times_with_errors(zoom: SlotFlow, seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(0, 300, 2000))
    errors = rng.uniform(0.3, 1.5, 2000)
    truth = ((1.0, 0.3, 1.1), (0.4, 2.0, 1.25))
    x = 7.0 + model_of(t, *truth) + errors * rng.standard_normal(2000)
    obs = Observation.from_arrays(values=x, times=t, errors=errors)
    post = zoom.infer(obs, prior={"frequency": (1.0, 1.4)})
    check_tones(post, *truth)
    assert post.proposed_by == "classical" and post.verdict.status == "exact", post.verdict
    assert post.noise_std == pytest.approx(1.0, abs=0.1)


@pytest.mark.parametrize("band", [(-0.3, 0.2), (0.4, 0.6), (0.4, -0.4)])
def test_complex_samples(zoom: SlotFlow, seed: int, band: tuple[float, float]) -> None:
    """Negative frequencies, and bands that wrap around, stated either way."""
    rng = np.random.default_rng(seed)
    t, middle = np.arange(200.0), 0.5 * (band[0] + band[1] + (band[1] < band[0]))
    places = middle + np.array([-0.05, 0.03])
    x = np.exp(1j * (2 * np.pi * places[0] * t + 1.0)) + 0.6 * np.exp(2j * np.pi * places[1] * t)
    x = x + 0.5 * (rng.standard_normal(200) + 1j * rng.standard_normal(200))
    post = zoom.infer(Observation.from_arrays(values=x, dt=1.0), prior={"frequency": band})
    check_tones(post, (1.0, 1.0, places[0]), (0.6, 0.0, places[1]))
    assert post.verdict.status == "exact", post.verdict
    assert post.proposed_by == "zoom and classical"
    assert post.noise_std == pytest.approx(0.5, rel=0.2)


def test_three_channels(zoom: SlotFlow, seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, channels = ((0.3, 0.3, 2.7),), []
    for i, n in enumerate((2000, 1500, 1000)):
        t = 0.1 * np.arange(n) + 0.013 * i
        x = model_of(t, *truth) + 0.5 * rng.standard_normal(n)
        channels.append(Channel(x, 0.1, 0.013 * i, name="ABC"[i]))
    post = zoom.infer(Observation(channels), prior={"frequency": (2.5, 3.0)})
    check_tones(post, *truth)
    alone = zoom.infer(Observation(channels[:1]), prior={"frequency": (2.5, 3.0)})
    assert post.sample(1000)[..., 0].std() < 0.8 * alone.sample(1000)[..., 0].std()


# --- offsets and strong neighbours ------------------------------------------------------------------


@pytest.mark.parametrize("lowest", [1.5, 30.0])
def test_an_offset_of_a_thousand_levels(zoom: SlotFlow, seed: int, lowest: float) -> None:
    rng = np.random.default_rng(seed)
    t = 0.1 * np.arange(1000)
    truth = ((0.5, 0.3, (lowest + 3.2) / 100),)
    x = 1000.0 + model_of(t, *truth) + rng.standard_normal(1000)
    band = (lowest / 100, (lowest + 40) / 100)
    post = zoom.infer(Observation.from_arrays(values=x, dt=0.1), prior={"frequency": band})
    check_tones(post, *truth)
    assert post.verdict.status == "exact", post.verdict


def test_a_stronger_tone_outside_the_band(zoom: SlotFlow, seed: int) -> None:
    """A tone of A = 1 in the band, one of A = 30 outside of it, 1.1 Hz away."""
    rng = np.random.default_rng(seed)
    t = 0.1 * np.arange(3000)
    x = model_of(t, (1.0, 0.3, 2.7), (30.0, 1.0, 1.6)) + 0.5 * rng.standard_normal(3000)
    post = zoom.infer(Observation.from_arrays(values=x, dt=0.1), prior={"frequency": (2.5, 3.0)})
    check_tones(post, (1.0, 0.3, 2.7))
    assert post.verdict.status == "exact", post.verdict


def test_bounds_contain_the_peak(zoom: SlotFlow, seed: int) -> None:
    """However large offset and peak are, derived bounds contain what the data show."""
    rng = np.random.default_rng(seed)
    for n, offset in ((115, 50.0), (300, 0.0), (1000, -3e4)):
        t = np.arange(n)
        x = offset + 29.6 * np.cos(2 * np.pi * 0.09 * t) + rng.standard_normal(n)
        basis = assume(zoom, Observation.from_arrays(values=x, dt=1.0), Statement())
        low, high = basis.assumed.prior.amplitude
        assert low < 29.6 < high and basis.assumed.prior.sigma[1] > 1


# --- coloured noise --------------------------------------------------------------------------------


def test_tones_in_red_noise(zoom: SlotFlow, seed: int) -> None:
    """AR(1) noise is noticed, and the tones in it are found with errors that hold.

    One signal in ten or so has a peak of noise that looks like a tone, or a residual that a test doubts.
    """
    t = 0.1 * np.arange(2000)
    truth, exact = ((1.0, 0.3, 1.1), (0.8, 2.0, 1.3)), 0
    for i in range(5):
        x = model_of(t, *truth) + red(2000, 0.9, np.random.default_rng(seed + i))
        observation = Observation.from_arrays(values=x, dt=0.1)
        post = zoom.infer(observation, prior={"frequency": (0.9, 1.5)})
        assert post.verdict.status != "misfit", post.verdict
        assert post.noise is not None and post.noise.name != "white"
        if post.k_map == 2:
            check_tones(post, *truth)
            exact += post.verdict.status == "exact"
    assert exact >= 3


def test_tides_in_red_noise(zoom: SlotFlow, seed: int) -> None:
    """Hourly sea level of 60 days: M2, S2, N2 and K1 in noise of 1/f², without being named."""
    rng = np.random.default_rng(seed)
    hour = np.arange(24 * 60) / 24.0  # days
    truth = ((17.0, 1.0, 1.9323), (5.3, 2.0, 2.0), (3.2, 0.5, 1.8960), (14.0, 4.0, 1.0027))
    x = 80.0 + model_of(hour, *truth) + 0.5 * np.cumsum(rng.standard_normal(len(hour)))
    post = zoom.infer(Observation.from_arrays(values=x, dt=1 / 24), prior={"frequency": (0.8, 2.2)})
    check_tones(post, *truth)
    assert post.verdict.status != "misfit", post.verdict


# --- what is refused and what is assumed ------------------------------------------------------------


def test_bands_of_real_and_complex_data() -> None:
    real = Observation.from_arrays(values=np.ones(100), dt=0.5)
    with pytest.raises(ValueError, match="above 0 Hz"):
        checked_band(real, (-0.2, 0.3))
    assert whole_band(real) == pytest.approx((1.5 / 50, 1 - 0.5 / 50))
    iq = Observation.from_arrays(values=np.ones(100) + 1j, dt=0.5)
    assert whole_band(iq) == (-1.0, 1.0) and checked_band(iq, (0.9, -0.9)) == pytest.approx(
        (0.9, 1.1)
    )
    with pytest.raises(ValueError, match="at most 2 Hz"):
        checked_band(iq, (-1.0, 1.5))


def test_what_cannot_be_asked(zoom: SlotFlow, debug_model: SlotFlow) -> None:
    iq = Observation.from_arrays(values=np.exp(2j * np.pi * 0.1 * np.arange(300)), dt=1.0)
    with pytest.raises(ValueError, match="leave the exact step on"):
        zoom.infer(iq, prior={"frequency": (0.0, 0.3)}, method="network")
    with pytest.raises(ValueError, match="even, real series"):
        debug_model.infer(iq)
    with pytest.raises(ValueError, match="outliers"):
        zoom.infer(iq, outliers="drop")
    with pytest.raises(ValueError, match="order of a polynomial"):
        zoom.infer(iq, trend=7)
    alone = Channel(np.random.default_rng(0).standard_normal(60), 1.0, segments=np.arange(60))
    for band in ({"frequency": (0.1, 0.2)}, {}):
        with pytest.raises(ValueError, match="more samples than there are offsets"):
            zoom.infer(Observation(alone), prior=band)
    with pytest.raises(ValueError, match="Prior expects frequency"):
        Prior(frequency=(0.3, -0.3))


def test_trends_are_marginalized_up_to_the_order_that_the_data_want(seed: int) -> None:
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, 800)
    noise, season = rng.standard_normal(800), 3 * np.cos(2 * np.pi * 20 * t)
    for order, rise in ((0, 5 + 0 * t), (1, 40 * t), (2, 40 * t + 30 * t**2), (3, 300 * t**3)):
        channel = Channel(noise + season + rise, 1.0)
        assert wanted_order(channel) == order
    slow = Channel(noise + 40 * t + 9 * np.cos(2 * np.pi * 2.2 * t), 1.0)  # a tone is no trend
    assert wanted_order(slow) == 1


def test_values_of_the_noise_that_the_data_exclude_are_dropped(seed: int) -> None:
    """RSS summed over samples is that of the curves; the evidence without the excluded values is the same."""
    rng = np.random.default_rng(seed)
    t = np.arange(300.0)
    obs = Observation.from_arrays(values=model_of(t, (1.5, 0.3, 0.21)) + red(300, 0.7, rng), dt=1.0)
    band = (0.15, 0.3)
    noise = choose_noise(obs, ar(1), band)
    wide = replace(noise.nodes[0], log_weight=-3.0, channels=(ChannelNoise(np.array([1.0, 0.5])),))
    nodes = (*noise.nodes, *(wide for _ in range(12 - len(noise.nodes))))
    prior = Prior(0, 2, frequency=band, amplitude=(0.1, 3.0), min_separation=0.0, sigma=(0.0, 3.0))
    everything = likelihood_of(obs, replace(noise, nodes=nodes), band)
    z = everything.to_z(np.array([[1.4, 0.2, 0.21]]))
    curves = float(everything.energy) + everything.gains(*everything.waveform.unpack(z[None, None]))
    assert everything.rss_by_samples(z) == pytest.approx(float(curves[0, 0]), rel=1e-9)
    full = float(log_sum_exp(Target(everything, prior, 1).node_log_likelihoods(z[None])[:, 0]))
    orders = across_orders(everything, prior, rng=rng, draws=500)
    assert 1 + len(everything.nodes) < 12 and orders.k_map == 1
    less = float(log_sum_exp(Target(everything, prior, 1).node_log_likelihoods(z[None])[:, 0]))
    assert less == pytest.approx(full, abs=0.01)


@pytest.mark.parametrize("beside", [0.0, 3.0])
def test_a_weak_tone_needs_no_stated_band(zoom: SlotFlow, beside: float, base_seed: int) -> None:
    """A tone that a tapered spectrum does not show, alone and far from a strong one: a search finds it."""
    found = []
    for i in range(4):
        rng = np.random.default_rng([base_seed, i])
        t = 0.02 * np.arange(2000)
        x = rng.normal(scale=2.0, size=t.size) + 0.45 * np.cos(2 * np.pi * 20.1 * t + 1)
        x += beside * np.cos(2 * np.pi * 12.34 * t)
        observation = Observation.from_arrays(long=x, dt_long=0.02)
        post = zoom.infer(observation)
        places = TONE.place_of(post.centres(post.k_map))
        found.append(bool((np.abs(places - 20.1) < 0.025).any()))
    assert sum(found) >= 2  # each with a probability of 0.95 or more


def test_what_is_proposed_holds_all_tones_that_are_beyond_doubt(
    zoom: SlotFlow, base_seed: int
) -> None:
    """One stretch for two strong tones in it, everything for noise."""
    t, rng = 0.02 * np.arange(2000), np.random.default_rng(base_seed)
    noise = rng.normal(scale=2.0, size=t.size)
    tones = 3 * np.cos(2 * np.pi * 12.34 * t) + 2 * np.cos(2 * np.pi * 12.8 * t)
    widths = []
    for x in (noise + tones, noise):
        low, high = proposed_band(zoom, Observation.from_arrays(long=x, dt_long=0.02))[0]
        widths.append(40 * (high - low))
    assert widths[0] <= 150 and widths[1] > 990


def test_a_search_without_time_leaves_nothing_out(
    zoom: SlotFlow, base_seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has not found yet may be anywhere; with time, the control, one stretch is proposed."""
    t, rng = 0.02 * np.arange(2000), np.random.default_rng(base_seed)
    x = (
        3 * np.cos(2 * np.pi * 12.34 * t)
        + 2 * np.cos(2 * np.pi * 12.8 * t)
        + rng.normal(size=t.size)
    )
    observation = Observation.from_arrays(long=x, dt_long=0.02)
    assert 40 * np.ptp(proposed_band(zoom, observation)[0]) <= 150
    monkeypatch.setattr("slotflow.infer.band.SEARCH_SECONDS", 0.0)
    assert proposed_band(zoom, observation)[0] == whole_band(observation)
