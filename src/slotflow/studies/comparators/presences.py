r"""Neural posterior estimation at a fixed dimension: K_max slots in the order of frequency, and a presence for each.

This is what one gets from a conditional flow of fixed dimension without further thought. Slot i is present if K >= i;
the presences are independent Bernoulli variables given x, and the flow is a coupling flow over all K_max·P coordinates
given the presences b,

.. math:: q(b \mid x) = \prod_i p_i^{b_i} (1 - p_i)^{1 - b_i}, \qquad q(y_1, …, y_{K_{max}} \mid b, x) ,

trained with standard normal numbers ν in the slots that are absent. Independent presences do not know that slot 3
cannot be present without slot 2, and q(K | x) is the law of their sum.

**Density.** The numbers in absent slots have to be integrated out, and a coupling flow cannot do that in closed form.
With n draws from the law r that they had in training,

.. math:: q(Θ \mid K, x) = \int q(y, ν \mid b, x)\, dν ≈ \frac1n \sum_{s} \frac{q(y, ν_s \mid b, x)}{r(ν_s)} ,

whose logarithm is too low on average, the less the better the flow has learned that ν is noise. At K = K_max nothing is
left to integrate.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.core.seeds import RandomStream, stream_seed
from slotflow.network.config import ModelConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.paper.counter import CardinalityHead
from slotflow.network.paper.encoder import Encoding
from slotflow.signal.simulation import Simulation
from slotflow.studies.comparators.interface import Comparator, Encoded
from slotflow.studies.comparators.maps import standard_normal
from slotflow.studies.comparators.orders import log_count_probs

__all__ = ["Presences"]

FILLINGS = 16
"""n, draws of what stands in absent slots."""


class Presences(Comparator):
    """Sorted slots of fixed number with presences."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        if config.prior.k_min != 1:
            raise ValueError(f"expected k_min = 1, received {config.prior.k_min}.")
        self.presence = CardinalityHead(config.encoder, config.prior)  # k_max outputs
        width = config.encoder.context + self.k_max
        self.flow = ConditionalFlow(self.k_max * self.target.dim, width, config.flow)

    def condition(self, encoding: Encoding) -> Encoded:
        """The global context, the presences' logits (B, K_max), and q(K | x) from them."""
        logits = self.presence(encoding.tokens)[:, 1:]
        logits = logits if logits.dtype == torch.float64 else logits.float()
        return Encoded(encoding.context, log_count_probs(logits), logits)

    def loss(self, batch: Simulation, low_precision: bool = False) -> dict[str, Tensor]:
        """−ln q(b | x) as "count" and −ln q(y, ν | b, x)/K_max as "flow"."""
        k = upload(batch.k, self.device)
        seed = stream_seed(batch.seed, RandomStream.RADII)  # no other use of it in this method
        generator = torch.Generator(device=self.device).manual_seed(seed)
        y = self.coordinates(batch.theta)[0]
        noise = torch.randn(y.shape, generator=generator, device=y.device, dtype=y.dtype)
        filled = torch.where(batch.mask[..., None], y, noise)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low_precision):
            encoded = self.encode(batch)
            terms = self._terms(encoded.context, k)
            log_q = self.flow.log_prob(terms, filled.flatten(1))
        assert encoded.presence is not None
        count = nn.functional.binary_cross_entropy_with_logits(
            encoded.presence, batch.mask.to(encoded.presence), reduction="none"
        )
        terms_of_loss = {"count": count.sum(-1).mean(), "flow": -log_q.mean() / self.k_max}
        return {"loss": terms_of_loss["count"] + terms_of_loss["flow"], **terms_of_loss}

    def log_prob(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln q of labelled components, (B, k, P) to (B,), float64, from `FILLINGS` draws where slots are absent."""
        y, log_volume = self.coordinates(theta)
        batch, k, size = y.shape
        generator = torch.Generator(device=y.device).manual_seed(0)
        fillings = FILLINGS if k < self.k_max else 1
        shape = (fillings, batch, size * (self.k_max - k))
        noise = torch.randn(shape, generator=generator, device=y.device, dtype=y.dtype)
        filled = torch.cat([y.flatten(1).expand(fillings, -1, -1), noise], dim=-1)
        counts = torch.full((batch,), k, device=y.device)
        log_q = self.flow.log_prob(self._terms(encoded.context, counts), filled).double()
        log_ratio = log_q - standard_normal(noise).double().sum(-1)  # (fillings, B)
        return log_ratio.logsumexp(0) - math.log(fillings) + log_volume

    def draw(self, encoded: Encoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P), float64: the first k slots of draws of all."""
        counts = torch.full((len(encoded.context),), k, device=self.device)
        y = self.flow.draw(self._terms(encoded.context, counts), n, generator)  # (n, B, D)
        y = y.reshape(*y.shape[:2], self.k_max, -1)[:, :, :k]
        return self.target.decode(y).transpose(0, 1)

    def _terms(self, context: Tensor, k: Tensor) -> Tensor:
        """The flow's context terms given that the first k slots are present, (B, H) and (B,) to (B, L, H')."""
        present = torch.arange(self.k_max, device=k.device) < k[:, None]
        return self.flow.project(torch.cat([context, present.to(context.dtype)], dim=-1))
