"""Is the noise of a whole band steady: p-values of steady noise are uniform, and what comes and goes is seen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.signal import butter, lfilter, sosfilt

from slotflow import Observation
from slotflow.bands.steadiness import band_steadiness, with_steadiness
from slotflow.data.channel import Channel
from slotflow.network.zoom.model import ZoomSlotFlow
from slotflow.posterior.verdict import Check, Verdict

DT, N = 1e-3, 1500
TIMES = DT * np.arange(N)
BAND = (1.5, 499.0)
NONE = np.zeros((0, 3))

Noise = Callable[[np.random.Generator], np.ndarray]


def colour(*coefficients: float) -> Noise:
    """Real noise of an autoregression."""
    taps = np.concatenate([[1.0], -np.array(coefficients)])
    return lambda rng: np.asarray(lfilter([1.0], taps, rng.standard_normal(N + 1000))[1000:])


def p_value(x: np.ndarray, theta: np.ndarray = NONE) -> float:
    """That of the test for the whole band."""
    low = -499.0 if np.iscomplexobj(x) else BAND[0]
    check = band_steadiness(Observation.from_arrays(x, DT), theta, (low, BAND[1]))
    assert check is not None
    return check.p_value


def fitted(noise: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Noise without what a fit of amplitude, phase and frequency of three tones takes of it."""
    columns = []
    for f in rng.uniform(5, 490, 3):
        wave = np.exp(2j * np.pi * f * TIMES + 1j * rng.uniform(0, 6))
        columns += [wave, 1j * wave, 1j * (TIMES - TIMES.mean()) * wave]
    parts = [
        np.concatenate([c.real, c.imag]) if np.iscomplexobj(noise) else c.real for c in columns
    ]
    q = np.linalg.qr(np.stack(parts, 1))[0]
    flat = np.concatenate([noise.real, noise.imag]) if np.iscomplexobj(noise) else noise
    rest = flat - q @ (q.T @ flat)
    return rest[:N] + 1j * rest[N:] if np.iscomplexobj(noise) else rest


@pytest.mark.parametrize("is_complex", [False, True])
def test_p_values_of_steady_noise(is_complex: bool, seed: int) -> None:
    """Bounded by their level, and not far below it, whatever the colour of the noise."""
    rng, found = np.random.default_rng(seed), []
    colours = (colour(), colour(0.9), colour(2 * 0.95 * np.cos(1.0), -(0.95**2)))
    draws = 100
    for noise in colours:
        for _ in range(draws):
            x = noise(rng) + 1j * noise(rng) if is_complex else noise(rng)
            found.append(p_value(fitted(x, rng)))
    for level in (0.01, 0.1):
        share = np.mean(np.array(found) < level)
        error = np.sqrt(level * (1 - level) / len(found))
        assert share < level + 4.5 * error
    assert np.mean(np.array(found) < 0.2) > 0.1 - 4.5 * np.sqrt(0.09 / len(found))


def sweep(low: float, high: float) -> np.ndarray:
    phase = low * TIMES + 0.5 * (high - low) * TIMES**2 / TIMES[-1]
    return np.asarray(np.exp(2j * np.pi * phase))


def in_a_band(rng: np.random.Generator) -> np.ndarray:
    filtered = sosfilt(
        butter(4, [100, 180], "bandpass", fs=1 / DT, output="sos"), rng.standard_normal(N)
    )
    return np.asarray(filtered / filtered.std())


COME_AND_GO: dict[str, Noise] = {
    "sweep": lambda _: 2 * sweep(20, 120).real,
    "complex sweep": lambda _: 2 * sweep(-100, 100),
    "burst": lambda _: 5 * np.cos(2 * np.pi * 150 * TIMES) * (np.abs(TIMES - 0.5) < 0.02),
    "half": lambda rng: 2 * in_a_band(rng) * (TIMES[-1] / 2 > TIMES),
    "dead": lambda rng: np.zeros(N),
}


@pytest.mark.parametrize("name", COME_AND_GO)
@pytest.mark.parametrize("noise", [colour(), colour(0.6)], ids=["white", "red"])
def test_what_comes_and_goes_is_seen(name: str, noise: Noise, seed: int) -> None:
    rng = np.random.default_rng(seed)
    extra = COME_AND_GO[name](rng)
    x = noise(rng) + (1j * noise(rng) if np.iscomplexobj(extra) else 0) + extra
    if name == "dead":
        x[400:550] = 0.0
    assert p_value(x) < 1e-5


def test_missing_samples_are_no_change_of_the_noise(seed: int) -> None:
    """Gaps in one half of the record; the control has zeros in their place."""
    rng, least, zeros = np.random.default_rng(seed), [], []
    for _ in range(40):
        x = colour(0.6)(rng)
        gaps = [slice(a, a + rng.integers(5, 80)) for a in rng.integers(50, N // 2, 4)]
        for gap in gaps:
            x[gap] = np.nan
        least.append(p_value(x))
        zeros.append(p_value(np.nan_to_num(x)))
    assert min(least) > 1e-5 and np.mean(np.array(least) < 0.1) < 0.1 + 4.5 * np.sqrt(0.09 / 40)
    assert np.mean(np.array(zeros) < 1e-3) > 0.5


def test_filled_samples_are_missing(seed: int) -> None:
    x = colour()(np.random.default_rng(seed))
    x[700:900] = np.linspace(x[699], x[900], 200)
    filled = Observation([Channel(x, dt=DT, filled=((700, 899),))])
    check = band_steadiness(filled, NONE, BAND)
    assert check is not None and check.p_value > 1e-4
    assert p_value(x) < 1e-6


def test_what_cannot_be_tested(seed: int) -> None:
    """Times at random, errors of each sample, nothing but a constant, too narrow a band, two far stretches."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(N)
    uneven = Channel(x, times=np.sort(rng.uniform(0, N * DT, N)))
    errors = Channel(x, dt=DT, errors=rng.uniform(0.5, 2, N))
    apart = Channel(x, times=np.where(np.arange(N) < N // 2, TIMES, TIMES + 1e5))
    for channel in (uneven, errors, apart, Channel(np.ones(N), dt=DT)):
        assert band_steadiness(Observation([channel]), NONE, BAND) is None
    assert band_steadiness(Observation.from_arrays(x, DT), NONE, (100.0, 108.0)) is None


def test_a_verdict_with_the_test() -> None:
    """It fails at its own rate, and adds its words to those of a misfit."""
    exact, words = Verdict("exact", "fine"), "the noise is not steady"
    for p, tones, status in ((3e-4, 0, "misfit"), (3e-4, 2, "approximate"), (6e-4, 0, "exact")):
        found = with_steadiness(exact, Check("steadiness (band)", p, words), 5e-4, tones)
        assert found.status == status and (words in found.reason) == (status != "exact")
        assert [check.p_value for check in found.checks] == [p]
    failed, before = Check("steadiness (band)", 0.0, words), Verdict("misfit", "a peak")
    assert with_steadiness(before, failed, 5e-4, 1).reason == f"a peak; {words}"
    assert with_steadiness(exact, None, 5e-4, 0) == exact


@pytest.mark.parametrize("tones", [(), (300.0,)])
def test_a_sweep_in_a_wide_band(tones: tuple[float, ...], zoom: ZoomSlotFlow, seed: int) -> None:
    """A local floor takes a sweep for colour, and no window lies on it."""
    t = DT * np.arange(3000)
    x = 2 * np.cos(2 * np.pi * (20 * t + 100 / 6 * t**2)) + np.random.default_rng(seed).normal(
        size=3000
    )
    x += sum(np.cos(2 * np.pi * f * t) for f in tones)
    post = zoom.infer(Observation.from_arrays(x, DT), prior={"frequency": (0.5, 499.8)})
    assert post.k_map == len(tones)
    assert post.verdict.status == ("approximate" if tones else "misfit")
    assert "is not steady" in post.verdict.reason
