"""The paper's network: dual-stream encoder, one-hot slots, circle target (presets `paper` and `debug`)."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from torch import Tensor

from slotflow.data.channel import Channel
from slotflow.data.observation import Observation
from slotflow.data.sampling import Grid
from slotflow.network.cardinality import k_posterior, under_k_prior
from slotflow.network.config import ModelConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.model import SlotFlow
from slotflow.network.options import KPrior
from slotflow.network.paper.counter import CardinalityHead
from slotflow.network.paper.densities import PaperSlotDensities
from slotflow.network.paper.encoder import DualStreamEncoder, Encoding
from slotflow.network.paper.plane import tone_target
from slotflow.network.paper.start import start_local
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["PaperSlotFlow", "check_streams"]


class PaperSlotFlow(SlotFlow):
    """The paper's parts. It knows one sampling and one prior: those of its training.

    Args:
        config: What to build.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.encoder = DualStreamEncoder(config.encoder)
        self.cardinality = CardinalityHead(config.encoder, config.prior)
        if config.encoder.start == "local":
            start_local(self)
        self.target = tone_target(config.flow, config.prior)
        self.flow = ConditionalFlow(
            self.target.dim, config.encoder.context + self.k_max, config.flow
        )

    def encode(self, long: Tensor, short: Tensor) -> tuple[Encoding, Tensor]:
        """Streams (B, N) and (B, M) to features and the logits of K, (B, k_max + 1)."""
        encoding = self.encoder(long, short)
        return encoding, self.cardinality(encoding.tokens)

    def _infer_batch(
        self,
        chunk: list[Observation],
        priors: list[Prior],
        k_prior: KPrior | None,
    ) -> list[Posterior]:
        """Posteriors of observations that `_check` let pass; `_start` gives all of them the same prior."""
        prior = priors[0]
        long = torch.as_tensor(np.stack([o.long.values for o in chunk]))
        short = torch.as_tensor(np.stack([o.short.values for o in chunk if o.short is not None]))
        long, short = long.to(self.device, self.dtype), short.to(self.device, self.dtype)
        encoding, logits = self.encode(long, short)
        chosen = np.pad(prior.k_probs_full, (0, self.k_max - prior.k_max))
        answer = k_posterior(logits, self.config.prior, chosen if k_prior is None else k_prior)
        probs = answer.cpu().numpy()
        if not np.isfinite(probs).all():
            first = chunk[int(np.argmin(np.isfinite(probs).all(axis=1)))]
            raise ValueError(
                f"expected data of the size of the training's (amplitudes {self.config.prior.amplitude}), "
                f"received values up to {np.abs(first.long.values).max():.3g}, which overflow; rescale them."
            )
        stated = under_k_prior(prior, k_prior, self.config.prior)
        posteriors = []
        for i, obs in enumerate(chunk):
            slots = PaperSlotDensities(
                self.flow, self.target, encoding.context[i], self.config.prior
            )
            if encoding.noise is None:
                noise, error = obs.noise_level(self.config.prior.frequency)
            else:
                noise, error = float(encoding.noise[i]), None
            posteriors.append(
                Posterior(
                    probs[i],
                    slots,
                    obs,
                    noise,
                    error,
                    method=f"slotflow:{self.config.name}",
                    prior=stated,
                )
            )
        return posteriors

    def _start(self, prior: Prior, grid: Grid, refine: bool) -> Prior:
        """The prior of the training with the stated p(K); another band cannot be started from."""
        own = self.config.prior
        near = prior.frequency == own.frequency and prior.k_max <= own.k_max
        known = own
        if near:
            known = dataclasses.replace(
                own, k_min=prior.k_min, k_max=prior.k_max, k_probs=prior.k_probs
            )
        plain = dataclasses.replace(prior, k_probs=None)  # rounding aside, p(K) is the stated one
        if plain != dataclasses.replace(known, k_probs=None) and not (refine and near):
            raise ValueError(
                f"the model {self.config.name!r} answers under the prior of its training only, {own}, but received "
                f"{prior}; change k_prior alone, keep band and k_max and let the exact step follow (refine=True), or "
                "use the model `zoom`."
            )
        return known

    def _check(self, obs: Observation, prior: Prior) -> None:
        """Refuses an observation that is not sampled as in this model's training."""
        check_streams(obs, self.config)


def check_streams(obs: Observation, config: ModelConfig) -> None:
    """Refuses an observation whose streams are not sampled as in the training of a model."""
    _check_stream(obs.long, config.long, "long", config.name)
    if obs.short is None:
        grid = config.short
        raise ValueError(
            f"the model {config.name!r} needs a short stream of {grid.n} samples at {grid.dt:.9g} s, received none; "
            "give short= and dt_short= (on the command line --short and --dt-short)."
        )
    _check_stream(obs.short, config.short, "short", config.name)


def _check_stream(stream: Channel, grid: Grid, name: str, model: str) -> None:
    if stream.n != grid.n:
        raise ValueError(
            f"the model {model!r} expects {grid.n} samples in the {name} stream, received {stream.n}; "
            "cut the series or use a model trained for its length."
        )
    if abs(stream.dt / grid.dt - 1) * grid.n > 1e-2:
        raise ValueError(
            f"the model {model!r} expects a step of {grid.dt:.9g} s in the {name} stream, received "
            f"{stream.dt:.9g} s; resample the series or use a model trained for its step."
        )
    if abs(stream.t0 - grid.t0) > 1e-3 * grid.dt:
        raise ValueError(
            f"the model {model!r} expects the {name} stream to start at t0 = {grid.t0:.9g} s, received "
            f"{stream.t0:.9g} s; shift the time axis so that phases refer to its zero."
        )
