"""The likelihood written out: it agrees with a literal time domain, and closed forms agree with it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from slotflow import Grid
from slotflow.data.sampling import Instants, Sampling
from slotflow.signal.likelihood import Equations, Likelihood, Statistics
from slotflow.signal.likelihood.dense import Dense
from slotflow.signal.waveforms import TONE, Waveform

LONG, SHORT = Grid(220, 0.1, 3.0), Grid(129, 1 / 64, 9.0)


class TwoHarmonics(Waveform):
    """Two shapes and two amplitudes, for what tones do not exercise: b_m = t^{m−1} e^{2πi m f t − γt²}."""

    name, parameters, shape, amplitudes = "test", (), ("frequency", "decay"), 2

    def basis(self, t: Any, xi: Any) -> Any:
        f, decay = xi[..., 0, None, None], xi[..., 1, None, None]
        order = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
        return t ** (order - 1) * torch.exp(2j * math.pi * order * f * t - decay * t**2)

    def split(self, theta: Any, reference: float) -> Any:
        raise NotImplementedError

    join = jacobian = inverse_jacobian = without_phase = split  # type: ignore[assignment]

    def scales(self, duration: float) -> tuple[float, ...]:
        return (1 / duration, 1 / duration**2)


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def components(seed: int, batch: int, k: int, waveform: Waveform = TONE) -> Tensor:
    """Coordinates z, (B, K, Z)."""
    g = generator(seed)
    z = torch.randn(batch, k, waveform.coordinates, generator=g, dtype=torch.float64)
    z[..., 0] = 2.0 + 2.5 * torch.rand(batch, k, generator=g, dtype=torch.float64)
    if len(waveform.shape) > 1:
        z[..., 1] = 0.01 * z[..., 1].abs()
    if k > 2:
        z[:, 1, 0] = z[:, 0, 0] + 0.1 / LONG.duration  # an unresolved pair
    return z


def noise(seed: int, batch: int, samplings: Sequence[Sampling], kind: torch.dtype) -> list[Tensor]:
    g = generator(seed + 1)
    return [torch.randn(batch, s.n, generator=g, dtype=kind) for s in samplings]


def correlated(n: int, rho: float) -> Tensor:
    """Covariance of an autoregressive process of the first order, (n, n)."""
    lag = torch.arange(n, dtype=torch.float64)
    return 1.7 * rho ** (lag[:, None] - lag).abs()


def assert_close(value: Any, reference: Any, scale: Any, tolerance: float = 1e-10) -> None:
    """All entries within a tolerance of a scale that broadcasts."""
    value, reference = torch.as_tensor(value), torch.as_tensor(reference)
    assert value.shape == reference.shape
    if value.numel():
        assert float(((value - reference).abs() / scale).max()) < tolerance


def assert_equations(value: Equations, reference: Equations, energy: Tensor) -> None:
    """In units of the lengths of the functions and of the data."""
    length = torch.linalg.diagonal(torch.as_tensor(reference.matrix)).sqrt()
    size = energy[:, None].sqrt() + length.amax(-1, keepdim=True) if length.shape[1] else 1.0
    assert_close(value.gain, reference.gain, (energy + length.square().sum(-1)))
    assert_close(value.slope, reference.slope, length * size)
    assert_close(value.matrix, reference.matrix, length[:, :, None] * length[:, None, :])


# ---------------------------------------------------------------------- the dense instance itself


@pytest.mark.parametrize("kind", [torch.float64, torch.complex128])
@pytest.mark.parametrize("waveform", [TONE, TwoHarmonics()])
def test_against_the_time_domain(kind: torch.dtype, waveform: Waveform, seed: int) -> None:
    """Uneven times, full covariances, real and complex data: RSS, slope and matrix from the residual itself."""
    g = generator(seed)
    samplings = [
        Instants((10 * torch.rand(40, generator=g, dtype=torch.float64).sort().values).numpy()),
        Instants((8 + torch.rand(30, generator=g, dtype=torch.float64).sort().values).numpy()),
    ]
    shapes = [correlated(40, 0.6), correlated(30, -0.3)]
    x, z = noise(seed, 1, samplings, kind), components(seed, 1, 2, waveform)
    dense = Dense(x, samplings, shapes, waveform)

    def residual(flat: Tensor) -> Tensor:
        """L⁻¹(x − m) of all samples, real and imaginary parts one after the other."""
        xi, c = waveform.unpack(flat.view(z.shape[1:]))
        parts = []
        for s, values, shape in zip(samplings, x, shapes, strict=True):
            t = torch.as_tensor(s.times) - dense.reference
            model = torch.stack([(c[k] @ waveform.basis(t, xi[k])) for k in range(len(c))]).sum(0)
            rest = values[0] - (model if kind.is_complex else model.real)
            white = torch.linalg.inv(torch.linalg.cholesky(shape)).to(rest.dtype) @ rest
            parts.append(torch.view_as_real(white).flatten() if kind.is_complex else white)
        return torch.cat(parts)

    flat = z.flatten()
    r = residual(flat)
    jacobian = -torch.autograd.functional.jacobian(residual, flat)
    literal = Equations(
        (r @ r)[None] - dense.energy, (jacobian.T @ r)[None], (jacobian.T @ jacobian)[None]
    )
    assert_equations(dense.equations(*waveform.unpack(z)), literal, dense.energy)
    hessian = torch.autograd.functional.hessian(lambda v: 0.5 * (residual(v) ** 2).sum(), flat)
    size = waveform.coordinates
    for k in range(2):
        own = slice(k * size, (k + 1) * size)
        block = literal.matrix[0, own, own] - dense.second_order(z[0])[k]
        assert_close(block, hessian[own, own], hessian.abs().max())
    whole = torch.cat([rest.reshape(-1) for rest in dense.residuals(z[0])])
    assert_close((whole.abs() ** 2).sum(), r @ r, r @ r)
    half = sum(torch.linalg.slogdet(shape).logabsdet / 2 for shape in shapes)
    assert dense.log_scale == pytest.approx(float(half))


def test_noise_of_any_shape_is_noise_of_a_multivariate_normal(seed: int) -> None:
    """Log L with a full covariance is that of torch's own distribution."""
    sampling = Instants(np.sort(np.random.default_rng(seed).uniform(0, 9, 35)))
    (x,) = noise(seed, 3, [sampling], torch.float64)
    shape, sigma = correlated(35, 0.5), torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64)
    dense = Dense([x], [sampling], [shape])
    theta = TONE.to_theta(components(seed, 3, 2), dense.reference)
    t = torch.as_tensor(sampling.times)
    amplitude, phase, frequency = theta[..., None].unbind(-2)
    model = (amplitude * (2 * math.pi * frequency * t + phase).cos()).sum(-2)
    factor = torch.linalg.cholesky(shape) * sigma[:, None, None]
    normal = torch.distributions.MultivariateNormal(model, scale_tril=factor)
    value = dense.log_likelihood(theta, sigma)
    assert torch.allclose(value, normal.log_prob(x), rtol=1e-10)
    assert not torch.allclose(value, normal.log_prob(x + 1e-3), rtol=1e-10)  # the control


# ---------------------------------------------------------------------- tones on even grids against it


def both_instances(
    grids: Sequence[Grid], ratios: Sequence[float], batch: int, seed: int
) -> tuple[Statistics, Dense]:
    x = noise(seed, batch, grids, torch.float64)
    shapes = [
        r**2 * torch.eye(g.n, dtype=torch.float64) for g, r in zip(grids, ratios, strict=True)
    ]
    return Statistics.from_arrays(x, grids, ratios), Dense(x, grids, shapes)


CASES = [([LONG], [1.0]), ([LONG, SHORT], [1.0, 1.6]), ([SHORT, LONG], [0.7, 1.0])]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("k", [0, 1, 5])
@pytest.mark.parametrize("batch", [1, 3])
def test_closed_forms(case: int, k: int, batch: int, seed: int) -> None:
    """RSS, slope, matrix, each channel's residual and the second derivatives, in torch and in NumPy."""
    even, dense = both_instances(*CASES[case], batch, seed)
    z = components(seed, batch, k)
    xi, c = TONE.unpack(z)
    expected = dense.equations(xi, c)
    assert torch.allclose(even.energy, dense.energy)
    answers = [even.equations(xi, c), even.products(xi).equations(c)]
    if k:
        answers.append(even.equations(xi.numpy(), c.numpy()))
        with pytest.raises(AssertionError):  # the control: a frequency off by 1e-6 Hz
            assert_equations(even.equations(xi + 1e-6, c), expected, dense.energy)
    for answer in answers:
        assert_equations(answer, expected, dense.energy)
    scale = float(dense.energy.max()) + 100 * k
    assert_close(even.products(xi).rest(c), dense.products(xi).rest(c), scale)
    draws = z[:, None].expand(-1, 2, -1, -1)
    theta = TONE.to_theta(draws, even.reference)
    assert_close(even.rss(theta), dense.rss(theta), scale)
    assert_close(even.second_order(z[0].numpy()), dense.second_order(z[0]), 100 * scale * 30)
    for one, other in zip(even.residuals(z[0].numpy()), dense.residuals(z[0]), strict=True):
        assert_close(one, other, 10.0)
    assert even.log_scale == pytest.approx(dense.log_scale) and even.n == dense.n


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("many", [5, 200])
def test_matched_filters_and_overlaps(case: int, many: int, seed: int) -> None:
    """At few frequencies and at many (interpolated), of one signal in NumPy and of several in torch."""
    even, dense = both_instances(*CASES[case], 2, seed)
    g = generator(seed)
    xi = 2.0 + 2.5 * torch.rand(2, many, 1, generator=g, dtype=torch.float64)
    expected = dense.matched(xi)
    assert_close(even.matched(xi), expected, 30.0)
    one = even.take(torch.tensor([1]))
    assert_close(one.matched(xi[1:].numpy()), expected[1:], 30.0)
    values, slopes = one.matched_slope(xi[1].numpy())
    assert_close(values, expected[1], 30.0)
    step = 1e-6
    quotient = (dense.matched(xi + step) - dense.matched(xi - step))[1] / (2 * step)
    assert_close(slopes, quotient, 2 * math.pi * 30 * 30, 1e-7)
    a, b = xi[0, :5, None], xi[1, None, :5]
    overlaps = dense.overlap(a, b)
    assert_close(even.overlap(a.numpy(), b.numpy()), overlaps, even.weight)
    assert_close(even.overlap(a, b), overlaps, even.weight)
    z = components(seed, 1, 3)[0]
    coupling = dense.coupling(xi[0, :5], z)
    length = coupling.abs().amax((0, 1)).clamp_min(1.0)
    assert_close(even.coupling(xi[0, :5].numpy(), z.numpy()), coupling, length)
    with pytest.raises(AssertionError):  # the control
        assert_close(even.coupling(xi[0, :5].numpy() + 1e-6, z.numpy()), coupling, length)


def test_amplitude_systems(seed: int) -> None:
    """The linear problem of the amplitudes, at several sets of frequencies of one signal."""
    even, dense = both_instances(*CASES[1], 1, seed)
    xi = components(seed, 4, 3)[..., :1]
    gram, data = even.amplitude_systems(xi.numpy())
    order = [1, 4, 7, 2, 5, 8]  # Re c of all tones, then Im c
    for i in range(4):
        none = torch.zeros(1, 3, 1, dtype=torch.complex128)
        equations = dense.equations(xi[i : i + 1], none)
        assert_close(gram[i], equations.matrix[0][order][:, order], even.weight)
        assert_close(data[i], equations.slope[0][order], even.weight)


def test_less(seed: int) -> None:
    """Data with components taken out of them."""
    even, _ = both_instances(*CASES[1], 1, seed)
    z = components(seed, 1, 2)
    rest = even.less(z[0].numpy())
    rss = even.energy + even.equations(*TONE.unpack(z)).gain
    assert torch.allclose(rest.energy, rss, rtol=1e-11)
    f = z[:, :, :1].numpy()
    filtered = even.products(torch.from_numpy(f)).rest(TONE.unpack(z)[1]).sum(0)
    assert_close(rest.matched(f), filtered, even.weight)


def test_both_are_likelihoods(seed: int) -> None:
    assert all(isinstance(one, Likelihood) for one in both_instances(*CASES[0], 1, seed))
