r"""Autoregressive noise whose coefficients are unknown: nodes in their partial autocorrelations.

The prior is uniform in the partial autocorrelations r_m, on (−1, 1) for real samples and in the unit disc for complex
ones: every stationary process of the order, and nothing else, and each channel has its own. Nodes lie on a lattice in
artanh r (r artanh|r|/|r| for complex samples), where the posterior has nearly the same width 1/√n everywhere.

The likelihood of a node is that of the samples after the first p of each stretch, given those; the level is profiled,
as RSS^{−n/2}, which for n of some size is the marginal likelihood up to a constant.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from slotflow.core.arrays import Array
from slotflow.signal.noise.burg import order_evidence, partial_autocorrelations
from slotflow.signal.noise.filters import Samples, taps_of_partial, whitened
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode
from slotflow.signal.noise.quadrature import Nodes, nodes_of
from slotflow.signal.noise.series import Series

__all__ = ["HIGHEST_ORDER", "LARGEST", "ar_noise", "check_filters", "evident_order"]

HIGHEST_ORDER = 6
"""Highest order that is tried where none is stated."""
LARGEST = 4.0
"""Largest artanh |r| of a node: |r| = 0.9993."""

Versions = Sequence[Sequence[Series]]
"""For each version of the data (with and without doubtful lines) the series of each channel."""


def check_filters(channels: Sequence[Series], what: str) -> None:
    """Refuses channels that no filter can whiten."""
    for series in channels:
        if series.errors is not None:
            raise ValueError(
                f"expected samples of equal errors for {what}, received an error for each sample; use "
                "noise='power_law', which takes errors and red noise together, or leave the errors out."
            )
        if not series.can_be_filtered:
            raise ValueError(
                f"expected even samples for {what}, with gaps at most, received {series.n:,} samples at uneven times; "
                "use noise='power_law' (red noise at any times) or noise='local'."
            )


def evident_order(channels: Sequence[Series], highest: int = HIGHEST_ORDER) -> int:
    """The order that has the most evidence, the same for all channels."""
    total = np.zeros(highest + 1)
    for series in channels:
        most = min(highest, series.longest_filter)
        evidence = order_evidence(partial_autocorrelations(series, most), series.n)
        total += np.append(evidence, np.full(highest + 1 - len(evidence), -np.inf))
    return int(np.argmax(total))


def ar_noise(versions: Versions, order: int, words: str = "") -> NoiseModel:
    """Autoregressive noise of an order with its coefficients on nodes.

    Args:
        versions: The series of each channel without lines, first the version that is most plausible.
        order: p, from 1 on.
        words: Why this noise.
    """
    first = versions[0]
    check_filters(first, f"AR({order}) noise")
    for series in first:
        if order > series.longest_filter:
            raise ValueError(
                f"expected an AR order of at most {series.longest_filter} for {series.n:,} samples in "
                f"{len(series.stretches)} stretches without a gap, received {order}; state a lower order, or "
                "noise='power_law'."
            )
    is_complex, count = first[0].is_complex, len(first)
    levels = [_level(series, order) for series in first]
    ratios = [level / levels[0] for level in levels]
    sums = [[_lagged_products(series, order) for series in version] for version in versions]

    def taps_at(x: Array) -> list[Samples]:
        partial = _partial(x, is_complex).reshape(count, order)
        return [taps_of_partial(row) for row in partial]

    def log_likelihood(x: Array) -> Array:
        taps = taps_at(x)
        return np.array([_log_likelihood(version, taps, ratios) for version in sums])

    def log_prior(x: Array) -> float:
        return _log_prior(x, is_complex)

    starts = [_coordinates(series, order) for series in versions]
    per_real = 2 if is_complex else 1
    scale = np.repeat([1 / math.sqrt(s.n * per_real) for s in first], order * per_real)
    nodes = nodes_of(log_likelihood, log_prior, starts, scale)
    return _as_model(nodes, taps_at, ratios, order, words)


def _as_model(
    nodes: Nodes, taps_at: object, ratios: Sequence[float], order: int, words: str
) -> NoiseModel:
    """Nodes of a lattice as a noise model whose parameters are the taps' coefficients."""
    assert callable(taps_at)
    found = []
    for x, log_weight in zip(nodes.points, nodes.log_weights, strict=True):
        taps: list[Samples] = taps_at(x)
        channels = tuple(ChannelNoise(a, r) for a, r in zip(taps, ratios, strict=True))
        values = np.concatenate([-a[1:] for a in taps])
        if np.iscomplexobj(values):
            values = np.stack([values.real, values.imag], 1).ravel()
        found.append(NoiseNode(channels, float(log_weight), tuple(float(v) for v in values)))
    return NoiseModel(f"ar({order})", tuple(found), parameters=_names(order, found[0]), words=words)


def _names(order: int, node: NoiseNode) -> tuple[str, ...]:
    """Names of the coefficients φ of x_t = Σ φ_j x_{t−j} + ε_t."""
    several = len(node.channels) > 1
    parts = ("re ", "im ") if len(node.values) == 2 * order * len(node.channels) else ("",)
    return tuple(
        f"{part}φ{j}" + (f" (channel {c + 1})" if several else "")
        for c in range(len(node.channels))
        for j in range(1, order + 1)
        for part in parts
    )


def _level(series: Series, order: int) -> float:
    """Noise level of a channel after the filter."""
    taps = taps_of_partial(partial_autocorrelations(series, order))
    left = whitened(series.values, taps, series.stretches)
    return math.sqrt(max(float(np.mean(np.abs(left) ** 2)), 1e-300))


@dataclass(frozen=True, eq=False)
class _Products:
    """Σ_t x̄_{t−j} x_{t−k} over samples with p neighbours before them: RSS of any taps a is āᵀ R a."""

    matrix: Samples
    """R, (p + 1, p + 1)."""
    reals: int
    """Real numbers among those samples."""


def _lagged_products(series: Series, order: int) -> _Products:
    """The products of a series."""
    pieces = [
        np.lib.stride_tricks.sliding_window_view(series.values[piece], order + 1)[:, ::-1]
        for piece in series.stretches
        if piece.stop - piece.start > order
    ]
    rows = np.concatenate(pieces)
    return _Products(rows.conj().T @ rows, len(rows) * (2 if series.is_complex else 1))


def _log_likelihood(
    channels: Sequence[_Products], taps: Sequence[Samples], ratios: Sequence[float]
) -> float:
    """−(n/2) ln RSS of all channels, up to a constant."""
    rss, n = 0.0, 0
    for products, a, ratio in zip(channels, taps, ratios, strict=True):
        rss += float((a.conj() @ products.matrix @ a).real) / ratio**2
        n += products.reals
    return -0.5 * n * math.log(max(rss, 1e-300))


def _coordinates(channels: Sequence[Series], order: int) -> Array:
    """Coordinates of Burg's estimate, (channels·order,) or twice as many for complex samples."""
    partial = np.concatenate([_padded(partial_autocorrelations(s, order), order) for s in channels])
    size = np.minimum(np.abs(partial), math.tanh(LARGEST - 0.5))
    direction = partial / np.maximum(np.abs(partial), 1e-300)
    stretched = np.arctanh(size) * direction
    if np.iscomplexobj(stretched):
        return np.stack([stretched.real, stretched.imag], 1).ravel()
    return np.asarray(stretched)


def _padded(partial: Samples, order: int) -> Samples:
    """Partial autocorrelations, (order,), with zeros beyond those that could be estimated."""
    return np.append(partial, np.zeros(order - len(partial)))


def _partial(x: Array, is_complex: bool) -> Samples:
    """Partial autocorrelations of coordinates."""
    if not is_complex:
        return np.tanh(x)
    z = x[0::2] + 1j * x[1::2]
    size = np.maximum(np.abs(z), 1e-12)
    partial: Samples = z * np.tanh(size) / size
    return partial


def _log_prior(x: Array, is_complex: bool) -> float:
    """Logarithm of the prior density of coordinates."""
    if not is_complex:
        if np.abs(x).max() > LARGEST:
            return -math.inf
        return float(np.log(0.5 * (1 - np.tanh(x) ** 2)).sum())
    size = np.maximum(np.hypot(x[0::2], x[1::2]), 1e-12)
    if size.max() > LARGEST:
        return -math.inf
    # The area element of the disc: |r| d|r| = tanh s (1 − tanh² s) ds, against s ds of the coordinates.
    radius = np.tanh(size)
    return float(np.log(radius * (1 - radius**2) / size / math.pi).sum())
