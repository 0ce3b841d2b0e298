"""Who proposes components of data that are not plain, and where."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow import Channel, Observation, Prior, SlotFlow
from slotflow.infer.assume import Basis, assume
from slotflow.infer.proposers import network_places, prominent_sets
from slotflow.infer.request import DataRequest
from slotflow.infer.statement import Statement
from slotflow.studies.proof.red_noise import red_series

N, BAND = 1000, (0.15, 0.19)
TONES = np.array([0.1613, 0.1752])


def basis_of(model: SlotFlow, times: np.ndarray, noise: str, k_max: int = 5) -> tuple[Basis, Prior]:
    """Two clear tones in AR(1) noise, and what is assumed of them."""
    rng = np.random.default_rng(4)
    red = red_series("ar", N, rng)[: len(times)]
    x = red + 0.8 * np.cos(2 * np.pi * np.outer(times, TONES) + [1.0, 2.0]).sum(1)
    stated = {"frequency": BAND, "k_max": k_max, "min_separation": 1.5 / N}
    observation = Observation([Channel(x, times=times)])
    basis = assume(model, observation, Statement.of(stated), request=DataRequest(noise=noise))
    return basis, basis.assumed.prior


@pytest.mark.parametrize("noise", ["ar(1)", "local"])
def test_both_propose_the_tones_of_a_whitened_series(zoom: SlotFlow, noise: str) -> None:
    basis, prior = basis_of(zoom, np.arange(N, dtype=np.float64), noise)
    network = network_places(zoom, basis, prior)
    assert network is not None
    assert network.k_probs.argmax() == 2
    for places in (network.sets[0], prominent_sets(basis, prior)[0]):
        np.testing.assert_allclose(places, TONES, atol=0.2 / N)


def test_the_network_is_silent_where_it_cannot_read_the_data(zoom: SlotFlow) -> None:
    even = np.arange(N, dtype=np.float64)
    uneven = even + np.random.default_rng(0).uniform(-0.4, 0.4, N)
    assert network_places(zoom, *basis_of(zoom, uneven, "local")) is None
    assert network_places(zoom, *basis_of(zoom, even, "local", k_max=zoom.k_max + 1)) is None
    assert network_places(zoom, *basis_of(zoom, even, "local")) is not None  # control


def test_no_set_has_more_places_than_the_prior_allows(zoom: SlotFlow) -> None:
    basis, _ = basis_of(zoom, np.arange(N, dtype=np.float64), "local")
    one = Prior(k_min=0, k_max=1, amplitude=(0.1, 2.0), frequency=BAND, min_separation=0.0)
    assert prominent_sets(basis, one) == []
