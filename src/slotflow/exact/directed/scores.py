r"""Does each tone keep its amplitude and its frequency? Score tests of drift, growth and modulation.

**Directions.** Around its fit, a tone with the complex amplitude c and the frequency f may change in three ways that
the fit knows, b = e^{2πifu}, i b and i u b (times the phase of c). With Legendre's polynomials P_p(2u/T)

.. math:: i P_2\, b,\quad P_1\, b,\quad (P_2, P_3, P_4)\, b,\quad i (P_3, P_4)\, b

are what a drift of the frequency, a growing or decaying amplitude, a slow modulation of the amplitude and one of the
phase add to it at first order. Freed of the directions that all fitted tones know, those of one kind span a space in
which noise has χ² of as many degrees of freedom, whatever the tones are.

**Sums.** All of them are sums of a few tones beside f: polynomials over the record are Fourier extensions (see
`signal/likelihood/compressed.py`), of the same coefficients for every tone. So Gram matrices and products with the data
come from `Likelihood.amplitude_systems`, under any sampling and noise, and what the fit leaves is d − G c.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.polynomial import legendre
from numpy.typing import NDArray
from scipy import special

from slotflow.core.arrays import Array, Complex
from slotflow.signal.likelihood import Likelihood

__all__ = ["DIRECTIONS", "Score", "extension", "scores"]

Directions = tuple[tuple[int, complex], ...]

STEP, REACH = 0.5, 3
"""Distance of the tones that a polynomial is made of, in bins, and how many of them lie on either side."""
INSTANTS = 64
"""Instants at which polynomials and their sums of tones are compared."""
KNOWN: Directions = ((0, 1.0), (0, 1j), (1, 1j))
"""Degree and factor of the directions that a fit knows: amplitude, phase and frequency."""
DIRECTIONS: dict[str, Directions] = {
    "drift": ((2, 1j),),
    "growth": ((1, 1.0),),
    "modulation": ((2, 1.0), (3, 1.0), (4, 1.0)),
    "wander": ((3, 1j), (4, 1j)),
}
"""The same of each kind of change."""
ALL = tuple(one for directions in DIRECTIONS.values() for one in directions)
"""All of them in a row."""
STRONG = 10.0
"""SNR below which a tone is not tested: a change that the data could show would not be slow."""


@dataclass(frozen=True)
class Score:
    """One test of one tone."""

    kind: str
    """A key of `DIRECTIONS`."""
    tone: int
    """Its number in the order of frequencies."""
    chi_square: float
    """What the change would explain of the residual, in units of the noise's variance."""
    dof: int
    """Degrees of freedom of the change."""
    p_value: float
    """Probability of so much by chance."""
    slopes: tuple[float, ...]
    """Estimated coefficients of the directions, relative to the amplitude."""
    limit: float = 0.0
    """P-value below which it is an alarm, among all tests that were made."""


@cache
def extension() -> Complex:
    """Coefficients of the tones beside a tone in P_p, p = 0 to 4, (5, 2·REACH + 1)."""
    s = np.linspace(-1, 1, INSTANTS)
    tones = np.exp(1j * np.pi * STEP * np.outer(s, np.arange(-REACH, REACH + 1)))
    found: Complex = np.linalg.lstsq(tones, legendre.legvander(s, 4), rcond=1e-8)[0].T
    return found


def scores(likelihood: Likelihood, z: Array, asked: NDArray[np.bool_]) -> list[Score]:
    """Tests of some of the tones z, (K, Z), that a fit has found, as far as they are strong.

    Args:
        likelihood: Of one signal; its other nodes do not count.
        z: Coordinates of the best fit, sorted by place.
        asked: Which tones to test, (K,).
    """
    left = _left(likelihood, z)
    if left is None:
        return []
    amplitude = np.abs(left.c)
    known = left.rows(np.arange(len(z)), KNOWN)  # (3K, 2KJ)
    by_known = known @ left.gram
    inner = by_known @ known.T
    snr = amplitude * np.sqrt(np.diag(inner)[:: len(KNOWN)] / left.variance)
    tested = np.flatnonzero(asked & (snr > STRONG))
    if not len(tested):
        return []
    own = left.rows(tested, ALL)
    solved = np.linalg.lstsq(inner, np.column_stack([by_known @ own.T, known @ left.data]))[0]
    cross = own @ by_known.T
    matrix = own @ left.gram @ own.T - cross @ solved[:, :-1]
    slope = own @ left.data - cross @ solved[:, -1]
    each, size = np.arange(len(tested)), len(ALL)
    blocks = matrix.reshape(len(tested), size, len(tested), size)[each, :, each]
    return _tests(blocks, slope.reshape(len(tested), size), tested, amplitude, left)


def _tests(
    matrix: Array, slope: Array, tested: NDArray[np.int64], amplitude: Array, left: _Left
) -> list[Score]:
    """All tests, tone by tone.

    Args:
        matrix: Gram matrices of the directions of each tone, freed of what the fit knows, (n, 7, 7).
        slope: Their products with what the fit leaves, (n, 7).
        tested: Numbers of the tones, (n,).
        amplitude: Of all tones, (K,).
        left: What the fit leaves.
    """
    found, first = [], 0
    for kind, directions in DIRECTIONS.items():
        dof = len(directions)
        part = slice(first, first + dof)
        x = np.linalg.solve(matrix[:, part, part], slope[:, part, None])[..., 0]
        chi_square = np.maximum((slope[:, part] * x).sum(-1), 0.0) / left.variance
        p = special.fdtrc(dof, max(left.freedom - dof, 1), chi_square / dof)
        relative = (x / amplitude[tested, None]).tolist()
        rows = zip(tested.tolist(), chi_square.tolist(), p.tolist(), relative, strict=True)
        found += [Score(kind, tone, chi, dof, value, tuple(by)) for tone, chi, value, by in rows]
        first += dof
    return sorted(found, key=lambda score: score.tone)


@dataclass(frozen=True, eq=False)
class _Left:
    """What a fit of K tones leaves, as J tones around each of them see it."""

    c: Complex
    """Amplitudes of the fit, (K,)."""
    gram: Array
    """Gram matrix of the tones around the K tones, (2KJ, 2KJ)."""
    data: Array
    """Their products with what the fit leaves, (2KJ,)."""
    variance: float
    """Of the noise."""
    freedom: int
    """Degrees of freedom that are left."""

    def rows(self, tones: NDArray[np.int64], directions: Directions) -> Array:
        """Directions of some tones, n of each, as sums of all tones, (n·len(tones), 2KJ)."""
        phase = self.c / np.maximum(np.abs(self.c), 1e-300)
        degrees, factors = (np.array(part) for part in zip(*directions, strict=True))
        each = factors[:, None] * extension()[degrees]  # (n, J)
        table = np.zeros((len(tones), len(directions), len(self.c), each.shape[1]), np.complex128)
        table[np.arange(len(tones)), :, tones] = phase[tones, None, None] * each
        flat = table.reshape(len(tones) * len(directions), -1)
        return np.concatenate([flat.real, flat.imag], -1)


def _left(likelihood: Likelihood, z: Array) -> _Left | None:
    """What tones z, (K, Z), leave of the data; None where nothing is left to test."""
    plain = likelihood.in_numpy
    xi, c = plain.waveform.unpack(z)
    beside = np.arange(-REACH, REACH + 1)
    around = xi[:, :1] + STEP * likelihood.bin * beside  # (K, J)
    gram, data = (x[0] for x in plain.amplitude_systems(around.reshape(1, -1, 1)))
    fitted = np.where(beside == 0, c[:, :1], 0.0).ravel()
    row = np.concatenate([fitted.real, fitted.imag])
    left = data - gram @ row
    rss = float(plain.energy[0]) - float(row @ (data + left))
    freedom = likelihood.n - len(KNOWN) * (len(z) + likelihood.removed)
    if freedom < 2 or not rss > 0:
        return None
    return _Left(c[:, 0], gram, left, rss / freedom, freedom)
