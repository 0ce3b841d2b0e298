"""What `slotflow infer` assumes of a file: its sampling, and a prior stated by flags or taken from the model.

The default model is dimensionless, so a prior carries over to other sampling in bins of 1/T. Of its own prior the
command takes what is not stated: the number of components as far as they fit into the band, the minimum separation in
bins (3 of them), the bounds of amplitude and noise level where the data do not contradict them (`derived.py`), and the
band where the series can show it and has no stronger peak elsewhere; else the strongest part of the spectrum is
proposed as the band, and named.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from typing import Any

from rich.markup import escape

from slotflow.cli import output
from slotflow.cli.data import stream_record
from slotflow.cli.derived import derived_bounds, trained_ratios
from slotflow.data.observation import Observation
from slotflow.data.preprocess import FALSE_ALARM, Band, strongest_band
from slotflow.network.config import Config, preset_names
from slotflow.network.model import SlotFlow
from slotflow.network.zoom.model import FEWEST_BINS, ZoomSlotFlow
from slotflow.posterior.verdict import unlikely_amplitude
from slotflow.signal.prior import Prior

__all__ = [
    "assumed_prior",
    "assumed_record",
    "print_assumed",
    "proposed_band",
    "start_band",
    "unlikely",
    "untrained",
]

Fields = dict[str, Any]
"""Fields of a Prior that the user stated; None where not."""


def assumed_prior(
    network: SlotFlow,
    observations: Iterable[Observation],
    stated: Fields,
    k_prior: dict[int, float] | None = None,
) -> Prior:
    """The prior to answer under.

    Args:
        network: The model, whose own prior fills the gaps.
        observations: Those of the file, all sampled alike, at least one.
        stated: What flags and prior file say.
        k_prior: p(K) if it is given: no more components than it allows need room in the band.

    Returns:
        The prior; a model that knows its own prior alone refuses another one later.
    """
    own = network.config.prior
    given = {name: value for name, value in stated.items() if value is not None}
    obs = next(iter(observations))
    if isinstance(network, ZoomSlotFlow):
        if "min_separation" not in given:
            ratio = network.config.long.duration / obs.long.duration
            alike = math.isclose(ratio, 1.0, rel_tol=1e-9)
            given["min_separation"] = own.min_separation * (1.0 if alike else ratio)
        if k_prior is not None:
            largest = max((k for k, weight in k_prior.items() if weight > 0), default=own.k_max)
            given["k_max"] = min(max(largest, 1), own.k_max)
        _make_room(own, given)
    if "k_min" in given or "k_max" in given:
        given["k_probs"] = None
    prior = dataclasses.replace(own, **given)
    if not isinstance(network, ZoomSlotFlow):
        return prior  # a model that knows its own prior alone is not asked under another
    return derived_bounds(
        prior, network, observations, "amplitude" not in given, "sigma" not in given
    )


def _make_room(own: Prior, given: Fields) -> None:
    """Lowers a k_max that is not stated to what fits into the band; refuses one that is and does not fit.

    Args:
        own: The model's own prior.
        given: What is stated and assumed of the prior; its k_max may change.
    """
    (low, high), separation = given.get("frequency", own.frequency), given["min_separation"]
    if not (separation > 0 and low < high):
        return
    fits = math.ceil(min((high - low) / separation, 1e6))
    most = max(given.get("k_max", 0), given.get("k_min", 0))
    if most > fits:
        raise ValueError(
            f"{most} components at a separation of {separation:.4g} Hz do not fit into the band {low:.9g}–{high:.9g} "
            f"Hz, where there is room for {fits}; widen --band, or lower --min-separation or the number of components "
            "(--k-max, --k-min, --k-prior)."
        )
    if "k_max" not in given and fits < own.k_max:
        given["k_max"] = fits


def proposed_band(network: SlotFlow, observations: Iterable[Observation]) -> Band | None:
    """The band to analyse if none is stated: the strongest one, or None for the model's own.

    The model's own band is taken where the series shows it, if the strongest peak lies there or none stands out.

    Args:
        network: The model; one that is not dimensionless knows its own band alone.
        observations: Those of the file, all sampled alike, at least one; that with the highest peak decides.
    """
    if not isinstance(network, ZoomSlotFlow):
        return None
    own, stream = network.config.prior, next(iter(observations)).long
    low, high = own.frequency
    width, most = (high - low) * stream.duration, network.sizes.bins
    needed = own.k_max * own.min_separation * network.config.long.duration  # its own prior must fit
    band, count = None, 0
    try:
        for obs in observations:
            found = strongest_band(obs.long, most)
            band = found if band is None or found.snr > band.snr else band
            count += 1
    except ValueError as error:
        advice = "or say where to look with --band F_LO:F_HI"
        raise ValueError(f"{str(error).rstrip('.')}, {advice}.") from error
    assert band is not None
    shown = high <= stream.nyquist and max(needed, FEWEST_BINS) <= width <= most * (1 + 1e-9)
    margin = 1 / stream.duration  # the peak is known to about a bin
    within = low - margin <= band.peak <= high + margin
    faint = band.snr < math.log(count * stream.n / FALSE_ALARM)  # noise of some signal
    return None if shown and (within or faint) else band


def start_band(network: SlotFlow, obs: Observation, low: float) -> tuple[float, float]:
    """The band that begins at a frequency in Hz (--f-lo) and is as wide as the model's own: 150 bins for `zoom`."""
    own = network.config.prior.frequency
    width = own[1] - own[0]
    if isinstance(network, ZoomSlotFlow):
        width = network.sizes.bins / obs.long.duration
    return low, low + width


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
    lowest, highest = trained_ratios(network)
    narrowest = bins * min(part.width[0] for part in mixture.parts)
    widest_gap = trained * max(part.min_separation[1] for part in mixture.parts)
    found = []
    ratio = prior.amplitude[0] / prior.amplitude[1]
    if not 0.99 * lowest <= ratio <= 1.01 * highest:
        found.append(
            f"lower bounds of A from {lowest:.3g} to {highest:.3g} times the upper one, received "
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
    return [f"the model was trained for {text}, or take the count with care" for text in found]


def assumed_record(
    obs: Observation, prior: Prior, own: Prior, stated: Fields, band: Band | None = None
) -> dict[str, Any]:
    """Sampling, band and prior as plain values, and where bounds come from: "stated", "the model" or "the data".

    Args:
        obs: The data.
        prior: The prior.
        own: That of the model.
        stated: What flags and prior file say.
        band: What `proposed_band` found, if that was taken.
    """
    duration = obs.long.duration
    found = None if band is None else {"name": band.name, **band._asdict()}

    def source(name: str) -> str:
        if stated.get(name) is not None:
            return "stated"
        return "the model" if getattr(prior, name) == getattr(own, name) else "the data"

    return {
        "streams": [stream_record(stream) for stream in obs.channels],
        "bin": 1 / duration,
        "band_bins": (prior.frequency[1] - prior.frequency[0]) * duration,
        "band_from": source("frequency"),
        "amplitude_from": source("amplitude"),
        "sigma_from": source("sigma"),
        "proposed": found,
        "prior": dataclasses.asdict(prior),
    }


def print_assumed(record: dict[str, Any]) -> None:
    """Prints what `assumed_record` gives."""
    for name, stream in zip(("long", "short"), record["streams"], strict=False):
        start = f", from t = {stream['t0']:.6g} s" if stream["t0"] else ""
        unit = f", in {stream['unit']}" if stream["unit"] else ""
        output.console.print(
            f"  {name:<6s} {stream['n']:,} samples × {stream['dt']:.6g} s = {stream['duration']:.6g} s, "
            f"{stream['rate']:.6g} per second, Nyquist {0.5 / stream['dt']:.6g} Hz{start}{escape(unit)}"
        )
    prior = record["prior"]
    (low, high), (smallest, largest) = prior["frequency"], prior["amplitude"]
    separation = prior["min_separation"]
    each = " in each window" if record.get("in_windows") else ""
    output.console.print(
        f"  band   {low:.9g}–{high:.9g} Hz, {record['band_bins']:.4g} bins of 1/T = {record['bin']:.4g} Hz"
        f"{_band_source(record)}\n"
        f"  prior  K = {prior['k_min']}..{prior['k_max']}{each}, A in {smallest:g}–{largest:g}"
        f"{', from the data' if record['amplitude_from'] == 'the data' else ''}, separation >= "
        f"{separation:.4g} Hz ({separation / record['bin']:.3g} bins), {_noise_words(record)}"
    )


def _noise_words(record: dict[str, Any]) -> str:
    """What is assumed of the noise level."""
    quiet, noisy = record["prior"]["sigma"]
    if quiet < noisy:
        source = ", from the data" if record["sigma_from"] == "the data" else ""
        return f"σ in {quiet:.4g}–{noisy:.4g}{source}"
    first, *others = (stream["sigma"] for stream in record["streams"])
    more = "".join(f", {level:.6g} in the short stream" for level in others if level != first)
    return f"σ = {quiet:.6g} (known{more})"


def _band_source(record: dict[str, Any]) -> str:
    """Where the band comes from, if the user did not state it."""
    band = record["proposed"]
    if band is None:
        return "" if record["band_from"] == "stated" else ", the model's own"
    found = f"with the strongest peak, at {band['peak']:.6g} Hz"
    if not band["significant"]:
        found = "although no peak stands out of the noise"
    return f", proposed: --band {band['name']}, {found}"
