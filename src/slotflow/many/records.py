"""A posterior as plain values: what JSON documents, tables and the store of results hold."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.core.store import Record
from slotflow.posterior.display import display_unit
from slotflow.posterior.facts import Facts, WindowRow
from slotflow.posterior.plain_table import PlainTable
from slotflow.posterior.sampled import SampledPosterior, SamplerRun
from slotflow.posterior.summaries import components as components_of
from slotflow.posterior.summaries import place_modes
from slotflow.show.advice import remedies
from slotflow.show.sampling import sampling_words
from slotflow.show.wording import fill_warnings, headline

if TYPE_CHECKING:
    import pandas as pd

    from slotflow.data.channel import Channel
    from slotflow.posterior.posterior import Posterior

__all__ = [
    "assumed_record",
    "facts_record",
    "method_record",
    "posterior_record",
    "stream_record",
]

MODE_DRAWS = 500
"""Draws in which several places of a component are looked for."""
SCATTERED = 0.5
"""Width of the most probable place over the sd of all draws below which the others are far away."""


def posterior_record(
    post: Posterior, summary: pd.DataFrame, frequency_unit: str | None = None
) -> Record:
    """All that may be shown of a posterior, as plain values.

    That is what `facts_record` holds, the places of a component that may be at several, and the share of draws outside
    the prior, which takes as long as the rest.

    Args:
        post: The posterior.
        summary: Its table of components, frequencies in Hz.
        frequency_unit: The stated unit; None for the one that goes with the data.
    """
    record = facts_record(post, PlainTable.of(summary), frequency_unit)
    record["components"] = _with_modes(post, record["components"])
    return record | {"constrained_fraction": post.constrained_fraction()}


def facts_record(post: Facts, summary: PlainTable, frequency_unit: str | None = None) -> Record:
    """A result and its summary as plain values; None for evidence, ESS or upper limits where there are none.

    All frequencies are in Hz; ``frequency_unit`` says in which unit a person reads them.

    Args:
        post: The result, from which nothing is drawn.
        summary: Its table of components, frequencies in Hz.
        frequency_unit: The stated unit; None for the one that goes with the data.
    """
    components = [
        {name: value for name, value in row.items() if name != "verdict"} for row in summary.rows
    ]
    evidence = post.log_evidence
    names = ("value", "error")
    return {
        "answer": headline(post),
        "verdict": {
            "status": post.verdict.status,
            "reason": post.verdict.reason,
            "advice": remedies(post),
            "survives": post.verdict.survives,
            "inflation": list(post.verdict.inflation),
            "unexamined": list(post.verdict.unexamined),
            "alternatives": [
                asdict(one) | {"words": one.words} for one in post.verdict.alternatives
            ],
            "warnings": fill_warnings(post.observation) if post.has_data else [],
        },
        "windows": [_window(row) for row in post.window_rows],
        "empty": [region._asdict() for region in post.empty_regions],
        "frequency_unit": display_unit(post, frequency_unit).name,
        "phase_at": summary.words["phase_at"],
        "method": post.method,
        "waveform": post.waveform.text,
        "k_map": post.k_map,
        "k_probs": post.k_probs.tolist(),
        "kinds": [{"kinds": kinds, "probability": p} for kinds, p in post.kinds()],
        "log_evidence": (
            None
            if evidence is None
            else [dict(zip(names, pair, strict=True)) for pair in evidence.tolist()]
        ),
        "ess": post.ess,
        "components": components,
        "upper_limit": summary.words.get("upper_limit"),
        "noise_std": post.noise_std,
        "noise_std_error": post.noise_std_error,
        "noise": None if post.noise is None else post.noise.record(),
        "proposed_by": post.proposed_by,
        "unit": post.unit,
        "constrained_fraction": None,
    }


def _with_modes(post: Posterior, rows: list[Record]) -> list[Record]:
    """Rows of components; one that may be at several places has a list of them, the most probable first.

    So has one of which a few draws are far away: what is told of its place is then that of all others.
    """
    if not rows:
        return rows
    draws, sds = (
        components_of(post, post.k_map, MODE_DRAWS, 0)[0],
        [row[f"{post.waveform.place}_sd"] for row in rows],
    )
    cores = [row.core for row in post.window_rows]
    modes = place_modes(draws, post.resolution, post.waveform, cores)
    scattered = [
        len(found) > 1 or found[0].sd < SCATTERED * sd for found, sd in zip(modes, sds, strict=True)
    ]
    return [
        row | ({"modes": [mode._asdict() for mode in found]} if several else {})
        for row, found, several in zip(rows, modes, scattered, strict=True)
    ]


def _window(row: WindowRow) -> Record:
    """A window of a band as plain values."""
    return {
        "core": list(row.core),
        "k_map": row.k_map,
        "k_prob": row.k_prob,
        "status": row.verdict.status,
        "reason": row.verdict.reason,
    }


def method_record(post: Facts) -> Record:
    """How a classical method went, as plain values and in words (``run``); empty for the network and the exact step."""
    if isinstance(post, SampledPosterior):
        return {"sampling": asdict(post.sampling), "run": _sampling_words(post.sampling)}
    tables = {name: values.tolist() for name, (values, _) in post.tables_by_k().items()}
    if "bic" not in tables:
        return {}
    bic = tables["bic"]
    return {"classical": tables, "run": [f"Smallest BIC: K = {int(np.nanargmin(bic))}"]}


def _sampling_words(run: SamplerRun) -> list[str]:
    """How a sampler's run went, in a few lines."""
    draws = (
        f"{run.effective:.0f} effective draws ({run.least_effective:.0f} of the worst parameter)"
    )
    rates = ", ".join(
        f"{n} {rate:.3f}" for n, rate in run.acceptance.items() if math.isfinite(rate)
    )
    if run.temperatures:  # particles on a path from the prior to the posterior
        paths = ", ".join(f"K = {k}: {n}" for k, n in run.temperatures.items())
        return [
            f"{draws}, R-hat of the islands {run.r_hat:.3f}, {run.evaluations:,} likelihoods, {run.seconds:.1f} s",
            f"Points of the path: {paths}",
            f"Accepted: {rates or 'nothing to move'}",
        ]
    swaps = ", ".join(f"{rate:.2f}" for rate in run.swaps)
    return [
        f"{draws}, R-hat {run.r_hat:.3f}, autocorrelation time {run.autocorrelation:.1f} steps, {run.steps} steps "
        f"after {run.warm_up} of warm-up, {run.seconds:.1f} s",
        f"Accepted: {rates}; exchanges {swaps or 'none'}",
    ]


def assumed_record(post: Facts) -> Record:
    """The sampling of the data and what was assumed of them, as plain values."""
    assert post.assumed is not None
    streams = [stream_record(channel) for channel in post.observation.channels]
    return {"streams": streams} | post.assumed.record()


def stream_record(stream: Channel) -> dict[str, Any]:
    """Sampling, unit and known noise level of a series as plain values, and its sampling in words."""
    return {
        "n": stream.n,
        "dt": stream.dt if stream.is_even else None,
        "step": stream.step,
        "rate": 1 / stream.step,
        "duration": stream.duration,
        "t0": stream.t0,
        "t_ref": stream.t_ref,
        "time_unit": stream.time_unit,
        "unit": stream.unit,
        "sigma": stream.sigma,
        "complex": stream.is_complex,
        "errors": stream.errors is not None,
        "missing": stream.missing,
        "trend": stream.trend,
        "words": sampling_words(stream),
    }
