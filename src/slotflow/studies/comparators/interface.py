r"""What all methods of the leaderboard answer: q(K | x), draws given K, and the density of a set of components.

Every method has the paper's encoder (sections 3.1 and 3.3), built first and from the same seed, so that all of them
begin with the same weights there. `encode` takes signals to what the method conditions on; everything after it is the
method's own.

**Densities.** `log_prob` is the density of the labelled components in the method's own labels: places in the order of
frequency, numbers of slots, or none. A set of K components has K! labelled lists, and

.. math:: \ln q(\{θ\} \mid K, x) = \ln \sum_{π} q(θ_{π(1)}, \dots, θ_{π(K)} \mid K, x)

is the density of the components in the order of their frequencies, whatever order they were drawn in: `log_prob_set`.
It is the same quantity for all methods, and so is ln q(K | x) + ln q({θ} | K, x), which the leaderboard compares.
Densities are per unit of (A, φ, f), and none is cut off at the bounds of the prior.

**Loss.** A method with a count of its own (`Counted`) minimizes −ln q(K | x) − ln q(Θ | K, x)/K, as the paper's network
does: the division by K does not move the minimum, since q(Θ | K, x) is a density for each K.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from slotflow.core.devices import upload
from slotflow.network.config import ModelConfig
from slotflow.network.model import SlotFlow
from slotflow.network.paper.counter import CardinalityHead
from slotflow.network.paper.encoder import DualStreamEncoder, Encoding
from slotflow.network.paper.plane import PlaneTarget
from slotflow.signal.prior import Prior
from slotflow.signal.simulation import Simulation
from slotflow.studies.comparators.orders import all_orders

__all__ = ["Comparator", "Counted", "Encoded", "Reference", "by_count", "one_hot_count"]

Network = TypeVar("Network", bound=SlotFlow)

AMPLITUDE_WEIGHT = 1.0
"""Factor on the complex amplitude: amplitudes of the prior then lie inside the splines' interval."""


class Encoded(NamedTuple):
    """What a method conditions on, for B signals."""

    context: Tensor
    """(B, C), or (B, K_max, C) where each slot has its own."""
    log_counts: Tensor
    """ln q(K | x), (B, k_max + 1), float64, index = K."""
    presence: Tensor | None = None
    """Logits of the slots' presences, (B, K_max), where there are any."""

    def take(self, rows: Tensor) -> Encoded:
        """Some of the signals, rows (S,), int64."""
        presence = None if self.presence is None else self.presence[rows]
        return Encoded(self.context[rows], self.log_counts[rows], presence)


class Comparator(nn.Module):
    """A method: the paper's encoder and what follows it.

    Args:
        config: Prior, sampling, sizes of encoder and flow.
    """

    labelled: bool = True
    """Whether components have labels of their own: numbers of slots, or places in the order of frequency."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config, self.k_max = config, config.prior.k_max
        self.encoder = DualStreamEncoder(config.encoder)
        centre = sum(config.prior.frequency) / 2
        self.target = PlaneTarget(AMPLITUDE_WEIGHT, config.flow.frequency_weight, centre)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """Type of the weights."""
        return next(self.parameters()).dtype

    @property
    def n_parameters(self) -> int:
        """Numbers that are trained."""
        return sum(p.numel() for p in self.parameters())

    def encoding(self, batch: Simulation) -> Encoding:
        """What the encoder makes of signals."""
        assert batch.short is not None
        encoding: Encoding = self.encoder(batch.long.to(self.dtype), batch.short.to(self.dtype))
        return encoding

    def encode(self, batch: Simulation) -> Encoded:
        """Signals to what the method conditions on."""
        return self.condition(self.encoding(batch))

    def condition(self, encoding: Encoding) -> Encoded:
        """What the method makes of the encoder's features, before it knows K."""
        raise NotImplementedError

    def loss(self, batch: Simulation, low_precision: bool = False) -> dict[str, Tensor]:
        """The loss, under "loss", and its terms, scalars; low precision is bfloat16 but for splines and sums."""
        raise NotImplementedError

    def draw(self, encoded: Encoded, k: int, n: int, generator: torch.Generator) -> Tensor:
        """Draws of k components, (B, n, k, P), float64, in the method's own labels."""
        raise NotImplementedError

    def log_prob(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln q(θ_1, …, θ_k | K = k, x) of labelled components, (B, k, P) to (B,), float64."""
        raise NotImplementedError

    def log_prob_set(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln q({θ} | K = k, x), the sum over all labels, (B, k, P) to (B,), float64."""
        batch, k = theta.shape[:2]
        orders = all_orders(k, theta.device)  # (k!, k)
        rows = torch.arange(batch, device=theta.device).repeat_interleave(len(orders))
        labelled = self.log_prob(encoded.take(rows), theta[:, orders].flatten(0, 1))
        return labelled.reshape(batch, -1).logsumexp(-1)

    def coordinates(self, theta: Tensor) -> tuple[Tensor, Tensor]:
        """Components in the flow's coordinates and ln of the volume's change, (..., K, P) to (..., K, P) and (...)."""
        return self.target.encode(theta).to(self.dtype), self.target.log_slopes(theta).sum(-1)


class Counted(Comparator):
    """A method that counts with the paper's classifier and has a joint density of the components given K."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.cardinality = CardinalityHead(config.encoder, config.prior)

    def condition(self, encoding: Encoding) -> Encoded:
        """The global context, and q(K | x) from the tokens."""
        logits = self.cardinality(encoding.tokens)
        return Encoded(encoding.context, logits.double().log_softmax(-1))

    def flow_log_prob(self, context: Tensor, y: Tensor, k: Tensor) -> Tensor:
        """Log density of the coordinates of labelled components.

        Args:
            context: Global contexts, (B, H).
            y: Coordinates, (B, K, P), K at most K_max.
            k: How many of them exist, the first ones, (B,), int64, on the device.

        Returns:
            (B,); what stands beyond the first k does not matter.
        """
        raise NotImplementedError

    def loss(self, batch: Simulation, low_precision: bool = False) -> dict[str, Tensor]:
        """−ln q(K | x) as "count" and −ln q(Θ | K, x)/K in coordinates as "flow"."""
        k = upload(batch.k, self.device)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=low_precision):
            encoded = self.encode(batch)
            theta = batch.theta[:, : int(batch.k.max())]
            log_q = self.flow_log_prob(encoded.context, self.coordinates(theta)[0], k)
        count = nn.functional.nll_loss(encoded.log_counts, k)
        flow = -(log_q / k).mean()
        return {"loss": count + flow, "count": count, "flow": flow}

    def log_prob(self, encoded: Encoded, theta: Tensor) -> Tensor:
        """Ln q of labelled components, (B, k, P) to (B,), float64."""
        y, log_volume = self.coordinates(theta)
        k = torch.full((len(y),), y.shape[1], device=y.device)
        return self.flow_log_prob(encoded.context, y, k).double() + log_volume


class Reference(Generic[Network]):
    """What stands beside the methods without being one of them: a trained network and what is made of its answers.

    Args:
        network: Trained.
        prior: What the signals are drawn from.
    """

    labelled = True
    """Whether components have labels of their own."""

    def __init__(self, network: Network, prior: Prior) -> None:
        self.network, self.prior, self.k_max = network, prior, prior.k_max

    @property
    def device(self) -> torch.device:
        """Where the network is."""
        return self.network.device

    @property
    def n_parameters(self) -> int:
        """Numbers that were trained."""
        return self.network.n_parameters


def one_hot_count(context: Tensor, k: Tensor, k_max: int) -> Tensor:
    """Contexts (B, H) with the number of components k, (B,), as a one-hot vector, (B, H + k_max + 1)."""
    number = nn.functional.one_hot(k, k_max + 1).to(context.dtype)
    return torch.cat([context, number], dim=-1)


def by_count(k: Tensor) -> dict[int, Tensor]:
    """Rows of the signals of each number of components that occurs, from counts (B,) on the CPU."""
    return {number: torch.nonzero(k == number)[:, 0] for number in sorted(set(k.tolist()))}
