"""The likelihood of tones at any times, in any noise, against sums that are written out."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from slotflow import Channel, Observation
from slotflow.signal.likelihood import Statistics
from slotflow.signal.likelihood.curves import MomentsOver, Spread, spread_of, window_moments
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.projection import inside_band, orthogonal_columns, spanning
from slotflow.signal.noise.model import ChannelNoise, Modes, NoiseNode
from slotflow.signal.waveforms import TONE

BAND = (2.0, 2.4)
Array = NDArray[Any]


def white(channels: int = 1) -> NoiseNode:
    return NoiseNode(tuple(ChannelNoise() for _ in range(channels)))


class Written:
    """The likelihood of one observation, written out: columns of every function at every sample.

    Args:
        observation: What was measured.
        node: The noise.
        nuisances: Columns of all channels, (q, N), with flat priors; and their prior variances, inf for flat ones.
    """

    def __init__(
        self,
        observation: Observation,
        node: NoiseNode,
        nuisances: Array,
        variances: Array | None = None,
    ) -> None:
        self.complex, self.reference = observation.is_complex, observation.long.mid_time
        self.channels, self.node = observation.channels, node
        x = np.concatenate([self.filtered(s, c.values) for s, c in enumerate(self.channels)])
        errors = [np.ones(c.n) if c.errors is None else c.errors for c in self.channels]
        level = [
            node.channels[s].ratio * e[len(node.channels[s].taps) - 1 :]
            for s, e in enumerate(errors)
        ]
        root = 1 / np.concatenate(level)
        u = nuisances * root
        prior = np.zeros(len(u)) if variances is None else 1 / variances
        inner = np.linalg.inv((u.conj() @ u.T).real + np.diag(prior))
        self.metric = np.diag(root) @ (np.eye(len(root)) - u.T @ inner @ u) @ np.diag(root)
        self.x = x

    def filtered(self, s: int, values: Array) -> Array:
        taps = self.node.channels[s].taps
        return np.convolve(values, taps)[len(taps) - 1 : len(values)]

    def tone(self, f: float, order: int = 0) -> Array:
        """b or a derivative by f at all samples, by differences in time and none in frequency."""
        parts = []
        for s, channel in enumerate(self.channels):
            u = channel.times - self.reference
            wave = channel.gain * (2j * math.pi * u) ** order * np.exp(2j * math.pi * f * u)
            parts.append(self.filtered(s, wave))
        return np.concatenate(parts)

    def jacobian(self, z: Array) -> Array:
        rows = []
        for f, a, b in z:
            c = a + 1j * b
            rows += [c * self.tone(f, 1), self.tone(f), 1j * self.tone(f)]
        table = np.array(rows)
        return table if self.complex else table.real

    def model(self, z: Array) -> Array:
        total = sum((a + 1j * b) * self.tone(f) for f, a, b in z)
        return np.asarray(total if self.complex else np.real(total))

    def inner(self, a: Array, b: Array) -> Array:
        return np.asarray((a.conj() @ self.metric @ b.T).real)


def make(kind: str, rng: np.random.Generator) -> tuple[Observation, NoiseNode, Array, Array | None]:
    """An observation of some kind, its noise, and the columns and variances of its nuisances."""
    n = 160
    t = np.sort(rng.uniform(0.0, 30.0, n))
    x = rng.standard_normal(n)
    unit = (t - 0.5 * (t[0] + t[-1])) / (0.5 * (t[-1] - t[0]))
    none = np.zeros((0, n))
    if kind == "uneven":
        obs = Observation.from_arrays(values=x, times=t, errors=rng.uniform(0.5, 2.0, n))
        return obs, white(), np.ones((1, n)), None
    if kind == "trend":
        channel = Channel(x, times=t, trend=2, segments=np.arange(n) // 80)
        halves = [np.arange(n) < 80, np.arange(n) >= 80]
        return Observation([channel]), white(), np.array([*halves, unit, unit**2]), None
    if kind == "complex":
        channel = Channel(x + 1j * rng.standard_normal(n), times=t, trend=-1)
        return Observation([channel]), white(), none, None
    if kind == "filter":
        channel = Channel(x, 0.2, trend=-1)
        node = NoiseNode((ChannelNoise(np.array([1.0, -0.7, 0.2])),))
        return Observation([channel]), node, np.zeros((0, n - 2)), None
    if kind == "modes":
        f = np.array([0.05, 2.1])
        node = NoiseNode((ChannelNoise(modes=Modes(f, np.array([4.0, 0.5]))),))
        channel = Channel(x, times=t, trend=-1)
        angle = 2 * math.pi * np.outer(f, t - channel.mid_time)
        columns = np.stack([np.cos(angle), np.sin(angle)], 1).reshape(4, n)
        return Observation([channel]), node, columns, np.array([4.0, 4.0, 0.5, 0.5])
    assert kind == "channels"
    first = Channel(x, times=t, trend=-1)
    second = Channel(rng.standard_normal(n), 0.15, 3.0, gain=0.5 - 0.3j, trend=-1)
    third = Channel(rng.standard_normal(90), 0.21, 1.0, trend=-1)
    node = NoiseNode((
        ChannelNoise(), ChannelNoise(np.array([1.0, 0.5]), ratio=2.0), ChannelNoise(ratio=0.7)
    ))  # fmt: skip
    return Observation([first, second, third]), node, np.zeros((0, 2 * n - 1 + 90)), None


KINDS = ("uneven", "trend", "complex", "filter", "modes", "channels")


@pytest.mark.parametrize("kind", KINDS)
def test_everything_agrees_with_sums_that_are_written_out(kind: str):
    rng = np.random.default_rng(KINDS.index(kind))
    obs, node, columns, variances = make(kind, rng)
    ours, written = GeneralTones(obs, node, BAND), Written(obs, node, columns, variances)
    z = np.array([[2.05, 0.7, -0.4], [2.13, -1.1, 0.3], [2.36, 0.2, 0.9]])
    xi, c = TONE.unpack(z)
    jacobian, rest = written.jacobian(z), written.x - written.model(z)
    energy = float(written.inner(written.x, written.x))
    assert float(ours.energy) == pytest.approx(energy, rel=1e-10)
    found = ours.equations(xi[None], c[None])
    np.testing.assert_allclose(
        found.matrix[0], written.inner(jacobian, jacobian), rtol=1e-8, atol=1e-7
    )
    np.testing.assert_allclose(found.slope[0], written.inner(jacobian, rest), rtol=1e-8, atol=1e-7)
    rss = float(written.inner(rest, rest))
    assert energy + float(found.gain[0]) == pytest.approx(rss, rel=1e-9)
    assert energy + float(ours.gains(xi[None, None], c[None, None])[0, 0]) == pytest.approx(
        rss, rel=1e-9
    )
    assert sum((np.abs(r) ** 2).sum() for r in ours.residuals(z)) == pytest.approx(
        rss, rel=0.2 if kind == "modes" else 1e-9
    )
    gram, data = ours.amplitude_systems(xi[None])
    order = [1, 4, 7, 2, 5, 8]
    np.testing.assert_allclose(
        gram[0], written.inner(jacobian, jacobian)[np.ix_(order, order)], atol=1e-8
    )
    np.testing.assert_allclose(data[0], written.inner(jacobian, written.x)[order], atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_less_second_order_and_matched_filters(kind: str):
    rng = np.random.default_rng(10 + KINDS.index(kind))
    obs, node, columns, variances = make(kind, rng)
    ours, written = GeneralTones(obs, node, BAND), Written(obs, node, columns, variances)
    z = np.array([[2.08, 0.7, -0.4], [2.31, -1.1, 0.3]])
    rest = written.x - written.model(z)
    f = np.array([2.02, 2.17, 2.33])
    for likelihood, data in ((ours, written.x), (ours.less(z), rest)):
        direct = [written.tone(one).conj() @ written.metric @ data for one in f]
        np.testing.assert_allclose(likelihood.matched(f[None, :, None])[0, :, 0], direct, atol=1e-8)
    left = float(ours.less(z).energy)
    assert left == pytest.approx(float(written.inner(rest, rest)), rel=1e-9)
    blocks = ours.second_order(z)
    for k, (f_k, a, b) in enumerate(z):
        second = (a + 1j * b) * written.tone(f_k, 2)
        mixed = [written.tone(f_k, 1), 1j * written.tone(f_k, 1)]
        parts = [second, *mixed]
        if not ours.complex:
            parts = [part.real for part in parts]
        direct = [float(written.inner(part, rest)) for part in parts]
        np.testing.assert_allclose(blocks[k, 0], direct, rtol=1e-8, atol=1e-7)
    p = np.array([
        [written.tone(a).conj() @ written.metric @ written.tone(b) for b in f] for a in f
    ])  # fmt: skip
    twice = 2 * p if ours.complex else p
    np.testing.assert_allclose(
        ours.overlap(f[:, None, None], f[None, :, None])[..., 0, 0], twice, atol=1e-8
    )
    np.testing.assert_allclose(ours.own_overlap(f), np.diag(twice).real, atol=1e-8)
    assert ours.less(z) is ours.less(z.copy())  # the latest is kept,
    assert ours.less(z[:1]) is not ours.less(z)  # and no other
    assert ours.in_numpy.less(z) is not ours.less(z)


def test_an_even_white_series_is_what_the_fast_path_says():
    rng = np.random.default_rng(3)
    obs = Observation([Channel(rng.standard_normal(300), 0.1, trend=-1)])
    ours, fast = GeneralTones(obs, white(), BAND), Statistics.from_observation(obs)
    z = np.array([[2.05, 0.7, -0.4], [2.3, -1.1, 0.3]])
    xi, c = TONE.unpack(z)
    for a, b in zip(
        ours.equations(xi[None], c[None]), fast.equations(xi[None], c[None]), strict=True
    ):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-7)
    assert ours.n == fast.n
    assert ours.log_scale == pytest.approx(fast.log_scale, abs=1e-9)
    for a, b in zip(ours.residuals(z), fast.residuals(z), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_local_counts_the_band_alone():
    """Noise outside the band is no evidence: it changes neither energy nor degrees of freedom by much."""
    rng = np.random.default_rng(4)
    n, dt = 3000, 0.1
    t = dt * np.arange(n)
    x = rng.standard_normal(n)
    loud = x + 3 * np.cos(2 * math.pi * 4.0 * t)
    quiet = GeneralTones(Observation.from_arrays(values=x, dt=dt), white(), BAND, local=True)
    other = GeneralTones(Observation.from_arrays(values=loud, dt=dt), white(), BAND, local=True)
    assert quiet.n == other.n
    wide = 2 * (BAND[1] - BAND[0]) * n * dt
    assert wide < quiet.n < wide + 50
    ratio = float(quiet.energy) / quiet.n
    assert ratio == pytest.approx(1.0, abs=4 * math.sqrt(2 / quiet.n))
    assert abs(float(other.energy) - float(quiet.energy)) < 25  # of 3 σ²N/2 = 13,500
    z = np.array([[2.2, 5.0, 1.0]])
    xi, c = TONE.unpack(z)
    whole = GeneralTones(Observation.from_arrays(values=x, dt=dt), white(), BAND)
    gain = quiet.gains(xi[None, None], c[None, None])
    np.testing.assert_allclose(gain, whole.gains(xi[None, None], c[None, None]), rtol=1e-12)


def test_curves_are_exact_between_their_points():
    rng = np.random.default_rng(5)
    u, a = rng.uniform(-40.0, 40.0, 500), rng.standard_normal(500) + 0j
    f = rng.uniform(-1.0, 3.0, 200)
    moments = MomentsOver(Spread(u), (-1.0, 3.0))(a, 3)
    for p in range(3):
        direct = (a * u**p * np.exp(2j * math.pi * np.outer(f, u))).sum(-1)
        assert np.abs(moments.every(f)[:, p] - direct).max() < 1e-11 * np.abs(a * u**p).sum()
    np.testing.assert_array_equal(moments.zeroth(f), moments.every(f)[:, 0])


def test_curves_of_real_values_are_mirrored():
    rng = np.random.default_rng(6)
    u, a = rng.uniform(-40.0, 40.0, 500), rng.uniform(0.5, 1.5, 500)
    f = rng.uniform(-2.0, 2.0, 200)
    mirrored = MomentsOver(Spread(u), (0.0, 2.0), mirrored=True)(a, 3).every(f)
    both = MomentsOver(Spread(u), (-2.0, 2.0))(a, 3).every(f)
    size = np.abs(a[:, None] * u[:, None] ** np.arange(3)).sum(0)
    assert (np.abs(mirrored - both) < 1e-11 * size).all()


@pytest.mark.parametrize("uneven", [False, True])
def test_the_band_is_spanned_alike_by_one_system_and_by_its_halves(uneven):
    """Cosines and sines of even samples are told apart by a turn of phases; those of others stay together."""
    rng = np.random.default_rng(7)
    n, dt = 400, 0.2
    t = dt * np.arange(n) + (rng.uniform(0.0, 0.1, n) if uneven else 0.0)
    x = rng.standard_normal(n)
    noise = NoiseNode((ChannelNoise() if uneven else ChannelNoise(np.array([1.0, -0.6, 0.2])),))
    made = GeneralTones(Observation([Channel(x, times=t)]), noise, BAND, local=True)
    f = spanning(made.band, made.limits, made.bin)
    (gram,), (data,) = made.amplitude_systems(f[None, :, None])
    size = np.tile(np.abs(made.parts[0].gain(f)), 2)
    gram, data = gram / np.outer(size, size), data / size
    values, vectors = np.linalg.eigh(gram)
    kept = values > 1e-6 * values[-1]
    energy = float(((vectors[:, kept].T @ data) ** 2 / values[kept]).sum())
    turned, turned_data = made.even_amplitude_system(f)
    turned, turned_data = turned / np.outer(size, size), turned_data / size
    coupled = np.abs(turned[: len(f), len(f) :]).max() / np.abs(turned).max()
    assert coupled > 1e-3 if uneven else coupled < 1e-12
    assert made.n == kept.sum() < len(values)
    np.testing.assert_allclose(float(made.energy), energy, rtol=1e-8)
    # Wrong halves would show: without what couples them the energy of uneven samples is another.
    apart = turned.copy()
    apart[: len(f), len(f) :] = apart[len(f) :, : len(f)] = 0.0
    other, _ = inside_band(apart, turned_data)
    assert (abs(other / energy - 1) > 1e-3) == uneven


def test_samplings_that_are_shared_are_summed_over_once():
    """Two noises of the same samples share their windows, and weights that differ by a factor differ by it alone."""
    rng = np.random.default_rng(8)
    t, x = np.sort(rng.uniform(0, 60, 300)), rng.standard_normal(300)
    one, two = (
        GeneralTones(Observation([Channel(x, times=t)]), NoiseNode((ChannelNoise(ratio=r),)), BAND)
        for r in (1.0, 1.0)
    )
    assert one._windows[0][0].every.powers is two._windows[0][0].every.powers
    weights, u, f = rng.uniform(0.5, 2.0, 300), t - 30.0, rng.uniform(-0.5, 0.5, 50)
    for factor in (1.0, 3.0):
        kept = window_moments(spread_of(u), factor * weights, (0.0, 0.5), mirrored=True)
        fresh = MomentsOver(Spread(u), (0.0, 0.5), mirrored=True)(factor * weights, 3)
        np.testing.assert_allclose(kept.every(f), fresh.every(f), rtol=1e-12, atol=1e-9)
    other = window_moments(spread_of(u + 0.1), weights, (0.0, 0.5), mirrored=True)
    assert np.abs(other.every(f) - fresh.every(f) / 3.0).max() > 1.0  # the control: other times


def test_more_nuisances_than_samples_are_as_many_as_samples(seed: int) -> None:
    """As modes of red noise may be: the inner product loses the same sum."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.5, 2.0, 12)
    table, precision = rng.standard_normal((31, 12)), rng.uniform(0.1, 3.0, 31)
    precision[0] = 0.0
    columns, flat, _ = orthogonal_columns([table], [precision], weights)
    assert columns.shape == (1 + 12, 12) and flat == 1
    root = np.sqrt(weights)
    inverse = np.eye(12) - root[:, None] * (columns.T @ columns) * root
    soft = (table[1:] * root).T / np.sqrt(precision[1:])
    wide = np.eye(12) + soft @ soft.T + 1e9 * np.outer(table[0] * root, table[0] * root)
    np.testing.assert_allclose(inverse, np.linalg.inv(wide), atol=1e-6)
