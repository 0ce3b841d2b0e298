"""Writes a posterior as one page of HTML that needs no other file: the verdict first, then everything behind it.

`write_report` takes a posterior of any method, of a wide band, and of a file; what is not known or cannot be drawn is
named with the reason. The same posterior gives the same page: there is no date in it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from slotflow.core.units import FrequencyUnit
from slotflow.posterior.display import display_unit, epoch_of
from slotflow.posterior.verdict import FALSE_ALARM, unlikely_amplitude
from slotflow.show.advice import MEANING, remedies
from slotflow.show.report import sections
from slotflow.show.report.components import components, other_places
from slotflow.show.report.page import Badge, render, write_page
from slotflow.show.report.pictures import drawn, pictures
from slotflow.show.sampling import empty_words, noise_unit
from slotflow.show.wording import data_warnings, fill_warnings, headline, measured

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["check_name", "render_report", "write_report"]

ENDINGS = (".html", ".htm")


def write_report(
    post: Posterior,
    path: str | os.PathLike[str],
    *,
    source: str = "",
    settings: Mapping[str, object] | None = None,
    warnings: Sequence[str] = (),
    seed: int = 0,
    frequency_unit: str | None = None,
    phase_at: str | float = "auto",
) -> None:
    """Writes the page, whole or not at all; missing folders above it are created.

    Args:
        post: The posterior.
        path: File to write; it ends in .html or .htm.
        source: Name of the data's file, if there is one.
        settings: How the answer was asked for, beyond the prior: each entry gets a line.
        warnings: What to say of the data in addition to what the data show by themselves.
        seed: Of the draws behind the table of components.
        frequency_unit: Unit of the frequencies, such as "c/d"; by default that which goes with the data's times.
        phase_at: The instant that phases refer to, as in `Posterior.summary`.
    """
    check_name(path)
    text = render_report(
        post,
        source=source,
        settings=settings,
        warnings=warnings,
        seed=seed,
        frequency_unit=frequency_unit,
        phase_at=phase_at,
    )
    write_page(Path(path), text)


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuses a file that is no page, so that a slip does not overwrite data."""
    suffix = Path(path).suffix.lower()
    if suffix not in ENDINGS:
        raise ValueError(
            f"{path}: expected a report's name to end in {' or '.join(ENDINGS)}, received {suffix or 'no ending'!r}; "
            "rename it."
        )
    if Path(path).is_dir():
        raise ValueError(f"{path}: expected a file to write, received a folder; name a file.")


def render_report(
    post: Posterior,
    *,
    source: str = "",
    settings: Mapping[str, object] | None = None,
    warnings: Sequence[str] = (),
    seed: int = 0,
    frequency_unit: str | None = None,
    phase_at: str | float = "auto",
) -> str:
    """The page's text; arguments as of `write_report`."""
    unit, epoch = display_unit(post, frequency_unit), epoch_of(post, phase_at)
    return render(
        "report.html",
        title=f"slotflow report: {source or post.method}",
        head=_head(post, source, warnings, unit),
        k=post.k_map,
        k_picture=drawn(post, "k", "p(K | x)", "Probability of each number of components."),
        counts=sections.counts(post),
        evidence=sections.evidence(post),
        kinds=sections.kinds(post),
        limit=sections.limit(post, unit),
        windows=sections.windows(post, unit),
        empty=empty_words(post.empty_regions, post.unit, unit) if post.empty_regions else "",
        components=components(post, seed, unit, phase_at),
        other_places=other_places(post, unit),
        inflated=any(factor > 1 for factor in post.verdict.inflation),
        epoch=epoch.words,
        pictures=pictures(post, unit.name, phase_at),
        checks=sections.checks(post, unit),
        false_alarm=f"{FALSE_ALARM:g}",
        settings=sections.settings(post, settings or {}, seed, unit),
        data=sections.data(post, source, epoch, unit),
        citation=sections.citation(),
    )


@dataclass(frozen=True)
class Head:
    """The head of the page: verdict, reason, what to do, and the answer in a line."""

    status: str
    badge: Badge
    reason: str
    meaning: str
    advice: str
    answer: str
    filled: Sequence[str]
    """What to say of samples that were filled."""
    warnings: Sequence[str]
    has_data: bool
    source: str
    """Where the answer comes from: file and method."""


def _head(post: Posterior, source: str, warnings: Sequence[str], unit: FrequencyUnit) -> Head:
    """The head of the page of a posterior."""
    verdict = post.verdict
    filled = fill_warnings(post.observation) if post.has_data else []
    if not post.has_data and post.filled_samples:
        filled = [f"{post.filled_samples} samples of the data were missing and filled"]
    return Head(
        status=verdict.status,
        badge=sections.verdict_badge(verdict.status),
        reason=unit.reword(verdict.reason),
        meaning=MEANING.get(verdict.status, ""),
        advice=unit.reword(" ".join(remedies(post))),
        answer=headline(post) + _noise(post),
        filled=filled,
        warnings=list(dict.fromkeys([*_doubts(post), *warnings])),
        has_data=post.has_data,
        source=f"{source}, {post.method}" if source else post.method,
    )


def _noise(post: Posterior) -> str:
    """The noise level behind the answer; empty if it is not known."""
    level, error = post.noise_std, post.noise_std_error
    if not math.isfinite(level):
        return ""
    text = measured(level, error) if error else f"{level:.4g}"
    kind = "" if post.noise is None else f" ({post.noise.name})"
    return f"; noise level σ = {text}{noise_unit(post)}{kind}"


def _doubts(post: Posterior) -> list[str]:
    """What the data say against the assumptions: offset, trend, amplitudes beyond the prior's."""
    if not post.has_data or post.prior is None:
        return []
    found = data_warnings(post.observation, post.prior)
    if unlikely := unlikely_amplitude(post.observation, post.prior):
        found.append(f"{unlikely}; state bounds in the data's units (--amplitude)")
    return found
