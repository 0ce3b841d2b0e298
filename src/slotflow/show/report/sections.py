"""The numbers of a report's sections: tables, and facts as pairs of a name and a value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slotflow.bands.posterior import BandPosterior
from slotflow.core.units import HERTZ, FrequencyUnit
from slotflow.core.version import __version__
from slotflow.posterior.display import Epoch
from slotflow.show.advice import broken, kind_of
from slotflow.show.plots.axes import channel_names
from slotflow.show.report.page import Badge, Table
from slotflow.show.sampling import sampling_words
from slotflow.show.wording import (
    chance,
    data_notes,
    evidence_words,
    kind_words,
    limit_words,
    ratio_words,
)
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior
    from slotflow.signal.prior import Prior

__all__ = [
    "Limit",
    "checks",
    "citation",
    "counts",
    "data",
    "evidence",
    "kinds",
    "limit",
    "settings",
    "verdict_badge",
    "windows",
]

LEAST_LISTED = 5e-4
"""p(K | x) from which on a K has a row; the most probable K and its neighbours always have one."""
MOST_GAPS_LISTED = 20
VERDICT_COLOURS = {"exact": "met", "approximate": "open", "misfit": "missed"}

CITATION = {
    "software": "SlotFlow developers: slotflow {version}. MIT licence.",
    "method": "Niklas Houba, Giovanni Giarda, Lorenzo Speri: SlotFlow: Amortized Trans-Dimensional Inference with "
    "Slot-Based Normalizing Flows. arXiv:2511.23228 (2025), doi:10.48550/arXiv.2511.23228.",
}
"""What CITATION.cff says, in words."""


class Limit(NamedTuple):
    """What is known where there may be no component at all."""

    probability: str
    """Of K = 0."""
    words: str
    """The upper limits."""


def verdict_badge(status: str) -> Badge:
    """A verdict in its colour."""
    return Badge(status, VERDICT_COLOURS.get(status, "open"))


def counts(post: Posterior) -> Table:
    """p(K | x), with the evidence of each K where there is one."""
    columns = {"k": "K", "p": "probability"}
    known = post.log_evidence
    if known is not None:
        columns["evidence"] = "Δ ln Z"
    rows = []
    near = np.abs(np.arange(post.k_max + 1) - post.k_map) <= 1
    for k in np.flatnonzero((post.k_probs >= LEAST_LISTED) | near):
        row = [f"K = {k}", chance(float(post.k_probs[k]))]
        if known is not None:
            value, error = (float(x) for x in known[k])
            row.append(ratio_words(value, float(known[post.k_map][0]), error))
        rows.append(row)
    return Table(columns, rows)


def evidence(post: Posterior) -> str:
    """Ln Z of the most probable K in words; empty if it is not known."""
    known = post.log_evidence
    if known is None:
        return ""
    value, error = (float(x) for x in known[post.k_map])
    return evidence_words(value, error) if math.isfinite(value) else ""


def kinds(post: Posterior) -> str:
    """How many components of each class, the most probable numbers first, in words; empty without classes."""
    return kind_words(post.kinds())


def limit(post: Posterior, unit: FrequencyUnit = HERTZ) -> Limit | None:
    """The upper limits, where K = 0 is likely."""
    found = post.upper_limit()
    if found is None:
        return None
    return Limit(chance(found.k0_prob), limit_words(found.record(), post.unit, unit))


def windows(post: Posterior, unit: FrequencyUnit = HERTZ) -> Table | None:
    """The windows of a wide band with their verdicts; None if the band was analysed in one piece.

    A file keeps neither the probabilities of the counts nor the reasons, so that the columns for them are left out.
    """
    if not post.window_rows:
        return None
    columns = {"band": "", "k": "K", "verdict": "verdict", "p": "smallest p-value", "note": "why"}
    rows = []
    for core, k, probability, verdict in post.window_rows:
        if probability is None:
            rows.append([_core(*core, unit), f"{k}", verdict_badge(verdict.status)])
            continue
        tests = [check.p_value for check in verdict.checks]
        rows.append(
            [
                _core(*core, unit),
                f"{k} (probability {chance(probability)})",
                verdict_badge(verdict.status),
                f"{min(tests):.3g} of {len(tests)} tests" if tests else "",
                unit.reword(verdict.reason),
            ]
        )
    return Table(dict(list(columns.items())[: len(rows[0])]), rows)


def _core(low: float, high: float, unit: FrequencyUnit) -> str:
    """A window's own frequencies."""
    return unit.span(low, high)


def checks(post: Posterior, unit: FrequencyUnit = HERTZ) -> Table:
    """The tests of the residual with their p-values."""
    verdict, rows = post.verdict, []
    for check in verdict.checks:
        failed, kind = broken(check, verdict), kind_of(check)
        words = check.words if failed or not kind.looks_at else kind.looks_at
        mark = Badge("fails", "missed") if failed else Badge("passes", "met")
        rows.append([check.name, f"{check.p_value:.3g}", mark, unit.reword(words)])
    return Table({"name": "", "p": "p-value", "verdict": "", "note": ""}, rows)


def settings(
    post: Posterior, stated: Mapping[str, object], seed: int, unit: FrequencyUnit = HERTZ
) -> dict[str, object]:
    """The prior, and how the answer was asked for.

    Args:
        post: The posterior.
        stated: What the caller says of it.
        seed: Of the draws behind the tables.
        unit: Of the frequencies.
    """
    stored = post.attributes
    facts: dict[str, object] = {"method": post.method}
    law_of_k = post.windows[0].posterior.prior if isinstance(post, BandPosterior) else post.prior
    if post.prior is None or law_of_k is None:
        facts["prior"] = "not known"
    else:
        facts |= _prior_facts(post, post.prior, law_of_k, unit)
    if post.noise is not None:
        facts["noise"] = unit.reword(str(post.noise))
    if post.proposed_by:
        facts["components proposed by"] = post.proposed_by
    facts |= {name: str(value) for name, value in stated.items()}
    if post.ess is not None:
        facts["effective share of the draws"] = f"{post.ess:.3f}"
    if "seed" in stored:
        facts["seed of the file's draws"] = stored["seed"]
    facts.setdefault("seed", seed)
    if "slotflow_version" in stored:
        facts["version that wrote the file"] = stored["slotflow_version"]
    return facts | {"slotflow": f"version {__version__}"}


def _prior_facts(
    post: Posterior, prior: Prior, law_of_k: Prior, frequency: FrequencyUnit
) -> dict[str, object]:
    """The prior in words.

    Args:
        post: The posterior.
        prior: Its prior.
        law_of_k: The prior that p(K) belongs to: that of one window, if the band was analysed in windows.
        frequency: Unit of the frequencies.
    """
    share = "uniform"
    if law_of_k.k_probs is not None:
        share = "p(K) = " + ", ".join(f"{p:.3g}" for p in law_of_k.k_probs)
    where = "" if law_of_k is prior else " in each window"
    unit = f" {post.unit}" if post.unit else ""
    (low, high), separation = prior.frequency, prior.min_separation
    bins = f" ({separation / post.resolution:.3g} bins of 1/T)" if post.resolution else ""
    law = {"loguniform": "log-uniform"}.get(prior.amplitude_law, prior.amplitude_law)
    noise = f"{prior.sigma[0]:.4g} to {prior.sigma[1]:.4g}{unit}, uniform"
    if prior.known_sigma is not None:
        noise = f"{prior.known_sigma:.6g}{unit}, known"
    return {
        "number of components": f"K = {law_of_k.k_min} to {law_of_k.k_max}{where}, {share}",
        **({} if prior.waveform == TONE else {"a component is": prior.waveform.text}),
        "frequencies": f"{low * frequency.factor:.9g} to {frequency.text(high, 9)}, uniform",
        "smallest separation": f"{frequency.text(separation)}{bins}",
        "amplitudes": f"{prior.amplitude[0]:g} to {prior.amplitude[1]:g}{unit}, {law}",
        "phases": "uniform",
        "noise level": noise,
    }


def data(
    post: Posterior, source: str, epoch: Epoch, unit: FrequencyUnit = HERTZ
) -> dict[str, object]:
    """What is known of the data; phases refer to an epoch, and frequencies are shown in a unit."""
    facts: dict[str, object] = {"file": source, "unit of the values": post.unit or "not known"}
    facts["phases refer to"] = f"{epoch.words} on the data's clock"
    if post.resolution:
        facts["resolution 1/T"] = unit.text(post.resolution)
    if post.prior is not None:
        low, high = post.prior.frequency
        bins = f", {(high - low) / post.resolution:.4g} bins of 1/T" if post.resolution else ""
        facts["band"] = f"{low * unit.factor:.9g} to {unit.text(high, 9)}{bins}"
    facts["filled samples"] = f"{post.filled_samples:,}" if post.filled_samples else "none"
    if not post.has_data:
        return facts
    for name, channel in zip(
        channel_names(post.observation), post.observation.channels, strict=True
    ):
        facts[name] = sampling_words(channel)
        if channel.sigma is not None:
            facts[name] = f"{facts[name]}, stated noise level {channel.sigma:.4g}"
        if runs := channel.filled:
            listed = [f"{a}" if a == b else f"{a}–{b}" for a, b in runs[:MOST_GAPS_LISTED]]
            rest = len(runs) - len(listed)
            more = f" and {rest} more" if rest else ""
            facts[f"filled in the {name}"] = f"samples {', '.join(listed)}{more}"
    facts["notes of the reader"] = "; ".join(data_notes(post.observation))
    return facts


def citation() -> dict[str, str]:
    """How to cite software and method."""
    return {name: text.format(version=__version__) for name, text in CITATION.items()}
