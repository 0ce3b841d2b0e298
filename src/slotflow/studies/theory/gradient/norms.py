r"""Gradients of the flow loss under a phase weight (paper, lemma 4.1; appendix A.3).

The flow sees y = (A, w u, w_f f̃) with u = (cos φ, sin φ). The loss depends on u through w u alone, so that

.. math:: \frac{\partial L_w}{\partial u} = w \, \frac{\partial L}{\partial y}\Big|_{y = w u}

exactly. The lemma says more: ‖∂L_w/∂u‖ = w ‖∂L_1/∂u‖, and A.3 carries the factor over to the weights,
‖∇L_w‖ ≈ w ‖∇L_1‖. The two sides have the score ∂ log q/∂y at different places, w u and u, and A.3 needs it to be the
same there, "locally constant (e.g. for a Gaussian centered at the evaluation point)". Neither example nor condition
serves: a Gaussian's score vanishes at its centre, and for a standard normal density L_w = w²‖u‖²/2 + … has
∂L_w/∂u = w² u, a factor w² instead of w.

**Adapted flows.** The weight is a change of coordinates. To any flow q_1 on the unweighted target there is a flow
q_w(y) = q_1(y/w)/w² on the weighted one, whose loss differs by the constant 2 ln w and whose gradient with respect to u
is that of q_1: a factor 1. What a weight amplifies is the gradient of a flow that has not yet learnt the weight, and
what remains after training is a question for an experiment (`study`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from slotflow.core.devices import upload
from slotflow.network.paper.model import PaperSlotFlow
from slotflow.network.paper.onehot import slot_index
from slotflow.network.paper.target import CircleTarget
from slotflow.signal.simulation import Simulation
from slotflow.studies.slots import matched_pairs, slot_terms

__all__ = ["Gradients", "gradients"]

FINITE_STEP = 1e-7
"""Length of the steps of finite differences: float64 leaves them an error of some 10⁻⁸ of the slope, and a longer step
often crosses a knot of a spline, where the slope jumps."""


@dataclass(frozen=True)
class Gradients:
    """Norms of the gradient of the mean flow loss of a batch."""

    phase: float
    """‖∂L/∂(cos φ, sin φ)‖ over all components of the batch."""
    flow: float
    """‖∇L‖ over the weights of the flow."""
    encoder: float
    """‖∇L‖ over the weights of the encoder."""
    chain_rule: float
    """Relative error of w ∂L/∂y as the slope of L in u, measured by finite differences along one direction."""


def gradients(
    network: PaperSlotFlow, batch: Simulation, weight: float, pairs: Tensor | None = None
) -> Gradients:
    """Gradients of the flow loss with targets of a phase weight, the network's own or another.

    Args:
        network: The paper's network in float64; its weights' own gradients are left as they were.
        batch: Signals, on the network's device.
        weight: w.
        pairs: Component row of each slot row, (ΣK,); at the cheapest assignment if None.
    """
    pairs = matched_pairs(network, batch) if pairs is None else pairs
    column = network.target.circle
    plain = _target(network, batch, 1.0)[pairs.to(network.device)]  # (ΣK, 4)
    projected, signal = slot_terms(network, batch)[0], slot_index(batch.k)[0]
    share = upload(1.0 / batch.k[signal].double(), network.device).to(network.dtype) / len(batch.k)

    def loss_at(u: Tensor) -> tuple[Tensor, Tensor]:
        """The loss at phase coordinates u, (ΣK, 2), and the flow's coordinates of them, (ΣK, 4)."""
        y = torch.cat([plain[:, :column], weight * u, plain[:, column + 2 :]], dim=-1)
        return -(network.flow.log_prob(projected, y) * share).sum(), y

    u = plain[:, column : column + 2].clone().requires_grad_()
    loss, y = loss_at(u)
    parts = {"flow": network.flow.parameters(), "encoder": network.encoder.parameters()}
    weights = {name: [p for p in part if p.requires_grad] for name, part in parts.items()}
    asked = [u, y, *weights["flow"], *weights["encoder"]]
    found = torch.autograd.grad(loss, asked, allow_unused=True)
    by_u, by_y = found[0], found[1][:, column : column + 2]
    flow, encoder = found[2 : 2 + len(weights["flow"])], found[2 + len(weights["flow"]) :]
    with torch.no_grad():
        along = by_u / by_u.norm()
        ends = [float(loss_at(u + side * FINITE_STEP * along)[0]) for side in (1, -1)]
        slope, expected = (
            (ends[0] - ends[1]) / (2 * FINITE_STEP),
            float((weight * by_y * along).sum()),
        )
    return Gradients(float(by_u.norm()), _norm(flow), _norm(encoder), abs(slope / expected - 1))


def _norm(parts: tuple[Tensor | None, ...]) -> float:
    """Norm of gradients taken together; parameters that the loss does not reach have none."""
    squares = [float(part.square().sum()) for part in parts if part is not None]
    return math.sqrt(sum(squares))


def _target(network: PaperSlotFlow, batch: Simulation, weight: float) -> Tensor:
    """Coordinates of every component of a batch under a phase weight, without jitter, (ΣK, 4)."""
    flow = replace(network.config.flow, phase_weight=weight, radius_jitter=0.0)
    target = CircleTarget.from_config(flow, network.config.prior)
    return target.encode(batch.theta[batch.mask]).to(network.dtype)
