"""Projections that the general likelihood makes once: nuisances made orthogonal, and the part of the data in a band."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from slotflow.core.arrays import Array

__all__ = ["inside_band", "orthogonal_columns", "spanning", "square_root"]

DEPENDENT = 1e-10
"""Share of a column's energy that the columns before it must leave for it to count."""
GUARD = 6.0
"""Bins beside the band that belong to it."""
STEP = 0.8
"""Distance of the tones that span the band, in bins."""
SPANNED = 1e-6
"""Energy of a direction, in units of the strongest one's, below which no tone of the band has a part in it."""
UNCOUPLED = 1e-11
"""Product of cosines with sines, in units of their energy, that is rounding."""


def orthogonal_columns(
    tables: Sequence[Array], precisions: Sequence[Array], weights: Array
) -> tuple[Array, int, float]:
    """The nuisances' columns of all channels, such that the inner product loses a sum over them.

    Args:
        tables: U of each channel, (q_s, N_s).
        precisions: Prior precisions of the columns over σ⁻², (q_s,) each; 0 for flat priors.
        weights: W of all samples in a row, (N,).

    Returns:
        U L^{−T}, (q, N); the number of flat columns; and ½ ln det(1 + Λ UᵀWU) of the Gaussian ones given the flat ones.
    """
    total, counts = len(weights), [len(table) for table in tables]
    columns = np.zeros((sum(counts), total))
    row = place = 0
    for table in tables:
        columns[row : row + len(table), place : place + table.shape[1]] = table
        row, place = row + len(table), place + table.shape[1]
    precision = np.concatenate([np.zeros(0), *precisions])
    order = np.argsort(precision > 0, kind="stable")  # the flat ones first
    columns, precision = columns[order], precision[order]
    found: list[Array] = []
    flat, log_det = 0, 0.0
    for column, prior in zip(columns, precision, strict=True):
        length = float(weights @ column**2)
        rest = column
        for _ in range(2):  # twice: what rounding leaves of the first pass
            for other in found[:flat]:
                rest = rest - (weights * rest @ other) * other
        left = float(weights @ rest**2)
        if prior > 0 or not left > DEPENDENT * length:
            continue
        found.append(rest / np.sqrt(left))
        flat += 1
    soft = precision > 0
    if soft.any():
        rest = columns[soft]
        for other in found[:flat]:
            rest = rest - np.outer(rest * weights @ other, other)
        gram = (rest * weights) @ rest.T
        scale = np.sqrt(1 / precision[soft])
        matrix = np.eye(len(rest)) + scale[:, None] * gram * scale
        factor = np.linalg.cholesky(matrix)
        log_det = float(np.log(np.diag(factor)).sum())
        loose = np.linalg.solve(factor, scale[:, None] * rest)
        # More columns than samples: as few with the same sum of products, which is all that is asked of them.
        found += list(np.linalg.qr(loose, mode="r") if len(loose) > total else loose)
    stacked = np.stack(found) if found else np.zeros((0, total))
    return stacked, flat, log_det


def square_root(columns: Array) -> tuple[Array, Array]:
    r"""What makes noise white that holds nuisances with Gaussian priors: C^{−½} for C^{−1} = 1 − VᵀV.

    With V Vᵀ = E S Eᵀ, C^{−½} = 1 − Σ_q h(s_q) r_q r_qᵀ, where r are the rows of Eᵀ V and h(s) = (1 − √(1 − s))/s: a
    nuisance with a flat prior, s = 1, is projected out, and of a mode that is as strong as the noise a part stays.

    Args:
        columns: V times the square roots of the weights, (q, N).

    Returns:
        r, (q, N), and h(s), (q,).
    """
    values, vectors = np.linalg.eigh(columns @ columns.T)
    s = np.clip(values, 0.0, 1.0)
    share: Array = 1 / (1 + np.sqrt(1 - s))  # h, without the difference of nearly equal numbers
    return vectors.T @ columns, share


def inside_band(gram: Array, data: Array) -> tuple[float, int]:
    """The energy of the data in the span of some tones, dᵀ G⁺ d, and the dimension of the span.

    Args:
        gram: G, the inner products of the tones' cosines and sines, (2R, 2R); where cosines and sines are orthogonal,
            each half is looked at by itself, at a quarter of the cost.
        data: d, those with the data, (2R,).
    """
    half = len(gram) // 2
    both = slice(0, half), slice(half, 2 * half)
    coupled = np.abs(gram[both]).max(initial=0.0) > UNCOUPLED * np.abs(np.diag(gram)).max()
    blocks = [slice(None)] if coupled else both
    found = [(*np.linalg.eigh(gram[block, block]), data[block]) for block in blocks]
    least = SPANNED * max(values[-1] for values, _, _ in found)
    energy, dimension = 0.0, 0
    for values, vectors, part in found:
        kept = values > least
        energy += float(((vectors[:, kept].T @ part) ** 2 / values[kept]).sum())
        dimension += int(kept.sum())
    return energy, dimension


def spanning(band: tuple[float, float], limits: tuple[float, float], bins: float) -> Array:
    """Frequencies in Hz, (R,), of tones that span the band and what lies just beside it.

    Args:
        band: In Hz.
        limits: Frequencies that may not be passed, in Hz.
        bins: 1/T, in Hz.
    """
    low, high = max(band[0] - GUARD * bins, limits[0]), min(band[1] + GUARD * bins, limits[1])
    return np.linspace(low, high, int((high - low) / (STEP * bins)) + 2)
