"""The pictures and tables of docs/real-data.md: `python docs/gallery_real.py FOLDER` runs the command on eight series.

FOLDER holds the files that the page names; none of them is part of the repository. Each command runs as the page
prints it. Its picture goes to docs/images/, its answer to docs/data/real-series.json, and the tables of the page are
filled from that record, beside what is known of each series. ``--only NAME`` runs one series, ``--tables`` none.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import resource
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image
from tables import DATA, ROOT, table

__all__ = ["SERIES", "Series", "main"]

PAGE = ROOT / "docs" / "real-data.md"
IMAGES = ROOT / "docs" / "images"
RECORD = DATA / "real-series.json"
DAY, YEAR = 86400.0, 31557600.0
MOST_ROWS = 12
SMALL = -4
"""Power of ten below which a number is written with it."""
WIDTH, COLOURS = 1100, 128
"""Of the pictures."""
SECONDS = 1200
"""After which a command is given up."""


@dataclass(frozen=True)
class Series:
    """One series of the page.

    Attributes:
        name: In markers, pictures and records.
        file: Name of the file in the folder.
        flags: Of the command, besides the file.
        unit: Seconds of one unit of the frequencies, and its name.
        near: Relative distance within which the strongest tone has a name.
        known: Names, frequencies in that unit, and amplitudes as others state them ("" if they do not).
    """

    name: str
    file: str
    flags: tuple[str, ...] = ()
    unit: tuple[float, str] = (1.0, "Hz")
    near: float = 0.01
    known: dict[str, tuple[float, str]] = field(default_factory=dict)


SERIES = (
    Series(
        "tide",
        "HNL2010.asc",
        unit=(DAY, "1/d"),
        near=5e-4,
        known={
            "M2": (1.9322736, "175.7 ± 1.3"),
            "K1": (1.0027379, "155.7 ± 0.7"),
            "O1": (0.9295357, "86.4 ± 0.7"),
            "S2": (2.0, "52.4 ± 1.3"),
            "P1": (0.9972621, "42.3 ± 0.7"),
            "N2": (1.8959820, "34.9 ± 1.3"),
            "K2": (2.0054758, "17.8 ± 1.3"),
            "Q1": (0.8932441, "12.0 ± 0.7"),
        },
    ),
    Series(
        "star",
        "kic10273384_90d.txt",
        unit=(DAY, "1/d"),
        near=5e-4,
        known={
            "f1": (8.223425291, "0.01953"),
            "f2": (7.787142326, "0.01060"),
            "f3": (7.241919406, "0.01060"),
            "f4": (7.993455882, "0.00431"),
        },
    ),
    Series("hum", "hum.wav", known={"mains": (60.0, "")}),
    Series(
        "temperature",
        "R_nottem.csv",
        unit=(YEAR, "1/yr"),
        known={"year": (1.0, ""), "half a year": (2.0, "")},
    ),
    Series(
        "co2",
        "co2.csv",
        unit=(YEAR, "1/yr"),
        known={"year": (1.0, "about 2.8"), "half a year": (2.0, "about 0.8")},
    ),
    Series(
        "strain",
        "H-H1_LOSC_4_V2-1126259446-32.hdf5",
        flags=("--band", "34.5:38.5"),
        near=1e-3,
        known={
            "calibration": (35.9, ""),
            "calibration, second": (36.7, ""),
        },
    ),
    Series("lake", "R_LakeHuron.csv", unit=(YEAR, "1/yr")),
    Series(
        "sunspots",
        "sunspots.csv",
        unit=(YEAR, "1/yr"),
        known={"solar cycle": (0.0904, "")},
    ),
)


def run(series: Series, folder: Path) -> dict[str, Any]:
    """Runs the command, keeps its picture, and returns what it said."""
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "result"
        command = [
            sys.executable,
            "-m",
            "slotflow",
            "infer",
            str(folder / series.file),
            *series.flags,
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            [*command, "--out", str(out), "--plot", "--json"],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if done.returncode:
            raise SystemExit(f"{series.file}: {done.stderr.strip()}")
        record = json.loads(done.stdout)["signals"][0]
        picture = next(out.rglob("*.png"))
        with Image.open(picture) as whole:
            small = whole.convert("RGB").resize((WIDTH, round(WIDTH * whole.height / whole.width)))
            small.quantize(COLOURS).save(IMAGES / f"real-{series.name}.png", optimize=True)
    kept = (
        "k_map",
        "k_probs",
        "verdict",
        "noise",
        "noise_std",
        "proposed_by",
        "notes",
        "components",
    )
    return {key: record.get(key) for key in kept} | {"cpu_seconds": round(seconds, 1)}


def rows(series: Series, record: dict[str, Any]) -> list[tuple[str, ...]]:
    """Rows of the table of one series: its tones, the strongest first, each beside its name if it has one."""
    scale = series.unit[0]
    tones = sorted(record["components"], key=lambda c: -c["amplitude_median"])
    places = [scale * tone["frequency_median"] for tone in tones]
    names: dict[int, str] = {}  # the strongest tone nearby has the name
    for known, (g, _) in series.known.items():
        nearby = (i for i, place in enumerate(places) if abs(place - g) < series.near * g)
        names.setdefault(next(nearby, -1), known)
    lines = []
    for i, tone in enumerate(tones[:MOST_ROWS]):
        g, amplitude = series.known.get(names.get(i, ""), (None, ""))
        lines.append(
            (
                measured(places[i], scale * tone["frequency_sd"]),
                measured(tone["amplitude_median"], tone["amplitude_sd"]),
                names.get(i, ""),
                "" if g is None else f"{g:.7g}",
                amplitude,
            )
        )
    return lines


def measured(value: float, error: float) -> str:
    """A number and its error with two digits of the error, small ones as multiples of a power of ten."""
    if not error > 0:
        return f"{value:.6g}"
    power = math.floor(math.log10(abs(value))) if value else 0
    if power < SMALL:
        return f"({measured(value / 10.0**power, error / 10.0**power)}) × 10^{power}"
    digits = max(1 - math.floor(math.log10(error)), 0)
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def filled(text: str, records: dict[str, Any]) -> str:
    """The page with its tables filled."""
    for series in SERIES:
        if series.name not in records:
            continue
        record = records[series.name]
        header = (f"f [{series.unit[1]}]", "A", "known as", "f", "A elsewhere")
        found = rows(series, record)
        probability = record["k_probs"][record["k_map"]]
        status = record["verdict"]["status"]
        count = f"K = {record['k_map']}"
        if status != "misfit":
            count += f" (probability {min(probability, 0.999):.3f})"
        left = record["k_map"] - len(found)
        more = f"\n\n{left} weaker ones are left out." if left > 0 else ""
        said = f"{count}, `{status}`, {record['cpu_seconds']:.0f} s of one core."
        body = said + (f"\n\n{table(header, found)}" if found else "") + more
        pattern = rf"(<!-- begin {series.name} -->\n).*?(<!-- end {series.name} -->)"
        text = re.sub(pattern, lambda m, b=body: f"{m[1]}{b}\n{m[2]}", text, flags=re.DOTALL)
    return text


def stored() -> dict[str, Any]:
    """The answers so far, by the name of their series."""
    found: dict[str, Any] = json.loads(RECORD.read_text("utf-8")) if RECORD.exists() else {}
    return found


def main() -> None:
    """Runs what is asked for and fills the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="folder of the eight files")
    parser.add_argument("--only", help="name of one series")
    parser.add_argument("--tables", action="store_true", help="fill the page from the record only")
    arguments = parser.parse_args()
    for series in () if arguments.tables else SERIES:
        if arguments.only in (None, series.name):
            found = run(series, arguments.folder)
            print(series.name, found["verdict"]["status"], flush=True)
            RECORD.write_text(json.dumps(stored() | {series.name: found}, indent=1) + "\n", "utf-8")
    PAGE.write_text(filled(PAGE.read_text("utf-8"), stored()), "utf-8")


if __name__ == "__main__":
    main()
