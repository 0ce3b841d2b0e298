"""Channels of a free gain: their likelihood against sums that are written out, their evidence against quadrature."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import i0e
from scipy.stats import kstest
from statistics_helpers import assert_within
from typer.testing import CliRunner

from slotflow import Channel, FreeGain, Observation, Posterior, Prior, SlotFlow, plots
from slotflow.cli import app
from slotflow.exact.refine import Effort, RefinedPosterior, exact_posterior
from slotflow.exact.start import Start
from slotflow.signal.likelihood import FreeGains, IntegratedGains, likelihood_of
from slotflow.signal.noise.model import ChannelNoise, NoiseModel, NoiseNode
from slotflow.signal.prior_gains import with_free_amplitudes
from slotflow.signal.simulation_like import simulate_like
from slotflow.signal.waveforms import TONE, GainTone, waveform_named

Array = NDArray[np.float64]

BAND = (0.8, 2.5)
GAINS = GainTone(("B",))
TRUTH = np.array([[1.0, 0.3, 1.2, 2.0, 1.0], [0.6, 2.0, 1.9, 0.5, 4.0]])


def tones(theta: Array, t: Array, m: int, is_complex: bool = False) -> Any:
    """The sum of tones in the channels of amplitude m, (n,), written out."""
    own = GAINS.of_amplitude(theta, m)
    wave = (own[:, :1] * np.exp(1j * (2 * np.pi * own[:, 2:] * t + own[:, 1:2]))).sum(0)
    return wave if is_complex else wave.real


def two_channels(seed: int = 0, is_complex: bool = False, level: float = 0.3) -> Observation:
    """An even channel of a known gain and an uneven one of a free gain, with offsets."""
    rng = np.random.default_rng(seed)
    t, u = 0.1 * np.arange(400), np.sort(rng.uniform(0, 45, 300))

    def noise(n: int) -> Any:
        drawn = rng.normal(size=(2, n))
        return level * (drawn[0] + 1j * drawn[1] if is_complex else drawn[0])

    x, y = (tones(TRUTH, times, m, is_complex) for m, times in enumerate((t, u)))
    channels = [
        Channel(x + noise(400) + 1, dt=0.1, name="A"),
        Channel(y + noise(300) + 5, times=u, name="B", gain="free"),
    ]
    return Observation(channels)


def gains(likelihood: Any, z: Array) -> float:
    """RSS minus the data's energy."""
    xi, c = likelihood.waveform.unpack(z[None, None])
    return float(likelihood.gains(xi, c)[0, 0])


def slopes(likelihood: Any, z: Array, step: float = 1e-6) -> Array:
    """Derivatives of `gains` by z, by difference quotients, (K·Z,)."""
    found = np.zeros(z.size)
    for i in range(z.size):
        moved = np.stack([z.ravel()] * 2)
        moved[:, i] += [step, -step]
        high, low = (gains(likelihood, row.reshape(z.shape)) for row in moved)
        found[i] = (high - low) / (2 * step)
    return found


# ---------------------------------------------------------------------- the waveform


def test_the_waveform_has_columns_for_every_free_channel() -> None:
    waveform = GainTone(("B", "left, 2"))
    assert waveform.names[3:] == ("amplitude_B", "phase_B", "amplitude_left, 2", "phase_left, 2")
    assert waveform_named(waveform.text).names == waveform.names  # a comma in a name does no harm
    theta = np.array([[1.0, 0.3, 1.2, 2.0, 1.0, 0.7, 6.0], [0.6, 2.0, 1.9, 0.5, 4.0, 3.0, 0.1]])
    z = waveform.to_z(theta, 17.0)
    np.testing.assert_allclose(waveform.to_theta(z, 17.0), theta, atol=1e-12)
    product = waveform.jacobian(*waveform.unpack(z), 17.0) @ waveform.inverse_jacobian(theta, 17.0)
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(7), (2, 7, 7)), atol=1e-11)


# ---------------------------------------------------------------------- the likelihood


@pytest.mark.parametrize("is_complex", [False, True])
def test_all_amplitudes_against_sums_that_are_written_out(is_complex: bool) -> None:
    observation = two_channels(is_complex=is_complex)
    likelihood = likelihood_of(observation, None, BAND)
    assert isinstance(likelihood, FreeGains)
    z = likelihood.to_z(TRUTH)
    rests = []
    for m, channel in enumerate(observation.channels):
        rest = channel.values - tones(TRUTH, channel.times, m, is_complex)
        rests.append(rest - rest.mean())
    for rest, found in zip(rests, likelihood.residuals(z), strict=True):
        np.testing.assert_allclose(found, rest, atol=1e-9)
    rss = sum(float((np.abs(rest) ** 2).sum()) for rest in rests)
    assert float(likelihood.energy) + gains(likelihood, z) == pytest.approx(rss, rel=1e-8)
    assert float(likelihood.less(z).energy) == pytest.approx(rss, rel=1e-8)
    xi, c = GAINS.unpack(z[None])
    found = likelihood.equations(xi, c)
    expected = slopes(likelihood, z)
    np.testing.assert_allclose(-2 * found.slope[0], expected, atol=1e-6 * np.abs(expected).max())
    filtered = likelihood.matched(xi)[0]
    for m, channel in enumerate(observation.channels):
        wave = np.exp(-2j * np.pi * TRUTH[:, 2:3] * (channel.times - likelihood.reference))
        centred = channel.values - channel.values.mean()
        np.testing.assert_allclose(filtered[:, m], wave @ centred, rtol=1e-8)


def test_free_amplitudes_integrated_out_against_a_dense_covariance() -> None:
    observation = two_channels()
    likelihood = likelihood_of(observation, None, BAND)
    assert isinstance(likelihood, FreeGains)
    variance = 40.0
    search = IntegratedGains(likelihood, [variance])
    y, u = observation.channels[1].values, observation.channels[1].times
    angle = 2 * np.pi * TRUTH[:, 2:3] * (u - likelihood.reference)
    waves = np.concatenate([np.cos(angle), -np.sin(angle)]).T
    waves, y = waves - waves.mean(0), y - y.mean()
    covariance = np.eye(len(y)) + variance * waves @ waves.T
    gain, log_volume = search.apart(TRUTH[None, :, 2:3])
    energy = float(likelihood.blocks[1].energy)
    assert energy - gain[0] == pytest.approx(y @ np.linalg.solve(covariance, y), rel=1e-8)
    assert log_volume[0] == pytest.approx(-0.5 * np.linalg.slogdet(covariance)[1], rel=1e-8)
    z = search.to_z(TRUTH[:, : TONE.size])
    found = search.equations(*TONE.unpack(z[None]))
    expected = slopes(search, z)
    np.testing.assert_allclose(-2 * found.slope[0], expected, atol=1e-6 * np.abs(expected).max())
    one, more = search.apart(TRUTH[None, :1, 2:3]), search.apart_with_one_more(z[:1], TRUTH[1:, 2])
    np.testing.assert_allclose(np.array(one) + np.array(more), [gain, log_volume], rtol=1e-9)


# ---------------------------------------------------------------------- evidence and draws


def answer(
    observation: Observation, prior: Prior, noise: NoiseModel | None = None, seed: int = 0
) -> RefinedPosterior:
    """The exact posterior, proposed by the spectrum alone."""
    likelihood = likelihood_of(observation, noise, prior.frequency)
    start = Start.from_places(observation, likelihood, prior, prior.sigma[1])
    return exact_posterior(start, likelihood, prior, Effort(1000, seed, 60.0), noise)


def log_bayes_factor(observation: Observation, prior: Prior) -> float:
    """Ln Z_1/Z_0 of complex data without offsets, of a known noise level, by quadrature over f and every amplitude."""
    f = np.linspace(*prior.frequency, 3001)
    total, sigma = np.zeros(len(f)), prior.sigma[0]
    for channel in observation.channels:
        low, high = prior.amplitude
        if isinstance(channel.gain, FreeGain) and channel.gain.amplitude is not None:
            low, high = channel.gain.amplitude
        a = np.linspace(low, high, 801)
        spaced = np.log(high / low) * a if prior.amplitude_law == "loguniform" else high - low
        d = np.abs(np.exp(-2j * np.pi * f[:, None] * channel.times) @ channel.values)[:, None]
        x = a * d / sigma**2
        log_mean = np.log(i0e(x)) + x - 0.5 * a**2 * channel.n / sigma**2 - np.log(spaced)
        top = log_mean.max(-1)
        total += top + np.log(np.trapezoid(np.exp(log_mean - top[:, None]), a, axis=-1))
    top = total.max()
    mean = np.trapezoid(np.exp(total - top), f) / (f[-1] - f[0])
    return float(top + np.log(mean))


@pytest.mark.parametrize(
    ("known", "free", "law"),
    [
        (0.5, 0.4, "uniform"),
        (0.12, 0.8, "uniform"),
        (0.8, 0.0, "uniform"),
        (0.3, 0.5, "loguniform"),
    ],
)
def test_the_evidence_against_quadrature(known: float, free: float, law: str) -> None:
    """A tone in both channels, weak in the known one, and one that the free channel does not see at all."""
    rng, sigma = np.random.default_rng(3), 0.5
    t, u = 0.2 * np.arange(100), np.sort(rng.uniform(0, 22, 90))
    noise = sigma * rng.normal(size=(2, 190)).T @ [1, 1j]
    x = known * np.exp(2j * np.pi * 1.37 * t + 1j) + noise[:100]
    y = free * np.exp(2j * np.pi * 1.37 * u + 4j) + noise[100:]
    observation = Observation(
        [
            Channel(x, times=t, trend=-1),
            Channel(y, times=u, trend=-1, gain=FreeGain((0.1, 2.0))),
        ]
    )
    prior = Prior(
        k_min=0, k_max=1, frequency=(1.0, 2.0), amplitude=(0.05, 1.5), sigma=(sigma, sigma),
        amplitude_law=law,
    )  # fmt: skip
    post = answer(observation, prior)
    found, error = post.log_evidence[1] - [post.log_evidence[0, 0], 0.0]
    assert error < 0.1
    assert found == pytest.approx(log_bayes_factor(observation, prior), abs=4 * error + 0.002)


def test_the_evidence_of_two_tones_against_draws_of_the_prior() -> None:
    """Weak tones, so that draws of all ten parameters from the prior meet the posterior."""
    rng, sigma = np.random.default_rng(8), 2.0
    t, u = 0.5 * np.arange(60), np.sort(rng.uniform(0, 30, 50))
    theta = np.array([[0.5, 1.0, 0.35, 0.4, 2.0], [0.4, 3.0, 0.6, 0.6, 5.0]])
    x, y = (
        tones(theta, times, m) + sigma * rng.normal(size=len(times))
        for m, times in enumerate((t, u))
    )
    free = FreeGain((0.1, 1.2))
    observation = Observation(
        [Channel(x, times=t, trend=-1), Channel(y, times=u, trend=-1, name="B", gain=free)]
    )
    prior = Prior(
        k_min=0, k_max=2, frequency=(0.3, 0.7), amplitude=(0.1, 1.0), min_separation=0.03,
        sigma=(sigma, sigma),
    )  # fmt: skip
    post = answer(observation, prior)
    likelihood = likelihood_of(observation, None, prior.frequency)
    for k in (1, 2):
        n, generator = 200_000, torch.Generator().manual_seed(k)
        plain = prior.sample_theta(torch.full((n,), k), generator).numpy()[:, :k]
        draws = with_free_amplitudes(plain, observation, prior, rng)
        log_ratio = (
            -0.5 / sigma**2 * likelihood.gains(*GAINS.split(draws[None], likelihood.reference))[0]
        )
        weights = np.exp(log_ratio - log_ratio.max())
        expected = log_ratio.max() + np.log(weights.mean())
        error = weights.std() / weights.mean() / np.sqrt(n)
        assert error < 0.15
        found, own = post.log_evidence[k] - [post.log_evidence[0, 0], 0.0]
        assert_within(found, expected, np.hypot(own, error), sigmas=4)
    chosen = post.sample(2, 2)
    log_p = post.log_prob(chosen)
    rss = likelihood.gains(*GAINS.split(chosen[None], likelihood.reference))[0]
    assert log_p[1] - log_p[0] == pytest.approx(-0.5 / sigma**2 * (rss[1] - rss[0]), abs=1e-6)
    assert (
        post.log_prob(chosen + np.array([0, 0, 0, 5.0, 0]))[0] == -np.inf
    )  # outside the free channel's bounds


def test_the_nodes_of_coloured_noise_keep_their_weights() -> None:
    """Two nodes that are one: the evidence and the draws are those of one node."""
    observation = two_channels()
    prior = Prior(k_min=2, k_max=2, frequency=(1.0, 2.1), amplitude=(0.1, 3.0), sigma=(0.0, 1.0))
    shape = (ChannelNoise(np.array([1.0, -0.2])), ChannelNoise())
    one = NoiseModel("ar(1)", (NoiseNode(shape),))
    half = float(np.log(0.5))
    two = NoiseModel(
        "ar(1)", (NoiseNode(shape, half, (0.2,)), NoiseNode(shape, half, (0.2,))), False, ("a",)
    )
    first, second = answer(observation, prior, one), answer(observation, prior, two)
    error = np.hypot(first.log_evidence[2, 1], second.log_evidence[2, 1])
    assert first.log_evidence[2, 0] == pytest.approx(second.log_evidence[2, 0], abs=4 * error)
    draws = [one.sample(2000)[..., GAINS.column("amplitude_B")] for one in (first, second)]
    spread = draws[0].std(0) * np.sqrt(2 / 500)  # weighted draws are worth a few hundred
    assert (np.abs(draws[0].mean(0) - draws[1].mean(0)) < 5 * spread).all()


def test_draws_cover_the_truth() -> None:
    """Ranks of the truth among the draws are uniform; those of draws that are too narrow are not."""
    rng = np.random.default_rng(5)
    template = Observation(
        [
            Channel(np.zeros(150), dt=0.2),
            Channel(
                np.zeros(120), times=np.sort(rng.uniform(0, 35, 120)), gain=FreeGain((0.2, 4.0))
            ),
        ]
    )
    prior = Prior(k_min=1, k_max=1, frequency=(1.0, 1.6), amplitude=(0.2, 1.5), sigma=(0.4, 1.2))
    names, ranks, narrow = ("amplitude_short", "phase_short", "amplitude", "frequency"), [], []
    for sim in simulate_like(template, prior, 40, seed=11):
        post = answer(sim.observation, prior)
        draws, waveform = post.sample(400, 1)[:, 0], post.waveform
        for name in names:
            own, true = waveform.of(draws, name), waveform.of(sim.theta, name)[0]
            if name.startswith("phase"):  # on the circle around the truth
                own, true = np.angle(np.exp(1j * (own - true))), 0.0
            ranks.append(np.mean(own < true))
            middle = np.median(own)
            narrow.append(np.mean(middle + 0.5 * (own - middle) < true))
    level = 0.01 / 2
    assert kstest(ranks, "uniform").pvalue > level
    assert kstest(narrow, "uniform").pvalue < level


# ---------------------------------------------------------------------- as a user meets them


@pytest.fixture(scope="module")
def post() -> Posterior:
    """Two sensors of other units, the second of an unknown response."""
    rng, t = np.random.default_rng(0), 0.1 * np.arange(1000)
    x, y = rng.normal(size=(2, 1000))
    x += np.cos(2 * np.pi * 1.2 * t + 1) + 0.4 * np.cos(2 * np.pi * 1.33 * t)
    y = 1000 + 150 * y + 100 * np.cos(2 * np.pi * 1.2 * t + 2) + 300 * np.cos(2 * np.pi * 1.33 * t)
    observation = Observation(
        [Channel(x, dt=0.1, name="A"), Channel(y, dt=0.1, name="B", gain="free")]
    )
    return SlotFlow.from_pretrained().infer(observation, max_seconds=60)


def test_inference_tells_the_amplitudes_of_each_channel(post: Posterior) -> None:
    assert post.k_map == 2 and post.verdict.status == "exact"
    assert all(channel.sigma is not None for channel in post.observation.channels)
    frame = post.summary()
    for name, truth in {
        "frequency": [1.2, 1.33], "amplitude": [1.0, 0.4], "amplitude_B": [100, 300], "phase_B": [2, 0],
    }.items():  # fmt: skip
        off = frame[f"{name}_median"].to_numpy() - truth
        off = np.angle(np.exp(1j * off)) if name == "phase_B" else off
        assert (np.abs(off) < 4.5 * frame[f"{name}_sd"]).all()
    assert frame["amplitude_B_sd"].between(3, 15).all()  # σ √(2/N) is 6.7
    ratios = dict(post.noise.channels)
    assert ratios["B"] == pytest.approx(150, rel=0.1)


def test_a_tone_that_only_one_sensor_sees() -> None:
    rng, t = np.random.default_rng(1), 0.1 * np.arange(1000)
    x, y = rng.normal(size=(2, 1000)) + 0.5 * np.cos(2 * np.pi * np.array([[1.2], [2.3]]) * t)
    observation = Observation([Channel(x, dt=0.1), Channel(y, dt=0.1, name="B", gain="free")])
    found = SlotFlow.from_pretrained().infer(
        observation, prior={"frequency": (1, 2.5)}, max_seconds=60
    )
    assert found.k_map == 2
    frame, error = found.summary(), np.sqrt(2 / 1000)
    seen = frame[["amplitude_median", "amplitude_B_median"]].to_numpy()
    assert (np.abs(np.diag(seen) - 0.5) < 4.5 * error).all()
    assert (np.diag(seen[:, ::-1]) < 3 * error).all()


def test_a_free_channel_may_be_the_longest() -> None:
    """Its peaks are six times as narrow as those of the first channel, whose bin must not set the pace."""
    rng, t = np.random.default_rng(2), 0.1 * np.arange(1200)
    x, y = rng.normal(size=(2, 1200))
    x, y = x + np.cos(2 * np.pi * 2 * t), y + 3 * np.cos(2 * np.pi * 2 * t + 1)
    both = Observation([Channel(x[:200], dt=0.1), Channel(y, dt=0.1, name="B", gain="free")])
    found = SlotFlow.from_pretrained().infer(both, prior={"frequency": (1, 3)}, max_seconds=60)
    assert found.k_map == 1 and found.verdict.status == "exact"
    frame = found.summary()
    assert frame["frequency_sd"][1] < 2e-4 and abs(frame["frequency_median"][1] - 2) < 1e-3


def test_files_and_pictures_know_the_channels(post: Posterior, tmp_path: Path) -> None:
    post.save(tmp_path / "post.nc")
    back = Posterior.load(tmp_path / "post.nc")
    assert back.waveform.names == post.waveform.names
    assert back.observation.channels[1].gain == post.observation.channels[1].gain
    assert isinstance(post.observation.channels[1].gain, FreeGain)
    np.testing.assert_allclose(
        back.summary()["amplitude_B_median"], post.summary()["amplitude_B_median"], rtol=0.02
    )
    for rest in back.residual():
        assert np.std(rest) == pytest.approx(1.0, abs=0.15)
    for draw in (plots.plot_posterior, plots.plot_corner, plots.plot_correlation):
        draw(post).canvas.draw()


def test_the_command_line(post: Posterior, tmp_path: Path) -> None:
    for name, channel in zip("ab", post.observation.channels, strict=True):
        table = np.stack([channel.times, channel.values], 1)
        np.savetxt(tmp_path / f"{name}.csv", table, delimiter=",", header="time,value", comments="")
    first, second = str(tmp_path / "a.csv"), str(tmp_path / "b.csv")
    flags = ["--band", "1:1.5", "--max-seconds", "60", "--json"]
    found = CliRunner().invoke(app, ["infer", first, "--short", second, "--free-gain", *flags])
    assert found.exit_code == 0, found.output
    record = json.loads(found.stdout)
    amplitudes = [one["amplitude_short_median"] for one in record["signals"][0]["components"]]
    np.testing.assert_allclose(amplitudes, [100, 300], atol=4.5 * 6.7)
    alone = CliRunner().invoke(app, ["infer", first, "--free-gain"])
    assert alone.exit_code == 2 and "expected a second stream" in " ".join(alone.output.split())


def test_more_components_than_were_sampled_have_all_columns(post: Posterior) -> None:
    theta, counts = post.sample_joint(50)
    assert theta.shape[-1] == GAINS.size == post.sample(5, 7).shape[-1]
    fit = post.best_fit(1)  # one tone less, which the search need not have fitted
    assert fit.shape == (1, GAINS.size) and np.isfinite(fit).all()
    assert counts.max() <= post.k_max


# ---------------------------------------------------------------------- what is refused


def test_what_cannot_be_asked_is_refused() -> None:
    x = np.random.default_rng(0).normal(size=400)
    with pytest.raises(ValueError, match="gain as a number or 'free', received 'open'"):
        Channel(x, dt=0.1, gain="open")
    with pytest.raises(ValueError, match="0 <= low < high"):
        FreeGain((2.0, 1.0))
    with pytest.raises(ValueError, match="known gain of the first channel"):
        Observation([Channel(x, dt=0.1, gain="free")])
    free = Channel(x, dt=0.1, gain="free", name="B")
    with pytest.raises(ValueError, match="tell channels of a free gain apart"):
        Observation([Channel(x, dt=0.1), free, free])
    model, both = SlotFlow.from_pretrained(), Observation([Channel(x, dt=0.1), free])
    for method in ("network", "classical", "rjmcmc"):
        with pytest.raises(ValueError, match="leave the exact step on"):
            model.infer(both, method=method, prior={"frequency": (1.0, 2.0)})
    with pytest.raises(ValueError, match="expect tones, received the waveform"):
        model.infer(both, prior=Prior(frequency=(1.0, 2.0), waveform="damped(rate=0.01:0.2)"))
    long = Channel(np.tile(x, 12), dt=0.1)
    wide = Observation([long, Channel(np.tile(x, 12), dt=0.1, gain="free")])
    with pytest.raises(ValueError, match="at most 2000 bins"):
        model.infer(wide, prior={"frequency": (0.1, 4.9)})
