"""Iterative pre-whitening, as it is done for light curves: the rival of the stars and of other series.

The highest peak of the Lomb–Scargle periodogram (astropy) of the residual, up to the Nyquist frequency of the median
step, is taken as a tone, as long as it stands 4 times above the mean amplitude of the noise. All tones are fitted
jointly: amplitudes and phases after each new one, frequencies too after every fifth and at the end. While tones are
taken, the noise is judged by the median of the whole spectrum, so that a crowd of tones does not end the search; at the
end those stay that stand 4 times above the mean amplitude of the residual's spectrum within half a unit of frequency
(Breger's criterion). The errors are those of one tone in white noise (Montgomery and O'Donoghue 1999),
σ_f = √(6/N) σ / (π T A), σ_A = √(2/N) σ and σ_φ = √(2/N) σ / A, with σ the scatter of the residual.
"""

from __future__ import annotations

import numpy as np

__all__ = ["prewhiten"]

OVERSAMPLING = 10
"""Points of a periodogram within 1/T."""
REFITTED = 5
"""All frequencies are fitted again after so many new tones."""
MEAN_OVER_MEDIAN = np.sqrt(np.pi / 2) / np.sqrt(2 * np.log(2))
"""Of the amplitudes of noise, which have a Rayleigh distribution."""
Array = np.ndarray


def prewhiten(
    times: Array, values: Array, snr: float = 4.0, box: float = 0.5, most: int = 250
) -> tuple[Array, Array]:
    """Tones of a series and their errors.

    Args:
        times: (n,), counted from the middle of the record.
        values: (n,).
        snr: Smallest ratio of a peak to the mean amplitude around it.
        box: Half width of that surrounding, in cycles per unit of time.
        most: Tones at most.

    Returns:
        A, φ and f, (K, 3), and their errors, (K, 3).
    """
    n, duration = len(values), times[-1] - times[0]
    grid = np.arange(1, int(OVERSAMPLING * duration / (2 * np.median(np.diff(times)))))
    grid = grid / (OVERSAMPLING * duration)
    values = values - values.mean()
    f, spectrum = np.zeros(0), _spectrum(times, values, grid)
    while len(f) < most and spectrum.max() > snr * MEAN_OVER_MEDIAN * np.median(spectrum):
        f = np.append(f, grid[int(np.argmax(spectrum))])
        if len(f) % REFITTED == 0:
            f = _frequencies(times, values, f)
        spectrum = _spectrum(
            times, values - _design(times, f) @ _amplitudes(times, values, f), grid
        )
    f = _frequencies(times, values, f)
    c = _amplitudes(times, values, f)
    spectrum = _spectrum(times, values - _design(times, f) @ c, grid)
    noise = np.array([spectrum[np.abs(grid - each) <= box].mean() for each in f])
    f = f[np.hypot(c[0:-1:2], c[1:-1:2]) >= snr * noise] if len(f) else f
    f = _frequencies(times, values, f)
    c = _amplitudes(times, values, f)
    sigma = np.std(values - _design(times, f) @ c)
    z = c[0:-1:2] + 1j * c[1:-1:2]
    a, phi = np.abs(z), np.mod(np.angle(z), 2 * np.pi)
    unit = sigma * np.sqrt(2 / n)
    errors = [np.full(len(f), unit), unit / a, np.sqrt(3) * unit / (np.pi * duration * a)]
    return np.stack([a, phi, f], 1), np.stack(errors, 1)


def _spectrum(times: Array, residual: Array, grid: Array) -> Array:
    """Amplitude spectrum on a grid of frequencies."""
    from astropy.timeseries import LombScargle

    power = LombScargle(times, residual, normalization="psd").power(grid, method="fast")
    return np.sqrt(4 * np.maximum(power, 0) / len(residual))


def _design(times: Array, f: Array) -> Array:
    """cos and −sin of each tone in turn, and a constant, (n, 2K + 1)."""
    waves = np.exp(2j * np.pi * np.outer(times, f))
    pairs = np.stack([waves.real, -waves.imag], -1).reshape(len(times), -1)
    return np.concatenate([pairs, np.ones((len(times), 1))], 1)


def _amplitudes(times: Array, values: Array, f: Array) -> Array:
    """Coefficients of the design by least squares, (2K + 1,)."""
    design = _design(times, f)
    solved: Array = np.linalg.lstsq(design.T @ design, design.T @ values, rcond=None)[0]
    return solved


def _frequencies(times: Array, values: Array, f: Array, steps: int = 4) -> Array:
    """Frequencies after a few Gauss–Newton steps of all parameters together, none longer than 0.2/T."""
    longest = 0.2 / (times[-1] - times[0])
    for _ in range(steps if len(f) else 0):
        design = _design(times, f)
        c = _amplitudes(times, values, f)
        cosine, sine = design[:, 0:-1:2], -design[:, 1:-1:2]
        slope = -2 * np.pi * times[:, None] * (c[0:-1:2] * sine + c[1:-1:2] * cosine)
        both = np.concatenate([design, slope], 1)
        scale = np.linalg.norm(both, axis=0)
        both = both / scale
        normal = both.T @ both
        step = np.linalg.lstsq(normal, both.T @ (values - design @ c), rcond=1e-10)[0] / scale
        f = f + np.clip(step[-len(f) :], -longest, longest)
    return f
