"""The data in a posterior's file: channels as variables, and back.

An even real series takes one variable, its step and start as attributes; that is all that files of version 2 know. Time
stamps, errors, segments and imaginary parts have variables of their own, in files of version 3.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.data.channel import Channel
from slotflow.data.gain import FreeGain
from slotflow.data.observation import Observation
from slotflow.posterior.facts import UNKNOWN_UNIT

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LARGEST_DATA", "channel_name", "channel_variables", "read_observation"]

LARGEST_DATA = 5_000_000
"""Bytes up to which the data are stored in the file."""


def channel_variables(observation: Observation) -> dict[str, Any]:
    """The channels as variables of a file; none of them where they are large."""
    if sum(channel.values.nbytes for channel in observation.channels) > LARGEST_DATA:
        return {}
    variables: dict[str, Any] = {}
    for s, channel in enumerate(observation.channels):
        name, x = channel_name(s), channel.values
        along = (f"sample_{name}",)
        variables[f"data_{name}"] = (along, np.ascontiguousarray(x.real), _facts(channel, name))
        if channel.is_complex:
            variables[f"imaginary_{name}"] = (along, np.ascontiguousarray(x.imag))
        if not channel.is_even:
            variables[f"time_{name}"] = (along, channel.times, {"units": "s"})
        if channel.errors is not None:
            variables[f"errors_{name}"] = (along, channel.errors)
        if channel.segments is not None:
            variables[f"segments_{name}"] = (along, channel.segments)
    return variables


def read_observation(found: xr.Dataset) -> Observation | None:
    """The data of a file; None where it does not hold them."""
    channels: list[Channel] = []
    while f"data_{channel_name(len(channels))}" in found:
        channels.append(_channel(found, channel_name(len(channels))))
    return Observation(channels) if channels else None


def channel_name(s: int) -> str:
    """What a file calls channel s."""
    return ("long", "short")[s] if s < 2 else f"{s + 1}"


def _facts(channel: Channel, name: str) -> dict[str, Any]:
    """What else is known of a channel, as attributes."""
    when = "t0 + i dt seconds" if channel.is_even else f"time_{name}[i] seconds"
    return {
        "units": channel.unit or UNKNOWN_UNIT,
        "dt": channel.dt,
        "t0": channel.t0,
        "sigma": math.nan if channel.sigma is None else channel.sigma,
        "filled": json.dumps(channel.filled),
        "notes": json.dumps(channel.notes),
        "name": channel.name,
        "gain": _gain_text(channel.gain),
        "trend": channel.trend,
        "missing": channel.missing,
        "time_unit": channel.time_unit,
        "long_name": f"{name} stream, sample i at {when} from t_ref",
    }


def _gain_text(gain: complex | FreeGain | str) -> str:
    """A gain as JSON: real and imaginary part, or the bounds of a free one's amplitudes."""
    if isinstance(gain, FreeGain):
        return json.dumps({"free": gain.amplitude})
    number = complex(gain)
    return json.dumps([number.real, number.imag])


def _read_gain(text: str) -> complex | FreeGain:
    """The gain that `_gain_text` wrote."""
    found = json.loads(text)
    if isinstance(found, dict):
        bounds = found.get("free")
        return FreeGain(None if bounds is None else tuple(bounds))
    return complex(*found)


def _channel(found: xr.Dataset, name: str) -> Channel:
    """One channel of a file."""
    facts = found[f"data_{name}"].attrs
    values = np.asarray(found[f"data_{name}"].values, dtype=np.float64)
    parts = {
        field: np.asarray(found[f"{prefix}_{name}"].values)
        for field, prefix in (("errors", "errors"), ("segments", "segments"), ("times", "time"))
        if f"{prefix}_{name}" in found
    }
    sigma = _number(facts.get("sigma", math.nan))
    whole: Any = values
    if f"imaginary_{name}" in found:
        whole = values + 1j * np.asarray(found[f"imaginary_{name}"].values, dtype=np.float64)
    return Channel(
        whole,
        math.nan if "times" in parts else _number(facts["dt"]),
        _number(facts["t0"]),
        sigma if math.isfinite(sigma) else None,
        _number(found.attrs.get("t_ref", 0.0)),
        str(facts.get("units", UNKNOWN_UNIT)).replace(UNKNOWN_UNIT, ""),
        tuple((int(a), int(b)) for a, b in json.loads(facts.get("filled", "[]"))),
        tuple(str(note) for note in json.loads(facts.get("notes", "[]"))),
        str(facts.get("name", "")),
        gain=_read_gain(str(facts.get("gain", "[1.0, 0.0]"))),
        trend=int(_number(facts.get("trend", 0))),
        missing=int(_number(facts.get("missing", 0))),
        time_unit=str(facts.get("time_unit", "s")),
        **parts,
    )


def _number(value: Any) -> float:
    """An attribute as a number."""
    return float(np.asarray(value).item())
