"""Waveforms for users: `from slotflow.waveforms import Tone, Chirp, Damped, Harmonic`."""

from slotflow.signal.waveforms import (
    Chirp,
    Classes,
    Damped,
    Harmonic,
    QuadraticChirp,
    Tone,
    Waveform,
)

__all__ = ["Chirp", "Classes", "Damped", "Harmonic", "QuadraticChirp", "Tone", "Waveform"]
