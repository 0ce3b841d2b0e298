r"""The paper's slot contexts (section 3.3): c_k = [g, e_k], flattened over the batch.

A batch of B signals with K_b slots each becomes one tensor of ΣK_b rows and an index tensor that names each row's
signal, so that everything after it costs O(ΣK) and never O(B · K_max).
"""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["slot_contexts", "slot_index"]


def slot_index(k: Tensor) -> tuple[Tensor, Tensor]:
    """Row bookkeeping of a flattened batch.

    Args:
        k: Number of slots of each signal, (B,), int64, on the CPU so that no device has to wait.

    Returns:
        Signal of each row and slot number of each row, both (ΣK,), int64, on the CPU.
    """
    signal = torch.repeat_interleave(k)
    first = k.cumsum(0) - k  # row of each signal's slot 0
    slot = torch.arange(signal.shape[0]) - first[signal]
    return signal, slot


def slot_contexts(g: Tensor, signal: Tensor, slot: Tensor, k_max: int) -> Tensor:
    """Builds c_k = [g, e_k] for every row.

    Args:
        g: Global contexts, (B, H).
        signal: Signal of each row, (ΣK,), int64.
        slot: Slot number of each row, (ΣK,), int64.
        k_max: Length of the one-hot identifier.

    Returns:
        Contexts, (ΣK, H + k_max), in the type of g.
    """
    identity = torch.nn.functional.one_hot(slot, k_max).to(g.dtype)
    return torch.cat([g[signal], identity], dim=-1)
