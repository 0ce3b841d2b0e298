"""The paper's network for several classes: its encoder and classifier, a class for each slot, a flow for each class."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Unpack

import numpy as np
import torch
from torch import Tensor, nn

from slotflow.data.observation import Observation, as_list
from slotflow.data.sampling import Grid
from slotflow.network.cardinality import k_posterior, under_k_prior
from slotflow.network.config import ModelConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.model import SlotFlow
from slotflow.network.multiclass.counts import ClassHead, count_tables
from slotflow.network.multiclass.densities import ClassSlotDensities
from slotflow.network.multiclass.mixed import MixedSlots
from slotflow.network.multiclass.posterior import ClassPosterior
from slotflow.network.multiclass.target import class_target
from slotflow.network.options import InferOptions, KPrior
from slotflow.network.paper.counter import CardinalityHead
from slotflow.network.paper.encoder import DualStreamEncoder, Encoding
from slotflow.network.paper.model import check_streams
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import Classes

__all__ = ["MulticlassSlotFlow"]


class MulticlassSlotFlow(SlotFlow):
    """SlotFlow for components of several classes (paper, section 3.7).

    It knows one sampling, one prior and one set of classes: those of its training. `infer` gives a `ClassPosterior`.

    Args:
        config: What to build; its prior names the classes.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        waveform = config.prior.waveform.on(config.long.t0, config.long.mid_time)
        assert isinstance(waveform, Classes)
        self.waveform, self.classes = waveform, waveform.class_names
        self.tables = count_tables(config.prior.k_min, self.k_max, len(self.classes))
        """Every number of components of each class, (R, C), on the CPU."""
        self.targets = [class_target(member, config) for member in waveform.members.values()]
        self.encoder = DualStreamEncoder(config.encoder)
        self.cardinality = CardinalityHead(config.encoder, config.prior)
        width = config.encoder.context
        self.class_head = ClassHead(width, self.k_max, len(self.classes))
        self.flows = nn.ModuleDict(
            {
                name: ConditionalFlow(target.dim, width + self.k_max, config.flow)
                for name, target in zip(self.classes, self.targets, strict=True)
            }
        )

    def encode(self, long: Tensor, short: Tensor) -> tuple[Encoding, Tensor, Tensor]:
        """Streams (B, N) and (B, M) to features, embedding of the counts, (B, H), and logits of K, (B, k_max + 1)."""
        encoding = self.encoder(long, short)
        embedding = self.cardinality.embedding(encoding.tokens)
        return encoding, embedding, self.cardinality.logits(embedding)

    def flow_of(self, name: str) -> ConditionalFlow:
        """The flow of a class."""
        flow = self.flows[name]
        assert isinstance(flow, ConditionalFlow)
        return flow

    # ------------------------------------------------------------------ inference

    def infer_each(
        self,
        observations: Iterable[Observation],
        *,
        refine: bool = True,
        **options: Unpack[InferOptions],
    ) -> Iterator[ClassPosterior]:
        """Posteriors one after another: how many of each kind, and draws of each class.

        It is the network's answer alone, whatever `refine` says: no exact step begins from it.

        Args:
            observations: What was measured, sampled as in the training.
            refine: Not looked at.
            **options: `k_prior`, `batch_size`, `device` and `dtype`, as in `SlotFlow.infer`; `prior` if it is that of
                the training.
        """
        name, own = self.config.name, self.config.prior
        if options.get("method", "network") != "network":
            raise ValueError(
                f"the model {name!r} gives the network's answer alone, received method = {options['method']!r}; leave "
                "it out."
            )
        if options.get("prior") not in (None, own):
            raise ValueError(
                f"the model {name!r} answers under the prior of its training only, {own}, received "
                f"{options['prior']}; leave it out, or state p(K) as k_prior."
            )
        signals = as_list(observations)
        for obs in signals:
            check_streams(obs, self.config)
        self._move(options.get("device"), options.get("dtype"))
        return self._answers(signals, options.get("k_prior"), options.get("batch_size", 256))

    def _answers(
        self, signals: list[Observation], k_prior: KPrior | None, batch_size: int
    ) -> Iterator[ClassPosterior]:
        """Posteriors of observations that have been checked; the model's mode is left as it was."""
        training = self.training
        self.eval()
        try:
            for first in range(0, len(signals), batch_size):
                yield from self._class_posteriors(signals[first : first + batch_size], k_prior)
        finally:
            self.train(training)

    @torch.inference_mode()
    def _class_posteriors(
        self, chunk: list[Observation], k_prior: KPrior | None
    ) -> list[ClassPosterior]:
        """Posteriors of one batch."""
        config = self.config
        long = np.stack([obs.long.values for obs in chunk])
        short = np.stack([obs.short.values for obs in chunk if obs.short is not None])
        streams = (torch.as_tensor(x).to(self.device, self.dtype) for x in (long, short))
        encoding, embedding, logits = self.encode(*streams)
        log_k = k_posterior(logits, config.prior, k_prior).log()
        log_probs = self.class_head.table_log_probs(embedding, log_k, self.tables)
        probs = log_probs.softmax(-1).cpu().numpy()
        if not np.isfinite(probs).all():
            raise ValueError(
                f"expected data of the size of the training's (noise levels {config.prior.sigma}), received values up "
                f"to {np.abs(long).max():.3g}, which overflow; rescale them."
            )
        stated = under_k_prior(config.prior, k_prior, config.prior)
        found = []
        for i, obs in enumerate(chunk):
            slots = self._slots(encoding.context[i])
            mixed = MixedSlots(self.tables.numpy(), probs[i], slots, self.waveform)
            noise = config.prior.known_sigma
            if noise is None:
                noise = obs.noise_level(config.prior.frequency)[0]
            found.append(ClassPosterior(mixed, obs, noise, f"slotflow:{config.name}", stated))
        return found

    def _slots(self, context: Tensor) -> dict[str, ClassSlotDensities]:
        """Densities of each class's components, given a signal's global context, (H,)."""
        return {
            name: ClassSlotDensities(self.flow_of(name), target, context, self.config.prior)
            for name, target in zip(self.classes, self.targets, strict=True)
        }

    def _start(self, prior: Prior, grid: Grid, refine: bool) -> Prior:
        raise self._alone()

    def _check(self, obs: Observation, prior: Prior) -> None:
        raise self._alone()

    def _alone(self) -> ValueError:
        return ValueError(
            f"the model {self.config.name!r} answers for mixtures of {', '.join(self.classes)} by itself: call "
            "model.infer(observation); to analyse tones use the model `zoom`."
        )
