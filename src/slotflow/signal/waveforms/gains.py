r"""A tone in channels of which some have a free gain: one frequency, and an amplitude and a phase for each of them.

In the channels of a known gain the component is the tone Re c_0 e^{2πif(t − τ)}; in the j-th channel of a free gain it
is Re c_j e^{2πif(t − τ)}, with an amplitude and a phase that nothing links to c_0. A person reads (A, φ, f), then
amplitude and phase of each free channel, called after it: `amplitude_B`, `phase_B`.

Each amplitude is seen in its own channels alone, which only a likelihood knows; `in_channel` gives the plain tone that
a component is there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, unquote

from slotflow.core.arrays import AnyArray, namespace
from slotflow.signal.waveforms.base import DATA_UNIT, Parameter, Waveform, zero_matrices
from slotflow.signal.waveforms.tone import TONE

__all__ = ["GainTone"]


class GainTone(Waveform):
    """A tone whose amplitude and phase are free in some channels.

    Args:
        channels: Names of the channels of a free gain, at least one; or what `settings` makes of them.
    """

    name = "gains"
    internal = True
    shape = TONE.shape

    def __init__(self, channels: Sequence[str] | str) -> None:
        if isinstance(channels, str):
            channels = [unquote(name) for name in channels.split("+")]
        self.channels = tuple(channels)
        self.amplitudes = 1 + len(self.channels)
        own = [
            parameter
            for name in self.channels
            for parameter in (
                Parameter(f"amplitude_{name}", f"A_{name}", DATA_UNIT),
                Parameter(f"phase_{name}", f"φ_{name}", "rad", circular=True),
            )
        ]
        self.parameters = (*TONE.parameters, *own)

    @property
    def settings(self) -> Mapping[str, str]:
        """The names of the channels."""
        return {"channels": "+".join(quote(name, safe="") for name in self.channels)}

    def of_amplitude(self, theta: AnyArray, m: int) -> AnyArray:
        """The plain tones (A, φ, f), (..., K, 3), that belong to amplitude m; 0 is that of the known gains."""
        if m == 0:
            return theta[..., : TONE.size]
        first = TONE.size + 2 * (m - 1)
        f = theta[..., TONE.size - 1 : TONE.size]
        found: AnyArray = namespace(theta).concat([theta[..., first : first + 2], f], -1)
        return found

    def with_free(self, theta: AnyArray, amplitudes: AnyArray, phases: AnyArray) -> AnyArray:
        """Plain tones, (..., K, 3), with amplitudes and phases in the free channels, (..., K, M − 1) each."""
        parts = [theta]
        for j in range(len(self.channels)):
            parts += [amplitudes[..., j : j + 1], phases[..., j : j + 1]]
        found: AnyArray = namespace(theta).concat(parts, -1)
        return found

    def in_channel(self, theta: AnyArray, channel: str) -> tuple[Waveform, AnyArray]:
        """The plain tones that components, (..., K, P), are in a channel; see `Waveform.in_channel`."""
        m = 1 + self.channels.index(channel) if channel in self.channels else 0
        return TONE, self.of_amplitude(theta, m)

    def split(self, theta: AnyArray, reference: float) -> tuple[AnyArray, AnyArray]:
        """Frequency, (..., K, 1), and A_m e^{i(φ_m + 2πfτ)}, (..., K, M)."""
        parts = [TONE.split(self.of_amplitude(theta, m), reference) for m in range(self.amplitudes)]
        return parts[0][0], namespace(theta).concat([c for _, c in parts], -1)

    def join(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """θ, (..., K, P), of frequencies and complex amplitudes."""
        parts: list[AnyArray] = [
            TONE.join(xi, c[..., m : m + 1], reference) for m in range(self.amplitudes)
        ]
        joined: AnyArray = namespace(xi).concat(
            [parts[0], *(part[..., :2] for part in parts[1:])], -1
        )
        return joined

    def without_phase(self, xi: AnyArray, modulus: AnyArray) -> AnyArray:
        """θ, (..., K, P), of frequencies and |c|, (..., K, M), with all phases 0."""
        return self.join(xi, modulus + 0j, 0.0)

    def jacobian(self, xi: AnyArray, c: AnyArray, reference: float) -> AnyArray:
        """Derivatives of θ by z, (..., K, P, D + 2M): those of a plain tone for each amplitude."""
        blocks = [TONE.jacobian(xi, c[..., m : m + 1], reference) for m in range(self.amplitudes)]
        found = zero_matrices(xi[..., 0], self.size, self.coordinates)
        for m, block in enumerate(blocks):
            rows, columns = self._rows(m), self._columns(m)
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    found[..., row, column] = block[..., i, j]
        return found

    def inverse_jacobian(self, theta: AnyArray, reference: float) -> AnyArray:
        """Derivatives of z by θ, (..., K, D + 2M, P)."""
        blocks = [
            TONE.inverse_jacobian(self.of_amplitude(theta, m), reference)
            for m in range(self.amplitudes)
        ]
        found = zero_matrices(theta[..., 0], self.coordinates, self.size)
        for m, block in enumerate(blocks):
            rows, columns = self._columns(m), self._rows(m)
            for i, row in enumerate(rows):
                for j, column in enumerate(columns):
                    found[..., row, column] = block[..., i, j]
        return found

    def exponents(self, t: Any) -> Any:
        """2πiu of each amplitude, (1, M, N); in a channel only that of its own amplitude is there."""
        return namespace(t).concat([TONE.exponents(t)] * self.amplitudes, 1)

    def scales(self, duration: float) -> tuple[float, ...]:
        """1/T, in Hz."""
        return TONE.scales(duration)

    def _rows(self, m: int) -> tuple[int, int, int]:
        """Columns of θ that hold amplitude, phase and frequency of amplitude m."""
        f = TONE.size - 1
        return (0, 1, f) if m == 0 else (TONE.size + 2 * m - 2, TONE.size + 2 * m - 1, f)

    def _columns(self, m: int) -> tuple[int, int, int]:
        """Columns of z that hold frequency, Re c and Im c of amplitude m."""
        return 0, 1 + m, 1 + self.amplitudes + m
