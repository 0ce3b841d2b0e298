"""Pictures of series at any times, real or complex, in any unit; tones with several possible frequencies."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from posterior_helpers import PRIOR, TONES, GaussianSlots, gaussian_posterior

from slotflow import Channel, Observation, Posterior, Prior, SlotFlow
from slotflow.posterior.draws import Draws
from slotflow.posterior.noise import Estimate, NoiseFacts
from slotflow.posterior.summaries import place_modes
from slotflow.show.plots import plot_posterior, save_figure
from slotflow.show.plots.series import amplitudes, cleaned, power, signals_at, window_amplitudes
from slotflow.show.plots.view import View
from slotflow.signal.waveforms import TONE


def words(figure: Any) -> str:
    """All text of a figure."""
    texts = [text.get_text() for text in figure.texts]
    for ax in figure.axes:
        legend = ax.get_legend()
        texts += [] if legend is None else [text.get_text() for text in legend.get_texts()]
        texts += [ax.get_title(), ax.get_title(loc="left"), ax.get_xlabel(), ax.get_ylabel()]
        texts += [text.get_text() for text in (*ax.texts, *ax.get_yticklabels())]
    return "\n".join(texts)


def observed(kind: str, offset: float = 5.0) -> Observation:
    """Two of the tones in noise of 0.3: an uneven series with gaps and errors, or a complex one."""
    rng = np.random.default_rng(2)
    t = np.arange(600) * 0.1
    if kind == "uneven":
        t = np.sort(t + rng.uniform(-0.03, 0.03, t.size))
        t = t[(t < 20) | (t > 31)]
    is_complex = kind == "complex"
    x = signals_at(TONES[:2], Channel(t, times=t).sampling, TONE, is_complex)
    noise = rng.standard_normal(t.size) + (1j * rng.standard_normal(t.size) if is_complex else 0)
    errors = np.full(t.size, 0.3) if kind == "uneven" else None
    channel = Channel(x + 0.3 * noise + offset, times=t, errors=errors, time_unit="s", unit="mV")
    return Observation(channel)


def posterior(kind: str) -> Posterior:
    """Gaussians around the two tones, beside data of a kind."""
    post = gaussian_posterior([0.0, 0.0, 1.0, 0.0], short=False)
    post.observation = observed(kind)
    post.noise_std = 1.0 if kind == "uneven" else 0.3
    return post


@pytest.mark.parametrize("kind", ["uneven", "complex"])
def test_every_picture_of_any_series(kind: str, tmp_path: Path) -> None:
    post = posterior(kind)
    save_figure(figure := post.plot("overview"), tmp_path / "a.png", dpi=40)
    assert (tmp_path / "a.png").stat().st_size > 10_000
    rest = words(post.plot("residual"))
    assert "rms 1." in rest and ("imaginary" in rest) == (kind == "complex")
    text = words(figure)
    assert "without offset" in text
    assert ("imaginary part" in text) == (kind == "complex")
    assert ("sampling window" in text) == (kind == "uneven")
    assert ("× the errors" in text) == (kind == "uneven")


@pytest.mark.parametrize("kind", ["uneven", "complex"])
def test_offsets_that_are_integrated_out_are_not_shown(kind: str) -> None:
    (values,) = cleaned(posterior(kind))
    given = observed(kind).long.values
    # the draws miss the tones by their widths, so that the mean of what they leave is not quite zero
    assert abs(values.mean()) < 0.15 < abs(given.mean())
    np.testing.assert_allclose(values - given, (values - given)[0], atol=1e-9)
    plain = gaussian_posterior([0.0, 0.0, 1.0, 0.0], short=False)
    assert cleaned(plain)[0] is plain.observation.long.values


@pytest.mark.parametrize("kind", ["uneven", "complex"])
def test_a_tone_peaks_at_its_amplitude(kind: str) -> None:
    (channel,) = observed(kind, offset=0.0).channels
    f, spectrum = amplitudes(channel, channel.values, (2.4, 3.0))
    dense = np.exp(-2j * np.pi * np.outer(f, channel.times)) @ channel.values / channel.n
    np.testing.assert_allclose(spectrum, np.abs(dense) * (1 if kind == "complex" else 2), atol=1e-7)
    for amplitude, _, frequency in TONES[:2]:
        near = np.abs(f - frequency) < 0.01
        assert abs(spectrum[near].max() - amplitude) < 0.2
    at, window = window_amplitudes(channel, 2.72, (2.4, 3.0))
    assert abs(at[window.argmax()] - 2.72) < 2e-3 and window.max() == pytest.approx(1, abs=5e-3)


@pytest.mark.parametrize("is_complex", [False, True])
def test_power_of_noise_is_one_on_average(is_complex: bool) -> None:
    rng = np.random.default_rng(3)
    t = np.sort(rng.uniform(0, 400, 4000))
    x = rng.standard_normal(t.size) + (1j * rng.standard_normal(t.size) if is_complex else 0)
    _, found = power(t, x, (0.5, 3.0))  # 1000 bins: a standard error of 0.03
    assert abs(found.mean() - 1) < 0.15
    assert abs(power(t, 2 * x, (0.5, 3.0))[1].mean() - 1) > 1


def test_the_unit_is_on_every_picture() -> None:
    post = posterior("uneven")
    look = {"frequency_unit": "1/h"}
    for name in ("spectrum", "components", "residual", "corner"):
        text = words(post.plot(name, **look))
        assert "1/h" in text and "Hz]" not in text, name
    title = post.plot("components", **look).axes[2].get_title(loc="left")
    assert title.startswith("Frequency − median [") and title.endswith("1/h]")


def test_times_and_frequencies_of_a_file_in_days() -> None:
    post = posterior("uneven")
    channel = dataclasses.replace(post.observation.long, time_unit="d")
    post.observation = Observation(channel)
    text = words(post.plot("data")) + words(post.plot("spectrum"))
    assert "time [d]" in text and "frequency [c/d]" in text


def test_phases_at_mid_series() -> None:
    post = posterior("complex")
    channel = post.observation.long
    post.observation = Observation(dataclasses.replace(channel, t0=1000.0, times=None))
    text = words(post.plot("components"))
    assert "Phase at mid-series − median" in text
    assert "Phase at t = 0 − median" in words(post.plot("components", phase_at="zero"))
    view = View.of(post)
    assert view.epoch.seconds == pytest.approx(1000 + 29.95)


class AliasedSlots(GaussianSlots):
    """The first tone is one cycle per minute higher in a quarter of the draws."""

    def sample(self, n: int, k: int, seed: int) -> Any:
        theta = super().sample(n, k, seed)
        theta[: n // 4, -1, 2] += 1 / 30
        return theta


def test_a_tone_with_an_alias_shows_both_places() -> None:
    post = posterior("uneven")
    post.slots = AliasedSlots()
    modes = View.of(post).modes
    assert [len(found) for found in modes] == [2, 1]
    first, second = modes[0]
    assert first.probability == pytest.approx(0.75) and second.probability == pytest.approx(0.25)
    assert first.median == pytest.approx(TONES[0, 2], abs=1e-3) and first.sd < 0.003
    assert second.median - first.median == pytest.approx(1 / 30, abs=1e-3)
    text = words(post.plot("spectrum")) + words(post.plot("components"))
    assert "1: 0.25" in text and "(p = 0.75)\nor" in text and "(p = 0.25)" in text
    post.slots = GaussianSlots()
    assert [len(found) for found in View.of(post).modes] == [1, 1]


def test_modes_need_a_gap_and_a_share() -> None:
    draws = np.zeros((1000, 1, 3))
    draws[:, 0, 2] = np.linspace(1.0, 1.02, 1000)  # one broad mode
    assert [len(m) for m in place_modes(draws, 0.01)] == [1]
    draws[990:, 0, 2] = 2.0  # one draw in a hundred is too few
    assert [len(m) for m in place_modes(draws, 0.01)] == [1]
    draws[900:, 0, 2] = 2.0
    assert [len(m) for m in place_modes(draws, 0.01)] == [2]
    assert [len(m) for m in place_modes(draws, 0.0)] == [1]


def test_strong_tones_have_a_logarithmic_axis() -> None:
    post = gaussian_posterior([0.0, 0.0, 1.0, 0.0], short=False)
    ax = post.plot("spectrum").axes[0]
    assert ax.get_yscale() == "linear" and ax.get_ylim()[0] == 0
    post.noise_std = 1e-3
    ax = post.plot("spectrum").axes[0]
    assert ax.get_yscale() == "log" and ax.get_ylim()[0] > 0
    low, high = ax.get_ylim()
    for text in ax.texts:  # the numbers of the tones stand inside the panel
        assert 0 < text.xyann[1] < 1
    assert low < 1e-3 and high > TONES[:2, 0].max()


def test_the_floor_of_coloured_noise_in_a_file() -> None:
    post = gaussian_posterior([0.0, 0.0, 1.0, 0.0], short=False)
    post.noise = NoiseFacts("local", Estimate(0.3, 0.01), Estimate(0.6, 0.02))
    ax = post.plot("spectrum").axes[0]
    (line,) = (one for one in ax.get_lines() if one.get_label() == "noise, mean")
    expected = 0.6 * np.sqrt(1.5 * np.pi / post.observation.long.n)  # under a Hann window
    np.testing.assert_allclose(line.get_ydata(), expected)
    assert post.prior == PRIOR


def test_of_local_noise_the_band_alone_is_shown() -> None:
    """A tone under a drift a hundred times as strong: the picture shows the tone, and the floor beside it."""
    rng, t = np.random.default_rng(0), 0.05 * np.arange(2000)
    drift = 200 * np.cumsum(rng.normal(size=2000)) / np.sqrt(2000)
    x = drift + 4 * np.cos(2 * np.pi * 4.1 * t) + 0.3 * rng.normal(size=2000)
    options: dict[str, Any] = {"noise": "local", "max_seconds": 60, "draws": 300}
    prior = Prior(k_min=0, k_max=3, frequency=(3.5, 4.5), amplitude=(0.2, 9), sigma=(0, 30))
    data = Observation([Channel(x, dt=0.05)])
    post = SlotFlow.from_pretrained().infer(data, prior=prior, **options)
    figure = plot_posterior(post)
    data_panel, spectrum = figure.axes[:2]
    assert "Data in the band" in data_panel.get_title("left")
    assert "middle" in data_panel.get_title("left")
    points = max(
        data_panel.lines, key=lambda line: len(line.get_xdata()) * (line.get_marker() == "o")
    )
    assert 0.5 < np.abs(points.get_ydata()).max() < 10  # the drift reaches 200
    series = next(line for line in spectrum.lines if line.get_label() == "series")
    f, height = series.get_xdata(), series.get_ydata()
    assert height.max() == pytest.approx(4.0, abs=0.8)  # the noise there is 0.2 to 0.3
    away = (np.abs(f - 4.1) > 0.1) & (f > 3.5) & (f < 4.5)
    floor = next(line for line in spectrum.lines if "noise" in str(line.get_label()))
    assert np.sqrt(np.mean(height[away] ** 2)) < 2.5 * np.mean(floor.get_ydata())


def test_two_places_do_not_turn_a_panel_around() -> None:
    """The words of a component with an alias are long; they stand in two lines, and the panel keeps its direction."""
    post = posterior("uneven")
    k = post.k_map
    theta = post.sample(400, k)
    theta[:100, 0, 2] += 30 * post.resolution
    two = Posterior(
        np.eye(k + 1)[k], Draws(k, {k: theta}, {k: np.ones(400)}), post.observation, 1.0, None, "x"
    )
    for panel in plot_posterior(two).axes[-3:]:
        low, high = panel.get_xlim()
        assert low < 0 < high
