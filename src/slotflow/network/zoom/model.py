r"""The default network: spectral encoder, two counts, zooming slots, flow in units of the bound (preset `zoom`).

It is dimensionless inside: sampling, band and amplitudes belong to the data and to the prior that comes with them.
The band may lie anywhere below the Nyquist frequency and be up to 150 bins 1/T wide.
"""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor

from slotflow.core.later import later
from slotflow.data.noise_level import median_power
from slotflow.data.observation import Observation, as_list
from slotflow.data.observations import Observations
from slotflow.data.preprocess import check_scale
from slotflow.data.sampling import Grid
from slotflow.network.cardinality import check_k_prior, k_posterior, under_k_prior
from slotflow.network.config import ModelConfig, ZoomConfig
from slotflow.network.model import SlotFlow
from slotflow.network.options import InferOptions, KPrior
from slotflow.network.zoom.analysis import Analysis
from slotflow.network.zoom.bound import BoundFlow
from slotflow.network.zoom.encoder import SpectralEncoder
from slotflow.network.zoom.posteriors import ZoomPosteriors
from slotflow.network.zoom.proposals import propose
from slotflow.network.zoom.recount import Recount
from slotflow.network.zoom.slots import NOISE_EXCESS, SlotEstimates, SlotRefiner
from slotflow.network.zoom.spectrum import SignalBatch, Spectrum, spectrum
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.many import Posteriors
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior, batch_of
from slotflow.signal.simulation import Simulation

__all__ = ["ZoomSlotFlow"]

FEWEST_BINS = 10
"""Narrowest band in bins that the network analyses; below it, tones and prior have no room."""
SLACK_BINS = 0.5
"""Bins by which a band may exceed the network's width: the window reaches further on both sides."""


class ZoomSlotFlow(SlotFlow):
    """The default network.

    Args:
        config: What to build; its `zoom` part must be there.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        assert config.zoom is not None
        self.sizes: ZoomConfig = config.zoom
        self.encoder = SpectralEncoder(config.zoom, self.k_max)
        self.slots = SlotRefiner(config.zoom, self.k_max)
        self.recount = Recount(config.zoom, self.k_max)
        self.flow = BoundFlow(config.zoom.slot_width, config.flow)

    # ------------------------------------------------------------------ parts of a pass

    def first_bin(self, grid: Grid, low: float) -> int:
        """w_0, the first bin of the view, for a band that begins at a frequency in Hz."""
        return math.floor(low * grid.duration + 1e-6) - self.sizes.margin

    # ------------------------------------------------------------------ inference

    @torch.inference_mode()
    def analyse(
        self,
        data: Simulation,
        prior: Prior,
        k_prior: KPrior | None = None,
    ) -> Analysis:
        """Analyses a simulated batch, on the model's device.

        Args:
            data: The signals.
            prior: What to assume beforehand.
            k_prior: p(K) instead of the prior's.
        """
        pairs = [(data.long, data.grids[0]), (data.short, data.grids[1])]
        present = [(x.to(self.device), g) for x, g in pairs if x is not None and g is not None]
        series, grids = [x for x, _ in present], [g for _, g in present]
        self._check_band(grids[0], self._start(prior, grids[0], refine=False))
        signals = SignalBatch(series, grids, [1.0] * len(grids))
        return self._analyse(signals, [prior] * len(series[0]), k_prior)

    def _analyse(
        self,
        signals: SignalBatch,
        stated: list[Prior],
        k_prior: KPrior | None,
    ) -> Analysis:
        """Analyses B signals that lie on the model's device.

        Args:
            signals: The data.
            stated: The prior of each signal; their bands begin in the same bin, and p(K) is common.
            k_prior: p(K) instead of the priors'.
        """
        prior, grid = stated[0], signals.grids[0]
        priors = batch_of(stated, self.device)
        first = self.first_bin(grid, prior.frequency[0])
        statistics = Statistics.from_arrays(*signals)

        def seen(sigma: Tensor | None = None) -> Spectrum:
            return spectrum(signals, priors, self.sizes, first, sigma, self.dtype)

        view = seen()
        if not bool(view.sigma.isfinite().all()):
            # Too few bins lie outside the band: take σ from the band's median, then from the residual.
            sigma = _median_level(view, grid)
            for _ in range(2):
                slots = self._pass(seen(sigma), statistics)[3]
                sigma = slots.sigma.minimum(sigma)
            view = seen(sigma)
        tokens, places, logits, slots, k = self._pass(view, statistics)
        return Analysis(
            refiner=self.slots,
            flow=self.flow,
            view=view,
            statistics=statistics,
            prior=priors,
            tokens=tokens,
            places=places,
            k_probs=k_posterior(logits, self.config.prior, self._k_prior(prior, k_prior)),
            noise=slots.sigma.minimum(NOISE_EXCESS * view.sigma),
            first=slots,
            first_k=k,
        )

    def _pass(
        self, view: Spectrum, statistics: Statistics
    ) -> tuple[Tensor, Tensor, Tensor, SlotEstimates, Tensor]:
        """Tokens, places, final logits, the slots of the first count and their number."""
        tokens, heat, pooled, logits = self.encoder(view)
        places = propose(heat, view.band, self.k_max)
        k = logits.argmax(-1).cpu()
        slots = self.slots.at_places(view, statistics, tokens, places, k)
        if self.sizes.recount:
            logits = self.recount(pooled, view.conditions, logits, slots)
        return tokens, places, logits, slots, k

    def _k_prior(
        self, prior: Prior, k_prior: KPrior | None
    ) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """p(K) to answer under, (k_max + 1,)."""
        if k_prior is not None:
            return check_k_prior(k_prior, self.config.prior)
        return np.pad(prior.k_probs_full, (0, self.k_max - prior.k_max))

    def _infer_many(self, observations: Iterable[Observation], options: InferOptions) -> Posteriors:
        """The posteriors of many observations, as arrays where they can be."""
        several = observations if isinstance(observations, Observations) else as_list(observations)
        found: Posteriors = later("infer_many")(self, several, **options)
        return found

    def _infer_batch(
        self,
        chunk: list[Observation],
        priors: list[Prior],
        k_prior: KPrior | None,
    ) -> list[Posterior]:
        """Posteriors of observations that `_check` let pass, those on the same grids and windows together."""
        groups: dict[object, list[int]] = {}
        for i, (obs, prior) in enumerate(zip(chunk, priors, strict=True)):
            window = self.first_bin(obs.long.grid, prior.frequency[0])
            counts = (prior.k_min, prior.k_max, prior.k_probs)
            streams = tuple((s.grid, s.sigma) for s in obs.channels)
            groups.setdefault((streams, window, counts), []).append(i)
        posteriors: dict[int, Posterior] = {}
        for members in groups.values():
            alike = chunk[members[0]].channels  # all members are sampled alike
            series = [
                torch.as_tensor(np.stack([chunk[i].channels[s].values for i in members]))
                for s in range(len(alike))
            ]
            first = alike[0].sigma
            ratios = [1.0 if s.sigma is None or first is None else s.sigma / first for s in alike]
            signals = SignalBatch(
                [x.to(self.device) for x in series], [s.grid for s in alike], ratios
            )
            batch = self.infer_arrays(
                signals, [chunk[i] for i in members], [priors[i] for i in members], k_prior
            )
            posteriors |= {i: batch.one(row) for row, i in enumerate(members)}
        return [posteriors[i] for i in range(len(chunk))]

    def infer_arrays(
        self,
        signals: SignalBatch,
        observations: Sequence[Observation],
        priors: list[Prior],
        k_prior: KPrior | None,
        assumed: Assumed | None = None,
    ) -> ZoomPosteriors:
        """Posteriors of signals that are sampled alike and that `_check` let pass.

        Args:
            signals: The data, on the model's device.
            observations: The same as observations.
            priors: The prior of each signal; their bands begin in the same bin, and p(K) is common.
            k_prior: p(K) instead of the priors'.
            assumed: What is assumed of each signal, if that is the same for all.
        """
        answer = self._analyse(signals, priors, k_prior)
        _warn_of_offset(signals.series[0], answer.noise, signals.grids[0], priors[0])
        common = priors[0]
        if all(prior is common for prior in priors):
            under: list[Prior] | Prior = under_k_prior(common, k_prior, self.config.prior)
        else:
            under = [under_k_prior(prior, k_prior, self.config.prior) for prior in priors]
        return ZoomPosteriors(answer, observations, under, self.config.name, assumed)

    @property
    def widest_band(self) -> float:
        """Widest band in bins of 1/T that the network analyses at once."""
        return self.sizes.bins + SLACK_BINS

    def _start(self, prior: Prior, grid: Grid, refine: bool) -> Prior:
        """The prior that the network answers under: uniform in the amplitude, in a band of `FEWEST_BINS` or more."""
        if prior.amplitude_law != "uniform" and not refine:
            raise ValueError(
                f"the model {self.config.name!r} alone expects a uniform prior of A, received "
                f"{prior.amplitude_law!r}; leave refine=True, whose exact step knows that law, or use "
                "amplitude_law='uniform'."
            )
        band = _widened(prior.frequency, grid) if refine else prior.frequency
        return dataclasses.replace(prior, amplitude_law="uniform", frequency=band)

    def _check(self, obs: Observation, prior: Prior) -> None:
        """Refuses what the network cannot analyse."""
        self._check_band(obs.long.grid, prior)
        check_scale(obs, prior.amplitude)

    def _check_band(self, grid: Grid, prior: Prior) -> None:
        low, high = prior.frequency
        width, nyquist = (high - low) * grid.duration, 0.5 / grid.dt
        if high > nyquist:
            raise ValueError(
                f"expected a band below the Nyquist frequency of {nyquist:g} Hz, received {low:g}–{high:g} Hz; lower "
                "the prior's frequency range or sample faster."
            )
        if width < FEWEST_BINS:
            raise ValueError(
                f"expected a band of at least {FEWEST_BINS} bins of 1/T, received {low:g}–{high:g} Hz over T = "
                f"{grid.duration:g} s, which is {width:.3g}; the network cannot look at so little: measure longer, or "
                "widen the prior's frequency range."
            )
        if width > self.widest_band:
            raise ValueError(
                f"expected a band of at most {self.sizes.bins} bins of 1/T, received {low:g}–{high:g} Hz over T = "
                f"{grid.duration:g} s, which is {width:.1f}; narrow the prior's frequency range to "
                f"{self.sizes.bins / grid.duration:g} Hz or call infer_band, which analyses it in windows."
            )
        if prior.k_max > self.k_max:
            raise ValueError(
                f"the model {self.config.name!r} knows up to {self.k_max} components, the prior has k_max = "
                f"{prior.k_max}; lower it."
            )


def _widened(band: tuple[float, float], grid: Grid) -> tuple[float, float]:
    """A band of at least `FEWEST_BINS` bins that contains the given one, as far as the series can show it."""
    (low, high), nyquist = band, 0.5 / grid.dt
    width = FEWEST_BINS * (1 + 1e-9) / grid.duration
    if high - low >= width or high > nyquist:
        return band
    start = min(max((low + high - width) / 2, 0.0), max(nyquist - width, 0.0))
    return start, min(start + width, nyquist)


def _warn_of_offset(long: Tensor, noise: Tensor, grid: Grid, prior: Prior) -> None:
    """Warns of a mean that neither noise nor tones explain: its leakage would count as signal."""
    cycles = max(prior.frequency[0] * grid.duration, 1.0)
    usual = noise / math.sqrt(grid.n) + prior.k_max * prior.amplitude[1] / (math.pi * cycles)
    mean = long.mean(-1)
    if bool((mean.abs() > 10 * usual).any()):
        worst = float(mean[(mean.abs() / usual).argmax()])
        warnings.warn(
            f"the long stream has a mean of {worst:.4g}, far from the 0 that tones and noise have; "
            "subtract the offset of each stream first: it leaks into the band.",
            stacklevel=7,
        )


def _median_level(view: Spectrum, grid: Grid) -> Tensor:
    """A first σ from the median power of the view, (B,): tones fill a small share of it."""
    power = (view.z[:, :, ::2].double() ** 2).sum(1)  # (B, bins)
    level: Tensor = median_power(
        torch.where(power > 0, power, math.nan)
    ).nan_to_num()  # 0 for zeros alone
    return (level / 2).sqrt() * view.largest * math.sqrt(grid.n / 2)
