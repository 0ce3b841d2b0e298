r"""A fixed number of slots that explain the data one after the other, after MONet (Burgess et al. 2019).

Slot i = 1..K_max looks at the tokens through an attention mask over what the slots before it have left, the scope
s (stick-breaking; all of it at first),

.. math:: m_i = s_{i-1}\, α_i, \qquad s_i = s_{i-1} (1 - α_i), \qquad α_i = σ(a(\mathrm{tokens}, \ln s_{i-1})) ,

where a is one network for all slots and the last one takes the whole rest, m_{K_max} = s_{K_max − 1}. The masks sum up
to 1 at every token. The slot's context is the mean of the tokens under its mask with the global context; from it follow
the probability p_i that the slot is present and a flow for its component, the paper's flow in three coordinates.

**Loss.** MONet reconstructs images without labels. Here the truth is known, and the slots, which have no order, make a
multi-Bernoulli density of the set of components: with every way to give the K components to different slots,

.. math:: q(\{θ\}, K \mid x) = \sum_{π: \{1..K\} \to \{1..K_{max}\}} \;\prod_{j} p_{π(j)} q_{π(j)}(θ_j)
    \prod_{i \notin π} (1 - p_i) .

The loss is its negative logarithm: no assignment is chosen, and neither count nor presence need a loss of their own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.network.config import ModelConfig
from slotflow.network.flow import ConditionalFlow
from slotflow.network.paper.encoder import Encoding, mlp
from slotflow.signal.simulation import Simulation
from slotflow.studies.comparators.interface import Comparator, Encoded
from slotflow.studies.comparators.orders import log_count_probs, log_permanent, subsets

__all__ = ["Sequential"]


class Sequential(Comparator):
    """Slots one after the other, each with a presence and a component."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        d, width = config.encoder.channels[-1], config.encoder.context
        self.from_token = nn.Linear(d, width)
        self.from_scope = nn.Linear(1, width, bias=False)
        self.score = nn.Sequential(nn.GELU(), nn.Linear(width, 1))
        self.presence = mlp(d + width, width, 1)
        self.flow = ConditionalFlow(self.target.dim, d + width, config.flow)

    def masks(self, tokens: Tensor) -> Tensor:
        """Attention masks of the slots over tokens (B, L, d), (B, K_max, L), which sum up to 1 over slots."""
        seen = self.from_token(tokens)  # (B, L, width)
        log_scope = tokens.new_zeros(tokens.shape[:2], dtype=self._exact(tokens))
        log_masks = []
        for _ in range(self.k_max - 1):
            scope = log_scope[..., None].clamp_min(math.log(1e-6)).to(seen.dtype)
            alpha = self.score(seen + self.from_scope(scope))[..., 0].to(log_scope.dtype)
            log_masks.append(log_scope + nn.functional.logsigmoid(alpha))
            log_scope = log_scope + nn.functional.logsigmoid(-alpha)
        return torch.stack([*log_masks, log_scope], dim=1).exp()

    def condition(self, encoding: Encoding) -> Encoded:
        """Contexts and presences of all slots, (B, K_max, C) and (B, K_max), and q(K | x) from the presences."""
        masks = self.masks(encoding.tokens)
        share = masks / masks.sum(-1, keepdim=True).clamp_min(1e-6)
        seen = share.to(encoding.tokens.dtype) @ encoding.tokens  # (B, K_max, d)
        g = encoding.context[:, None].expand(-1, self.k_max, -1).to(seen.dtype)
        slots = torch.cat([seen, g], dim=-1)
        presence = self.presence(slots)[..., 0]
        presence = presence.to(self._exact(presence))
        return Encoded(slots, log_count_probs(presence), presence)

    def loss(self, batch: Simulation, low_precision: bool = False) -> dict[str, Tensor]:
        """−ln q({θ}, K | x) in coordinates."""
        k = upload(batch.k, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low_precision):
            encoded = self.encode(batch)
            pairs = self._pairs(encoded, self.coordinates(batch.theta)[0])
        loss = -self._log_joint(encoded, pairs, k).mean()
        return {"loss": loss}

    def log_prob_set(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln q({θ} | K = k, x), (B, k, P) to (B,), float64."""
        y, log_volume = self.coordinates(theta)
        k = y.shape[1]
        pairs = nn.functional.pad(self._pairs(encoded, y).double(), (0, self.k_max - k))
        counts = torch.full((len(y),), k, device=y.device)
        return self._log_joint(encoded, pairs, counts) - encoded.log_counts[:, k] + log_volume

    def log_prob(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln of the product of the densities of the k slots that are present most probably, in their order, (B,)."""
        y, log_volume = self.coordinates(theta)
        assert encoded.presence is not None
        chosen = encoded.presence.topk(y.shape[1], dim=-1).indices.sort(-1).values  # (B, k)
        pairs = self._pairs(encoded, y).double()  # (B, K_max, k)
        each = pairs.gather(1, chosen[:, None, :])[:, 0]  # slot of component j, (B, k)
        return each.sum(-1) + log_volume

    def draw(self, encoded: Encoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P), float64: which slots are present if k are, then one from each."""
        assert encoded.presence is not None
        choices = subsets(self.k_max, k, self.device)  # (choices, k)
        odds = encoded.presence[:, choices].sum(
            -1
        )  # ln of each choice's probability, up to a constant
        picked = torch.multinomial(odds.softmax(-1), n, replacement=True, generator=generator)
        slots = choices[picked]  # (B, n, k)
        row = torch.arange(len(slots), device=self.device)[:, None, None] * self.k_max + slots
        terms = self.flow.project(encoded.context.flatten(0, 1))  # (B K_max, L, H)
        y = self.flow.draw(terms[row.flatten()], 1, generator)[0]
        return self.target.decode(y).reshape(*slots.shape, -1)

    def _pairs(self, encoded: Encoded, y: Tensor) -> Tensor:
        """Log density of every component under every slot, (B, K, P) to (B, K_max, K)."""
        batch, k = y.shape[:2]
        terms = self.flow.project(encoded.context.flatten(0, 1))  # (B K_max, L, H)
        each = y.transpose(0, 1)[:, :, None].expand(-1, -1, self.k_max, -1)  # (K, B, K_max, P)
        log_q = self.flow.log_prob(terms, each.flatten(1, 2))
        return log_q.reshape(k, batch, self.k_max).permute(1, 2, 0)

    def _log_joint(self, encoded: Encoded, pairs: Tensor, k: Tensor) -> Tensor:
        """Ln q({y}, K = k | x) from `_pairs` of K_max components, the first k of which exist; (B,).

        Columns of components that do not exist stand for absent slots; the permanent counts each set of absent slots
        (K_max − k)! times.
        """
        assert encoded.presence is not None
        yes, no = (nn.functional.logsigmoid(s * encoded.presence)[..., None] for s in (1, -1))
        exists = torch.arange(self.k_max, device=k.device) < k[:, None]  # (B, K_max)
        matrix = torch.where(exists[:, None], pairs + yes, no.expand_as(pairs))
        return log_permanent(matrix) - torch.lgamma(self.k_max - k.to(matrix.dtype) + 1)

    @staticmethod
    def _exact(x: Tensor) -> torch.dtype:
        """The type for sums of logarithms."""
        return torch.float64 if x.dtype == torch.float64 else torch.float32
