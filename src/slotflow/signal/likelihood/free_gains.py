r"""Tones in channels of which some have a free gain: one likelihood for each amplitude.

Channels of a known gain share the amplitude c_0 of a tone, each channel j of a free gain has its own c_j, and all share
the frequency. Channels have different samples, so that the likelihood is a product of **blocks**, the known channels
together and every free one for itself, each of which is a likelihood of plain tones (`general.py`):

.. math:: \mathrm{RSS}(f, c) = \sum_m \mathrm{RSS}_m(f, c_m) .

The bin is that of the longest channel, whose peaks are the narrowest. `FreeGains` is this likelihood of all amplitudes;
a search for tones takes the free ones as integrated out (`integrated_gains.py`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.signal.likelihood.general import GeneralTones
from slotflow.signal.likelihood.products import Products
from slotflow.signal.likelihood.summed import TURN
from slotflow.signal.noise.model import NoiseNode
from slotflow.signal.waveforms import TONE, GainTone

__all__ = ["FreeGains"]


class FreeGains(GeneralTones):
    """The likelihood of tones with an amplitude for the known gains and one for each free gain.

    Args:
        observation: What was measured, with at least one channel of a free gain.
        node: How its noise is whitened.
        band: Lowest and highest frequency in Hz that tones may have.
        local: Whether only what lies in the band and just beside it counts.
    """

    waveform: GainTone
    blocks: list[GeneralTones]
    """The known channels together, then every free one."""

    def __init__(
        self,
        observation: Observation,
        node: NoiseNode,
        band: tuple[float, float],
        local: bool = False,
    ) -> None:
        names = observation.gain_names
        free = [s for s, name in enumerate(names) if name]
        groups = [[s for s, name in enumerate(names) if not name], *([s] for s in free)]
        longest = max(observation.channels, key=lambda channel: channel.duration)
        self.blocks = [
            GeneralTones(*_part(observation, node, group), band, local, longest) for group in groups
        ]
        self.amplitude_of = [0 if not name else 1 + free.index(s) for s, name in enumerate(names)]
        """Which amplitude each channel sees."""
        super().__init__(observation, node, band, local, longest)
        self.waveform = GainTone(observation.free_names)

    def _set_energy(self) -> None:
        """The blocks' energies, degrees of freedom and determinants together."""
        self.degrees = sum(block.n for block in self.blocks)
        self.log_scale_ = sum(block.log_scale for block in self.blocks)
        self.energy = torch.stack([block.energy for block in self.blocks]).sum(0)

    # ------------------------------------------------------------------ sums over samples

    def products(self, xi: Any) -> Products:
        """Inner products of the functions with each other and with the data, at frequencies (B, K, 1)."""
        m = len(self.blocks)
        parts = [block.products(xi) for block in self.blocks]
        batch, _, k = parts[0].data.shape
        gram = np.zeros((2, batch, 2 * m, k, 2 * m, k), dtype=np.complex128)
        data = np.zeros((batch, 2 * m, k), dtype=np.complex128)
        for i, part in enumerate(parts):  # derivatives of all amplitudes, then their functions
            gram[:, :, i::m, :, i::m] = part.gram
            data[:, i::m] = part.data
        own = gram[:, None, :, m:, :, m:, :]
        return Products(gram, data, own, data[None, :, m:])

    def matched(self, xi: Any) -> Any:
        """Σ b̄(ξ) x of each amplitude, (B, ..., M), at frequencies (B, ..., 1)."""
        parts = [block.matched(xi) for block in self.blocks]
        return torch.cat(parts, -1) if isinstance(xi, Tensor) else np.concatenate(parts, -1)

    def overlap(self, xi_a: Any, xi_b: Any) -> Any:
        """Twice the inner product of tones of unit amplitudes, (..., M, M); amplitudes do not see each other."""
        parts = np.concatenate([block.overlap(xi_a, xi_b) for block in self.blocks], -1)
        return np.eye(len(self.blocks)) * parts

    def gains(self, xi: Any, c: Any) -> Any:
        """RSS minus the data's energy of n draws, (1, n), at (1, n, K, 1) and (1, n, K, M)."""
        parts = [block.gains(xi, c[..., m : m + 1]) for m, block in enumerate(self.blocks)]
        return sum(parts[1:], parts[0])

    def coupling(self, xi: Array, z: Array) -> Array:
        """Refused: proposals are made for `IntegratedGains`."""
        raise NotImplementedError("expected IntegratedGains, which proposals are made for.")

    def amplitude_systems(self, xi: Array) -> tuple[Array, Array]:
        """Refused: the amplitudes of each channel have a system of their own; ask the blocks."""
        raise NotImplementedError("expected one of the blocks, received all of them together.")

    def kernel(self, distance: Any) -> Any:
        """That of the known channels."""
        return self.blocks[0].kernel(distance)

    @property
    def weight(self) -> float:
        """That of the known channels."""
        return self.blocks[0].weight

    def weight_at(self, f: Array) -> Array:
        """That of the known channels; same shape."""
        return self.blocks[0].weight_at(f)

    # ------------------------------------------------------------------ in time

    def _left(self, z: Any) -> list[NDArray[Any]]:
        """Each channel's filtered data minus components z, (K, Z), nuisances and all, (N_s,) each."""
        xi, c = self.waveform.unpack(np.asarray(z))
        found = []
        for part, m in zip(self.parts, self.amplitude_of, strict=True):
            wave = np.exp(TURN * np.remainder(xi * (part.times - self.reference), 1.0))
            tones = (c[:, m] * part.gain(xi[:, 0])) @ wave  # (N,)
            found.append(part.values - (tones if self.complex else tones.real))
        return found

    def second_order(self, z: Array) -> Array:
        """Σ (x − m) ∂²m/∂z∂z of each component, (K, Z, Z), for components z, (K, Z)."""
        bends, m = np.zeros((*z.shape, z.shape[-1])), len(self.blocks)
        for i, block in enumerate(self.blocks):
            at = [0, 1 + i, 1 + m + i]
            bends[:, np.array(at)[:, None], at] += block.second_order(z[:, at])
        return bends

    def less(self, z: Any) -> FreeGains:
        """The signal with components z, (K, Z), taken out of its data."""
        other, z = self._copy(), np.asarray(z, dtype=np.float64)
        m = len(self.blocks)
        other.blocks = [
            block.less(z[:, [0, 1 + i, 1 + m + i]]) for i, block in enumerate(self.blocks)
        ]
        other.energy = sum(block.energy[:1] for block in other.blocks)
        return other

    def _copy(self) -> FreeGains:
        """A copy that shares the blocks."""
        return copy.copy(self)

    def completed(self, theta: Array) -> Array:
        """Plain tones (A, φ, f), (K, 3), with the amplitudes of largest likelihood in the free channels, (K, P)."""
        xi, c = TONE.split(theta, self.reference)
        parts = [c]
        for block in self.blocks[1:]:
            gram, data = block.amplitude_systems(xi[None])
            both = np.linalg.lstsq(gram[0], data[0], rcond=None)[0] if len(xi) else np.zeros(0)
            parts.append((both[: len(xi)] + 1j * both[len(xi) :])[:, None])
        return self.waveform.join(xi, np.concatenate(parts, -1), self.reference)


def _part(
    observation: Observation, node: NoiseNode, group: Sequence[int]
) -> tuple[Observation, NoiseNode]:
    """Some channels alone, with the noise of each; a free gain is 1 there, since its amplitudes are measured in it."""
    channels = [
        replace(observation.channels[s], gain=observation.channels[s].factor) for s in group
    ]
    own = NoiseNode(tuple(node.channels[s] for s in group), node.log_weight, node.values)
    return Observation(channels, removed=observation.removed), own
