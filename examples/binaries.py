"""Galactic binaries that spiral in: frequencies that drift over a year, and the masses that follow from the drift.

A year of strain, sampled every minute, in a band of 60 bins of 1/T = 31.7 nHz at 6 mHz, as a detector like LISA will
see it. Two white dwarfs that lose their orbit's energy to gravitational waves alone come closer, and their frequency
rises by

    ḟ = (96/5) π^(8/3) (G M / c³)^(5/3) f^(11/3) ,

M being the chirp mass: at 6 mHz about 1e-15 Hz/s, a bin or two within the year. If one star loses mass to the other
the frequency may fall instead. And of a light or a young binary one sees no drift at all.

The question is therefore how many binaries there are, which of them drift, and how fast. The prior has two classes:
a tone, and a chirp with a drift between ±6e-15 Hz/s. The answer has the probability of each class for each binary, the
drift with its error, and from both f and ḟ a chirp mass. Binaries are kept a bin apart: without that, 12 % of p(K | x)
are a sixth one that nearly cancels against another, of which too few draws are effective, and the verdict is
`approximate`. An analysis for tones alone describes each drifting binary as several close tones: `--tones` shows it,
and asks for no distance.

As in examples/lisa.py, the yearly motion of the detector, which modulates a real signal, is left out.

    python examples/binaries.py --out binaries.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from slotflow import Observation, Posterior, Prior, SlotFlow
from slotflow.plots import save_figure
from slotflow.waveforms import Chirp, Tone

YEAR = 365.25 * 86_400.0
STEP = 60.0  # seconds
BIN = 1 / YEAR
EDGE, BINS = 6e-3, 60  # lower edge of the band in Hz, and its width
NOISE = 1e-20  # strain, of one sample
SUN = 4.925_490_95e-6  # G M / c³ of the Sun, in seconds
BINARIES = np.array(  # strain in 1e-22, phase at t = 0, bins from the edge at mid-year, drift in bins a year
    [
        (4.1, 0.7, 8.3, 1.75),
        (3.2, 2.9, 17.6, 0.0),
        (5.0, 5.5, 19.4, 4.1),
        (3.6, 4.0, 37.2, -2.6),
        (4.4, 1.2, 50.9, 0.35),
    ]
)


def truth(tones: bool = False) -> np.ndarray:
    """Strain, phase, frequency in Hz, drift in Hz/s and class of each binary, shape (5, 5); or the first three."""
    values = BINARIES * (1e-22, 1.0, BIN, BIN / YEAR) + (0.0, 0.0, EDGE, 0.0)
    return values[:, :3] if tones else np.column_stack([values, BINARIES[:, 3] != 0])


def chirp_mass(drift: float, frequency: float) -> float:
    """Chirp mass in Suns of a binary whose frequency rises because of gravitational waves alone."""
    power = 5 / 96 * np.pi ** (-8 / 3) * frequency ** (-11 / 3) * drift
    return float(power ** (3 / 5)) / SUN


def strain(seed: int) -> np.ndarray:
    """A year of data, shape (n,)."""
    t = STEP * np.arange(round(YEAR / STEP))
    middle = t[-1] / 2
    data = np.random.default_rng(seed).normal(scale=NOISE, size=t.size)
    for amplitude, phase, frequency, drift, _ in truth():
        cycles = frequency * t + drift / 2 * ((t - middle) ** 2 - middle**2)
        data += amplitude * np.cos(2 * np.pi * cycles + phase)
    return data


def analyse(data: np.ndarray, tones: bool = False, max_seconds: float = 120.0) -> Posterior:
    """The binaries in the band, drifting or not; or the tones that describe them."""
    known = {
        "k_min": 0,
        "k_max": 8,
        "frequency": (EDGE, EDGE + BINS * BIN),
        "amplitude": (1.2e-22, 8e-22),
        "min_separation": BIN,
        "sigma": (0.0, 5e-20),
    }
    classes = {"tone": Tone(), "chirp": Chirp(drift=(-6e-15, 6e-15))}
    prior = Prior(**known | {"min_separation": 0.0}) if tones else Prior(classes=classes, **known)
    observation = Observation.from_arrays(values=data, dt=STEP)
    return SlotFlow.from_pretrained().infer(observation, prior=prior, max_seconds=max_seconds)


def print_table(post: Posterior) -> None:
    """Prints frequencies, drifts and masses."""
    print(
        "binary   f - 6 mHz [nHz]    drifts with p    drift [1e-15 Hz/s]    chirp mass [Suns], 90 %"
    )
    for binary, row in post.summary().iterrows():
        f, drifts = row["frequency_median"], post.class_probs.loc[binary, "chirp"]
        line = f"{binary:>6}   {1e9 * (f - EDGE):7.1f} ± {1e9 * row['frequency_sd']:.1f}       {drifts:.3f}"
        if row["class"] == "chirp":
            line += f"            {1e15 * row['drift_median']:5.2f} ± {1e15 * row['drift_sd']:.2f}"
            if row["drift_q05"] > 0:
                low, high = (chirp_mass(row[f"drift_{q}"], f) for q in ("q05", "q95"))
                line += f"          {low:.2f} to {high:.2f}"
            elif row["drift_q95"] < 0:
                line += "          it gives mass away"
        print(line)


def main(arguments: list[str] | None = None) -> Posterior:
    """Makes the data, analyses them, prints a table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("binaries.png"), help="picture")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--tones", action="store_true", help="look for tones alone")
    options = parser.parse_args(arguments)
    post = analyse(strain(options.seed), options.tones)

    print(f"verdict  {post.verdict}")
    likely = ", ".join(f"K = {k}: {p:.3f}" for k, p in enumerate(post.k_probs) if p > 0.001)
    print(f"p(K | x) {likely}; there are {len(BINARIES)} binaries\n")
    if not options.tones:
        print_table(post)
    save_figure(post.plot(truth=truth(options.tones)), options.out, dpi=100)
    print(f"\nWritten: {options.out}")
    return post


if __name__ == "__main__":
    main()
