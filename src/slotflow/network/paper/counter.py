r"""The paper's classifier of K (section 3.2): frequency tokens to logits.

.. math:: h_{cls} = \mathrm{MHA}_{cls}(\tilde h_{freq}), \quad e = \mathrm{MLP}(\mathrm{Pool}(h_{cls})), \quad
    \ell = W e + b .

`slotflow.network.cardinality` turns the logits into q(K | x) under any prior over K.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from slotflow.network.config import EncoderConfig
from slotflow.network.paper.encoder import HybridPool, mlp
from slotflow.signal.prior import Prior

__all__ = ["CardinalityHead"]


class CardinalityHead(nn.Module):
    """Frequency tokens (B, L, d) to logits (B, k_max + 1), index = K, −inf where K < k_min."""

    def __init__(self, config: EncoderConfig, prior: Prior) -> None:
        super().__init__()
        d = config.channels[-1]
        self.k_min = prior.k_min
        self.attention = nn.MultiheadAttention(d, config.heads, batch_first=True)
        self.pool = HybridPool(d)
        self.embed = mlp(3 * d, config.context, config.context)
        self.classify = nn.Linear(config.context, prior.k_max - prior.k_min + 1)

    def embedding(self, tokens: Tensor) -> Tensor:
        """What the classifier knows of a signal, e, (B, H)."""
        h = self.attention(tokens, tokens, tokens, need_weights=False)[0]
        embedding: Tensor = self.embed(self.pool(h))
        return embedding

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of K under the training prior."""
        return self.logits(self.embedding(tokens))

    def logits(self, embedding: Tensor) -> Tensor:
        """Logits of K, (B, k_max + 1), from what `embedding` gave, (B, H)."""
        logits = self.classify(embedding).float()
        return nn.functional.pad(logits, (self.k_min, 0), value=-torch.inf)
