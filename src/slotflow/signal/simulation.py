r"""Simulator: prior and sampling grids to (K, Θ, σ, streams), on CPU and GPU from one code path.

A signal is x(t) = Σ_k A_k cos(2π f_k t + φ_k) + ε(t), ε ~ N(0, σ²) per sample, or coloured (`noise/draws.py`).

**Phases without loss.** At t = 300 s and f = 3 Hz a float32 phase is wrong by 1e-4 rad. Write t = t_i + t_j with
t_i = t_0 + i·J·dt and t_j = j·dt; then

.. math:: A e^{i(2π f t + φ)} = \big[ A e^{i(2π f t_i + φ)} \big] \, e^{2π i f t_j} ,

so sines are needed on I + J ≈ 2√N points only, and the signal is the real part of a product of an I × 2K and a 2K × J
matrix. The product stays in float64 as well: it costs little, and neither autocast nor TF32, which a training loop may
have switched on, rounds it. Only the result is rounded, once, to float32.

**Two modes.** `analytic` (training) draws the noise of the two streams independently. `physical` (test) makes both
streams samples of one master series: noise is shared wherever their instants coincide. (For the paper's grids the
master grid has 2,560 Hz, of which the long stream is every 256th sample and the short one every 5th; they share 20
instants.) White noise on the master grid, looked at on two subsets of it, is independent noise on the union of the
subsets, so only the coincident samples have to be copied and the master grid itself is never stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.signal.mixture import PriorMixture
from slotflow.signal.model import noise_free
from slotflow.signal.noise.draws import draw_noise
from slotflow.signal.noise.series import Series
from slotflow.signal.noise.stated import StatedNoise, parse_noise
from slotflow.signal.prior import Prior
from slotflow.signal.prior_batch import PriorBatch
from slotflow.signal.waveforms import TONE

__all__ = ["Simulation", "coincident", "simulate", "tones"]

MODES = ("analytic", "physical")


@dataclass(frozen=True, eq=False)
class Simulation:
    """A batch of n simulated signals with their truth."""

    k: Tensor
    """Number of components, (n,), int64, always on the CPU."""
    theta: Tensor
    """θ in the order of frequency, (n, k_max, P), float64; zeros where there is no component."""
    sigma: Tensor
    """Noise level, (n,), float64."""
    long: Tensor
    """Long streams, (n, N), float32."""
    short: Tensor | None
    """Short streams, (n, M), float32."""
    grids: tuple[Grid, Grid | None]
    """Sampling of the long and the short stream."""
    seed: int
    """Seed that gives the same batch again on the same device."""
    prior: PriorBatch | None = None
    """What each signal was drawn under, on the device of theta; None if the batch does not come from `simulate`."""
    noise_values: NDArray[np.float64] | None = None
    """Shape parameters of coloured noise of each signal, (n, d); None for white noise."""

    @property
    def mask(self) -> Tensor:
        """Which components exist, (n, k_max), bool."""
        return upload(torch.arange(self.theta.shape[1]) < self.k[:, None], self.theta.device)

    def snr_db(self) -> Tensor:
        """10 log10(Σ A² / 2σ²), the paper's mixture SNR, (n,)."""
        power = (TONE.of(self.theta, "amplitude") ** 2).sum(-1) / 2
        return 10 * torch.log10(power / self.sigma**2)

    def components(self, i: int) -> NDArray[np.float64]:
        """True θ of signal i, (K, P)."""
        truth: NDArray[np.float64] = self.theta[i, : int(self.k[i])].cpu().numpy()
        return truth

    def observation(self, i: int) -> Observation:
        """Signal i as an Observation."""
        long, short = self.grids
        streams = [Channel(self.long[i].cpu().numpy(), long.dt, long.t0)]
        if short is not None and self.short is not None:
            streams.append(Channel(self.short[i].cpu().numpy(), short.dt, short.t0))
        return Observation(*streams)


def simulate(
    prior: Prior | PriorBatch,
    n: int,
    long: Grid,
    short: Grid | None = None,
    *,
    mode: str = "analytic",
    seed: int = 0,
    k: int | None = None,
    device: str | torch.device = "cpu",
    mixture: PriorMixture | None = None,
    noise: Any = "white",
) -> Simulation:
    """Draws n signals from the prior and samples them on the grids.

    Args:
        prior: Where K, Θ and σ come from: one prior for all signals, or one for each.
        n: Number of signals; the batch's size if prior is a PriorBatch.
        long: Grid of the long stream.
        short: Grid of the short stream, or None for none.
        mode: "analytic" or "physical" (see the module's docstring).
        seed: The same seed on the same device gives the same signals.
        k: A fixed number of components instead of draws from p(K).
        device: Where to compute and to leave the result.
        mixture: Draws a prior for each signal around `prior`, which must be a Prior then; from the same seed.
        noise: What `slotflow.noise` builds or its short form: "ar(0.9)", "power_law", …; parameters that are not stated
            are drawn for each signal. Coloured noise of the two streams is independent in either mode. See
            `simulate_like` for other data than even ones.
    """
    if n < 1:
        raise ValueError(f"simulate expects n >= 1 signals, received {n}.")
    if mode not in MODES:
        raise ValueError(f"simulate expects a mode of {MODES}, received {mode!r}.")
    if k is not None and not 0 <= k <= prior.k_max:
        raise ValueError(f"simulate expects 0 <= k <= k_max = {prior.k_max}, received {k}.")
    if isinstance(prior, PriorBatch) and len(prior) != n:
        raise ValueError(
            f"simulate expects n to be the number of signals of the PriorBatch, {len(prior)}, received {n}; "
            "choose signals with PriorBatch.take()."
        )
    generator = _generator(seed, RandomStream.SIGNALS, device)
    device = generator.device
    if mixture is not None:
        if not isinstance(prior, Prior):
            raise ValueError(
                f"simulate expects a Prior for the mixture to vary, received a {type(prior).__name__}; "
                "leave the mixture out to draw under the priors of the batch."
            )
        prior = mixture.draw(prior, n, _generator(seed, RandomStream.PRIORS, device))
    batch = prior.batch(n, device) if isinstance(prior, Prior) else prior.to(device)
    source = prior if isinstance(prior, Prior) else batch  # one prior or many: they draw alike

    # K decides shapes: drawn on the CPU, so that no later step has to wait for the device to know it.
    counts = source.sample_k(n, _generator(seed, RandomStream.COUNTS, "cpu"))
    if k is not None:
        counts = torch.full_like(counts, k)
    theta = source.sample_theta(upload(counts, device), generator)
    sigma = source.sample_sigma(n, generator)

    stated = parse_noise(noise)
    if stated.kind != "white":
        grids = [long] if short is None else [long, short]
        streams, values = _coloured(stated, grids, n, seed)
        made = [
            tones(theta, grid).addcmul_(drawn.to(device), sigma[:, None].float())
            for grid, drawn in zip(grids, streams, strict=True)
        ]
        x_short = made[1] if len(made) > 1 else None
        pair = (long, short)
        return Simulation(counts, theta, sigma, made[0], x_short, pair, seed, batch, values)
    noise_long = torch.randn(n, long.n, generator=generator, device=device)
    x_long = tones(theta, long).addcmul_(noise_long, sigma[:, None].float())
    x_short = None
    if short is not None:
        noise_short = torch.randn(n, short.n, generator=generator, device=device)
        if mode == "physical":
            i, j = (torch.as_tensor(index, device=device) for index in coincident(long, short))
            noise_short[:, j] = noise_long[:, i]
        x_short = tones(theta, short).addcmul_(noise_short, sigma[:, None].float())
    return Simulation(counts, theta, sigma, x_long, x_short, (long, short), seed, batch)


def _coloured(
    stated: StatedNoise, grids: Sequence[Grid], n: int, seed: int
) -> tuple[list[Tensor], NDArray[np.float64]]:
    """Coloured noise of level 1 on each grid, (n, N) each, float32, and its shape parameters, (n, d)."""
    rng = np.random.default_rng(stream_seed(seed, RandomStream.SIGNALS))
    channels = [Series(np.zeros(grid.n), grid.times, grid.dt) for grid in grids]
    drawn = [draw_noise(stated, channels, rng) for _ in range(n)]
    streams = [
        torch.from_numpy(np.stack([noises[s] for noises, _ in drawn])).float()
        for s in range(len(grids))
    ]
    return streams, np.array([values for _, values in drawn])


def _generator(seed: int, stream: RandomStream, device: str | torch.device) -> torch.Generator:
    """The source of one stream of random numbers."""
    return torch.Generator(device=device).manual_seed(stream_seed(seed, stream))


def tones(theta: Tensor, grid: Grid) -> Tensor:
    """Noise-free sum of tones on a grid.

    Args:
        theta: (A, φ, f), shape (n, K, P), float64; components with A = 0 do not count.
        grid: Sampling instants.

    Returns:
        Signals, shape (n, N), float32.
    """
    x: Tensor = noise_free(theta, grid)
    return x.float()


def coincident(long: Grid, short: Grid) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices (i, j) of the samples that the two grids share, to a millionth of the short step."""
    position = (long.t0 - short.t0 + long.dt * np.arange(long.n)) / short.dt
    nearest = np.rint(position)
    shared = (np.abs(position - nearest) < 1e-6) & (nearest >= 0) & (nearest < short.n)
    return np.flatnonzero(shared), nearest[shared].astype(np.int64)
