r"""Initial weights with which the paper's encoder hears the data from the first step on.

The encoder attends without a residual branch, h̃ = MHA(h + PE). At torch's initial weights the scores of attention are
next to 0: every token becomes the same mean over all tokens, the place of a spectral line is lost, and pooling finds
nothing to pool. With queries and keys the same rotation, times a gain c, the scores are

.. math:: s_{pj} = \frac{c^2}{\sqrt{d_h}} \, (R u_p) \cdot (R u_j), \qquad u = h + \mathrm{PE} ,

on the d_h coordinates of a head. The product of two positional encodings is largest at p = j and falls with their
distance, so that each token begins by attending to its neighbourhood and to what is loud. Values and outputs are
rotations, which lose nothing.
"""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["start_local"]

GAIN = 4.0
"""c: by its place alone a token of preset paper then shares its attention among three tokens, at c = 1 among 270."""


@torch.no_grad()
def start_local(network: nn.Module) -> None:
    """Sets the initial weights of all self-attentions of a network."""
    for part in network.modules():
        if isinstance(part, nn.MultiheadAttention):
            queries, keys, values = part.in_proj_weight.chunk(3)
            nn.init.orthogonal_(queries, gain=GAIN)
            keys.copy_(queries)
            nn.init.orthogonal_(values)
            nn.init.orthogonal_(part.out_proj.weight)
