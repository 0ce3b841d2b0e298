"""What to do about a verdict: remedies follow from what the residual shows, three at most, and numbers that mean
nothing are not printed."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from posterior_helpers import TONES, gaussian_posterior

from slotflow import Posterior
from slotflow.posterior.standing import Standing
from slotflow.posterior.verdict import Check, Verdict, incomplete
from slotflow.show.advice import KINDS, REMEDIES, remedies
from slotflow.show.wording import headline, measured

STRONG = Standing((1.0, 2.0, 1.5), (60.0, 50.0, 40.0))


class Judged(Posterior):
    """Three tones with a verdict of one's choice."""

    def __init__(self, verdict: Verdict, k_probs: tuple[float, ...] = (0.0, 0.0, 0.1, 0.9)) -> None:
        base = gaussian_posterior(k_probs)
        prior = dataclasses.replace(base.prior, k_max=3) if base.prior else None
        super().__init__(k_probs, base.slots, base.observation, base.noise_std, 0.01, "test", prior)
        self._chosen = verdict
        self.k_probs = np.array([*k_probs, 0.0])  # K_max = 3 is not the last one that is known
        if prior is not None:
            self.prior = dataclasses.replace(prior, k_max=4)

    @property
    def verdict(self) -> Verdict:
        return self._chosen


def misfit(*checks: Check, standing: Standing | None = STRONG) -> Judged:
    return Judged(Verdict("misfit", "", checks, standing))


SIDE = float(TONES[1, 2]) + 0.05
PEAK, LEVEL = "peak in the band", "level"
FAILED: dict[str, tuple[list[Check], list[str]]] = {
    "a line outside": (
        [
            Check("peak outside the band", 0.0, "", frequency=4.0, size=900.0),
            Check("kurtosis (long)", 0.0, "", size=-1.4),
            Check("neighbours (long)", 0.0, ""),
            Check(LEVEL, 1e-90, "", size=0.02),
        ],
        ["outside"],
    ),
    "red noise": (
        [Check("neighbours (long)", 0.0, ""), Check("steadiness (long, 10)", 1e-9, "")],
        ["colour"],
    ),
    "outliers": (
        [Check("kurtosis (long)", 0.0, "", size=90.0), Check("steadiness (long, 40)", 1e-40, "")],
        ["outliers", "cut"],
    ),
    "a burst": (
        [Check("kurtosis (long)", 0.0, "", size=5.0), Check("steadiness (long, 40)", 0.0, "")],
        ["cut"],
    ),
    "a tone with sidebands": (
        [Check(PEAK, 1e-30, "", frequency=SIDE, size=30.0)],
        ["sidebands"],
    ),
    "a tone that the prior excludes": (
        [
            Check(PEAK, 0.0, "", frequency=SIDE, size=5e4),
            Check(LEVEL, 0.0, "", size=30.0),
            Check("neighbours (long)", 0.0, ""),
        ],
        ["bounds"],
    ),
    "a dead channel": ([Check("constant", 0.0, "")], ["column"]),
}


@pytest.mark.parametrize("name", FAILED)
def test_remedies_follow_from_what_is_left(name: str) -> None:
    checks, expected = FAILED[name]
    words = remedies(misfit(*checks))
    assert words[0].startswith("Use what stands: all 3 tones stand with errors inflated by 1.0–2.0")
    assert [text[1:-1] for text in words[1:]] == [REMEDIES[key][1:] for key in expected]


def test_remedies_are_few_and_say_how() -> None:
    checks = [Check(f"{name} (long)", 1e-20, "", size=50.0) for name in KINDS]
    words = remedies(misfit(*checks, standing=None))
    assert words[0] == "Do not use the numbers below." and len(words) == 4
    assert all(kind.remedy in REMEDIES for kind in KINDS.values())
    flagless = [key for key, text in REMEDIES.items() if "--" not in text]
    assert flagless == ["missing", "sidebands", "cut"]  # what no option does


def test_more_tones_come_first_where_the_prior_is_full() -> None:
    post = misfit(Check(LEVEL, 0.0, "", size=5.0))
    assert "--k-max" not in " ".join(remedies(post))
    post.prior = dataclasses.replace(post.prior, k_max=3) if post.prior else None
    assert "--k-max" in remedies(post)[1]


def test_numbers_that_mean_nothing_are_not_printed() -> None:
    exact = Judged(Verdict("exact", ""), (0.0, 0.0, 0.0004, 0.9996))
    assert headline(exact) == "3 components (probability 0.9996)"
    assert headline(misfit()) == (
        "3 components at best, all of which stand, but the data are not explained"
    )
    assert headline(misfit(standing=None)) == "3 components at best, but the data are not explained"
    weak = Standing((1.0, 2.0, 1.5), (60.0, 2.0, 4.0))
    assert "1 of which stands" in headline(misfit(standing=weak))
    partial = Judged(incomplete(Verdict("exact", ""), [2]))
    assert partial.verdict.status == "approximate"
    assert headline(partial) == (
        "3 components (probability > 0.9999 among what was looked at; K = 2 was not)"
    )
    assert measured(0.5321402005777837, 7e-15) == "0.53214"
