"""Reading a stored posterior, with every check before anything is believed.

Parsers of HDF5 may take for ever over a damaged file, so that the checksum behind the HDF5 content (`file.py`) is
compared first. Files without one (older ones, or ones that another program has written again) are read with what HDF5
itself checks. Reading executes nothing: numbers and text are taken, links to other files and objects are refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.core.files import PathLike
from slotflow.posterior.file import SEAL, VERSION
from slotflow.signal.waveforms import TONE, Waveform, waveform_named

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["check_dataset", "parse_file", "read_dataset", "stored_waveform"]

HDF5_SIGNATURE = b"\x89HDF\r\n\x1a\n"


def read_dataset(path: PathLike) -> xr.Dataset:
    """Reads and checks a file of any version; every refusal is a ValueError that opens with its name."""
    path = Path(path)
    found = parse_file(path)
    try:
        check_dataset(found)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    return found


def parse_file(path: Path) -> xr.Dataset:
    """Reads a file of one posterior or of many, its checksum compared first; what it says is not yet checked."""
    if not path.is_file():
        raise ValueError(f"{path}: no such file; check the path.")
    try:
        return _parse(_verified(path.read_bytes()))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _verified(content: bytes) -> bytes:
    """The HDF5 content of a file, after the checks that need no parser."""
    advice = "write the posterior again with Posterior.save."
    if not content.startswith(HDF5_SIGNATURE):
        what = "an empty file" if not content else f"a file that begins with {content[:8]!r}"
        raise ValueError(
            f"expected a posterior's NetCDF 4 file, received {what}; give one that Posterior.save wrote."
        )
    start = content.rfind(SEAL)
    if start < 0 or len(content) - start > 200:
        return content  # an older file, or one written again by another program
    digest = content[start + len(SEAL) :].strip().decode("ascii", "replace")
    if digest != hashlib.sha256(content[:start]).hexdigest():
        raise ValueError(
            f"expected the content that was written, received one with another checksum: the file is damaged; {advice}"
        )
    return content[:start]


def _parse(content: bytes) -> xr.Dataset:
    """The arrays and attributes in memory."""
    import h5py
    import xarray as xr

    from slotflow.data.read.formats.hdf5 import (
        check_blocks,
        elsewhere,
        is_elsewhere,
    )
    from slotflow.data.read.formats.hdf5 import check_dataset as check_size
    from slotflow.data.read.tables import foreign

    check_blocks(content)
    outside: list[str] = []
    with foreign("NetCDF"), h5py.File(BytesIO(content), "r") as file:
        names = [str(name) for name in file]
        absent = [name for name in _needed(dict(file.attrs)) if name not in names]
        if not absent:
            for name in names:
                link = file.get(name, getlink=True)
                node = file.get(name) if isinstance(link, h5py.HardLink) else None
                if node is None or (isinstance(node, h5py.Dataset) and is_elsewhere(node)):
                    outside.append(name)
                elif isinstance(node, h5py.Dataset):
                    check_size(node, len(content))
    if absent:
        raise ValueError(
            f"expected a file that Posterior.save wrote, received one without {', '.join(absent)}; "
            "series are read with Observation.read."
        )
    for name in outside:
        raise ValueError(elsewhere(name))
    with (
        foreign("NetCDF"),
        xr.open_dataset(
            BytesIO(content), engine="h5netcdf", decode_times=False, decode_timedelta=False
        ) as opened,
    ):
        return opened.load()


def check_dataset(found: xr.Dataset) -> None:
    """Refuses what contradicts itself or comes from a later version."""
    version = int(_number(found.attrs.get("format_version", 1)))
    if version > VERSION:
        raise ValueError(
            f"expected a posterior's file of version {VERSION} or older, received version {version}; update slotflow."
        )
    parameters = stored_waveform(found.attrs).names
    shape = found[parameters[0]].shape
    if "signal" in found[parameters[0]].dims:
        raise ValueError(
            "expected the posterior of one signal, received those of many; read them with Posteriors.load."
        )
    probs = np.asarray(found["k_probs"].values)
    counts = np.asarray(found["k"].values)
    kinds = [np.asarray(found[name].values).dtype.kind for name in _needed(found.attrs)]
    reasons = []
    if any(kind not in "fiu" for kind in kinds):
        reasons.append("values that are no numbers")
    elif (
        len(shape) != 2
        or any(found[name].shape != shape for name in parameters)
        or counts.shape != shape[:1]
        or probs.shape != (shape[1] + 1,)
    ):
        reasons.append("arrays of different shapes")
    elif not (np.isfinite(probs).all() and (probs >= 0).all() and 0.9 < probs.sum() < 1.1):
        reasons.append("p(K | x) that is no probability")
    elif counts.size and not (counts.min() >= 0 and counts.max() <= shape[1]):
        reasons.append("a number of components outside its range")
    else:
        present = np.arange(shape[1]) < counts[:, None]
        if any((np.isfinite(found[name].values) != present).any() for name in parameters):
            reasons.append("draws that do not have as many components as they say")
    if reasons:
        raise ValueError(
            f"expected the draws of a posterior, received {reasons[0]}; write it again."
        )


def _number(value: Any) -> float:
    """An attribute as a number."""
    return float(np.asarray(value).item())


def stored_waveform(attributes: Mapping[str, Any]) -> Waveform:
    """What the components of a file are; tones where it does not say, as files of version 0.1 did not."""
    try:
        return waveform_named(str(attributes.get("waveform", TONE.name)))
    except ValueError as error:
        raise ValueError(f"{error} A later slotflow may know it; update slotflow.") from error


def _needed(attributes: Mapping[str, Any]) -> tuple[str, ...]:
    """The variables without which a file is no posterior."""
    return (*stored_waveform(attributes).names, "k", "k_probs", "noise_std")
