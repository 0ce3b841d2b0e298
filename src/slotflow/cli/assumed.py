"""What `slotflow infer` assumes of a file: its sampling, and a prior stated by flags or taken from the model.

The default model is dimensionless, so a prior carries over to other sampling in bins of 1/T. Of its own prior the
command takes what is not stated: the number of components and the amplitudes as they are, the minimum separation in
bins (3 of them), the noise level where the data do not lie outside its bounds, and the band only where the series can
show it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from slotflow.cli import output
from slotflow.config import Config, preset_names
from slotflow.exact.verdict import unlikely_amplitude
from slotflow.model import SlotFlow
from slotflow.priors import Prior
from slotflow.streams import Observation, Stream
from slotflow.zoom import FEWEST_BINS, ZoomSlotFlow

__all__ = ["assumed_prior", "assumed_record", "print_assumed", "unlikely", "untrained"]

SMALL = 1e-3
"""Noise below this share of the upper bound of σ asks for a bound of its own."""
Stated = dict[str, Any]
"""Fields of a Prior that the user stated; None where not."""


def assumed_prior(
    network: SlotFlow,
    observations: Sequence[Observation],
    stated: Stated,
    k_prior: list[float] | dict[int, float] | None = None,
) -> Prior:
    """The prior to answer under.

    Args:
        network: The model, whose own prior fills the gaps.
        observations: Those of the file, all sampled alike.
        stated: What the flags say.
        k_prior: p(K) if it is given: no more components than it allows need room in the band.

    Returns:
        The prior; a model that knows its own prior alone refuses another one later.
    """
    own = network.config.prior
    given = {name: value for name, value in stated.items() if value is not None}
    obs = observations[0]
    if isinstance(network, ZoomSlotFlow):
        if "frequency" not in given:
            _check_own_band(network, obs.long)
        if "min_separation" not in given:
            ratio = network.config.long.duration / obs.long.duration
            alike = math.isclose(ratio, 1.0, rel_tol=1e-9)
            given["min_separation"] = own.min_separation * (1.0 if alike else ratio)
        if k_prior is not None:
            weights = k_prior if isinstance(k_prior, dict) else dict(enumerate(k_prior))
            largest = max((k for k, weight in weights.items() if weight > 0), default=own.k_max)
            given["k_max"] = min(max(largest, 1), own.k_max)
    if "k_min" in given or "k_max" in given:
        given["k_probs"] = None
    prior = dataclasses.replace(own, **given)
    return prior if "sigma" in given else _with_noise(prior, observations)


def _with_noise(prior: Prior, observations: Sequence[Observation]) -> Prior:
    """The prior; where a signal's noise lies outside its σ or far below, one from 0 to three times the largest."""
    low, high = prior.sigma
    levels = []
    for obs in observations:
        level, rms = (
            obs.noise_level(prior.frequency)[0],
            float(np.sqrt(np.mean(obs.long.values**2))),
        )
        levels.append(rms if math.isnan(level) else min(level, rms))
    if max(levels) == 0 or all(max(low, SMALL * high) <= level <= high for level in levels):
        return prior
    return dataclasses.replace(prior, sigma=(0.0, 3 * max(levels)))


def _check_own_band(network: ZoomSlotFlow, stream: Stream) -> None:
    """Refuses a series that cannot show the model's own band, and names one that it can show."""
    own = network.config.prior
    low, high = own.frequency
    width, most = (high - low) * stream.duration, network.sizes.bins
    needed = own.k_max * own.min_separation * network.config.long.duration  # its own prior must fit
    if high <= stream.nyquist and max(needed, FEWEST_BINS) <= width <= most * (1 + 1e-9):
        return
    found = (
        f"received {stream.n:,} samples × {stream.dt:.6g} s, whose Nyquist frequency is {stream.nyquist:.6g} Hz and "
        f"1/T = {1 / stream.duration:.4g} Hz: {low:g}–{high:g} Hz "
    )
    found += f"would be {width:.4g} bins" if high <= stream.nyquist else "lies beyond it"
    advice = f"say where to look with --band F_LO:F_HI, {FEWEST_BINS} to {most} bins wide"
    if (band := _strongest_band(stream, most)) is not None:
        advice += f"; the strongest peak lies in --band {band}"
    raise ValueError(
        f"expected --band, or a series that shows the model's own band {low:g}–{high:g} Hz in {needed:.3g} to "
        f"{most} bins of 1/T, {found}; {advice}."
    )


def _strongest_band(stream: Stream, most: int) -> str | None:
    """A band around the strongest peak as LOW:HIGH, or None where the series is too short for any."""
    power = np.abs(np.fft.rfft(stream.values - stream.values.mean()))
    last = power.size - 1  # bins 0 .. last
    first = 2  # below lie offset and trend
    if last - first < FEWEST_BINS + 1:
        return None
    peak = first + int(power[first:].argmax())
    width = min(most - 2, last - first)
    low = min(max(peak - width // 2, first), last - width)
    # Rounded to this digit, an edge moves by half a bin at most.
    digits = max(0, -math.floor(math.log10(1 / stream.duration)))
    edges = [bin_ / stream.duration for bin_ in (low, low + width)]
    lower, upper = (f"{edge:.{digits}f}" for edge in edges)
    if float(upper) > stream.nyquist:
        upper = f"{math.floor(edges[1] * 10**digits) / 10**digits:.{digits}f}"
    return f"{lower}:{upper}"


def unlikely(obs: Observation, prior: Prior) -> str | None:
    """A complaint about amplitude bounds that the band's spectrum contradicts, or None."""
    found = unlikely_amplitude(obs, prior)
    advice = "state bounds in the data's units with --amplitude LOW:HIGH."
    return f"{found}; {advice}" if found else None


def untrained(network: SlotFlow, obs: Observation, prior: Prior) -> list[str]:
    """Complaints about a prior outside those of the preset's training, where answers have not been evaluated."""
    name = network.config.name
    mixture = Config.from_preset(name).mixture if name in preset_names() else None
    if mixture is None or not isinstance(network, ZoomSlotFlow):
        return []
    own, trained = network.config.prior, network.config.long.duration
    bins = (own.frequency[1] - own.frequency[0]) * trained
    largest = own.amplitude[1]
    ratios = [edge / largest for part in mixture.parts for edge in part.amplitude_low]
    narrowest = bins * min(part.width[0] for part in mixture.parts)
    widest_gap = trained * max(part.min_separation[1] for part in mixture.parts)
    found = []
    ratio = prior.amplitude[0] / prior.amplitude[1]
    if not 0.99 * min(ratios) <= ratio <= 1.01 * max(ratios):
        found.append(
            f"lower bounds of A from {min(ratios):.3g} to {max(ratios):.3g} times the upper one, received "
            f"{ratio:.3g} times; state others with --amplitude"
        )
    width = (prior.frequency[1] - prior.frequency[0]) * obs.long.duration
    if width < 0.99 * narrowest:
        found.append(f"bands of {narrowest:.3g} bins and more, received {width:.3g}; widen --band")
    separation = prior.min_separation * obs.long.duration
    if separation > 1.01 * widest_gap:
        found.append(
            f"separations of up to {widest_gap:.3g} bins, received {separation:.3g}; lower --min-separation"
        )
    return [f"the model was trained for {text}, or take the count with care." for text in found]


def assumed_record(obs: Observation, prior: Prior) -> dict[str, Any]:
    """Sampling, band and prior as plain values."""
    duration = obs.long.duration
    return {
        "streams": [
            {"n": s.n, "dt": s.dt, "t0": s.t0, "duration": s.duration} for s in obs.streams
        ],
        "bin": 1 / duration,
        "band_bins": (prior.frequency[1] - prior.frequency[0]) * duration,
        "prior": dataclasses.asdict(prior),
    }


def print_assumed(record: dict[str, Any]) -> None:
    """Prints what `assumed_record` gives."""
    for name, stream in zip(("long", "short"), record["streams"], strict=False):
        start = f", from t = {stream['t0']:.6g} s" if stream["t0"] else ""
        output.console.print(
            f"  {name:<6s} {stream['n']:,} samples × {stream['dt']:.6g} s = {stream['duration']:.6g} s, "
            f"Nyquist {0.5 / stream['dt']:.6g} Hz{start}"
        )
    prior = record["prior"]
    (low, high), (smallest, largest) = prior["frequency"], prior["amplitude"]
    separation, (quiet, noisy) = prior["min_separation"], prior["sigma"]
    output.console.print(
        f"  band   {low:.9g}–{high:.9g} Hz, {record['band_bins']:.4g} bins of 1/T = {record['bin']:.4g} Hz\n"
        f"  prior  K = {prior['k_min']}..{prior['k_max']}, A in {smallest:g}–{largest:g}, separation >= "
        f"{separation:.4g} Hz ({separation / record['bin']:.3g} bins), σ in {quiet:.4g}–{noisy:.4g}"
    )
