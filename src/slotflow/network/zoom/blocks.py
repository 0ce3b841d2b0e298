"""Layers of the spectral encoder and of the slots: convolutions as matrix products, attention blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn

__all__ = ["Block", "Convolution"]


class Convolution(nn.Module):
    """A convolution over tokens (B, L, C) as a product with patches.

    With few input channels, or in bfloat16 with channels last, cuDNN spends more time on its layouts and on the
    gradient of the weights than a plain matrix product takes.
    """

    def __init__(self, n_in: int, n_out: int, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.kernel, self.stride = kernel, stride
        self.linear = nn.Linear(n_in * kernel, n_out)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (B, L, C) to (B, L/stride, C')."""
        sides = (self.kernel - self.stride) // 2, (self.kernel - self.stride + 1) // 2
        padded = nn.functional.pad(x, (0, 0, *sides))
        patches = padded.unfold(1, self.kernel, self.stride)  # (B, L', C, kernel)
        result: Tensor = self.linear(patches.flatten(2))
        return result


class Block(nn.Module):
    """Depthwise convolution (optional), self-attention and a two-layer network, each added to what came in.

    Args:
        d: Width of the tokens.
        heads: Of the attention.
        kernel: Length of the convolution; 0 for none.
        few: Whether there are few tokens, for which attention is fastest as plain matrix products.
    """

    def __init__(self, d: int, heads: int, kernel: int = 0, few: bool = False) -> None:
        super().__init__()
        self.heads, self.kernel, self.few = heads, kernel, few
        if kernel:
            self.conv = nn.Parameter(torch.randn(kernel, d) / kernel**0.5)
            self.conv_norm, self.conv_out = nn.LayerNorm(d), nn.Linear(d, d)
        self.norm_1, self.norm_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Tokens (B, L, d) to tokens; the mask, (B, 1, 1, L) or (B, 1, L, L), says which may be attended to."""
        if self.kernel:
            x = x + self.conv_out(nn.functional.gelu(self._convolved(self.conv_norm(x))))
        batch, length, d = x.shape
        q, k, v = (
            self.qkv(self.norm_1(x))
            .view(batch, length, 3, self.heads, d // self.heads)
            .permute(2, 0, 3, 1, 4)
        )  # (B, heads, L, d/heads)
        if self.few:
            score = (q[:, :, :, None] * k[:, :, None]).sum(-1) * (d // self.heads) ** -0.5
            if mask is not None:
                score = score.masked_fill(~mask, -1e9)
            attended = (score.softmax(-1)[..., None] * v[:, :, None]).sum(3)
        else:
            attended = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, d))
        result: Tensor = x + self.mlp(self.norm_2(x))
        return result

    def _convolved(self, x: Tensor) -> Tensor:
        """Each channel of (B, L, d) with a filter of its own; sums of shifted copies fuse into one kernel."""
        half, length = self.kernel // 2, x.shape[1]
        padded = nn.functional.pad(x, (0, 0, half, half))
        weight = self.conv.to(x.dtype)
        total = padded[:, :length] * weight[0]
        for i in range(1, self.kernel):
            total = total + padded[:, i : i + length] * weight[i]
        return total
