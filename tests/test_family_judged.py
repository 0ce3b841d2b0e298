"""The verdict on an answer of families looks at every set of counts that matters, and files keep what it says."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import ndtri

from slotflow import Channel, Observation, Posterior, Prior, SlotFlow
from slotflow.exact.family.judged import judged, quality_of
from slotflow.exact.family.sample import Sampled
from slotflow.exact.importance import Importance, effective_share, pareto_k
from slotflow.show.report.sections import kinds
from slotflow.waveforms import Damped, Tone

DRAWS = 2000
CLASSES = {"tone": Tone(), "damped": Damped((0.02, 0.2), law="loguniform")}


def layout(spread: float, seed: int, error: float | None = None) -> Importance:
    """Draws of log-normal weights, in a random order; a spread of 3 has the tail of draws that cannot be trusted.

    The weights are the law's quantiles, so that ESS and Pareto k are the same whatever the seed.
    """
    log_w = spread * ndtri((np.arange(DRAWS) + 0.5) / DRAWS)
    log_w = np.random.default_rng(seed).permutation(log_w)
    log_w -= np.logaddexp.reduce(log_w)
    ess = effective_share(log_w)
    return Importance(
        theta=np.zeros((DRAWS, 1, 3)),
        sigma=np.ones(DRAWS),
        log_weights=log_w,
        log_evidence=0.0,
        log_evidence_error=math.sqrt((1 / ess - 1) / DRAWS) if error is None else error,
        ess=ess,
        pareto_k=pareto_k(log_w),
        share=1.0,
        seconds=0.0,
    )


def answer(parts: dict[tuple[int, ...], tuple[float, Importance]]) -> Sampled:
    """An answer of layouts with given probabilities."""
    k_max = max(map(sum, parts))
    k_probs = [sum(p for c, (p, _) in parts.items() if sum(c) == k) for k in range(k_max + 1)]
    return Sampled(
        {counts: result for counts, (_, result) in parts.items()},
        {counts: math.log(p) for counts, (p, _) in parts.items()},
        np.array(k_probs),
    )


def test_draws_of_all_layouts_are_judged_together(seed: int) -> None:
    good, poor = layout(0.3, seed), layout(3.0, seed + 1)
    quality = quality_of(answer({(1, 0): (0.6, good), (1, 1): (0.4, poor)}))
    assert quality.ess < 0.1 and quality.pareto_k > 0.7
    assert quality.k_error > 0.05  # heavy weights do not tell their own error
    quality = quality_of(answer({(1, 0): (0.6, good), (1, 1): (0.4, layout(0.5, seed + 1))}))
    assert quality.ess > 0.7 and quality.pareto_k < 0.5 and quality.k_error < 0.02


def test_the_share_is_that_of_the_draws_put_together(seed: int) -> None:
    """Layouts of the same probability and as many draws: their weights in one list."""
    parts = [layout(0.5, seed), layout(1.0, seed + 1)]
    quality = quality_of(answer({(1, 0): (0.5, parts[0]), (0, 1): (0.5, parts[1])}))
    together = np.concatenate([part.log_weights for part in parts])
    assert abs(quality.ess / effective_share(together) - 1) < 1e-9


def test_layouts_of_a_few_per_cent_do_not_spoil_an_answer(seed: int) -> None:
    good, poor = layout(0.3, seed), layout(3.0, seed + 1)
    quality = quality_of(answer({(1, 0): (0.97, good), (1, 1): (0.03, poor)}))
    assert quality.ess == pytest.approx(good.ess)
    assert quality.k_error < 0.05 and quality.pareto_k < 0.7
    many = {(1, k): (0.03, poor) for k in range(1, 11)}  # but ten of them do
    quality = quality_of(answer({(1, 0): (0.7, good)} | many))
    assert quality.ess < 0.1 and quality.pareto_k > 0.7


def test_a_tail_counts_where_few_draws_are_effective(seed: int) -> None:
    good, poor = layout(0.3, seed), layout(3.0, seed + 1)
    steps = dataclasses.replace(layout(0.5, seed + 1), pareto_k=0.9)
    assert quality_of(answer({(1, 0): (0.6, good), (1, 1): (0.4, steps)})).pareto_k < 0.7
    assert quality_of(answer({(1, 0): (0.4, good), (1, 1): (0.6, steps)})).pareto_k == 0.9
    two = {(1, 1): (0.04, poor), (1, 2): (0.04, layout(3.0, seed + 2))}
    assert quality_of(answer({(1, 0): (0.92, good)} | two)).pareto_k > 0.7
    two[1, 2] = (0.04, good)
    assert quality_of(answer({(1, 0): (0.92, good)} | two)).pareto_k < 0.7


def test_weights_that_hardly_differ_have_no_tail(seed: int) -> None:
    """Whatever law the largest of them follow; once one is twice the mean, it counts."""
    alike, differ = (dataclasses.replace(layout(s, seed), pareto_k=0.9) for s in (0.05, 0.5))
    assert quality_of(answer({(1, 0): (1.0, alike)})).pareto_k == 0.0
    assert quality_of(answer({(1, 0): (1.0, differ)})).pareto_k == 0.9


def test_error_of_the_probabilities(seed: int) -> None:
    """Against evidences that scatter by their errors; layouts of the same K may hide behind a sure p(K)."""
    p, errors = np.array([0.5, 0.3, 0.2]), np.array([0.02, 0.08, 0.05])
    counts = [(1, 0), (0, 1), (1, 1)]
    made = {c: (float(p[i]), layout(0.3, seed + i, float(errors[i]))) for i, c in enumerate(counts)}
    logs = np.log(p) + errors * np.random.default_rng(seed).standard_normal((40_000, 3))
    probs = np.exp(logs)
    probs /= probs.sum(1, keepdims=True)
    expected = max(*probs.std(0), (probs[:, 0] + probs[:, 1]).std())
    assert quality_of(answer(made)).k_error == pytest.approx(expected, rel=0.03)
    sure = {(1, 0): (0.5, layout(0.3, seed, 0.4)), (0, 1): (0.5, layout(0.3, seed + 1, 0.4))}
    assert quality_of(answer(sure)).k_error == pytest.approx(0.25 * 0.4 * math.sqrt(2))


@pytest.fixture(scope="module")
def post(zoom: SlotFlow) -> Any:
    """A tone and a decay, clear and apart."""
    t, rng = 0.5 * np.arange(240), np.random.default_rng(3)
    x = np.cos(2 * np.pi * 0.36 * t) + 3 * np.exp(-0.05 * t) * np.cos(2 * np.pi * 0.48 * t)
    prior = Prior(
        classes=CLASSES, frequency=(0.3, 0.55), amplitude=(0.3, 5.0), sigma=(0.0, 2.0), k_min=0, k_max=3,
        min_separation=0.0,
    )  # fmt: skip
    observation = Observation([Channel(x + 0.5 * rng.standard_normal(240), dt=0.5)])
    return zoom.infer(observation, prior=prior, max_seconds=60)


def test_the_verdict_names_counts_that_are_uncertain(post: Any, seed: int) -> None:
    assert post.verdict.status == "exact"
    analysed, (top, *_) = post.analysed, post.counts_probs()
    assert top == (1, 1) and post.ess == quality_of(analysed.sampled).ess
    assert f"ESS per draw {post.ess:.2f}" in post.verdict.reason
    good = analysed.sampled.results[top]
    cases = {
        "poorest for 1 tone, 2 damped (probability 0.40": layout(3.0, seed),
        "1 tone, 2 damped (probability 0.40) has ln Z with an error of 0.50": layout(
            0.3, seed, 0.5
        ),
    }
    for words, other in cases.items():
        made = answer({(1, 1): (0.6, good), (1, 2): (0.4, other)})
        verdict = judged(dataclasses.replace(analysed, sampled=made), made.k_probs)
        assert verdict.status == "approximate" and words in verdict.reason, verdict.reason
    made = answer({(1, 1): (0.6, good), (1, 2): (0.4, layout(0.3, seed))})
    assert judged(dataclasses.replace(analysed, sampled=made), made.k_probs).status == "exact"


def test_files_keep_the_numbers_of_each_kind(post: Any, tmp_path: Path) -> None:
    post.save(tmp_path / "a.nc", n=100)
    read = Posterior.load(tmp_path / "a.nc")
    assert read.kinds() == post.kinds() and read.kinds()[0][0] == "1 tone, 1 damped"
    assert read.ess == post.ess and kinds(read) == kinds(post) != ""


def test_noise_that_nobody_stated(zoom: SlotFlow, post: Any) -> None:
    assert "as stated" not in post.noise.words and "nothing is stated" in post.noise.words
    stated = zoom.infer(post.observation, prior=post.prior, noise="white", max_seconds=60)
    assert stated.noise.words == "white, as stated"
