r"""How probable data are under some slowly changing tones.

All derivatives of a component c e^{2πifu} e^{E(u)} (`envelopes`) by the coefficients of its exponent are the function
times g.

**Evidence.** Laplace's, around the maximum that Gauss–Newton reaches, of all components of a signal together,

.. math:: \ln Z = \ln p(x | \hat σ, \hat z) + \ln p(\hat z) + \ln K! + \tfrac d2 \ln 2π - \tfrac12 \ln \det F ,

F being the Gauss–Newton matrix over σ² plus the prior's curvature. Amplitude, phase and frequency have the prior that
tones have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.polynomial import legendre

from slotflow.core.arrays import Array, Complex
from slotflow.exact.directed.envelopes import STEADY, Component, Envelope
from slotflow.exact.target import Level
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.likelihood.compressed import Compressed
from slotflow.signal.prior import Prior

__all__ = ["Fitted", "Slow"]

MOST_CYCLES = 8.0
"""Largest number of periods of a modulation over the record."""
LARGEST_EXPONENT = 12.0
"""Largest sum of coefficients that a step may reach."""
LARGEST_DAMPING = 1e6
"""Damping at which a fit ends."""
STEPS, ENOUGH = 25, 1e-2
"""Steps of a fit at most, and the gain, in units of the noise's variance, below which it ends."""


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

    def fit(self, components: Sequence[Component], kept: Sequence[Component] = ()) -> Fitted | None:
        """The maximum that some components lead to, and its evidence; None where there is none.

        Args:
            components: Where to start.
            kept: Further components that stay as they are, and whose parameters the evidence takes for known.
        """
        data = self.data.data - self.data.shown(self.total(kept)) if kept else self.data.data
        found, left = self._climbed(components, data)
        return self._judged(found, left, kept)

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
        """Whether no frequency has moved by more than a bin, and no tone grows beyond the largest amplitude.

        Without the bound two close tones of opposite phase would approach each other and grow for ever.
        """
        largest = self.prior.amplitude[1]
        return all(
            abs(a.frequency - b.frequency) < self.bin
            and (a.envelope is not STEADY or abs(a.c) <= max(largest, abs(b.c)))
            for a, b in zip(trial, components, strict=True)
        )

    def _judged(
        self, components: list[Component], left: Array, kept: Sequence[Component]
    ) -> Fitted | None:
        """The evidence of a fit."""
        pull = _precisions(components)
        rss = self.data.beside + float(left @ left)
        jacobian = self.data.shown(self._slopes(components))
        precision = self.level.noise.precision(rss)
        fisher = precision * (jacobian @ jacobian.T) + np.diag(pull)
        scale = np.sqrt(np.maximum(np.diag(fisher), 1e-300))
        sign, log_det = np.linalg.slogdet(fisher / (scale[:, None] * scale))
        log_prior = self.log_prior([*kept, *components])
        if sign <= 0 or not math.isfinite(log_prior):
            return None
        log_det += 2 * float(np.log(scale).sum())
        log_likelihood = float(self.level.noise.log_marginal(np.array([rss]))[0])
        log_likelihood += self.level.constant + math.lgamma(len(kept) + len(components) + 1)
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
