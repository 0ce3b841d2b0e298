"""A crowded band of galactic binaries, as a detector like LISA will see it.

A year of strain, sampled every 150 s. Eight compact binaries sit in a band of 120 bins of 1/T = 31.7 nHz around 3
mHz, two of them 1.1 bins apart. Strain amplitudes are about 10⁻²¹ and the noise of a single sample is about ten times
that: no tone can be seen in the series itself, all of them stand out of a year.

Three things to take from it:

* **Units.** The network is dimensionless and the likelihood works in units of the data, so that neither 10⁻²¹ nor
  10⁻⁸ Hz is too small. The prior must be in the same units: amplitudes from 0.5 to 1.5, which suit the paper's data,
  would find nothing here. With `--scale 1e21` the same data are counted in units of 10⁻²¹, and the answer is the same.
* **Separation.** The prior keeps binaries at least one bin apart. Without a minimum separation, any tone may be two
  that cannot be told apart; that is a fair question, but it takes the exact step many times longer.
* **The model.** Tones of constant frequency and amplitude in white noise. A real binary's tone is modulated by the
  detector's yearly motion and drifts at the higher frequencies, and the noise is not white over a wide band. The
  example shows the counting problem of a crowded band, not an analysis of LISA's data: for that, take the modulations
  out first (for one place in the sky) or use a sampler with the full waveform.

    python examples/lisa.py --out lisa.png
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from slotflow import Observation, Posterior, Prior, SlotFlow
from slotflow.plots import save_figure

YEAR = 365.25 * 86_400.0
STEP = 150.0  # seconds
BIN = 1 / YEAR
EDGE = 3e-3  # Hz, lower edge of the band
NOISE = 1e-20  # strain, of one sample
BINARIES = np.array(  # amplitude in 1e-21, phase, distance from the band's edge in bins of 1/T
    [
        (1.58, 1.7, 14.4),
        (0.58, 3.8, 16.3),
        (1.03, 4.4, 25.6),
        (1.23, 1.9, 35.8),
        (1.09, 0.1, 36.9),
        (1.34, 6.2, 57.7),
        (0.49, 2.0, 69.1),
        (1.93, 2.1, 93.2),
    ]
)
TRUTH = BINARIES * (1e-21, 1.0, BIN) + (0.0, 0.0, EDGE)  # strain, radians, hertz


def strain(seed: int) -> np.ndarray:
    """A year of data, shape (n,)."""
    t = STEP * np.arange(round(YEAR / STEP))
    data = np.random.default_rng(seed).normal(scale=NOISE, size=t.size)
    for amplitude, phase, frequency in TRUTH:
        data += amplitude * np.cos(2 * np.pi * frequency * t + phase)
    return data


def analyse(data: np.ndarray, scale: float = 1.0, refine: bool = True) -> Posterior:
    """The binaries in the band.

    Args:
        data: Strain, shape (n,).
        scale: Factor to count data and prior in other units.
        refine: Whether to go on from the network's answer to the exact one.
    """
    prior = Prior(
        k_min=0,
        frequency=(EDGE, EDGE + 120 * BIN),
        amplitude=(0.35e-21 * scale, 2.5e-21 * scale),
        min_separation=BIN,
        sigma=(0.0, 5e-20 * scale),
    )
    observation = Observation.from_arrays(long=scale * data, dt_long=STEP)
    model = SlotFlow.from_pretrained()
    return model.infer(observation, prior=prior, refine=refine, max_seconds=600)


def main(arguments: list[str] | None = None) -> Posterior:
    """Makes the data, analyses them, prints a table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("lisa.png"), help="picture")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    parser.add_argument("--scale", type=float, default=1.0, help="factor on the data and the prior")
    options = parser.parse_args(arguments)
    post = analyse(strain(options.seed), options.scale)

    print(f"verdict  {post.verdict}")
    likely = ", ".join(f"K = {k}: {p:.3f}" for k, p in enumerate(post.k_probs) if p > 0.001)
    print(f"p(K | x) {likely}; there are {len(TRUTH)} binaries")
    print(f"noise    {post.noise_std / options.scale:.3e} per sample\n")
    print("binary   f - 3 mHz [nHz]     strain [1e-21]   existence")
    for binary, row in post.summary().iterrows():
        f, f_sd = 1e9 * (row["frequency_median"] - EDGE), 1e9 * row["frequency_sd"]
        a, a_sd = (1e21 / options.scale * row[f"amplitude_{name}"] for name in ("median", "sd"))
        print(
            f"{binary:>6}   {f:7.1f} ± {f_sd:.1f}       {a:.2f} ± {a_sd:.2f}      {row['existence']:.3f}"
        )
    truth = TRUTH * (options.scale, 1.0, 1.0)
    save_figure(post.plot(truth=truth), options.out, dpi=100)
    print(f"\nWritten: {options.out}")
    return post


if __name__ == "__main__":
    main()
