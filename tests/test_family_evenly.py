"""Functions of time at even instants by products: the same as by exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slotflow.exact.family import evenly
from slotflow.exact.family.evenly import basis_evenly
from slotflow.signal.waveforms import Waveform
from slotflow.waveforms import Chirp, Damped, Harmonic, QuadraticChirp, Tone

DURATION = 100.0
MEMBERS = [
    Tone(),
    Chirp(drift=(-6e-3, 6e-3)),
    Damped(rate=(0.01, 0.3)),
    Harmonic(3),
    QuadraticChirp(drift=(-6e-3, 6e-3), curvature=(-1e-4, 1e-4)),
]


class Late(Tone):
    """A tone that begins late: its exponents are no polynomials."""

    def exponents(self, t: Any) -> Any:
        found: Any = super().exponents(t) * np.where(t < 20, 0.0, 1.0)
        return found

    def basis(self, t: Any, xi: Any) -> Any:
        return Waveform.basis(self, t, xi)


def shapes(member: Waveform, rng: np.random.Generator) -> Any:
    laws = member.ranges.values()
    columns = [rng.uniform(0.5, 2.0, 200), *(law.draw(rng.random(200)) for law in laws)]
    return np.stack(columns, -1)


@pytest.mark.parametrize("instants", [150, 397])
@pytest.mark.parametrize("member", MEMBERS, ids=lambda w: w.name)
def test_products_are_exponentials(member: Waveform, instants: int, seed: int) -> None:
    member = member.on(3.0, 3.0 + DURATION / 2)
    t = np.linspace(-DURATION / 2, DURATION / 2, instants)
    assert evenly._differences(member, t) is not None
    xi = shapes(member, np.random.default_rng(seed))
    np.testing.assert_allclose(basis_evenly(member, t, xi), member.basis(t, xi), atol=2e-9)


def test_other_exponents_are_left_alone(seed: int) -> None:
    t, member = np.linspace(-DURATION / 2, DURATION / 2, 200), Late()
    assert evenly._differences(member, t) is None
    xi = shapes(member, np.random.default_rng(seed))
    np.testing.assert_array_equal(basis_evenly(member, t, xi), member.basis(t, xi))
