r"""The phase weight that balances two errors (paper, proposition 4.2; appendix A.4).

Scaling the phase coordinates by w_φ is said to lower the variance of the phase as 1/(w² λ_φ) and to raise that of the
amplitude by C_p w². The expected reconstruction error

.. math:: E(w) = C_A \left( \frac{1}{λ_A} + C_p w^2 \right) + C_φ \frac{\langle A^2 f^2 \rangle}{λ_φ w^2}

has its minimum where 2 C_A C_p w = 2 C_φ ⟨A²f²⟩ / (λ_φ w³),

.. math:: w^* = \left( \frac{C_φ \langle A^2 f^2 \rangle}{C_A C_p λ_φ} \right)^{1/4} , \qquad λ_φ \propto \mathrm{SNR} .

**What follows.** None of the constants is given, so that the formula has no number of its own; what it says is that w*
changes by 10^(1/4) = 1.78 between SNR 1 and 10. With all constants 1 and the paper's data, ⟨A²f²⟩ = 8.2, it is 1.69 at
SNR 1 and 0.95 at SNR 10: near the printed [1, 2], though the chosen w_φ = 2 lies above it. With "unit-scale priors" it
is 1 and 0.56.

**The factor f².** A.4 expands the reconstruction error as A² (2πf)² Δφ². The derivative of A cos(2πft + φ) by φ is
−A sin(2πft + φ), whose mean square is A²/2 at any frequency: f² belongs to a shift in time.
Without it ⟨A²⟩ = 1.08 takes the place of ⟨A²f²⟩, and w* is 1.02 at SNR 1 and 0.57 at SNR 10.
"""

from __future__ import annotations

import math

__all__ = ["best_weight", "mean_square"]


def mean_square(low: float, high: float) -> float:
    """⟨u²⟩ of a uniform number between two bounds."""
    return (high**3 - low**3) / (3 * (high - low)) if high > low else low**2


def best_weight(
    square: float,
    snr: float,
    *,
    c_phase: float = 1.0,
    c_amplitude: float = 1.0,
    coupling: float = 1.0,
) -> float:
    """w* for λ_φ = SNR.

    Args:
        square: ⟨A²f²⟩.
        snr: Signal-to-noise ratio as a power, not in dB.
        c_phase: C_φ.
        c_amplitude: C_A.
        coupling: C_p.
    """
    return math.sqrt(math.sqrt(c_phase * square / (c_amplitude * coupling * snr)))
