"""The strings of a guitar chord, told apart in half a second of sound.

A power chord (E2, B2, E3) on a guitar that is not quite in tune, recorded in a noisy room. The recording is made up:
every string has eight partials, a little sharp of the harmonic series because strings are stiff, and every partial
decays, the higher ones faster. Where partials of two strings nearly meet, they beat: the second of E2 with the first
of E3, and the third of E2 with the second of B2, each pair about 2.5 Hz apart. In the spectrum of half a second, whose
bins are 2 Hz wide, the peaks of a pair run into each other.

**Decay is not in this model.** The script looks for steady tones in white noise, and a plucked string is neither steady
nor alone (examples/struck.py has tones that decay). It shows the consequences:

1. The first half second contains the attack: high partials lie outside the band and everything decays. The verdict is
   "misfit", with the reason. Do not use such a table.
2. Half a second, taken two and a half seconds later: the high partials are gone, and what the others lose within the
   stretch is hidden by the noise. The verdict is "exact", and the amplitudes are those half-way through the stretch.
3. The prior's minimum separation, 2 Hz, is there for a reason: two steady tones at nearly one frequency and in
   opposition imitate a tone that decays. Without a minimum separation, a longer or less noisy stretch may be described
   by such pairs, without a misfit and with a count that means nothing for the strings. "Exact" is a statement about
   the model.

    python examples/chord.py --out chord.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.io import wavfile

from slotflow import Observation, Posterior, Prior, SlotFlow, Stream
from slotflow.plots import save_figure

RATE = 4000  # samples per second
SECONDS, STRETCH = 4.0, 0.5
ATTACK, STEADY = 0.0, 2.5  # where the stretches begin
NOISE = 0.035
STRINGS = (
    (82.41, 0.165),
    (124.90, 0.15),
    (167.20, 0.13),
)  # fundamental in Hz, amplitude at the pluck
PARTIALS = np.arange(1, 9)


def partials() -> np.ndarray:
    """Amplitude at the pluck, decay per second and frequency of every partial, shape (24, 3)."""
    rows = []
    for fundamental, amplitude in STRINGS:
        frequency = PARTIALS * fundamental * np.sqrt(1 + 2e-5 * PARTIALS**2)
        plucked = amplitude * np.abs(np.sin(0.21 * np.pi * PARTIALS)) / (0.61 * PARTIALS)
        rows += list(zip(plucked, 0.1 + 1.4 * (frequency / 340) ** 3, frequency, strict=True))
    return np.array(sorted(rows, key=lambda row: row[2]))


def record(path: Path, seed: int) -> np.ndarray:
    """Writes the recording, 16 bits; returns (A, φ, f) half-way through the steady stretch, (24, 3)."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(SECONDS * RATE)) / RATE
    sound, truth = rng.normal(scale=NOISE, size=t.size), []
    for amplitude, decay, frequency in partials():
        phase = rng.uniform(0, 2 * np.pi)
        sound += amplitude * np.exp(-decay * t) * np.cos(2 * np.pi * frequency * t + phase)
        truth.append((amplitude * np.exp(-decay * (STEADY + STRETCH / 2)), phase, frequency))
    wavfile.write(path, RATE, np.round(2**15 * np.clip(sound, -0.99, 0.99)).astype(np.int16))
    return np.array(truth)


def analyse(path: Path, start: float, max_seconds: float) -> Posterior:
    """The tones between 75 and 350 Hz in half a second from ``start`` on, in units of the WAV file's full scale."""
    sound = Observation.read(path).long
    first, n = round(start * RATE), round(STRETCH * RATE)
    stretch = Stream(sound.values[first : first + n], sound.dt, sound.t0 + start)
    prior = Prior(
        k_min=0, frequency=(75, 350), amplitude=(0.01, 0.18), min_separation=2.0, sigma=(0, 0.2)
    )
    return SlotFlow.from_pretrained().infer(
        Observation(stretch), prior=prior, max_seconds=max_seconds
    )


def main(arguments: list[str] | None = None) -> tuple[Posterior, Posterior, np.ndarray]:
    """Makes the recording, analyses both stretches, prints a table and draws the picture of the second."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("chord.png"), help="picture")
    parser.add_argument("--seed", type=int, default=0, help="of the noise and the phases")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "chord.wav"
        truth = record(path, options.seed)
        attack, steady = analyse(path, ATTACK, 1), analyse(path, STEADY, 600)

    print(f"from {ATTACK} s: {attack.verdict}\n\nfrom {STEADY} s: {steady.verdict}")
    likely = ", ".join(f"K = {k}: {p:.3f}" for k, p in enumerate(steady.k_probs) if p > 0.001)
    print(f"p(K | x) {likely}\n")
    print("tone   frequency [Hz]      amplitude          partial at    with amplitude")
    for tone, row in steady.summary().iterrows():
        amplitude, _, f = truth[np.abs(truth[:, 2] - row["frequency_median"]).argmin()]
        print(
            f"{tone:>4}   {row['frequency_median']:7.2f} ± {row['frequency_sd']:.2f}      "
            f"{row['amplitude_median']:.4f} ± {row['amplitude_sd']:.4f}    {f:7.2f}       {amplitude:.4f}"
        )
    loud = truth[truth[:, 0] > 0.01]
    save_figure(steady.plot(truth=loud), options.out, dpi=100)
    print(f"\nWritten: {options.out}")
    return attack, steady, truth


if __name__ == "__main__":
    main()
