"""Data as a few numbers: RSS of any waveform, under any sampling and noise, as if it were written out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from slotflow import Channel, Observation, Prior
from slotflow.signal.likelihood import likelihood_of
from slotflow.signal.likelihood.compressed import compressed, compressed_around
from slotflow.signal.likelihood.dense import Dense
from slotflow.signal.model import without_components
from slotflow.signal.noise.model import ChannelNoise, Modes, NoiseModel, NoiseNode
from slotflow.signal.waveforms import TONE, Waveform
from slotflow.waveforms import Chirp, Classes, Damped, Harmonic, Tone

BAND, N, DT = (2.0, 2.4), 600, 0.1
MIXED = Classes(tone=Tone(), chirp=Chirp((-6e-3, 6e-3)), damped=Damped((0.02, 0.4)))
STACKS = Classes(damped=Damped((0.02, 0.4)), stack=Harmonic(2))
EVERY = [TONE, Chirp((-6e-3, 6e-3)), Damped((0.02, 0.4)), Harmonic(2), MIXED, STACKS]


def even(seed: int, kind: type = np.float64, **options: Any) -> Observation:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(N)
    if kind is np.complex128:
        x = x + 1j * rng.standard_normal(N)
    return Observation([Channel(x, dt=DT, t0=7.0, **options)])


def uneven(seed: int, kind: type = np.float64) -> Observation:
    """Irregular stamps with a gap, and errors."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.choice(np.arange(4 * N), N, replace=False)) * DT / 4 + 1e-3 * rng.random(N)
    t[N // 2 :] += 5.0
    x = rng.standard_normal(N)
    if kind is np.complex128:
        x = x + 1j * rng.standard_normal(N)
    return Observation([Channel(x, times=t, errors=0.5 + rng.random(N))])


def gaps(seed: int, kind: type = np.float64) -> Observation:
    """Even samples of which a fifth is missing, in one stretch and here and there."""
    rng, whole = np.random.default_rng(seed), even(seed, kind).long
    kept = rng.random(N) > 0.1
    kept[200:260] = False
    return Observation([Channel(whole.values[kept], times=whole.times[kept], trend=-1)])


def two(seed: int) -> Observation:
    """A second channel with another gain, later and shorter."""
    rng = np.random.default_rng(seed)
    late = Channel(rng.standard_normal(N // 2), dt=DT, t0=20.05, gain=0.5j, name="B")
    return Observation([even(seed).long, late])


def coloured(taps: tuple[float, ...] = (1.0, -0.8), local: bool = False) -> NoiseModel:
    """Two values of an unknown shape."""
    nodes = [NoiseNode((ChannelNoise(np.array(taps)),), -0.5), NoiseNode((ChannelNoise(),), -1.0)]
    return NoiseModel("local" if local else "ar(1)", tuple(nodes), local=local)


RED = NoiseModel(
    "power_law",
    (NoiseNode((ChannelNoise(modes=Modes(np.array([0.5, 2.1]), np.array([0.1, 0.02]))),)),),
)
CASES: dict[str, tuple[Callable[[int], Observation], NoiseModel | None]] = {
    "even": (even, None),
    "complex": (lambda seed: even(seed, np.complex128), None),
    "uneven": (uneven, None),
    "uneven complex": (lambda seed: uneven(seed, np.complex128), None),
    "two channels": (two, None),
    "coloured": (even, coloured()),
    "coloured complex": (lambda seed: even(seed, np.complex128), coloured()),
    "coloured gaps": (gaps, coloured()),
    "local": (even, coloured(local=True)),
    "red modes": (uneven, RED),
    "trend": (lambda seed: even(seed, trend=2), None),
}


def components(prior: Prior, seed: int, k: int = 4) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return prior.sample_theta(torch.tensor([k]), generator)[0, :k].numpy()


def build(
    observation: Observation, noise: NoiseModel | None, waveform: Waveform, band: Any = BAND
) -> Any:
    every = waveform.occupied(band, observation.long.duration)
    hull = (min(low for low, _ in every), max(high for _, high in every))
    likelihood = likelihood_of(observation, noise, hull)
    return hull, likelihood, compressed(likelihood, observation, waveform, band)


@pytest.mark.parametrize("waveform", EVERY, ids=lambda w: w.name)
@pytest.mark.parametrize("case", CASES)
def test_rss_is_the_energy_of_what_is_left(case: str, waveform: Waveform, seed: int) -> None:
    make, noise = CASES[case]
    observation = make(seed)
    hull, likelihood, nodes = build(observation, noise, waveform)
    prior = Prior(frequency=BAND, waveform=waveform, min_separation=0.0)
    theta = components(prior, seed)
    tau = likelihood.reference
    here = waveform.on(float(observation.long.times[0]), tau)
    xi, c = here.split(theta, tau)
    model = (c[..., None] * here.basis(nodes[0].times, xi)).sum((-3, -2))
    left = likelihood_of(without_components(observation, theta, waveform), noise, hull)
    for node, before, after in zip(
        nodes, (likelihood, *likelihood.nodes), (left, *left.nodes), strict=True
    ):
        energy, expected = float(before.energy[0]), float(after.energy[0])
        assert abs(node.energy - energy) < 1e-9 * energy
        # What local noise calls the band ends at six bins beside it, where a chirp does not.
        error = 1e-4 if case == "local" else 1e-5
        assert abs(float(node.rss(model)) - expected) < error * (energy + expected)
        size = 0.5 * float(node.rss(model) + node.rss(-model)) - energy
        assert size > 100 * error * energy  # the control: the components matter
        assert (node.n, node.log_scale, node.log_weight) == (
            before.n,
            before.log_scale,
            before.log_weight,
        )


@pytest.mark.parametrize("waveform", EVERY, ids=lambda w: w.name)
@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_against_the_dense_likelihood(kind: type, waveform: Waveform, seed: int) -> None:
    """Errors of each sample as a covariance, everything written out at every sample."""
    channel = uneven(seed, kind).long
    observation = Observation(
        [Channel(channel.values, times=channel.times, errors=channel.errors, trend=-1)]
    )
    _, likelihood, nodes = build(observation, None, waveform)
    tau, errors = likelihood.reference, observation.long.errors
    here = waveform.on(float(channel.times[0]), tau)
    assert errors is not None
    dense = Dense(
        [torch.from_numpy(channel.values)[None]],
        [channel.sampling],
        [torch.diag(torch.from_numpy(errors**2))],
        here,
        tau,
    )
    theta = components(Prior(frequency=BAND, waveform=waveform, min_separation=0.0), seed + 1)
    xi, c = here.split(theta, tau)
    expected = float(dense.rss(torch.from_numpy(theta)[None])[0])
    model = (c[..., None] * here.basis(nodes[0].times, xi)).sum((-3, -2))
    assert abs(float(nodes[0].rss(model)) - expected) < 1e-5 * expected
    assert math.isclose(
        nodes[0].log_scale, dense.log_scale * (2 if kind is np.complex128 else 1), rel_tol=1e-9
    )


@pytest.mark.parametrize("waveform", EVERY, ids=lambda w: w.text)
@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_red_noise_and_gaps_against_a_sum_over_pairs(
    kind: type, waveform: Waveform, seed: int
) -> None:
    """AR(1) noise: each sample given the one before it, where that one is there."""
    root, observation = 0.8, gaps(seed, kind)
    channel = observation.long
    node = NoiseNode((ChannelNoise(np.array([1.0, -root])),), 0.0)
    hull, likelihood, (data, *_) = build(observation, NoiseModel("ar(1)", (node,)), waveform)
    tau = likelihood.reference
    here = waveform.on(float(channel.times[0]), tau)
    theta = components(Prior(frequency=BAND, waveform=waveform, min_separation=0.0), seed + 2)
    xi, c = here.split(theta, tau)
    shown = (c[..., None] * here.basis(channel.times - tau, xi)).sum((-3, -2))
    left = channel.values - (shown if kind is np.complex128 else shown.real)
    follows = np.flatnonzero(np.round(np.diff(channel.times) / DT) == 1) + 1
    expected = float((np.abs(left[follows] - root * left[follows - 1]) ** 2).sum())
    model = (c[..., None] * here.basis(data.times, xi)).sum((-3, -2))
    assert abs(float(data.rss(model)) - expected) < 1e-5 * expected
    white = compressed(likelihood_of(observation, None, hull), observation, waveform, BAND)[0]
    assert abs(float(white.rss(model)) - expected) > 0.01 * expected  # the control


@pytest.mark.parametrize("kind", [np.float64, np.complex128])
def test_a_band_near_zero(kind: type, seed: int) -> None:
    """Real data see tones of the guard below zero as conjugates; complex data have a band on both sides of zero."""
    observation, here = even(seed, kind, trend=-1), Chirp((-1e-3, 1e-3))
    band = (-0.3, 0.4) if kind is np.complex128 else (0.15, 0.4)
    _, _, nodes = build(observation, None, here, band)
    theta = components(Prior(frequency=band, waveform=here, min_separation=0.0), seed)
    xi, c = here.split(theta, observation.long.mid_time)
    model = (c[..., None] * here.basis(nodes[0].times, xi)).sum((-3, -2))
    left = likelihood_of(without_components(observation, theta, here), None, band)
    assert abs(float(nodes[0].rss(model)) / float(left.energy[0]) - 1) < 1e-5


def test_intervals_far_from_each_other(seed: int) -> None:
    """Decaying tones in two to four narrow intervals anywhere in a band, whose aliases at the instants stay apart.

    Where aliases of two intervals touched, up to a tenth of a component was lost.
    """
    rng, t = np.random.default_rng(seed), np.arange(5 * N) * DT
    u, bin = t - t.mean(), 1 / (5 * N * DT)
    for trial in range(24):
        f = rng.uniform(2.0, 2.6, 2 + trial % 3)
        c = np.exp(2j * math.pi * rng.random(len(f)))
        waves = np.exp(2j * math.pi * f[:, None] * u - 1.5 * bin * u)
        observation = Observation([Channel((c @ waves).real, dt=DT, trend=-1)])
        likelihood = likelihood_of(observation, None, BAND)
        around = [(float(one) - 2 * bin, float(one) + 2 * bin) for one in f]
        data = compressed_around(likelihood, observation, around, 5.0)
        model = c @ np.exp(2j * math.pi * f[:, None] * data.times - 1.5 * bin * data.times)
        assert abs(float(data.rss(model))) < 1e-5 * data.energy


def test_where_divide_and_conquer_fails(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """`torch.linalg.pinv` does not converge for some bands of some hundred bins, on some machines."""

    def failing(*_: object, **__: object) -> None:
        raise RuntimeError("linalg.svd: The algorithm failed to converge")

    observation = even(seed)
    likelihood = likelihood_of(observation, None, BAND)
    usual = compressed(likelihood, observation, TONE, BAND)[0]
    monkeypatch.setattr(torch.linalg, "pinv", failing)
    other = compressed(likelihood, observation, TONE, BAND)[0]
    wave = np.exp(2j * math.pi * BAND[0] * usual.times)
    np.testing.assert_allclose(other.seen(wave), usual.seen(wave), rtol=1e-6, atol=1e-6)


def test_refusals(seed: int) -> None:
    observation = even(seed)
    with pytest.raises(ValueError, match="stay between 0 and 5 Hz"):
        build(observation, None, Chirp((-0.2, 0.2)))
    with pytest.raises(ValueError, match="stay between 0 and 5 Hz"):
        build(observation, None, Harmonic(4))
    with pytest.raises(ValueError, match="at most 1050 bins"):
        long = Observation([Channel(np.random.default_rng(0).standard_normal(30_000), dt=DT)])
        build(long, None, TONE, (0.5, 4.5))


def test_eigenvectors_where_divide_and_conquer_fails(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """LAPACK's fastest way gives up on some matrices of which most eigenvalues are rounding; another one does not."""
    observation = even(seed)
    data = build(observation, None, TONE)[2][0]

    def fails(_: Any) -> Any:
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    monkeypatch.setattr(np.linalg, "eigh", fails)
    again = build(observation, None, TONE)[2][0]
    tone = np.exp(2j * np.pi * 2.2 * data.times)
    np.testing.assert_allclose(again.rss(tone), data.rss(tone), rtol=1e-7)
