"""What to assume next where the first answer is none: another noise, or another distance of tones."""

from __future__ import annotations

import dataclasses

import numpy as np

from slotflow.infer.call import Call, Case
from slotflow.infer.noise_choice import doubted_noise, second_noise
from slotflow.infer.separation import UNRESOLVED, separated, unseparated
from slotflow.network.model import SlotFlow
from slotflow.posterior.assumed import WEAK, Assumed
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.verdict import FALSE_ALARM
from slotflow.signal.noise.model import NoiseModel

__all__ = ["better", "other_noise", "other_separation"]

OUTSIDE = ("peak outside the band", "low frequencies")
"""Tests of what lies outside the band, which no tone of the band can explain."""
RANK = {"exact": 2, "approximate": 1, "misfit": 0}


def other_noise(model: SlotFlow, case: Case, post: Posterior, call: Call) -> NoiseModel | None:
    """Another noise to try, where nobody has stated it and the first one does not explain the data or is in doubt.

    Args:
        model: The network.
        case: What was assumed.
        post: The first answer.
        call: What is asked.
    """
    prior = case.assumed.prior
    if call.noise != "auto" or model.widest_band is None or prior.known_sigma is not None:
        return None  # a wrong level is no colour
    if not post.sampled(post.k_map) or any(np.ptp(c.values) == 0 for c in case.given.channels):
        return None
    doubt = post.verdict.doubt
    if doubt is not None and case.basis.noise.name in ("white", "power_law"):
        return doubted_noise(case.observation, prior.frequency, post.best_fit(), doubt)
    if case.basis.noise.is_white and _is_misfit(post, full=post.k_map == prior.k_max):
        return second_noise(case.observation, prior.frequency, post.best_fit())
    return None


def _is_misfit(post: Posterior, full: bool) -> bool:
    """Whether the noise may be why the data are not explained; of a full band only what lies outside tells.

    Where there are as many tones as may be, what is left in the band may be further ones.
    """
    if post.verdict.status != "misfit":
        return False
    checks = post.verdict.checks
    limit = FALSE_ALARM / max(len(checks), 1)
    return not full or any(check.name in OUTSIDE and check.p_value < limit for check in checks)


def other_separation(case: Case, post: Posterior) -> Assumed | None:
    """What else to assume of the distance of tones, where nobody has said it and the first answer is none.

    A line that drifts, decays or is modulated is broader than a tone, and a few tones closer than a bin, of large
    amplitudes that cancel, come near it. Such tones that do not explain the data are none: one at each place says as
    much as the data do, unless the verdict names what they stand for. On the other hand, where lines that the record
    resolves do not explain the data, tones that it does not resolve may.

    Args:
        case: What was assumed.
        post: The first answer.
    """
    assumed, prior = case.assumed, case.assumed.prior
    if assumed.sources.get("min_separation") != WEAK:
        return None
    if prior.min_separation > 0:
        missed = post.verdict.status == "misfit" and post.k_map > 0
        return dataclasses.replace(assumed, prior=unseparated(prior)) if missed else None
    place = np.sort(post.waveform.place_of(post.best_fit()))
    close = len(place) > 1 and np.diff(place).min() * assumed.duration < UNRESOLVED
    apart = separated(prior, assumed.duration)
    named = post.verdict.status == "approximate" and post.verdict.alternatives
    if post.verdict.status == "exact" or named or not close or apart is None:
        return None
    return dataclasses.replace(assumed, prior=apart)


def better(again: Posterior, post: Posterior, preferred: bool) -> Posterior:
    """The second answer if it is better founded than the first, or as well and preferred."""
    gained = RANK[again.verdict.status] - RANK[post.verdict.status]
    return again if gained > 0 or (gained == 0 and preferred) else post
