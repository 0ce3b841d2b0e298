r"""Tones whose amplitude or frequency changes slowly, and how probable data are under some of them.

A component is c e^{2πifu} e^{E(u)} with an exponent that is linear in a few coefficients x,

.. math:: E(u) = \sum_j x_j g_j(u), \qquad g_j = P_p(s) \text{ or } i P_p(s), \quad s = 2u/T ,

P_p being Legendre's polynomials over the record: none for a tone, i P_2 for a drifting one (x = πḟT²/6), P_1 for a
damped one (x = −γT/2), and P_1 to P_Q for one whose amplitude is modulated. All derivatives are the function times g.

**Evidence.** Laplace's, around the maximum that Gauss–Newton reaches, of all components of a signal together,

.. math:: \ln Z = \ln p(x | \hat σ, \hat z) + \ln p(\hat z) + \ln K! + \tfrac d2 \ln 2π - \tfrac12 \ln \det F ,

F being the Gauss–Newton matrix over σ² plus the prior's curvature. Amplitude, phase and frequency have the prior that
tones have. A drift is uniform below `MOST_DRIFT`, a rate log-uniform between two bounds (few tones grow), and
coefficients of a modulation are normal.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.polynomial import legendre

from slotflow.core.arrays import Array, Complex
from slotflow.exact.target import Level
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.prior import Prior

__all__ = [
    "CHIRP",
    "DAMPED",
    "MODULATED",
    "STEADY",
    "Component",
    "Envelope",
    "Fitted",
    "Slow",
    "periodic",
]

MOST_DRIFT = 30.0
"""Bins by which a frequency may drift over the record."""
RATES = (0.1, 30.0)
"""Smallest and largest γT of a damped tone."""
GROWING = 0.1
"""Probability that an exponential grows."""
DEPTH = 0.3
"""Standard deviation of each coefficient of a modulation."""
MODULATIONS = 5
"""Forms of a modulation, all of them equally probable: polynomials of four degrees, and a periodic one."""
MOST_CYCLES = 8.0
"""Largest number of periods of a modulation over the record."""
LARGEST_EXPONENT = 12.0
"""Largest sum of coefficients that a step may reach."""
LARGEST_DAMPING = 1e6
"""Damping at which a fit ends."""
STEPS, ENOUGH = 25, 1e-2
"""Steps of a fit at most, and the gain, in units of the noise's variance, below which it ends."""


@dataclass(frozen=True)
class Envelope:
    """How a component changes."""

    name: str
    """In verdicts: a waveform of the package where there is one."""
    directions: tuple[tuple[int, complex], ...] = ()
    """Degree and factor (1 or i) of each g."""
    law: str = "normal"
    """Of the coefficients: "uniform", "loguniform" or "normal"."""
    cycles: float = 0.0
    """Periods over the record of a periodic modulation, whose g are its cosine and sine; 0 of any other."""

    def log_prior(self, x: Array) -> float:
        """Logarithm of the density of the coefficients, (J,)."""
        if not len(x):
            return 0.0
        if self.law == "uniform":
            return -len(x) * math.log(2 * MOST_DRIFT * math.pi / 6)
        if self.law == "loguniform":
            rate = float(np.clip(2 * np.abs(x[0]), *RATES))
            sign = GROWING if x[0] > 0 else 1 - GROWING
            return math.log(2 * sign / rate) - math.log(math.log(RATES[1] / RATES[0]))
        spent = len(x) * math.log(DEPTH * math.sqrt(2 * math.pi))
        return float(-0.5 * (x @ x) / DEPTH**2) - spent - math.log(MODULATIONS)

    @property
    def precision(self) -> float:
        """Curvature of −ln p of each coefficient."""
        return 1 / DEPTH**2 if self.law == "normal" else 0.0


STEADY = Envelope("tone")
CHIRP = Envelope("chirp", ((2, 1j),), "uniform")
DAMPED = Envelope("damped", ((1, 1.0),), "loguniform")
MODULATED = tuple(
    Envelope("modulated", tuple((p, 1.0) for p in range(1, order + 1))) for order in (2, 4, 6, 8)
)
"""Tones of modulated amplitude, by the degree of the polynomial."""


def periodic(cycles: float) -> Envelope:
    """A tone whose amplitude has so many periods over the record."""
    return Envelope("modulated", ((0, 1.0), (0, 1.0)), cycles=cycles)


@dataclass(frozen=True, eq=False)
class Component:
    """One of the components of a signal."""

    frequency: float
    """In Hz."""
    c: complex
    """Amplitude at the reference."""
    envelope: Envelope = STEADY
    """How it changes."""
    x: Array = field(default_factory=lambda: np.zeros(0))
    """Coefficients of its change, (J,)."""

    @property
    def row(self) -> Array:
        """All real parameters: f, Re c, Im c, x."""
        return np.concatenate([[self.frequency, self.c.real, self.c.imag], self.x])

    def at(self, row: Array) -> Component:
        """The same with other parameters."""
        return replace(self, frequency=float(row[0]), c=complex(row[1], row[2]), x=row[3:])


@dataclass(frozen=True, eq=False)
class Fitted:
    """Components at a maximum of the likelihood."""

    components: tuple[Component, ...]
    log_evidence: float
    """Laplace's ln Z, without p(K)."""
    rss: float
    """Residual sum of squares."""


class Slow:
    """Fits and evidences of slowly changing components on the data of one signal.

    Args:
        data: What the data say of all that lies around the components.
        prior: Of tones.
        likelihood: Of tones in the same data.
    """

    def __init__(self, data: Compressed, prior: Prior, likelihood: Likelihood) -> None:
        self.data, self.prior = data, prior
        self.waveform, self.bin = likelihood.waveform, likelihood.bin
        self.level = Level(data, prior, self.waveform.coordinates * likelihood.removed)
        low, high = data.times[0], data.times[-1]
        self.s = (2 * data.times - (low + high)) / (high - low)
        self.polynomials = legendre.legvander(self.s, 8).T  # (9, M)

    # ------------------------------------------------------------------ functions of time

    def exponents(self, envelope: Envelope) -> Complex:
        """The functions g, (J, M)."""
        if envelope.cycles:
            angle = math.pi * envelope.cycles * self.s
            return np.array([np.cos(angle), np.sin(angle)], dtype=np.complex128)
        rows = [factor * self.polynomials[p] for p, factor in envelope.directions]
        return np.array(rows, dtype=np.complex128).reshape(len(rows), len(self.s))

    def function(self, component: Component) -> Complex:
        """The component at the instants, (M,), with c = 1."""
        wave = 2j * np.pi * component.frequency * self.data.times
        found: Complex = np.exp(wave + component.x @ self.exponents(component.envelope))
        return found

    def total(self, components: Sequence[Component]) -> Complex:
        """The sum of components at the instants, (M,)."""
        total = np.zeros(len(self.s), dtype=np.complex128)
        for one in components:
            total += one.c * self.function(one)
        return total

    def _slopes(self, components: Sequence[Component]) -> Complex:
        """Derivatives by all parameters, (d, M)."""
        rows = []
        for one in components:
            b = self.function(one)
            by_x = one.c * b * self.exponents(one.envelope)
            rows += [2j * np.pi * self.data.times * one.c * b, b, 1j * b, *by_x]
        return np.array(rows)

    # ------------------------------------------------------------------ fits

    def fit(self, components: Sequence[Component]) -> Fitted | None:
        """The maximum that some components lead to, and its evidence; None where there is none."""
        found, left = self._climbed(components, self.data.data)
        return self._judged(found, left)

    def resembling(self, tones: Sequence[Component], start: Component) -> tuple[Component, float]:
        """One component that resembles a sum of tones, from a start, and what of their energy it misses."""
        found, left = self._climbed([start], self.data.shown(self.total(tones)))
        return found[0], float(left @ left)

    def _climbed(
        self, components: Sequence[Component], data: Array
    ) -> tuple[list[Component], Array]:
        """Damped Gauss–Newton from a start: components, and what they leave of the data, (r,)."""
        components = list(components)
        left = data - self.data.shown(self.total(components))
        variance = max(self.data.beside + float(left @ left), 1e-300) / max(self.level.noise.n, 1)
        ridge = _precisions(components) * variance
        value, damping = float(left @ left) + self._pulled(components, ridge), 1e-3
        for _ in range(STEPS):
            jacobian = self.data.shown(self._slopes(components))
            row = np.concatenate([one.row for one in components])
            matrix = jacobian @ jacobian.T + np.diag(ridge)
            slope = jacobian @ left - ridge * row
            scale = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
            gained = 0.0
            while damping < LARGEST_DAMPING:
                unit = matrix / (scale[:, None] * scale) + damping * np.eye(len(row))
                trial = self._moved(components, row + np.linalg.solve(unit, slope / scale) / scale)
                rest = data - self.data.shown(self.total(trial))
                new = float(rest @ rest) + self._pulled(trial, ridge)
                if new < value and self._near(trial, components):
                    gained, components, left, value = value - new, trial, rest, new
                    damping = max(damping / 8, 1e-9)
                    break
                damping *= 6
            if gained < ENOUGH * variance:
                break
        return components, left

    def _pulled(self, components: Sequence[Component], ridge: Array) -> float:
        """What the prior of the coefficients adds to RSS."""
        return float(ridge @ np.concatenate([one.row for one in components]) ** 2)

    def _moved(self, components: Sequence[Component], row: Array) -> list[Component]:
        """Components at other parameters, (d,); exponents stay where they can be computed."""
        found, first = [], 0
        for one in components:
            last = first + len(one.row)
            moved = one.at(row[first:last])
            most = float(np.abs(moved.x).sum())
            if most > LARGEST_EXPONENT:
                moved = replace(moved, x=moved.x * LARGEST_EXPONENT / most)
            found.append(moved)
            first = last
        return found

    def _near(self, trial: Sequence[Component], components: Sequence[Component]) -> bool:
        """Whether no frequency has moved by more than a bin."""
        pairs = zip(trial, components, strict=True)
        return all(abs(a.frequency - b.frequency) < self.bin for a, b in pairs)

    def _judged(self, components: list[Component], left: Array) -> Fitted | None:
        """The evidence of a fit."""
        pull = _precisions(components)
        rss = self.data.beside + float(left @ left)
        jacobian = self.data.shown(self._slopes(components))
        precision = self.level.noise.precision(rss)
        fisher = precision * (jacobian @ jacobian.T) + np.diag(pull)
        scale = np.sqrt(np.maximum(np.diag(fisher), 1e-300))
        sign, log_det = np.linalg.slogdet(fisher / (scale[:, None] * scale))
        log_prior = self.log_prior(components)
        if sign <= 0 or not math.isfinite(log_prior):
            return None
        log_det += 2 * float(np.log(scale).sum())
        log_likelihood = float(self.level.noise.log_marginal(np.array([rss]))[0])
        log_likelihood += self.level.constant + math.lgamma(len(components) + 1)
        log_z = log_likelihood + log_prior + 0.5 * (len(pull) * math.log(2 * math.pi) - log_det)
        log_z += self._log_rates(components, precision)
        return Fitted(tuple(components), log_z, rss)

    def log_prior(self, components: Sequence[Component]) -> float:
        """Logarithm of the density of all parameters in f, Re c, Im c and x; bounds of the amplitude hold loosely."""
        xi = np.array([[one.frequency] for one in components])
        low, high = self.prior.amplitude
        moduli = np.array([[abs(one.c)] for one in components])
        theta = self.waveform.without_phase(xi, np.clip(moduli, low, high))
        log_prior = float(self.prior.log_prob_theta(torch.from_numpy(theta[None]))[0])
        log_prior -= float(np.log(np.maximum(moduli, 1e-300)).sum())
        return log_prior + sum(one.envelope.log_prior(one.x) for one in components)

    def _log_rates(self, components: Sequence[Component], precision: float) -> float:
        """What the unknown rates of periodic modulations cost: the width of each over that of its prior.

        At first order a rate changes the component by its depth times π s, whose mean square is π²/3 (half of it for a
        sine), times half the energy of the component.
        """
        total = 0.0
        for one in components:
            if one.envelope.cycles:
                energy = float((self.data.shown(one.c * self.function(one)) ** 2).sum())
                information = precision * energy * float(one.x @ one.x) * math.pi**2 / 6
                width = math.sqrt(2 * math.pi / max(information, 1e-300))
                total += math.log(min(width / MOST_CYCLES, 1.0))
        return total


def _precisions(components: Sequence[Component]) -> Array:
    """Curvature of −ln p of all parameters, as far as it is not flat, (d,)."""
    return np.concatenate(
        [[0.0, 0.0, 0.0] + [one.envelope.precision] * len(one.x) for one in components]
    )
