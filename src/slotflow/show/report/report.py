"""A posterior as one page of HTML that needs no other file: the verdict first, then everything behind it.

`write_report` takes a posterior of any method, of a wide band, and of a file; what is not known or cannot be drawn is
named with the reason. The same posterior gives the same page: there is no date in it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from slotflow.show.advice import MEANING, remedies
from slotflow.show.report.html import badge, escape, page, write_page
from slotflow.show.report.pictures import pictures
from slotflow.show.report.sections import (
    COLOURS,
    checks,
    citation,
    components,
    counts,
    data,
    settings_table,
    windows,
)
from slotflow.show.wording import data_warnings, fill_warnings, measured

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["check_name", "render_report", "write_report"]

ENDINGS = (".html", ".htm")
STYLE = """
header { border-left: .35rem solid var(--open); padding: .1rem 0 .1rem 1rem; }
header.exact { border-color: var(--met); }
header.misfit { border-color: var(--missed); }
.answer { font-size: 1.15rem; font-weight: 600; }
.but { color: var(--missed); }
td small { display: block; color: var(--soft); white-space: nowrap; }
td.existence, td.p { white-space: nowrap; }
.facts th { width: 14rem; color: var(--soft); } .facts td { overflow-wrap: anywhere; }
@media (max-width: 44rem) { .facts th { width: 100%; } td small { white-space: normal; } }
"""


def write_report(
    post: Posterior,
    path: str | os.PathLike[str],
    *,
    source: str = "",
    settings: Mapping[str, object] | None = None,
    warnings: Sequence[str] = (),
    seed: int = 0,
) -> None:
    """Writes the page, whole or not at all; missing folders above it are created.

    Args:
        post: The posterior.
        path: File to write; it ends in .html or .htm.
        source: Name of the data's file, if there is one.
        settings: How the answer was asked for, beyond the prior: each entry gets a line.
        warnings: What to say of the data beside what the data tell themselves.
        seed: Of the draws behind the table of components.
    """
    check_name(path)
    write_page(
        Path(path),
        render_report(post, source=source, settings=settings, warnings=warnings, seed=seed),
    )


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
) -> str:
    """The page's text; arguments as of `write_report`."""
    doubts = list(dict.fromkeys([*_doubts(post), *warnings]))
    lines = [
        *_verdict(post, source, doubts),
        "<main>",
        *_section("How many", [*counts(post), *windows(post)]),
        *_section("Components", components(post, seed)),
        *_section("Pictures", pictures(post)),
        *_section("Tests of the residual", checks(post)),
        *_section("Prior and settings", settings_table(post, settings or {}, seed)),
        *_section("Data", data(post, source)),
        *_section("How to cite", citation()),
        "</main>",
    ]
    return page(f"slotflow report: {source or post.method}", lines, STYLE)


def _section(title: str, lines: Sequence[str]) -> list[str]:
    """A part of the page."""
    name = title.lower().replace(" ", "-")
    return [f'<section id="{name}">', f"<h2>{escape(title)}</h2>", *lines, "</section>"]


def _doubts(post: Posterior) -> list[str]:
    """What the data say against themselves: offset, trend, amplitudes beyond the prior's."""
    from slotflow.posterior.verdict import unlikely_amplitude

    if not post.has_data or post.prior is None:
        return []
    found = data_warnings(post.observation, post.prior)
    unlikely = unlikely_amplitude(post.observation, post.prior)
    return (
        [*found, f"{unlikely}; state bounds in the data's units (--amplitude)"]
        if unlikely
        else found
    )


def _verdict(post: Posterior, source: str, doubts: Sequence[str]) -> list[str]:
    """The head of the page: verdict, reason, what to do, and the answer in a line."""
    verdict, k = post.verdict, post.k_map
    status = verdict.status
    plural = "component" if k == 1 else "components"
    sigma, error = post.noise_std, post.noise_std_error
    noise = ""
    if math.isfinite(sigma):
        level = measured(sigma, error) if error else f"{sigma:.4g}"
        noise = f", noise level σ = {level}{f' {post.unit}' if post.unit else ''}"
    lines = [
        f'<header class="{escape(status)}">',
        f"<h1>Verdict: {badge(status, COLOURS.get(status, 'open'))}</h1>",
        f'<p class="reason"><strong>Why:</strong> {escape(verdict.reason)}.</p>',
        f'<p class="meaning"><strong>It says:</strong> {escape(MEANING.get(status, ""))}</p>',
        f'<p class="todo"><strong>What to do:</strong> {escape(" ".join(remedies(post)))}</p>',
        f'<p class="answer">{k} {plural} (probability {post.k_probs[k]:.3f}){escape(noise)}</p>',
    ]
    filled = fill_warnings(post.observation) if post.has_data else []
    if not post.has_data and post.filled_samples:
        filled = [f"{post.filled_samples} samples of the data were missing and filled"]
    lines += [f'<p class="but"><strong>But</strong> {escape(text)}.</p>' for text in filled]
    lines += [f'<p class="but"><strong>Warning:</strong> {escape(text)}.</p>' for text in doubts]
    if not post.has_data:
        lines.append(
            '<p class="missing"><strong>Missing:</strong> the file does not hold the data, so that there are no '
            "pictures of data and residual. Read the data, set <code>post.observation</code> and write the report "
            "again.</p>"
        )
    where = f"{source}, " if source else ""
    return [*lines, f'<p class="about">{escape(where + post.method)}</p>', "</header>"]
