r"""Tests of colour that hold in and outside the band: are neighbouring values of the residual independent?

The correlation of values k samples apart, r_k = Σ e_{i+k} e_i / Σ e², is small in white noise, whatever the band.
What a fit has taken changes it by a known amount: shifted by k samples, a tone of frequency f is itself times cos
2πf(t_{i+k} − t_i), so that C_k acts on its directions as the number λ = ⟨cos 2πf(t_{i+k} − t_i)⟩, up to k/n at the
ends. With d degrees of freedom for each tone, ν = n − Σd, tr(MC_k) = −Σ dλ and tr(MC_k)² = (n − k)/2 − Σ dλ²;
`laws.py` has the law. Order is all that the test needs: samples may be at any times. Of a complex residual the
imaginary part is tested too, which sees spectra that are not the same on both sides of zero.

Components that take one degree of freedom in forty or more may take the noise's colour with them: then a correlation
that one white series in a hundred has is a reason for doubt, both of the largest plausible K and of the most probable
one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.arrays import Array, Complex
from slotflow.core.numeric import phasor
from slotflow.posterior.whiteness.laws import Check, any_of, beta_test
from slotflow.posterior.whiteness.left import Left

__all__ = ["DOUBT", "FARTHEST", "FEWEST", "MUCH_TAKEN", "correlation_test", "lag_checks"]

FARTHEST = 10
"""Largest lag, in samples."""
FEWEST = 16
"""Degrees of freedom below which correlations say nothing."""
MUCH_TAKEN = 0.025
"""Share of the degrees of freedom from which on components may have taken the noise's colour."""
DOUBT = 0.01
"""P-value of a correlation that then gives reason for doubt."""


def lag_checks(left: Left) -> list[Check]:
    """Tests whether values of the residual that lie up to ten samples apart are correlated."""
    lags = np.arange(1, min(FARTHEST, left.n // 8) + 1)
    if left.dof < FEWEST or not len(lags) or not left.square.any():
        return []
    found = _correlations(left, lags)
    first = found[0]
    doubt = DOUBT if left.taken.total > MUCH_TAKEN * left.dof else 0.0
    checks = [
        Check(
            f"neighbours ({left.label})",
            first[1],
            f"the noise is not white ({left.whose} residual has a correlation of {first[0]:+.2f} from sample to "
            "sample)",
            doubt,
        )
    ]
    if len(found) > 1:
        worst = min(range(1, len(found)), key=lambda i: found[i][1])
        r, p = found[worst]
        checks.append(
            Check(
                f"lags ({left.label})",
                any_of(p, len(found) - 1),
                f"the noise is not white ({left.whose} residual has a correlation of {r:+.2f} at a lag of {worst + 1} "
                "samples)",
                doubt,
            )
        )
    return checks


def _correlations(left: Left, lags: NDArray[np.int64]) -> list[tuple[float, float]]:
    """The correlation at each lag and its p-value; of complex values the more deviant of the two parts."""
    values, taken, nu = left.values, left.taken, left.dof
    products = np.array([np.vdot(values[:-lag], values[lag:]) for lag in lags])
    correlations, turns = products / float(left.square.sum()), _turns(left, lags)
    parts = [(correlations.real, turns.real)]
    if left.is_complex:
        parts.append((correlations.imag, turns.imag))
    slack = taken.unseen / max(nu, 1.0)  # as much as what was taken before may be
    found = []
    for r, eigenvalues in parts:
        taken_each = (taken.dof * eigenvalues).sum(-1), (taken.dof * eigenvalues**2).sum(-1)
        whole = left.copies * 0.5 * (left.n - lags)
        found.append((r, correlation_test(r, *taken_each, whole, nu, slack)))
    r, p = (np.stack(each) for each in zip(*found, strict=True))  # (parts, L) each
    worst = p.argmin(0), np.arange(len(lags))
    pairs = zip(r[worst].tolist(), p[worst].tolist(), strict=True)
    return [(one, any_of(value, len(parts))) for one, value in pairs]


def correlation_test(
    r: Array, first: Any, second: Any, whole: Any, nu: float, slack: float
) -> Array:
    """P-values of correlations, (..., L), by the moments of the module's docstring.

    Args:
        r: The correlations.
        first: Σ dλ, same shape.
        second: Σ dλ², same shape.
        whole: (n − k)/2, (L,).
        nu: ν.
        slack: By how much a correlation may be off for what is not known of the fit.
    """
    mean, square = -first / nu, whole - second
    variance = 2 * (square - first**2 / nu) / (nu * (nu + 2))
    near = mean + np.sign(r - mean) * np.maximum(np.abs(r - mean) - slack, 0.0)
    return beta_test(near, mean, variance)


def _turns(left: Left, lags: NDArray[np.int64]) -> Complex:
    """⟨e^{2πif Δt}⟩ of each frequency that the fit has taken over the distances in time at each lag, (L, J)."""
    at, t = left.taken.at, left.times
    if left.step is not None:
        turns: Complex = phasor(np.multiply.outer(t[lags] - t[0], at))
        return turns
    each = [phasor(np.multiply.outer(at, t[lag:] - t[:-lag])).mean(-1) for lag in lags]
    return np.array(each)
