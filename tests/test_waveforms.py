"""Waveforms: descriptions that translate into each other, functions of time as written out, texts, clear refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from slotflow.core.arrays import namespace
from slotflow.signal.waveforms import TONE, Classes, Waveform, waveform_named
from slotflow.waveforms import Chirp, Damped, Harmonic, QuadraticChirp, Tone

CHIRP, DAMPED = Chirp(drift=(-2e-3, 3e-3)), Damped(rate=(0.01, 0.2), law="loguniform")
MIXED = Classes(tone=Tone(), chirp=CHIRP, damped=DAMPED)
BENT = QuadraticChirp(drift=(-2e-3, 3e-3), curvature=(-2e-5, 1e-5))
STACKS = Classes(damped=DAMPED, stack=Harmonic(3), tone=Tone())
EVERY = [TONE, CHIRP, DAMPED, Harmonic(3), MIXED, BENT, STACKS]
START, TAU = 2.0, 40.0


def components(waveform: Waveform, seed: int, n: int = 5, k: int = 4) -> Any:
    """Parameters θ, (n, k, P), as a prior would draw them."""
    rng = np.random.default_rng(seed)
    u = {name: rng.random((n, k)) for name in waveform.names}
    drawn = waveform.drawn(u)
    columns = []
    for parameter in waveform.parameters:
        value = u[parameter.name]
        if parameter.circular:
            value = 2 * math.pi * value
        columns.append(drawn.get(parameter.name, 0.3 + value))
    return np.stack(columns, -1)


def settled(waveform: Waveform) -> Waveform:
    return waveform.on(START, TAU)


def written_out(waveform: Waveform, theta: Any, t: Any) -> Any:
    """Σ over one component's tones of A(t) cos Φ(t), from the definitions in the modules, (n, k, N)."""
    value = {name: waveform.of(theta, name)[..., None] for name in waveform.names}
    f, phase, amplitude = value["frequency"], value["phase"], value["amplitude"]
    turns = f * t
    if "drift" in value:
        turns = turns + 0.5 * value["drift"] * ((t - TAU) ** 2 - TAU**2)
    if "curvature" in value:
        turns = turns + value["curvature"] / 6 * ((t - TAU) ** 3 + TAU**3)
    if "rate" in value:
        amplitude = amplitude * np.exp(-value["rate"] * (t - START))
    total = amplitude * np.cos(2 * math.pi * turns + phase)
    for j in range(2, waveform.amplitudes + 1):
        more = 2 * math.pi * j * f * t + value[f"phase_{j}"]
        total = total + value[f"amplitude_{j}"] * np.cos(more)
    return total


@pytest.mark.parametrize("waveform", EVERY, ids=lambda w: w.name)
def test_the_model_is_the_one_that_is_written_out(waveform: Waveform, seed: int) -> None:
    theta, t = components(waveform, seed), np.linspace(START, 78.0, 200)
    here = settled(waveform)
    xi, c = here.split(theta, TAU)
    model = (c[..., None] * here.basis(t - TAU, xi)).real.sum(-2)
    np.testing.assert_allclose(model, written_out(waveform, theta, t), atol=1e-10)


@pytest.mark.parametrize("waveform", EVERY, ids=lambda w: w.name)
def test_descriptions_translate(waveform: Waveform, seed: int) -> None:
    """θ to z and back; the two Jacobians are inverse to each other and agree with differences; torch agrees."""
    theta = components(waveform, seed)
    z = waveform.to_z(theta, TAU)
    assert z.shape == (*theta.shape[:-1], waveform.coordinates)
    turned = waveform.to_theta(z, TAU) - theta
    np.testing.assert_allclose(np.remainder(turned + 1e-9, 2 * math.pi), 1e-9, atol=1e-8)
    forth = waveform.inverse_jacobian(theta, TAU)
    back = waveform.jacobian(*waveform.unpack(z), TAU)
    np.testing.assert_allclose(
        forth @ back,
        np.broadcast_to(np.eye(z.shape[-1]), (5, 4, z.shape[-1], z.shape[-1])),
        atol=1e-9,
    )
    for column in range(waveform.size):
        step = np.zeros(waveform.size)
        step[column] = 1e-7
        slope = (waveform.to_z(theta + step, TAU) - waveform.to_z(theta - step, TAU)) / 2e-7
        np.testing.assert_allclose(forth[..., column], slope, rtol=2e-5, atol=2e-5 * TAU**2)
    tensor = waveform.to_z(torch.from_numpy(theta), TAU)
    np.testing.assert_allclose(tensor.numpy(), z, atol=1e-12)
    np.testing.assert_array_equal(
        waveform.without_phase(*_shape_and_modulus(waveform, z)), _unphased(waveform, theta, z)
    )


def _shape_and_modulus(waveform: Waveform, z: Any) -> tuple[Any, Any]:
    return waveform.unpack(z)[0], waveform.moduli(z)


def _unphased(waveform: Waveform, theta: Any, z: Any) -> Any:
    """θ with phases 0, its amplitudes as z has them."""
    flat = waveform.to_theta(z, TAU).copy()
    moduli = iter(np.moveaxis(waveform.moduli(z), -1, 0))
    for column, parameter in enumerate(waveform.parameters):
        if parameter.circular:
            flat[..., column] = 0.0
        elif parameter.unit == "data":
            flat[..., column] = next(moduli)
    return flat


@pytest.mark.parametrize("waveform", EVERY, ids=lambda w: w.name)
def test_exponents_are_logarithmic_derivatives(waveform: Waveform, seed: int) -> None:
    here, t = settled(waveform), np.linspace(-30.0, 35.0, 50)
    xi, _ = here.split(components(waveform, seed), TAU)
    g = here.exponents(t)
    assert g.shape == (len(here.shape), here.amplitudes, len(t)) and namespace(g) is np
    for d in range(len(here.shape)):
        moved = np.zeros(len(here.shape))
        step = moved[d] = 1e-3 / (1 + np.abs(g[d]).max())
        slope = (here.basis(t, xi + moved) - here.basis(t, xi - moved)) / (2 * step)
        np.testing.assert_allclose(
            slope, g[d] * here.basis(t, xi), atol=1e-4 * (1 + np.abs(g[d]).max())
        )


@pytest.mark.parametrize("waveform", EVERY, ids=lambda w: w.name)
def test_texts(waveform: Waveform) -> None:
    again = waveform_named(waveform.text)
    assert again == waveform and hash(again) == hash(waveform) and again.names == waveform.names
    assert waveform_named("chirp(drift=0:1)") != waveform


def test_the_prior_of_shapes(seed: int) -> None:
    """Draws lie where the density is finite, and the density integrates to one."""
    theta = components(MIXED, seed, 2000, 1)
    assert np.isfinite(MIXED.log_prior(theta)).all()
    kinds = np.bincount(MIXED.class_of(theta)[:, 0].astype(int))
    assert np.abs(kinds / 2000 - 1 / 3).max() < 5 * math.sqrt(2 / 9 / 2000)
    theta[..., MIXED.column("drift")] += 1.0
    assert (MIXED.log_prior(theta) == -np.inf).all()
    for law in (*CHIRP.ranges.values(), *DAMPED.ranges.values()):
        x = np.linspace(law.low, law.high, 20_001)
        assert abs(np.trapezoid(np.exp(law.log_prob(x)), x) - 1) < 1e-6
    rate = Damped(time=(5.0, 100.0)).ranges["rate"]
    assert (rate.low, rate.high, rate.law) == (0.01, 0.2, "loguniform")


def test_columns_of_classes(seed: int) -> None:
    theta = components(MIXED, seed)
    for i, member in enumerate(MIXED.members.values()):
        own = theta[MIXED.class_of(theta) == i][:, None]
        np.testing.assert_array_equal(MIXED.own_theta(i, MIXED.members_theta(i, own)), own)
        assert MIXED.members_theta(i, own).shape[-1] == member.size


def test_where_components_have_their_power() -> None:
    assert TONE.occupied((1.0, 2.0), 10.0) == [(1.0, 2.0)]
    assert Chirp((-0.02, 0.01)).occupied((1.0, 2.0), 10.0) == [(0.9, 2.1)]
    assert Harmonic(2).occupied((1.0, 1.1), 10.0) == [(1.0, 1.1), (2.0, 2.2)]
    ((low, high),) = MIXED.occupied((1.0, 2.0), 10.0)
    assert low < 1.0 and high > 2.0
    series = Classes(tone=Tone(), stack=Harmonic(3))
    assert series.occupied((1.0, 1.1), 10.0) == [(1.0, 1.1), (2.0, 2.2), (3.0, pytest.approx(3.3))]
    assert series.occupied((1.0, 2.5), 10.0) == [(1.0, 7.5)]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Damped(rate=(-0.1, 0.2)), "rate: expected bounds of at least 0"),
        (lambda: Damped(), "received neither"),
        (lambda: Damped(rate=(0.1, 1), time=(1, 2)), "received both"),
        (lambda: Chirp(drift=(1.0, -1.0)), "drift: expected two finite bounds"),
        (lambda: Chirp(drift=(-1, 1), law="loguniform"), "above 0 for a log-uniform law"),
        (lambda: Chirp(drift=(-1, 1), law="normal"), "expected a law"),
        (lambda: Harmonic(0), "whole number of harmonics"),
        (lambda: Harmonic("two"), "whole number of harmonics"),
        (lambda: Harmonic(None), "whole number of harmonics .* received None"),  # type: ignore[arg-type]
        (lambda: Chirp(drift=1e-3), "drift: expected two finite bounds"),  # type: ignore[arg-type]
        (lambda: Damped(time=(-1.0, 5.0)), "time: expected bounds of at least 0"),
        (lambda: Classes(**{"a b": Tone()}), "names of letters, digits and underscores"),
        (lambda: Classes(ring="warble"), "expected a waveform, one of .*received 'warble'"),
        (lambda: Classes(), "at least one class"),
        (lambda: Classes(a=MIXED), "expected waveforms such as Tone, Chirp, Damped and Harmonic"),
        (lambda: Harmonic.up_to(1), "above the least one, 1, received 1"),
        (lambda: waveform_named("harmonic(most=two)"), "whole number of harmonics"),
        (lambda: waveform_named("warble"), "expected a waveform, one of .*chirp"),
        (lambda: waveform_named("chirp"), r"chirp: expected settings \(drift, law\)"),
        (lambda: waveform_named("chirp(drift)"), "expected settings such as"),
        (lambda: waveform_named("chirp(drift=a:b)"), "drift: expected two finite bounds"),
        (lambda: waveform_named("chirp[1]"), "expected a waveform such as"),
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()


def test_an_unknown_waveform_is_answered_with_those_a_user_may_name() -> None:
    with pytest.raises(ValueError, match=r"one of .*, received 'sweep'") as error:
        Waveform.of_text("sweep")
    # Waveforms of other tests may be named too.
    named = set(str(error.value).partition("one of ")[2].split(", "))
    assert {"chirp", "damped", "harmonic", "tone"} <= named
    assert not {"classes", "gains"} & named
