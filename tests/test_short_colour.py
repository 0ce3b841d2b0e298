"""Short red series: a tone whose odds another colour of the noise may undo is not exact."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow import Observation
from slotflow.exact.judged import HANGS, _without_colour
from slotflow.exact.orders import Orders
from slotflow.posterior.verdict import Verdict
from slotflow.signal.likelihood import GeneralTones
from slotflow.signal.noise.choice import choose_noise
from slotflow.studies.proof.red_noise import red_series

BAND = (0.05, 0.45)
EXACT = Verdict("exact", "the residual is white noise")


def orders(k_probs: list[float]) -> Orders:
    """Some p(K | x)."""
    nothing = np.zeros(len(k_probs))
    return Orders(nothing, nothing, np.array(k_probs), {}, {}, 0.0)


def likelihood(n: int, noise: str) -> GeneralTones:
    """Of red noise, under some noise."""
    x = red_series("ar", n, np.random.default_rng(0), 0.75)
    observation = Observation.from_arrays(values=x, dt=1.0)
    node = choose_noise(observation, noise, BAND).nodes[0]
    return GeneralTones(observation, node, BAND)


@pytest.mark.parametrize(
    ("n", "noise", "k_probs", "status"),
    [
        (98, "ar", [0.4, 0.6], "approximate"),
        (98, "ar", [0.1, 0.9], "exact"),  # odds that no other colour undoes
        (98, "ar", [0.9, 0.1], "exact"),  # no tone is claimed
        (98, "white", [0.4, 0.6], "exact"),
        (2000, "ar", [0.4, 0.6], "exact"),  # the colour is known
    ],
)
def test_the_last_tone_of_a_short_red_series(
    n: int, noise: str, k_probs: list[float], status: str
) -> None:
    verdict = _without_colour(EXACT, orders(k_probs), likelihood(n, noise))
    assert verdict.status == status
    assert (HANGS in verdict.reason) == (status == "approximate")
