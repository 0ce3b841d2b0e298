"""A prior in a YAML file: what is known beforehand, said once and kept beside the data.

Every entry may be left out; what is not stated is assumed as it is without a file, from the data (`slotflow.infer`)::

    band: [48, 52]              # frequencies that may hold tones, in Hz
    amplitude: [0.001, 0.01]    # bounds of A, in the data's units
    amplitude_law: uniform      # or loguniform
    min_separation: 0.15        # smallest distance of two frequencies, in Hz
    sigma: 0.01                 # known noise level, in the data's units, or bounds of it: [0, 0.02]
    sigma_short: 0.002          # that of the short stream, if it is known and differs
    k_min: 0                    # smallest and largest number of components ...
    k_max: 5
    k_prior: {0: 0.5, 1: 0.3, 2: 0.2}    # ... or p(K), as pairs or as a list from K = 0 on
    waveform: chirp(drift=-1e-4:1e-4)    # what a component is, if it is no tone ...
    classes: {tone: tone, ring: damped}  # ... or its classes; settings left out follow from the record
"""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import yaml

from slotflow.signal.prior_draws import AMPLITUDE_LAWS
from slotflow.signal.waveforms import classes_text, suited

__all__ = ["KEYS", "read_prior", "waveform_text"]

KEYS = (
    "band",
    "amplitude",
    "amplitude_law",
    "min_separation",
    "sigma",
    "sigma_short",
    "k_min",
    "k_max",
    "k_prior",
    "waveform",
    "classes",
)
"""What a file may state."""
MOST_CHARACTERS = 10**6
"""Length of a file above which it cannot be a prior."""


def read_prior(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Reads a prior file.

    Args:
        path: A YAML file with some of `KEYS`.

    Returns:
        The entries of the file, checked: bounds as pairs of floats (a known noise level is a pair of equal ones),
        floats, whole numbers, and p(K) as a mapping.
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path}: no such prior file; check the path.")
    try:
        text = path.read_bytes().decode("utf-8")
        if len(text) > MOST_CHARACTERS:
            raise ValueError(f"expected a prior of a few lines, received {len(text):,} characters.")
        found = yaml.safe_load(text)
        if not isinstance(found, dict):
            raise ValueError(
                f"expected entries such as 'amplitude: [0.5, 1.5]', received {type(found).__name__}."
            )
        if unknown := [key for key in found if key not in KEYS]:
            raise ValueError(
                f"expected entries among {', '.join(KEYS)}, received {unknown[0]!r}; correct or remove it."
            )
        if "k_prior" in found and ("k_min" in found or "k_max" in found):
            raise ValueError(
                "k_prior says which K are possible, and so do k_min and k_max; give one or the other."
            )
        entries = {key: _entry(key, value) for key, value in found.items()}
        if "classes" in entries:
            if "waveform" in entries:
                raise ValueError("waveform and classes both say what components are; give one.")
            entries["waveform"] = entries.pop("classes")
        return entries
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{path}: expected a YAML file of text ({reason}).") from error
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _entry(key: str, value: Any) -> Any:
    """One entry, checked."""
    if key == "sigma" and not isinstance(value, list | dict):
        level = _number(key, value)
        return level, level
    if key in ("band", "amplitude", "sigma"):
        if not isinstance(value, list) or len(value) != 2:
            raise ValueError(f"{key}: expected two bounds such as [0.5, 1.5], received {value!r}.")
        return _number(key, value[0]), _number(key, value[1])
    if key in ("min_separation", "sigma_short"):
        return _number(key, value)
    if key in ("k_min", "k_max"):
        if type(value) is not int:
            raise ValueError(f"{key}: expected a whole number, received {value!r}.")
        return value
    if key == "amplitude_law":
        if value not in AMPLITUDE_LAWS:
            raise ValueError(
                f"{key}: expected one of {', '.join(AMPLITUDE_LAWS)}, received {value!r}."
            )
        return value
    if key == "waveform":
        return waveform_text(str(value))
    if key == "classes":
        return waveform_text(classes_text(value if isinstance(value, dict) else str(value)))
    if isinstance(value, list) and value:
        return {k: _number(key, p) for k, p in enumerate(value)}
    if isinstance(value, dict) and value and all(type(k) is int for k in value):
        return {k: _number(key, p) for k, p in value.items()}
    raise ValueError(
        f"{key}: expected a list for K = 0, 1, ... such as [0, 1, 1] or pairs such as {{1: 0.5, 2: 0.5}}, received "
        f"{value!r}."
    )


def waveform_text(text: str) -> str:
    """The same text, refused where it is no waveform."""
    suited(text, duration=1.0)
    return text


def _number(key: str, value: Any) -> float:
    """A finite number; YAML takes 1e-3 for text."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{key}: expected a number, received {value!r}.")
    return number
