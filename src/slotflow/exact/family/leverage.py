"""How many degrees of freedom a fit takes from each sample: the leverage of its components.

With J the derivatives of the model by the coordinates of all components, (N, d), the fit takes H = J (JᵀJ)⁻¹ Jᵀ of the
noise out of the residual, and H_nn from sample n; the trace is d. A tone takes the same from all samples. A line that
decays within the first tenth of a record takes nearly everything there, so that what is left in that tenth has less
power than the rest although noise and model are right.
"""

from __future__ import annotations

import numpy as np

from slotflow.core.arrays import Array
from slotflow.exact.family.layout import Layout

__all__ = ["leverage"]

MOST_INSTANTS = 8192
"""Instants at which leverage is computed; between them it is interpolated."""


def leverage(layout: Layout, z: Array, t: Array, is_complex: bool) -> Array:
    """Degrees of freedom that a fit takes from each sample of equal weight, (N,).

    Args:
        layout: Which components there are.
        z: Their coordinates, (d,).
        t: Times since the reference, (N,), rising.
        is_complex: Whether samples are complex.
    """
    if not len(z):
        return np.zeros(len(t))
    chosen = np.unique(np.linspace(0, len(t) - 1, min(len(t), MOST_INSTANTS)).astype(np.int64))
    slopes = layout.slopes(z, t[chosen])  # (d, M)
    rows = np.concatenate([slopes.real, slopes.imag], 1) if is_complex else slopes.real
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    q = np.linalg.qr((rows / np.where(sizes > 0, sizes, 1.0)).T)[0]  # (M or 2M, d)
    each = (q**2).sum(1).reshape(-1, len(chosen)).sum(0) * len(chosen) / len(t)
    spread: Array = np.interp(t, t[chosen], each)
    return spread
