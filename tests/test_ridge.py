"""Unresolved tones in opposition: coordinates, density and evidence against a brute-force integral."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from statistics_helpers import assert_within

from slotflow import Grid, Prior
from slotflow.exact.importance import importance_sample
from slotflow.exact.modes import Modes
from slotflow.exact.proposals.assembly import Proposer
from slotflow.exact.proposals.clusters import Cluster, clusters
from slotflow.exact.proposals.gaussian import Mixture
from slotflow.exact.proposals.ridge import Ridge, ridges
from slotflow.exact.search import across_orders
from slotflow.exact.target import Target
from slotflow.signal.likelihood import Statistics

GRID = Grid(200, 0.1)
BIN = 1 / GRID.duration
PRIOR = Prior(
    k_min=2, k_max=2, amplitude=(0.05, 1.1), frequency=(0.5, 1.5), min_separation=0.0,
    sigma=(0.03, 0.3),
)  # fmt: skip
NOISE = 0.1
PAIRS = {
    "0.20 bins": (0.2, 0.6, 0.15, PRIOR),
    "0.25 bins, σ known": (0.25, 0.9, -0.3, replace(PRIOR, sigma=(NOISE, NOISE))),
    "0.30 bins, log-uniform": (0.3, 0.8, 0.0, replace(PRIOR, amplitude_law="loguniform")),
}
"""Distance in bins, amplitude, how far from opposition in rad, prior."""
SHARES = (0.98, 0.02)
"""Of a ridge and of a Gaussian in one of its cells."""
HARDEST = "0.30 bins, log-uniform"
"""Of which other proposals find the smallest share."""
TRIPLE = np.array([[1 - 0.4 * BIN, 0.3, 0.1], [1.0, -0.5, 0.2], [1 + 0.3 * BIN, 0.3, -0.3]])
"""Three unresolved tones, (f, Re c, Im c)."""


def opposed(distance: float, amplitude: float, off: float, seed: int) -> np.ndarray:
    """Data of two tones in opposition at mid-record, (N,)."""
    rng = np.random.default_rng(seed)
    w = 2 * math.pi * GRID.dt * (np.arange(GRID.n) - 0.5 * (GRID.n - 1))
    half, phase = 0.5 * distance * BIN, rng.uniform(0, 2 * math.pi)
    lower = amplitude * np.cos((1 - half) * w + phase)
    upper = amplitude * np.cos((1 + half) * w + phase + math.pi + off)
    return lower + upper + NOISE * rng.standard_normal(GRID.n)


def statistics_of(x: np.ndarray) -> Statistics:
    return Statistics.from_arrays([torch.from_numpy(x)[None]], (GRID,))


# ---------------------------------------------------------------------- brute force


class BruteForce:
    """ln Z of two tones: cells of mean frequency and distance, amplitudes from their conditional Gaussian.

    Sine and cosine are written out, and amplitudes are c = C/2 ∓ D: half of the draws of D are Gaussian and half
    uniform in the disc of the largest amplitude, C given D is Gaussian. Two independent points of each cell give the
    error.
    """

    def __init__(self, x: np.ndarray, prior: Prior) -> None:
        self.x, self.prior = x, prior
        self.w = GRID.dt * (np.arange(GRID.n) - 0.5 * (GRID.n - 1))

    def log_likelihood(self, rss: np.ndarray) -> np.ndarray:
        """With σ integrated out on a grid."""
        low, high = self.prior.sigma
        if low == high:
            return -0.5 * rss / low**2 - GRID.n * math.log(low * math.sqrt(2 * math.pi))
        return np.interp(np.log(rss), *self.table)

    @cached_property
    def table(self) -> tuple[np.ndarray, np.ndarray]:
        """ln RSS and the log-likelihood there, (1000,) each."""
        low, high = self.prior.sigma
        log_sigma = np.linspace(math.log(low), math.log(high), 1001)
        log_rss = math.log(GRID.n * NOISE**2) + np.linspace(-1, 9, 1000)
        log_l = -0.5 * np.exp(log_rss[:, None] - 2 * log_sigma) - (GRID.n - 1) * log_sigma
        value = logsumexp(log_l, axis=1) + math.log((log_sigma[1] - log_sigma[0]) / (high - low))
        return log_rss, value - 0.5 * GRID.n * math.log(2 * math.pi)

    def log_prior(self, amplitude: np.ndarray) -> np.ndarray:
        """Density of two amplitudes and phases in the plane of c, (…, 2) to (…,)."""
        low, high = self.prior.amplitude
        inside = ((amplitude >= low) & (amplitude <= high)).all(-1)
        if self.prior.amplitude_law == "uniform":
            each = -np.log(2 * math.pi * (high - low) * amplitude)
        else:
            each = -np.log(2 * math.pi * math.log(high / low) * amplitude**2)
        return np.where(inside, each.sum(-1), -np.inf)

    def weights(
        self, f: np.ndarray, delta: np.ndarray, n: int, rng: np.random.Generator
    ) -> np.ndarray:
        """Log weights of n draws of the amplitudes at each of m points, (m, n)."""
        high = self.prior.amplitude[1]
        angle = 2 * math.pi * np.stack([f - 0.5 * delta, f + 0.5 * delta])[..., None] * self.w
        cosine, sine = np.cos(angle), -np.sin(angle)  # (2, m, N)
        even, odd = 0.5 * (cosine[0] + cosine[1]), cosine[1] - cosine[0]
        basis = np.stack([even, 0.5 * (sine[0] + sine[1]), odd, sine[1] - sine[0]], 1)
        gram, data = basis @ basis.transpose(0, 2, 1), basis @ self.x
        held = gram / NOISE**2 + np.diag([1e-6, 1e-6, 0.05 / high**2, 0.05 / high**2])
        mean = np.linalg.solve(held, data[..., None])[..., 0] / NOISE**2
        root = 1.15 * np.linalg.cholesky(np.linalg.inv(held)[:, 2:, 2:])
        wide = mean[:, None, 2:] + rng.standard_normal((len(f), n, 2)) @ root.transpose(0, 2, 1)
        radius, phase = high * np.sqrt(rng.random((2, len(f), n)))
        phase = 2 * math.pi * phase**2
        disc = np.stack([radius * np.cos(phase), radius * np.sin(phase)], -1)
        d = np.where(rng.random((len(f), n, 1)) < 0.5, wide, disc)
        white = np.linalg.solve(root, (d - mean[:, None, 2:]).transpose(0, 2, 1))
        log_q = -0.5 * (white**2).sum(1) - np.log(2 * math.pi * np.linalg.det(root))[:, None]
        even_q = np.where((d**2).sum(-1) <= high**2, 1 / (math.pi * high**2), 0.0)
        log_q = np.log(0.5 * np.exp(log_q) + 0.5 * even_q)
        block = np.linalg.cholesky(np.linalg.inv(held[:, :2, :2]))
        pull = data[:, None, :2] / NOISE**2 - d @ held[:, 2:, :2]
        noise = rng.standard_normal((len(f), n, 2))
        c = np.linalg.solve(held[:, :2, :2], pull.transpose(0, 2, 1)).transpose(0, 2, 1)
        c = c + noise @ block.transpose(0, 2, 1)
        log_q = log_q - 0.5 * (noise**2).sum(-1)
        log_q -= np.log(2 * math.pi * np.linalg.det(block))[:, None]
        every = np.concatenate([c, d], -1)
        rss = float(self.x @ self.x) - 2 * (every * data[:, None]).sum(-1)
        rss += (every * (every @ gram)).sum(-1)
        pair = np.stack([0.5 * c - d, 0.5 * c + d], -2)
        return (
            self.log_likelihood(rss.ravel()).reshape(rss.shape)
            + self.log_prior(np.hypot(pair[..., 0], pair[..., 1]))
            - log_q
        )

    def evidence(self, rng: np.random.Generator) -> tuple[float, float]:
        """ln Z and its error; all mass lies within one bin of the middle."""
        f = 1 + np.linspace(-1, 1, 121) * BIN
        delta = 1.8 * BIN * np.linspace(0, 1, 41) ** 1.5
        low = np.stack(np.meshgrid(f[:-1], delta[:-1], indexing="ij"), -1).reshape(-1, 2)
        size = np.stack(np.meshgrid(np.diff(f), np.diff(delta), indexing="ij"), -1).reshape(-1, 2)
        found = []
        for _ in range(2):
            at = low + size * rng.random(low.shape)
            parts = [self.weights(*at[i : i + 600].T, 8, rng) for i in range(0, len(at), 600)]
            found.append(logsumexp(np.concatenate(parts), axis=1) - math.log(8))
        value = np.stack(found) + np.log(size.prod(-1))
        top = value.max()
        mass = np.exp(value - top)
        total = mass.mean(0).sum()
        error = 0.5 * math.sqrt(float(((mass[0] - mass[1]) ** 2).sum())) / total
        low_f, high_f = self.prior.frequency
        log_density = math.log(2) - 2 * math.log(high_f - low_f)
        return float(top + math.log(total) + log_density), error


@pytest.mark.parametrize("name", PAIRS)
def test_evidence_of_a_pair_in_opposition(name: str, seed: int) -> None:
    *signal, prior = PAIRS[name]
    x = opposed(*signal, seed)
    expected, error = BruteForce(x, prior).evidence(np.random.default_rng(seed))
    assert error < 0.15
    orders = across_orders(statistics_of(x), prior, rng=np.random.default_rng(seed))
    own = orders.log_evidence_error[2]
    assert own < 0.1
    assert_within(orders.log_evidence[2], expected, math.hypot(error, own))


def decided_without_tempering(name: str, seed: int) -> int:
    """Of ten data sets, those whose pair importance sampling decides."""
    *signal, prior = PAIRS[name]
    found = 0
    for i in range(10):
        statistics, rng = statistics_of(opposed(*signal, seed + i)), np.random.default_rng(i)
        found += across_orders(statistics, prior, rng=rng).methods[2] == "importance"
    return found


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_in_opposition_seldom_need_tempering(name: str, seed: int) -> None:
    """About one in twenty does; of ten, more than three would with a probability below 0.002."""
    assert decided_without_tempering(name, seed) >= 7


def test_without_ridges_they_mostly_do(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the test before."""
    monkeypatch.setattr(Proposer, "ridges", lambda self, target: [])
    assert decided_without_tempering("0.20 bins", seed) < 7


def test_other_proposals_miss_the_ridge(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the test before, with the same tolerance."""
    *signal, prior = PAIRS[HARDEST]
    x = opposed(*signal, 0)
    expected, error = BruteForce(x, prior).evidence(np.random.default_rng(0))
    monkeypatch.setattr(Proposer, "ridges", lambda self, target: [])
    orders = across_orders(statistics_of(x), prior, rng=np.random.default_rng(0))
    assert orders.log_evidence[2] < expected - 5 * math.hypot(error, 0.05)


# ---------------------------------------------------------------------- coordinates and density


@pytest.mark.parametrize("size", [2, 3])
def test_coordinates_of_a_cluster(size: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    cluster = Cluster(1, size, 5, 3, 0, BIN)
    z = rng.standard_normal((1, 5, 3))
    z[..., 0] = 1 + BIN * np.sort(rng.uniform(-2, 2, 5))
    distances, y = cluster.split(z)
    np.testing.assert_allclose(distances[0], np.diff(z[0, 1 : 1 + size, 0]))
    assert y.shape == (1, cluster.dimension)
    np.testing.assert_allclose(cluster.join(distances, y), z, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        y[0, 3:6], [z[0, 1 : 1 + size, 0].mean(), *z[0, 1 : 1 + size, 1:].sum(0)]
    )
    step, flat = 1e-6, np.eye(15).reshape(15, 5, 3)
    up, down = (np.concatenate(cluster.split(z + sign * step * flat), 1) for sign in (1, -1))
    _, log_det = np.linalg.slogdet((up - down) / (2 * step))
    np.testing.assert_allclose(cluster.log_jacobian(distances)[0], log_det, atol=1e-4)
    moved = cluster.join(distances, y + rng.standard_normal(y.shape)).ravel() - z.ravel()
    along = cluster.directions(distances)[0]
    seen = np.linalg.lstsq(along.T, moved, rcond=None)[0] @ along
    np.testing.assert_allclose(seen, moved, rtol=1e-6, atol=1e-8)


def test_which_neighbours_are_a_cluster() -> None:
    place = np.array([0.0, 0.4, 3.0, 5.0, 5.5, 6.1, 6.4, 9.0])
    assert clusters(place, 1.0, 0.75) == [(0, 2), (3, 3), (4, 3)]
    assert clusters(place, 0.5, 0.5) == []
    assert clusters(place[:1], 1.0, 0.75) == []


class Doubled:
    """A proposal that claims twice the density that it has."""

    def __init__(self, part: Ridge) -> None:
        self.part, self.sample = part, part.sample

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        return self.part.log_prob(z) + math.log(2)


class InOneCell:
    """A Gaussian of distances and y like the draws of a ridge in its most probable cell."""

    def __init__(self, ridge: Ridge, rng: np.random.Generator) -> None:
        self.cluster = ridge.cluster
        both = np.concatenate(self.cluster.split(ridge.sample(40_000, rng)), 1)
        cell = np.unravel_index(int(ridge.share.argmax()), ridge.counts)
        edges = [edge[i : i + 2] for edge, i in zip(ridge.edges, cell, strict=True)]
        low, high = np.array(edges).T
        self.axes = len(low)
        distances = both[:, : self.axes]
        some = both[((distances > low) & (distances < high)).all(-1)]
        self.mean, self.factor = some.mean(0), np.linalg.cholesky(np.cov(some.T))

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        both = self.mean + rng.standard_normal((n, len(self.mean))) @ self.factor.T
        return self.cluster.join(both[:, : self.axes], both[:, self.axes :])

    def log_prob(self, z: np.ndarray) -> np.ndarray:
        distances, y = self.cluster.split(z)
        white = np.linalg.solve(self.factor, (np.concatenate([distances, y], 1) - self.mean).T)
        log_prob = -0.5 * (white**2).sum(0) - np.log(np.diag(self.factor)).sum()
        log_prob -= 0.5 * len(self.mean) * math.log(2 * math.pi)
        return log_prob + self.cluster.log_jacobian(distances)


class Known(Target):
    """A target that is a known normalized density without bounds."""

    density: InOneCell

    def log_prior(self, z: np.ndarray) -> np.ndarray:
        return np.zeros(len(z))

    def log_prob(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return self.density.log_prob(z), np.ones(len(z))


@pytest.mark.parametrize("size", [2, 3])
def test_the_density_is_that_of_the_draws(size: int, seed: int) -> None:
    """A known density in one cell has the evidence one under a mixture with the ridge; not if that claims too much."""
    statistics, rng = statistics_of(opposed(0.3, 0.3, 0.5, seed)), np.random.default_rng(seed)
    target = Known(statistics, replace(PRIOR, k_min=size, k_max=size), size)
    plain = Target(statistics, target.prior, size)
    (ridge,) = ridges(plain, [TRIPLE[:size]], rng)
    assert ridge.cluster.size == size
    target.density = InOneCell(ridge, rng)
    result = importance_sample(target, Mixture([ridge, target.density], SHARES), rng, draws=20_000)
    assert_within(result.log_evidence, 0.0, result.log_evidence_error)
    wrong = Mixture([Doubled(ridge), target.density], SHARES)
    off = importance_sample(target, wrong, rng, draws=20_000)
    assert abs(off.log_evidence) > 5 * off.log_evidence_error


def test_resolved_tones_have_no_ridge(seed: int) -> None:
    statistics, rng = statistics_of(opposed(3.0, 0.6, 0.0, seed)), np.random.default_rng(seed)
    modes = Modes(statistics, PRIOR)
    modes.pursue(2)
    target = Target(statistics, PRIOR, 2)
    assert Proposer(statistics, PRIOR, modes, rng).ridges(target) == []
    near = statistics_of(opposed(0.5, 0.6, 0.0, seed))
    for prior, count in ((PRIOR, 1), (replace(PRIOR, min_separation=BIN), 0)):
        modes = Modes(near, prior)
        modes.add([np.array([1 - 0.25 * BIN, 1 + 0.25 * BIN])])
        assert len(Proposer(near, prior, modes, rng).ridges(target)) == count
