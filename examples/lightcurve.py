"""Close pulsation modes in the light curve of a variable star.

The star is made up, after the β Cephei kind: one sector of a space telescope's photometry, a magnitude every half
hour for 27.4 days, with six modes between 5 and 7 cycles per day. A rotating star splits a mode into neighbours: here
a triplet and a pair, each 0.055 to 0.058 cycles per day apart, 1.5 times the resolution 1/T of the sector.

Three things to take from it:

* **Units.** The table has a column "BJD [d]". `Observation.read` knows the unit and counts in seconds, so that bands
  and results are in hertz; one cycle per day is 11.574 µHz. Phases refer to the first exposure, `t_ref` on the data's
  clock.
* **Offset.** A magnitude is not zero on average. `detrend` removes the offset; here it is removed explicitly.
* **Prior.** Modes may be as close as they like: the prior has no minimum separation. If modes had to be three bins
  apart, the triplet could not be told from one mode, and the verdict would say that something is left.

    python examples/lightcurve.py --out lightcurve.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from slotflow import Observation, Posterior, Prior, SlotFlow
from slotflow.plots import save_figure
from slotflow.preprocess import detrend

DAY = 86_400.0
STEP = 0.5 / 24  # half an hour, in days
SPAN, FIRST = 27.4, 2_459_000.5  # days; BJD of the first exposure
NOISE = 0.003  # magnitudes per exposure
MODES = np.array(  # amplitude in mmag, phase at the first exposure, cycles per day
    [
        (4.1, 1.1, 5.234),
        (2.2, 0.3, 5.289),
        (1.7, 2.9, 5.345),
        (6.0, 4.0, 6.121),
        (1.4, 5.5, 6.912),
        (1.8, 0.7, 6.970),
    ]
)
TRUTH = MODES * (1e-3, 1.0, 1 / DAY)  # magnitudes, radians, hertz


def write_light_curve(path: Path, seed: int) -> None:
    """Writes the table that an observer would have."""
    t = STEP * np.arange(round(SPAN / STEP))
    magnitude = 12.4 + np.random.default_rng(seed).normal(scale=NOISE, size=t.size)
    for amplitude, phase, frequency in MODES:
        magnitude += 1e-3 * amplitude * np.cos(2 * np.pi * frequency * t + phase)
    table = np.column_stack([FIRST + t, magnitude])
    np.savetxt(path, table, "%.8f", delimiter=",", header="BJD [d],flux [mag]", comments="")


def analyse(path: Path, min_separation: float = 0.0, max_seconds: float = 600.0) -> Posterior:
    """The modes between 4 and 8 cycles per day.

    Args:
        path: The table.
        min_separation: Smallest distance of two modes that the prior allows, in cycles per day.
        max_seconds: Time budget.
    """
    observation = Observation(detrend(Observation.read(path).long))
    prior = Prior(
        k_min=0,
        frequency=(4 / DAY, 8 / DAY),
        amplitude=(1e-3, 7.5e-3),
        min_separation=min_separation / DAY,
        sigma=(0.0, 0.02),
    )
    return SlotFlow.from_pretrained().infer(observation, prior=prior, max_seconds=max_seconds)


def main(arguments: list[str] | None = None) -> Posterior:
    """Makes the data, analyses them, prints a table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("lightcurve.png"), help="picture")
    parser.add_argument("--seed", type=int, default=0, help="of the noise")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "star.csv"
        write_light_curve(path, options.seed)
        post = analyse(path)

    print(f"verdict  {post.verdict}")
    likely = ", ".join(f"K = {k}: {p:.3f}" for k, p in enumerate(post.k_probs) if p > 0.001)
    print(f"p(K | x) {likely}; there are {len(MODES)} modes")
    print(f"phases at t_ref = BJD {post.observation.t_ref / DAY:.5f}\n")
    print("mode   cycles per day       amplitude [mmag]   existence")
    for mode, row in post.summary().iterrows():
        f, f_sd = DAY * row["frequency_median"], DAY * row["frequency_sd"]
        a, a_sd = 1e3 * row["amplitude_median"], 1e3 * row["amplitude_sd"]
        print(
            f"{mode:>4}   {f:.4f} ± {f_sd:.4f}      {a:.2f} ± {a_sd:.2f}        {row['existence']:.3f}"
        )
    save_figure(post.plot(truth=TRUTH), options.out, dpi=100)
    print(f"\nWritten: {options.out}")
    return post


if __name__ == "__main__":
    main()
