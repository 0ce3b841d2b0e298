"""The parts of a report about a posterior, each as lines of HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.bands.posterior import BandPosterior
from slotflow.posterior.summaries import PARAMETERS
from slotflow.show.advice import broken, kind_of
from slotflow.show.report.html import badge, escape, table
from slotflow.show.report.pictures import drawn, missing
from slotflow.show.wording import (
    data_notes,
    evidence_words,
    limit_words,
    measured,
    number,
    ratio_words,
)

if TYPE_CHECKING:
    from slotflow.data.channel import Channel
    from slotflow.posterior.posterior import Posterior

__all__ = [
    "COLOURS",
    "checks",
    "citation",
    "components",
    "counts",
    "data",
    "settings_table",
    "windows",
]

DRAWS = 2000
"""Draws behind the table of components."""
LEAST = 5e-4
"""p(K | x) from which on a K has a row, beside the most probable one and its neighbours."""
GAPS = 20
"""Filled gaps that are listed."""
COLOURS = {"exact": "met", "approximate": "open", "misfit": "missed"}
"""Colours of the verdicts."""

CITATION = {
    "software": "SlotFlow developers: slotflow {version}. MIT licence.",
    "method": "Niklas Houba, Giovanni Giarda, Lorenzo Speri: SlotFlow: Amortized Trans-Dimensional Inference with "
    "Slot-Based Normalizing Flows. arXiv:2511.23228 (2025), doi:10.48550/arXiv.2511.23228.",
}
"""What CITATION.cff says, in words."""


def counts(post: Posterior) -> list[str]:
    """p(K | x) as bars and as a table, with the evidence where there is one."""
    evidence = getattr(post, "log_evidence", None)
    columns = {"k": "K", "p": "probability"}
    best = math.nan
    if evidence is not None:
        columns["evidence"] = "Δ ln Z"
        best = float(evidence[post.k_map][0])
    rows = []
    near = np.abs(np.arange(post.k_max + 1) - post.k_map) <= 1
    for k in np.flatnonzero((post.k_probs >= LEAST) | near):
        p = float(post.k_probs[k])
        row = [f"K = {k}", f"{p:.3f}" if p >= LEAST else "&lt; 0.001"]
        if evidence is not None:
            value, error = (float(x) for x in evidence[k])
            row.append(ratio_words(value, best, error))
        rows.append(row)
    lines = drawn(post, "k", "p(K | x)", "Probability of each number of components.")
    lines += table(columns, rows)
    if math.isfinite(best):
        assert evidence is not None
        words = escape(evidence_words(best, float(evidence[post.k_map][1])))
        lines.append(f"<p>Evidence of K = {post.k_map}: ln Z = {words}.</p>")
    limit = post.upper_limit()
    if limit is not None:
        words = limit_words(limit.record(), post.unit)
        lines.append(
            f'<p class="limit">There may be no tone at all (probability {limit.k0_prob:.3f}). {escape(words)}.</p>'
        )
    return lines


def windows(post: Posterior) -> list[str]:
    """The windows of a wide band with their verdicts; those of a file with what it says of them."""
    title = "<h3>Windows of the band</h3>"
    columns = {"band": "", "k": "K", "verdict": "verdict", "p": "smallest p-value", "note": "why"}
    rows = []
    if not isinstance(post, BandPosterior):
        stored: dict[str, Any] = getattr(post, "windows", {})
        if not stored:
            return []
        words = str(getattr(post, "attributes", {}).get("window_verdicts", "")).split(", ")
        names = ("core_low", "core_high", "core_k_map")
        for low, high, k, status in zip(*(stored[name] for name in names), words, strict=True):
            rows.append([_core(low, high), f"{int(k)}", _mark(escape(status))])
        return [title, *table({name: columns[name] for name in ("band", "k", "verdict")}, rows)]
    found = zip(post.windows, post.slots.counts, post.window_verdicts, strict=True)
    for window, counts, verdict in found:
        count = f"{counts.argmax()} (probability {counts.max():.3f})"
        tests = [check.p_value for check in verdict.checks]
        least = f"{min(tests):.3g} of {len(tests)} tests" if tests else ""
        mark = _mark(verdict.status)
        rows.append([_core(*window.core), count, mark, least, escape(verdict.reason)])
    return [title, *table(columns, rows)]


def _core(low: float, high: float) -> str:
    """A window's own frequencies."""
    return f"{low:.6g}–{high:.6g} Hz"


def _mark(status: str) -> str:
    """A verdict in its colour."""
    return badge(status, COLOURS.get(status, "open"))


def components(post: Posterior, seed: int) -> list[str]:
    """One row per component: existence, and median, sd and interval of each parameter."""
    if post.k_map == 0:
        return ["<p>None: noise alone is the most probable.</p>"]
    try:
        rows = post.summary(n=DRAWS, seed=seed).reset_index().to_dict(orient="records")
    except ValueError as error:  # a file without draws
        return [f'<p class="missing">Missing: {escape(str(error))}</p>']
    unit = f" [{post.unit}]" if post.unit else ""
    units = dict(zip(PARAMETERS, (unit, " [rad]", " [Hz]"), strict=True))
    order = ("frequency", "amplitude", "phase")
    columns = {"name": "", "existence": "exists"} | {name: name + units[name] for name in order}
    cells = [
        [
            f"Component {row['component']}",
            f"{row['existence']:.3f}",
            *(_measured(row, name) for name in order),
        ]
        for row in rows
    ]
    return [
        f"<p>Given K = {post.k_map}: median ± standard deviation, and the range from 5 % to 95 %. “exists” is the "
        "probability that the component is there, whatever K is. Phases refer to "
        f"t = {post.t_ref:.10g} s on the data's clock; their range may cross 0.</p>",
        *table(columns, cells),
    ]


def _measured(row: Mapping[Any, Any], name: str) -> str:
    """A parameter in a cell."""
    sd = float(row[f"{name}_sd"])
    low, high = (number(float(row[f"{name}_{q}"]), sd) for q in ("q05", "q95"))
    text = measured(float(row[f"{name}_median"]), sd)
    return f"{escape(text)}<small>{escape(f'{low} to {high}')}</small>"


def _facts(facts: Mapping[str, object]) -> list[str]:
    """A table of names and values; entries without a value are left out."""
    rows = [[escape(name), escape(str(value))] for name, value in facts.items() if value != ""]
    return ['<div class="facts">', *table({"name": "", "value": ""}, rows), "</div>"]


def checks(post: Posterior) -> list[str]:
    """The tests of the residual with their p-values."""
    verdict = post.verdict
    if isinstance(post, BandPosterior):
        return ["<p>Each window was tested on its own; the list of windows has the results.</p>"]
    if not verdict.checks:
        return ["<p>None was made; the verdict says why.</p>"]
    columns = {"name": "", "p": "p-value", "verdict": "", "note": ""}
    rows = []
    for check in verdict.checks:
        failed, kind = broken(check, verdict), kind_of(check)
        words = check.words if failed or not kind.looks_at else kind.looks_at
        mark = badge("fails", "missed") if failed else badge("passes", "met")
        rows.append([escape(check.name), f"{check.p_value:.3g}", mark, escape(words)])
    return [
        "<p>The p-value is the probability of so large a deviation if the residual were white noise. A test fails if "
        "it is below 0.001 divided by the number of tests.</p>",
        *table(columns, rows),
    ]


def settings_table(post: Posterior, settings: Mapping[str, object], seed: int) -> list[str]:
    """The prior, and how the answer was asked for."""
    from slotflow.core.version import __version__

    stored: dict[str, Any] = getattr(post, "attributes", {})
    facts: dict[str, object] = {"method": post.method}
    prior, law_of_k = post.prior, post.prior
    if isinstance(post, BandPosterior):
        law_of_k = post.windows[0].posterior.prior
    if prior is None or law_of_k is None:
        facts["prior"] = "not known"
    else:
        share = "uniform"
        if law_of_k.k_probs is not None:
            share = "p(K) = " + ", ".join(f"{p:.3g}" for p in law_of_k.k_probs)
        where = "" if law_of_k is prior else " in each window"
        (low, high), separation = prior.frequency, prior.min_separation
        bins = f" ({separation / post.resolution:.3g} bins of 1/T)" if post.resolution else ""
        law = {"loguniform": "log-uniform"}.get(prior.amplitude_law, prior.amplitude_law)
        noise = f"{prior.sigma[0]:.4g} to {prior.sigma[1]:.4g}{_unit(post)}, uniform"
        if prior.known_sigma is not None:
            noise = f"{prior.known_sigma:.6g}{_unit(post)}, known"
        facts |= {
            "number of components": f"K = {law_of_k.k_min} to {law_of_k.k_max}{where}, {share}",
            "frequencies": f"{low:.9g} to {high:.9g} Hz, uniform",
            "smallest separation": f"{separation:.6g} Hz{bins}",
            "amplitudes": f"{prior.amplitude[0]:g} to {prior.amplitude[1]:g}{_unit(post)}, {law}",
            "phases": "uniform",
            "noise level": noise,
        }
    facts |= {name: str(value) for name, value in settings.items()}
    ess = getattr(post, "ess", None)
    if ess is not None:
        facts["effective share of the draws"] = f"{ess:.3f}"
    if "seed" in stored:
        facts["seed of the file's draws"] = stored["seed"]
    facts.setdefault("seed", seed)
    if "slotflow_version" in stored:
        facts["version that wrote the file"] = stored["slotflow_version"]
    return _facts(facts | {"slotflow": f"version {__version__}"})


def data(post: Posterior, source: str) -> list[str]:
    """What is known of the data."""
    facts: dict[str, object] = {"file": source, "unit of the values": post.unit or "not known"}
    facts["phases refer to"] = f"t = {post.t_ref:.12g} s on the data's clock"
    if post.resolution:
        facts["resolution 1/T"] = f"{post.resolution:.6g} Hz"
    if post.prior is not None:
        low, high = post.prior.frequency
        bins = f", {(high - low) / post.resolution:.4g} bins of 1/T" if post.resolution else ""
        facts["band"] = f"{low:.9g} to {high:.9g} Hz{bins}"
    facts["filled samples"] = f"{post.filled_samples:,}" if post.filled_samples else "none"
    if not post.has_data:
        return [*_facts(facts), missing("Sampling", "the file does not hold the data.")]
    for name, stream in zip(
        ("long stream", "short stream"), post.observation.channels, strict=False
    ):
        facts[name] = _stream(stream)
        if stream.filled:
            runs = [f"{a}" if a == b else f"{a}–{b}" for a, b in stream.filled[:GAPS]]
            more = f" and {len(stream.filled) - GAPS} more" if len(stream.filled) > GAPS else ""
            facts[f"filled in the {name}"] = f"samples {', '.join(runs)}{more}"
    facts["notes of the reader"] = "; ".join(data_notes(post.observation))
    return _facts(facts)


def _stream(stream: Channel) -> str:
    """Sampling of a stream in words."""
    text = (
        f"{stream.n:,} samples × {stream.dt:.6g} s = {stream.duration:.6g} s, {1 / stream.dt:.6g} per second, "
        f"Nyquist {stream.nyquist:.6g} Hz"
    )
    text += f", from t = {stream.t0:.6g} s" if stream.t0 else ""
    return text if stream.sigma is None else f"{text}, stated noise level {stream.sigma:.4g}"


def citation() -> list[str]:
    """How to cite software and method."""
    from slotflow.core.version import __version__

    cited = {name: text.format(version=__version__) for name, text in CITATION.items()}
    return ["<p>If this helps your work, please cite both.</p>", *_facts(cited)]


def _unit(post: Posterior) -> str:
    """The data's unit behind a value."""
    return f" {post.unit}" if post.unit else ""
