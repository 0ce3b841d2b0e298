"""The partials of a struck string, each with its decay time.

A piano's A3 is struck: the hammer hits two strings that should be in unison and are not quite. Partials lie a little
above the harmonic series because strings are stiff, f_n = n f_1 √(1 + B n²), and each dies away in its own time, the
higher ones sooner. In 0.7 s of sound the partials of both strings run into each other: the spectrum shows one broad
peak each, and the ear hears a note that first falls fast, then slowly.

The model is a sum of decaying tones, Σ A e^(−γt) cos(2πft + φ). The answer is how many there are, and of each the
frequency and the decay time 1/γ with errors.

The recording is made up, so that the truth is known. `--sound FILE --band LOW HIGH --from SECONDS` analyses a WAV file
of yours; in a long one with many partials take one at a time. A recording is rarely as simple as the model: strings
vibrate in two directions, others ring along, and at a signal-to-noise ratio of thousands the verdict will say so.

    python examples/struck.py --out struck.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from scipy.io import wavfile

from slotflow import Channel, Observation, Posterior, SlotFlow
from slotflow.plots import save_figure
from slotflow.preprocess import narrow
from slotflow.waveforms import Damped

RATE, SECONDS = 8000, 1.0  # samples per second, and the recording's length
START, STRETCH = 0.05, 0.7  # after the knock of the hammer
NOISE = 0.004
STIFFNESS = 4e-4
STRINGS = ((220.0, 1.0), (221.1, 0.6))  # fundamental in Hz, and how hard it was hit
PARTIALS = np.arange(1, 4)
BAND = (190.0, 700.0)


def partials() -> np.ndarray:
    """Amplitude when struck, decay per second and frequency of every partial, (6, 3)."""
    rows = []
    for fundamental, hit in STRINGS:
        frequency = PARTIALS * fundamental * np.sqrt(1 + STIFFNESS * PARTIALS**2)
        rows += list(zip(0.12 * hit / PARTIALS, 0.8 + 0.5 * PARTIALS / hit, frequency, strict=True))
    return np.array(sorted(rows, key=lambda row: row[2]))


def record(path: Path, seed: int) -> np.ndarray:
    """Writes the recording; returns (A, φ, f, γ) of the partials at the beginning of the stretch, (6, 4)."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(SECONDS * RATE)) / RATE
    sound, truth = rng.normal(scale=NOISE, size=t.size), []
    for amplitude, rate, frequency in partials():
        phase = rng.uniform(0, 2 * np.pi)
        sound += amplitude * np.exp(-rate * t) * np.cos(2 * np.pi * frequency * t + phase)
        truth.append((amplitude * np.exp(-rate * START), phase, frequency, rate))
    wavfile.write(path, RATE, np.round(2**15 * np.clip(sound, -0.99, 0.99)).astype(np.int16))
    return np.array(truth)


def analyse(path: Path, band: tuple[float, float], start: float, length: float) -> Posterior:
    """The decaying tones of a band in a stretch of a WAV file; a narrow band of a long recording is cut out first."""
    sound = Observation.read(path).long
    if (band[1] - band[0]) * sound.dt < 0.02:
        sound = narrow(sound, band)
    inside = (sound.times >= start) & (sound.times < start + length)
    piece = Channel(
        sound.values[inside], sound.dt, float(sound.times[inside][0]), trend=sound.trend
    )
    prior = {
        "frequency": band,
        "waveform": Damped(time=(0.05, 2.0)),
        "amplitude": (5e-4, 1.0),
        "k_max": 9,
    }
    return SlotFlow.from_pretrained().infer(
        Observation([piece]), prior=prior, noise="white", max_seconds=120
    )


def main(arguments: list[str] | None = None) -> tuple[Posterior, np.ndarray | None]:
    """Makes the recording, analyses it, prints a table and draws the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sound", type=Path, help="WAV file; made up if left out")
    parser.add_argument("--band", type=float, nargs=2, default=BAND, help="in Hz")
    parser.add_argument("--from", dest="start", type=float, default=START, help="in seconds")
    parser.add_argument("--length", type=float, default=STRETCH, help="in seconds")
    parser.add_argument("--out", type=Path, default=Path("struck.png"), help="picture")
    parser.add_argument("--seed", type=int, default=0, help="of the noise and the phases")
    options = parser.parse_args(arguments)
    with TemporaryDirectory() as folder:
        path, truth = options.sound or Path(folder) / "struck.wav", None
        if options.sound is None:
            truth = record(path, options.seed)
        post = analyse(path, tuple(options.band), options.start, options.length)

    print(f"verdict  {post.verdict}")
    likely = ", ".join(f"K = {k}: {p:.3f}" for k, p in enumerate(post.k_probs) if p > 0.001)
    print(f"p(K | x) {likely}\n")
    print("partial   frequency [Hz]      decay time [s]    amplitude")
    for partial, row in post.summary().iterrows():
        time, error = 1 / row["rate_median"], row["rate_sd"] / row["rate_median"] ** 2
        print(
            f"{partial:>7}   {row['frequency_median']:8.3f} ± {row['frequency_sd']:.3f}    "
            f"{time:.3f} ± {error:.3f}     {row['amplitude_median']:.4f} ± {row['amplitude_sd']:.4f}"
        )
    save_figure(post.plot(truth=truth), options.out, dpi=100)
    print(f"\nWritten: {options.out}")
    return post, truth


if __name__ == "__main__":
    main()
