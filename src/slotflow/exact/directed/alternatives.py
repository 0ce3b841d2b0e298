r"""Whether one slowly changing component explains the data better than tones: score tests and odds.

**A tone by itself** is tested for each kind of change (`scores`), alone and together with all other tones, so that a
drift which all tones share is seen sooner. With n tests, a p-value below `SINGLE`/n, or below `TOGETHER`/4 for all
tones together, is an alarm: five sound signals in a thousand have one. If a further tone may be there as well, it may
be what the test has seen: the same test beside that tone has to find it too, or the odds against tones of any number
have to exceed `DOUBTED`.

**Tones beside each other** are tried as one component that drifts, decays or is modulated (`envelopes`), and so is a
tone with an alarm. With Z_K and p(K) of the tones,

.. math:: \mathrm{odds} = \frac{p(K') Z'}{\sum_K p(K) Z_K} ,

Z' being the evidence of all K' components with the changing ones among them. Clusters are looked at one by one; what
stands in for the first stays while the second is looked at. Odds above `ODDS` are named.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy import special

from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.exact.directed.groups import clusters, may_be_one
from slotflow.exact.directed.scores import DIRECTIONS, Score, scores
from slotflow.exact.directed.trials import Trials
from slotflow.exact.orders import Orders
from slotflow.posterior.alternative import Alternative
from slotflow.posterior.residual import likeliest
from slotflow.signal.likelihood import FreeGains, IntegratedGains, Likelihood
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE

__all__ = ["alternatives"]

SINGLE, TOGETHER = 3e-3, 2e-3
"""Rates of false alarms of the tests of single tones, and of those of all tones together."""
ODDS = 200.0
"""Odds from which on an alternative is named."""
DOUBTED = 10.0
"""The same where a test has found something that a further tone may explain as well."""
CLOSE = 1.0
"""Distance to a neighbour, in bins, below which a tone is not tested by itself."""
ELSEWHERE = 0.05
"""p(K | x) of larger K together from which on further tones may explain what a test finds."""
KINDS = {"drift": "chirp", "growth": "damped", "modulation": "modulated", "wander": "wandering"}
"""What a tone is that changes in some way."""


def alternatives(
    orders: Orders, likelihood: Likelihood, prior: Prior, observation: Observation
) -> tuple[Alternative, ...]:
    """What may stand in for the tones of the most probable K.

    Args:
        orders: Evidences and fits of each K.
        likelihood: Of the data.
        prior: Of tones.
        observation: The data.
    """
    fit = orders.fits.get(orders.k_map)
    if fit is None or not len(fit) or len(fit) != orders.k_map or likelihood.waveform != TONE:
        return ()
    if isinstance(likelihood, FreeGains | IntegratedGains):
        return ()
    node = likeliest(likelihood, fit)
    z = np.asarray(node.to_z(fit))
    places = node.waveform.place_in_z(z)
    found = [one for one in clusters(places, node.bin) if may_be_one(one, places, node.bin)]
    asked = _alarms(scores(node, z, _apart(places, node.bin)))
    alone = [(score.tone,) for score in asked if not any(score.tone in one for one in found)]
    groups = [*found, *dict.fromkeys(alone)]
    if not groups and not asked:
        return ()
    alarms = _lasting(asked, places, node, orders)
    trials = Trials(z, node, prior, observation)
    replaced, log_odds = trials.best(groups, orders, several=bool(likelihood.nodes))
    limit = math.log(DOUBTED if asked else ODDS)
    if replaced and log_odds > (0.0 if alarms else limit):
        return tuple(
            Alternative(
                one.kind,
                tuple(float(places[j]) for j in one.tones),
                log_odds,
                _p_value(one.tones, alarms),
                max(log_odds - limit, _margin(alarms)),
            )
            for one in replaced
        )
    return tuple(_of_score(score, places) for score in _one_each(alarms))


# ---------------------------------------------------------------------- tones by themselves


def _apart(places: Array, bin: float) -> NDArray[np.bool_]:
    """Which tones have no close neighbour, (K,), bool."""
    gaps = np.concatenate([[np.inf], np.diff(places) / bin, [np.inf]])
    apart: NDArray[np.bool_] = np.minimum(gaps[1:], gaps[:-1]) > CLOSE
    return apart


def _alarms(tests: Sequence[Score]) -> list[Score]:
    """The tests that found something, the most significant first."""
    tests = [replace(test, limit=SINGLE / len(tests)) for test in tests]
    found = [test for test in tests if test.p_value < test.limit]
    for kind in DIRECTIONS:
        own = [test for test in tests if test.kind == kind]
        total, dof = sum(test.chi_square for test in own), sum(test.dof for test in own)
        if len(own) > 1 and special.chdtrc(dof, total) < TOGETHER / len(DIRECTIONS):
            found.append(min(own, key=lambda test: test.p_value))
    return sorted(found, key=lambda test: test.p_value)


def _lasting(
    alarms: list[Score], places: Array, likelihood: Likelihood, orders: Orders
) -> list[Score]:
    """The alarms that a further tone, where one is plausible, would not explain: tests beside it find the same.

    Args:
        alarms: Of the tones of the most probable K.
        places: Of these tones, (K,).
        likelihood: Of the data.
        orders: Evidences and fits of each K.
    """
    more = orders.k_probs[orders.k_map + 1 :]
    if not alarms or float(more.sum()) <= ELSEWHERE:
        return alarms
    k = orders.k_map + 1 + int(more.argmax())
    fit = orders.fits.get(k)
    if fit is None or len(fit) != k:
        return []
    z = np.asarray(likelihood.to_z(fit))
    beside = likelihood.waveform.place_in_z(z)
    again = _alarms(scores(likelihood, z, _apart(beside, likelihood.bin)))
    seen = [(score.kind, beside[score.tone]) for score in again]
    return [
        alarm
        for alarm in alarms
        if any(
            kind == alarm.kind and abs(place - places[alarm.tone]) < 0.5 * likelihood.bin
            for kind, place in seen
        )
    ]


def _one_each(alarms: Sequence[Score]) -> list[Score]:
    """The most significant test of each tone."""
    best: dict[int, Score] = {}
    for score in alarms:
        best.setdefault(score.tone, score)
    return list(best.values())


def _margin(alarms: Sequence[Score]) -> float:
    """Logarithm of by how much the smallest p-value passes the limit of its test; 0 for tones that do so together."""
    margins = [math.log(score.limit / max(score.p_value, 1e-300)) for score in alarms]
    return max([0.0, *margins])


def _of_score(score: Score, places: Array) -> Alternative:
    """What a test alone says."""
    kind = KINDS[score.kind]
    if score.kind == "growth" and score.slopes[0] > 0:
        kind = "growing"
    place = float(places[score.tone])
    return Alternative(kind, (place,), 0.0, score.p_value, _margin([score]))


def _p_value(tones: tuple[int, ...], alarms: Sequence[Score]) -> float | None:
    """The p-value of a tone by itself, where its test found something."""
    own = [score.p_value for score in alarms if (score.tone,) == tones]
    return min(own, default=None)
