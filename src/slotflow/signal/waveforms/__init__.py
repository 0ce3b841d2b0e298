"""Waveforms: what one component looks like, one file each.

`base` says what a waveform must know: the names, symbols and units of its parameters, the split of a component into a
shape ξ and complex amplitudes c, the functions of time b(t; ξ) and the scale of each parameter. No other part of the
package knows how many parameters a component has or in which column one stands: it asks the waveform.

- `tone`: a sinusoid that lasts, (A, φ, f).
- `chirp`: one whose frequency drifts, (A, φ, f, ḟ).
- `quadratic`: one whose drift changes too, (A, φ, f, ḟ, f̈).
- `damped`: one that decays, (A, φ, f, γ).
- `harmonic`: a fundamental with its multiples, (A, φ, f, A_2, φ_2, …).
- `classes`: components of several of these kinds.
- `gains`: a tone with an amplitude and a phase of its own in each channel of a free gain.

`parameters` says what a parameter is, `recorded` what a waveform knows of a record of some length.
`single` holds what waveforms of one amplitude share, `ranges` the prior of a shape parameter, `text` the form in files,
and `suited` what a record suggests for settings that a text leaves open.
"""

from slotflow.signal.waveforms.base import Parameter, Waveform
from slotflow.signal.waveforms.chirp import Chirp
from slotflow.signal.waveforms.classes import Classes
from slotflow.signal.waveforms.damped import Damped
from slotflow.signal.waveforms.gains import GainTone
from slotflow.signal.waveforms.harmonic import Harmonic
from slotflow.signal.waveforms.quadratic import QuadraticChirp
from slotflow.signal.waveforms.suited import classes_text, suited
from slotflow.signal.waveforms.tone import TONE, Tone

__all__ = [
    "TONE",
    "Chirp",
    "Classes",
    "Damped",
    "GainTone",
    "Harmonic",
    "Parameter",
    "QuadraticChirp",
    "Tone",
    "Waveform",
    "classes_text",
    "suited",
    "waveform_named",
]


def waveform_named(text: str) -> Waveform:
    """The waveform that files call by a name, its settings in brackets: `tone`, `chirp(drift=-0.0001:0.0001)`."""
    return TONE if text == TONE.name else Waveform.of_text(text)
