r"""The posterior of a band that was analysed in windows: their cores' tones put together.

Each window w has a core, and its posterior is that of core and guard (`windows.py`). Only tones in the core are kept,
so that every tone belongs to one window. Between clusters of windows the search has found nothing (`empty_regions`).
Given the neighbours' best fits, the windows' numbers of tones are taken as independent, and that of the band is
distributed as their convolution (`core_draws.py`). Independence fails where one tone may lie on either side of a
border, or where two windows disagree about the tones around it: the verdict then says so and is "approximate".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence

import numpy as np

from slotflow.bands.cancelling import cancelling
from slotflow.bands.core_draws import CoreDraws, Window, inside
from slotflow.bands.elsewhere import place_doubt
from slotflow.bands.steadiness import band_steadiness, with_steadiness
from slotflow.core.arrays import Array
from slotflow.data.observation import Observation
from slotflow.posterior.facts import EmptyRegion, WindowRow
from slotflow.posterior.named import with_alternatives
from slotflow.posterior.noise import Estimate, NoiseFacts
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.standing import Standing, standing
from slotflow.posterior.verdict import FALSE_ALARM, Verdict
from slotflow.signal.likelihood import Likelihood
from slotflow.signal.prior import Prior

__all__ = ["BandPosterior", "of_core"]

STRADDLING_SHARE = 0.01
"""Share of draws with a tone on the other side of a border above which the verdict mentions it."""
NEGLIGIBLE = 1e-12
"""p(K | x) at or below which large numbers of tones are dropped."""
IN_BAND = "peak in the band"
"""Name of the test of peaks in the band of a window, and just beside it."""
NAMED_WINDOWS = 3
"""Windows that a verdict names."""
UNFINISHED = (
    "the search of the band did not end within the time budget, so that there may be more tones"
)
"""Why a band is not known exactly whose search was not finished."""
BORDER_DRAWS = 500
"""Draws of a window that are looked at for tones across a border."""


class BandPosterior(Posterior):
    """Posterior of a band that was analysed in windows; it answers what any Posterior does, except `log_prob`.

    Args:
        observation: The data.
        prior: The stated prior.
        windows: The windows, in the order of their frequencies.
        likelihood: Of all data, to couple the draws of different windows, as those of the exact step ask for.
        most: Largest number of tones in the whole band; None: as many as the windows allow.
        empty: What belongs to no window: the search has found nothing there.
        complete: Whether the search came to its end.
    """

    slots: CoreDraws

    def __init__(
        self,
        observation: Observation,
        prior: Prior,
        windows: tuple[Window, ...],
        likelihood: Likelihood | None = None,
        most: int | None = None,
        empty: tuple[EmptyRegion, ...] = (),
        complete: bool = True,
    ) -> None:
        width, gap = prior.frequency[1] - prior.frequency[0], prior.min_separation
        k_max = len(windows) * prior.k_max
        if gap > 0:
            k_max = min(k_max, math.ceil(width / gap))
        if most is not None:
            k_max = min(k_max, most)
        slots = CoreDraws(windows, k_max, prior, likelihood)
        slots.k_max = k_max = max(1, int(np.flatnonzero(slots.k_probs > NEGLIGIBLE).max()))
        known = [w.posterior for w in windows if w.posterior.noise_std_error is not None]
        # Windows that were not sampled know the floor of the spectrum, not the level after whitening.
        levels = [p.noise_std for p in (known or [w.posterior for w in windows])]
        level = float(np.median(levels))
        shares = [(p.noise_std_error or 0.0) / max(p.noise_std, 1e-300) for p in known]
        super().__init__(
            slots.k_probs,
            slots,
            observation,
            level,
            level * float(np.median(shares)) if shares else None,
            method=f"{windows[0].posterior.method}, {len(windows)} windows",
            prior=dataclasses.replace(_spanning(prior, windows), k_max=k_max, k_probs=None),
        )
        self.windows, self.waveform, self._empty = windows, slots.waveform, empty
        self.noise = _noise_of([w.posterior.noise for w in windows if w.posterior.noise])
        proposers = dict.fromkeys(w.posterior.proposed_by for w in windows)
        self.proposed_by = " and ".join(name for name in proposers if name)
        rate = FALSE_ALARM / (len(windows) + 1)  # of each window, and of the band's steadiness
        self.window_verdicts = tuple(
            of_core(w.posterior.verdict_at(rate, w.core), w.core, rate) for w in windows
        )
        """Verdicts of the windows, at a false-alarm rate that holds for the whole band; the band's is made of them."""
        self._verdict = with_steadiness(
            _verdict(windows, self.window_verdicts, observation.long.duration),
            band_steadiness(observation, fit := self.best_fit(), prior.frequency),
            rate,
            len(fit),
        )
        if likelihood is not None and self._verdict.status == "exact":
            doubt = place_doubt(likelihood, fit, self.noise_std, prior.frequency)
            if doubt:
                self._verdict = dataclasses.replace(
                    self._verdict, status="approximate", reason=f"{doubt}; {self._verdict.reason}"
                )
        if not complete and self._verdict.status != "misfit":
            reason = f"{UNFINISHED}; {self._verdict.reason}"
            self._verdict = dataclasses.replace(self._verdict, status="approximate", reason=reason)
        if not self._verdict.alternatives:
            cancel = cancelling(observation, self.best_fit())
            self._verdict = with_alternatives(self._verdict, cancel)
        if self._verdict.status == "misfit":
            stands = _standing(windows, self.window_verdicts)
            self._verdict = dataclasses.replace(self._verdict, standing=stands)

    def __repr__(self) -> str:
        text = f"k_map={self.k_map}, p={self.k_probs[self.k_map]:.3f}, {self.verdict.status}"
        return f"BandPosterior({len(self.windows)} windows, {text})"

    @property
    def verdict(self) -> Verdict:
        """The worst of the windows' verdicts, a doubt about a border or noise that is not steady, and why."""
        return self._verdict

    @property
    def empty_regions(self) -> tuple[EmptyRegion, ...]:
        """Where the search has found nothing, and the amplitude from which on it would have."""
        return self._empty

    def best_fit(self, k: int | None = None) -> Array:
        """The components of the windows' best fits that lie in their cores, (k, P).

        Args:
            k: None or k_map, which mean the same: each window fits its own most probable number of tones.
        """
        if k is not None and k != self.k_map:
            raise ValueError(
                f"expected k_map = {self.k_map} or None, received k = {k}: a wide band is fitted window by window; ask "
                "a window for other numbers of tones: post.windows[i].posterior.best_fit(k)."
            )
        return np.concatenate([inside(w.fit, w.core, self.waveform) for w in self.windows])

    @property
    def window_rows(self) -> tuple[WindowRow, ...]:
        """The windows with their counts and verdicts."""
        found = zip(self.windows, self.slots.counts, self.window_verdicts, strict=True)
        return tuple(
            WindowRow(window.core, int(counts.argmax()), float(counts.max()), verdict)
            for window, counts, verdict in found
        )


def _noise_of(facts: list[NoiseFacts]) -> NoiseFacts | None:
    """The noise of a band whose windows have one each; None where none is known."""
    if len(facts) < 2:
        return facts[0] if facts else None
    levels = [one.level.mean for one in facts]
    sds = [one.level.sd for one in facts]
    low, high = f"{min(levels):.3g}", f"{max(levels):.3g}"
    words = f"a level of its own in each window, {low if low == high else f'{low} to {high}'}"
    return NoiseFacts(
        " and ".join(dict.fromkeys(one.name for one in facts)),
        Estimate(float(np.median(levels)), float(np.median(sds))),
        Estimate(math.nan, math.nan),
        words,
        channels=facts[0].channels if len({one.channels for one in facts}) == 1 else (),
    )


def _spanning(prior: Prior, windows: Sequence[Window]) -> Prior:
    """The prior with bounds of amplitude and noise that hold those of every window, which may have its own."""
    own = [one for window in windows if (one := window.posterior.prior) is not None] or [prior]
    amplitudes, levels = [one.amplitude for one in own], [one.sigma for one in own]
    return dataclasses.replace(
        prior,
        amplitude=(min(low for low, _ in amplitudes), max(high for _, high in amplitudes)),
        sigma=(min(low for low, _ in levels), max(high for _, high in levels)),
    )


def _verdict(
    windows: tuple[Window, ...], verdicts: tuple[Verdict, ...], duration: float
) -> Verdict:
    """The worst verdict of the windows; a doubt about a border makes an exact one approximate."""
    if len(windows) == 1:
        return dataclasses.replace(verdicts[0], standing=None, unexamined=(), doubt=None)
    for status in ("misfit", "approximate"):
        found = [(w, v) for w, v in zip(windows, verdicts, strict=True) if v.status == status]
        if not found:
            continue
        checks = tuple(check for _, verdict in found for check in verdict.checks)
        named = tuple(one for _, verdict in found for one in verdict.alternatives)
        if len({verdict.reason for _, verdict in found}) == 1:
            share = f"{len(found)} of {len(windows)} windows: " if len(found) < len(windows) else ""
            return Verdict(status, f"{share}{found[0][1].reason}", checks, alternatives=named)
        return Verdict(status, _reasons(found), checks, alternatives=named)
    if doubt := _doubt(windows, duration):
        return Verdict("approximate", doubt)
    return Verdict("exact", f"each of {len(windows)} windows is exact")


def of_core(verdict: Verdict, core: tuple[float, float], false_alarm: float) -> Verdict:
    """A window's verdict on its core alone.

    A window is looked at together with what lies beside its core. A peak there is another window's matter, or a tone
    that the search has missed: it leaves the tones of the core as they are, and the count of the band in doubt.

    Args:
        verdict: The window's.
        core: Its core in Hz.
        false_alarm: The rate of false alarms that it was made at.
    """
    failed = [c for c in verdict.checks if c.p_value < false_alarm / len(verdict.checks)]
    beside = [
        c for c in failed if c.name == IN_BAND and not core[0] <= (c.frequency or 0) < core[1]
    ]
    if verdict.status != "misfit" or not failed or len(beside) < len(failed):
        return verdict
    reason = (
        f"{beside[0].words}, is not explained and lies outside the part that this window counts"
    )
    return Verdict("approximate", reason, verdict.checks)


def _reasons(found: Sequence[tuple[Window, Verdict]]) -> str:
    """Why some windows are not exact, each reason once, with the window or the number of windows that it is of."""
    by_reason: dict[str, list[Window]] = {}
    for window, verdict in found:
        by_reason.setdefault(verdict.reason, []).append(window)
    parts = []
    for reason, windows in list(by_reason.items())[:NAMED_WINDOWS]:
        low, high = windows[0].core
        which = f"{len(windows)} windows" if len(windows) > 1 else f"{low:.6g}–{high:.6g} Hz"
        parts.append(f"{which}: {reason}")
    if others := sum(len(windows) for windows in list(by_reason.values())[NAMED_WINDOWS:]):
        parts.append(f"and {others} window{'s' * (others > 1)} more")
    return "; ".join(parts)


def _standing(windows: tuple[Window, ...], verdicts: tuple[Verdict, ...]) -> Standing:
    """How the tones of all cores stand; errors of windows that are no misfit stay as they are."""
    inflation: list[float] = []
    heights: list[float] = []
    for window, verdict in zip(windows, verdicts, strict=True):
        post = window.posterior
        found = standing(post.statistics(), window.fit, post.noise_std)
        places = np.sort(post.waveform.place_of(window.fit))
        for place, factor, height in zip(places, found.inflation, found.heights, strict=True):
            if window.core[0] <= place < window.core[1]:
                inflation.append(factor if verdict.status == "misfit" else 1.0)
                heights.append(height)
    return Standing(tuple(inflation), tuple(heights))


def _doubt(windows: tuple[Window, ...], duration: float) -> str:
    """Why the windows' counts are not independent; empty if nothing speaks against it."""
    for left, right in itertools.pairwise(windows):
        if left.core[1] < right.core[0]:  # nothing but noise between them
            continue
        border, reach = left.core[1], left.reach(duration) - 1 / duration
        around = (border - reach, border + reach)
        seen = [len(inside(w.fit, around)) for w in (left, right)]
        if seen[0] != seen[1]:
            return (
                f"the windows on either side of {border:.6g} Hz disagree about the tones around it ({seen[0]} and "
                f"{seen[1]}), so their numbers of tones are not independent"
            )
        for window in (left, right):
            post = window.posterior
            if post.k_map == 0:
                continue
            below = (post.waveform.place_of(post.sample(BORDER_DRAWS)) < border).sum(1)
            usual = np.bincount(below).max() / below.size
            if usual < 1 - STRADDLING_SHARE:
                return (
                    f"a tone may lie on either side of the border between two windows at {border:.6g} Hz, so their "
                    "numbers of tones are not independent"
                )
    return ""
