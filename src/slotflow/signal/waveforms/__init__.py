"""Waveforms: what one component looks like, one file each.

`base` says what a waveform must know: the names, symbols and units of its parameters, the split of a component into a
shape ξ and complex amplitudes c, the functions of time b(t; ξ) and the scale of each parameter. No other part of the
package knows how many parameters a component has or in which column one stands: it asks the waveform.

- `tone`: a sinusoid that lasts, (A, φ, f).
"""

from slotflow.signal.waveforms.base import Parameter, Waveform
from slotflow.signal.waveforms.tone import TONE, Tone

__all__ = ["TONE", "WAVEFORMS", "Parameter", "Tone", "Waveform", "waveform_named"]

WAVEFORMS: dict[str, Waveform] = {waveform.name: waveform for waveform in (TONE,)}
"""Every waveform by the name that files give it."""


def waveform_named(name: str) -> Waveform:
    """The waveform that files call by a name."""
    if name not in WAVEFORMS:
        raise ValueError(f"expected a waveform, one of {sorted(WAVEFORMS)}, received {name!r}.")
    return WAVEFORMS[name]
