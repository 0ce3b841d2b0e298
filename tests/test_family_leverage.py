"""Degrees of freedom that decaying components take from each sample, and the test that allows for them."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow.exact.family import leverage as module
from slotflow.exact.family.layout import Layout
from slotflow.exact.family.leverage import leverage
from slotflow.posterior.whiteness.left import Left, cut_to_band
from slotflow.posterior.whiteness.samples import steadiness
from slotflow.waveforms import Damped, Tone

N, STEP, LINES = 250, 0.012, 8


def lines() -> tuple[Layout, np.ndarray, np.ndarray]:
    """Eight lines that decay within a tenth of the record, their coordinates and the times."""
    t = STEP * np.arange(N)
    waveform = Damped(rate=(3.0, 20.0)).on(0.0, 0.0)
    theta = np.column_stack(
        [np.full(LINES, 5.0), np.arange(LINES), np.linspace(-25, 25, LINES), np.full(LINES, 9.0)]
    )
    order = [("amplitude", "phase", "frequency", "rate").index(name) for name in waveform.names]
    return Layout(waveform, 0.0, (LINES,)), waveform.to_z(theta[:, order], 0.0).ravel(), t


def test_the_trace_is_the_number_of_coordinates() -> None:
    """Decays take most at the beginning, a tone the same everywhere, nothing takes nothing."""
    layout, z, t = lines()
    each = leverage(layout, z, t, True)
    assert each.sum() == pytest.approx(layout.size)
    assert each[: N // 10].sum() > 0.7 * layout.size and each[-N // 10 :].sum() < 0.01 * layout.size
    assert (each >= 0).all() and (each < 2).all()  # two real numbers in a sample
    tone = Layout(Tone().on(0.0, 0.0), 0.0, (1,))
    flat = leverage(tone, Tone().to_z(np.array([[1.0, 0.3, 7.0]]), 0.0).ravel(), t - t.mean(), True)
    assert flat.sum() == pytest.approx(3) and flat.max() < 2.1 * flat.mean()
    assert not leverage(Layout(Tone(), 0.0, (0,)), np.zeros(0), t, True).any()


def test_long_records_are_interpolated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few instants give the same for each part of the record as all of them."""
    layout, z, _ = lines()
    t = STEP / 20 * np.arange(20 * N)
    whole = leverage(layout, z, t, True).reshape(10, -1).sum(1)
    monkeypatch.setattr(module, "MOST_INSTANTS", 2000)
    some = leverage(layout, z, t, True).reshape(10, -1).sum(1)
    assert some == pytest.approx(whole, rel=0.02, abs=0.02)


def test_steadiness_allows_for_what_was_fitted() -> None:
    """P-values of residuals of a fit are uniform with the leverage, and small without it: the control."""
    layout, z, t = lines()
    spent, rng, draws = leverage(layout, z, t, True), np.random.default_rng(5), 300
    slopes = layout.slopes(z, t)
    q = np.linalg.qr(np.concatenate([slopes.real, slopes.imag], 1).T)[0]
    found = {"with": [], "without": []}
    for _ in range(draws):
        noise = rng.normal(size=2 * N)
        noise -= q @ (q.T @ noise)
        left = Left("", noise[:N] + 1j * noise[N:], t, STEP)
        known = Left("", left.values, t, STEP, spent=spent)
        found["without"].append(min(check.p_value for check in steadiness(left)))
        found["with"].append(min(check.p_value for check in steadiness(known)))
    level = 0.02
    share = {name: np.mean(np.array(p) < level) for name, p in found.items()}
    error = np.sqrt(2 * level / draws)  # two tests, of ten parts and of forty
    assert share["with"] < 2 * level + 5 * error
    assert share["without"] > 0.5


def test_a_band_keeps_what_was_spent() -> None:
    """Of a series cut to a band the parts of the record gave what they gave before."""
    layout, z, t = lines()
    spent = leverage(layout, z, t, True)
    left = Left("", np.ones(N) + 0j, t, STEP, spent=spent)
    cut = cut_to_band(left, (-15.0, 15.0))
    assert cut.spent is not None and cut.n < N
    assert cut.spent.sum() == pytest.approx(layout.size)
    half = cut.n // 4
    assert cut.spent[:half].sum() == pytest.approx(spent[: round(half * N / cut.n)].sum(), rel=0.02)
