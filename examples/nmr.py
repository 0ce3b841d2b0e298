"""The lines of a multiplet in an NMR decay: how many, at which shifts, how broad.

After the pulse a sample's nuclei ring: a free induction decay is a sum of decaying tones, Σ A e^(−γt) e^(i(2πft + φ)),
one for each line of the spectrum, whose width at half height is γ/π. Chemists read off the number of lines, their
distances (couplings) and widths. Where lines overlap, a fit has to say how many there are, and how well each is known.

1. `Observation.read(FOLDER)` reads the folder of a Bruker experiment (`pip install 'slotflow[nmr]'`). It leaves out the
   samples that the spectrometer's digital filter fills, so that t = 0 is the pulse.
2. `narrow` cuts the decay to the region of the multiplet. Lines a hundred times stronger lie elsewhere.
3. The prior has decaying tones with widths between 1 and 5 Hz, and the answer the probability of each number of lines.

Without a folder the script makes an experiment of its own, with a doublet of quartets like one of andrographolide at
500 MHz among strong lines elsewhere, so that the truth is known. With the folder `examples/data/1` of the repository
foroozandehgroup/NMR-EsPy (MIT licence) it analyses that compound, and `--beside examples/ex1_output/result.txt` of the
same repository prints what NMR-EsPy found. Its widths include 0.3 Hz of line broadening, which are taken off.

    python examples/nmr.py --out nmr.png
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slotflow import Observation, Posterior, SlotFlow
from slotflow.plots import save_figure
from slotflow.preprocess import narrow
from slotflow.waveforms import Damped

WIDTH, CARRIER, BASE = 5000.0, 2000.52, 500.13  # sweep and offset in Hz, base frequency in MHz
DELAY = 67.98  # of the digital filter, in samples
PHASE = 1.65  # of all lines at the pulse
NOISE = 420.0  # of the real and the imaginary part of each sample
SPLITS = np.add.outer([0.0, 13.0, 26.0, 39.0], [0.0, 4.2]).ravel()  # in Hz
LINES = np.column_stack(  # amplitude, decay in 1/s, frequency in Hz as chemists count it
    [
        np.outer([1, 3, 3, 1], [6000, 5800]).ravel(),
        [8, 7, 7.4, 7.2, 7.7, 7.9, 6.8, 7.6],
        657.2 + SPLITS,
    ]
)
OTHERS = np.array([(90_000, 6, 333.0), (95_000, 6, 545.3), (40_000, 9, 630.0), (30_000, 5, 3315.0)])
BROADENING = 0.3  # Hz, of the published spectrum


def write_experiment(folder: Path, seed: int, n: int = 16_384) -> None:
    """Writes a decay as a Bruker spectrometer does: integers, and a file of settings."""
    rng = np.random.default_rng(seed)
    t = (np.arange(n) - DELAY) / WIDTH
    decay = NOISE * (rng.normal(size=n) + 1j * rng.normal(size=n))
    for amplitude, rate, frequency in [*LINES, *OTHERS]:
        exponent = (2j * np.pi * (frequency - CARRIER) - rate) * t + 1j * PHASE
        decay += np.where(t < 0, 0, amplitude * np.exp(np.where(t < 0, 0, exponent)))
    pairs = np.rint(np.stack([decay.real, decay.imag], axis=1))
    folder.mkdir(parents=True, exist_ok=True)
    pairs.astype("<i4").tofile(folder / "fid")
    settings = {"TD": 2 * n, "SW_h": WIDTH, "O1": CARRIER, "BF1": BASE, "GRPDLY": DELAY}
    settings |= {"BYTORDA": 0, "DTYPA": 0, "AQ_mod": 3}
    lines = [f"##${key}= {value}" for key, value in settings.items()]
    (folder / "acqus").write_text("\n".join(["##TITLE= made up", *lines, "##END=", ""]))


def true_lines(start: float) -> np.ndarray:
    """Amplitude at some time after the pulse, phase, frequency from the carrier and decay of each line, (8, 4)."""
    amplitude, rate, frequency = LINES.T
    later = amplitude * np.exp(-rate * start)
    return np.column_stack([later, np.full(len(LINES), PHASE), frequency - CARRIER, rate])


def carrier_of(folder: Path) -> tuple[float, float]:
    """Offset of the carrier in Hz and base frequency in MHz, from the settings of an experiment."""
    text = (folder / "acqus").read_text(encoding="latin-1")
    offset, base = (re.search(rf"##\${key}= *(\S+)", text) for key in ("O1", "BF1"))
    if offset is None or base is None:
        raise ValueError(f"{folder}: expected O1 and BF1 in acqus, received a file without them.")
    return float(offset[1]), float(base[1])


def analyse(folder: Path, region: tuple[float, float], seconds: float = 120.0) -> Posterior:
    """The lines between two shifts in ppm."""
    carrier, base = carrier_of(folder)
    low, high = (shift * base - carrier for shift in sorted(region))
    part = narrow(Observation.read(folder).long, (low, high))
    prior = {
        "frequency": (low, high),
        "waveform": Damped(rate=(np.pi * 1.0, np.pi * 5.0)),
        "amplitude": (100.0, 1e5),
        "k_max": 10,
    }
    return SlotFlow.from_pretrained().infer(
        Observation([part]), prior=prior, noise="white", max_seconds=seconds
    )


def published(path: Path) -> np.ndarray:
    """Frequency in Hz and decay in 1/s of each line in a result file of NMR-EsPy, (n, 2), less the broadening."""
    number = r"([-+.\de]+) ± [-+.\de]+"
    row = re.compile(rf"^\d+ *│{number} *│{number} *│{number} *│{number} *│{number}", re.MULTILINE)
    found = [(float(m[3]), float(m[5])) for m in row.finditer(path.read_text(encoding="utf-8"))]
    return np.array(found) - (0.0, np.pi * BROADENING)


def print_table(post: Posterior, carrier: tuple[float, float], known: np.ndarray) -> None:
    """Prints each line beside the nearest of those that are known, (n, 2)."""
    print(" line   shift [ppm]   frequency [Hz]      width [Hz]         known: Hz, width")
    for line, row in post.summary().iterrows():
        f = row["frequency_median"] + carrier[0]
        near = known[np.abs(known[:, 0] - f).argmin()]
        width, error = row["rate_median"] / np.pi, row["rate_sd"] / np.pi
        print(
            f"{line:>5}   {f / carrier[1]:.5f}      {f:9.3f} ± {row['frequency_sd']:.3f}   "
            f"{width:.3f} ± {error:.3f}     {near[0]:9.2f}   {near[1] / np.pi:.2f}"
        )


def main(arguments: list[str] | None = None) -> Posterior:
    """Analyses an experiment, prints a table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "folder", type=Path, nargs="?", help="Bruker experiment; made up if left out"
    )
    parser.add_argument("--region", type=float, nargs=2, default=(1.29, 1.43), help="in ppm")
    parser.add_argument("--beside", type=Path, help="result file of NMR-EsPy")
    parser.add_argument("--out", type=Path, default=Path("nmr.png"), help="picture")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as made:
        folder = options.folder or Path(made) / "1"
        if options.folder is None:
            write_experiment(folder, options.seed)
        post, carrier = analyse(folder, options.region), carrier_of(folder)
    known = LINES[:, [2, 1]] if options.beside is None else published(options.beside)
    truth = None if options.folder else true_lines(post.observation.long.t0)

    print(f"verdict  {post.verdict}")
    likely = ", ".join(f"K = {k}: {p:.3f}" for k, p in enumerate(post.k_probs) if p > 0.001)
    print(f"p(K | x) {likely}\n")
    print_table(post, carrier, known)
    save_figure(post.plot(truth=truth), options.out, dpi=100)
    print(f"\nWritten: {options.out}")
    return post


if __name__ == "__main__":
    main()
