"""What a verdict says and what to do about it, in words; `docs/verdict.md` says more.

Remedies follow from what the residual shows: each failed test names one, the most deviant test first, and causes come
before their effects where p-values are too small to tell. Three of them are enough.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from slotflow.exact.judged import HANGS
from slotflow.posterior.alternative import CLASSES
from slotflow.posterior.contract import Result
from slotflow.posterior.verdict import AMORTIZED, FALSE_ALARM, Check, Verdict
from slotflow.show.wording import data_warnings

if TYPE_CHECKING:
    from slotflow.posterior.facts import Facts

__all__ = ["MEANING", "Kind", "broken", "kind_of", "remedies"]

MEANING = {
    "exact": "The draws follow the posterior under the prior below, and what the best fit leaves of the data cannot "
    "be told from white noise.",
    "approximate": "The answer may be right, but it was not confirmed.",
    "misfit": "Tones within the prior below, plus noise of the kind assumed, do not explain the data.",
}
"""What each verdict says."""
MOST_REMEDIES = 3
"""Remedies that are named."""
TIME, COLOUR = "the time budget ended", "perhaps the noise is not white"
"""What the reason of an approximate verdict says where time was short, or a colour of the noise is in doubt."""
SURE_OF_K = 0.95
"""p(K | x) from which on K can be reported alone."""
TOO_SMALL = 1e-100
"""P-values below which the order of causes decides."""
OUTLIERS = 20.0
"""Kurtosis from which on it comes from outliers rather than from a loud stretch."""
SIDEBAND_BINS = 8.0
"""Bins around a tone within which a peak that is left belongs to it."""
SIDEBAND_SHARE = 0.3
"""Amplitude of such a peak, at most, in units of the tone's."""
BESIDE = 20.0
"""Bins beside what is named that a narrower band has."""


class Kind(NamedTuple):
    """One kind of test of the residual."""

    looks_at: str
    """What is tested."""
    remedy: str
    """What to do if it fails: a key of `REMEDIES`."""


REMEDIES = {
    "column": 'read another column or channel (--column; in Python: column="…")',
    "missing": "look for filled gaps and for clipping; give missing samples as NaN, or take another stretch",
    "more tones": "allow more tones (--k-max; in Python: Prior(k_max=…)), or analyse the band in parts (--band)",
    "outside": "widen the band so that it holds that peak (--band; in Python: Prior(frequency=…)), or use only the "
    'band, with its own noise level (--noise local; in Python: noise="local")',
    "local": 'use only the band, with its own noise level (--noise local; in Python: noise="local")',
    "colour": 'allow coloured noise (--noise auto; in Python: noise="auto", or ar(2), power_law())',
    "other colour": "try another colour of the noise (--noise power_law, ar(4), local; in Python: noise=…), or a "
    "narrower band (--band)",
    "outliers": 'leave out outliers (--outliers clip; in Python: outliers="clip")',
    "trend": "include a trend in the model (--trend 1; in Python: trend=1)",
    "sidebands": "a strong tone decays, drifts or is modulated, and its sidebands are not separate tones; cut the "
    "series to a stretch in which it is steady",
    "bounds": "check whether the bounds exclude a tone that is there (--amplitude, --min-separation; in Python: "
    "Prior(amplitude=…, min_separation=…))",
    "cut": "cut the series to its steady part (in Python: x[i:j]), or analyse its parts one by one",
    "sigma": "state the noise level, if it is known (--sigma; in Python: Prior(sigma=…))",
    "stated": "correct the stated noise level (--sigma, --sigma-short; in Python: Channel(sigma=…)), or give bounds "
    "for it instead",
    "streams": "state the noise level of each channel (--sigma and --sigma-short; in Python: Channel(sigma=…))",
}
"""What can be done about a misfit, causes before what they may cause in turn."""
CAUSES = (
    "more tones",
    "outside",
    "local",
    "colour",
    "other colour",
    "sidebands",
    "bounds",
    "missing",
)
EFFECTS = ("cut", "outliers")
"""Remedies for what strong lines and coloured noise may cause as well."""

KINDS = {
    "peak in the band": Kind("the highest peak that is left in the band", "bounds"),
    "peak outside the band": Kind("the highest peak outside the band", "outside"),
    "level": Kind("the power that is left in the band, compared with the power outside", "local"),
    "colour": Kind("whether the noise is white, over all frequencies", "colour"),
    "neighbours": Kind("whether neighbouring samples of the noise are independent", "colour"),
    "lags": Kind("whether samples of the noise a few steps apart are independent", "colour"),
    "low frequencies": Kind("the power at the lowest frequencies", "colour"),
    "steadiness": Kind("the power in different parts of the series", "cut"),
    "kurtosis": Kind("the tails of the noise", "outliers"),
    "skewness": Kind("the symmetry of the noise", "outliers"),
    "repeats": Kind("samples that have exactly the same value", "missing"),
    "constant": Kind("whether the data vary at all", "column"),
    "rounding": Kind("whether anything more than rounding is left", "sigma"),
    "streams": Kind("the noise level of a channel, compared with that of the first", "streams"),
    "stated level": Kind(
        "the scatter of the residual, compared with the stated noise level", "stated"
    ),
}
"""Every kind of test by the beginning of its name."""


def kind_of(check: Check) -> Kind:
    """The kind of a check; one of another version, which is not known here, has no words."""
    return KINDS.get(_kind_name(check), Kind("", ""))


def broken(check: Check, verdict: Verdict) -> bool:
    """Whether a check speaks against the result."""
    limit = FALSE_ALARM / len(verdict.checks)
    return check.p_value < limit or check.words in verdict.reason


def remedies(post: Facts) -> list[str]:
    """What to do about a result's verdict, each as a sentence; a misfit must be a `Result`, with its components."""
    status = post.verdict.status
    if status == "exact":
        return [_use(post)]
    if status == "approximate":
        return [_confirm(post)]
    assert isinstance(post, Result)
    return _repair(post)


def _use(post: Facts) -> str:
    """How to use an exact result."""
    if float(post.k_probs.max()) < SURE_OF_K:
        return "Use it, and report p(K | x) with it: the number of components is not certain."
    return "Use it." if post.k_map else "Use it: the upper limits say what may still be there."


def _confirm(post: Facts) -> str:
    """How to confirm an approximate result."""
    if AMORTIZED in post.verdict.reason:
        return (
            "Run the exact step too: leave out --no-refine (in Python: post.refine()). Until then, this is the "
            "network's calibrated guess."
        )
    if post.method == "classical":
        return (
            "Run the exact step: slotflow infer (in Python: post.refine()). Until then, the widths and p(K | x) are "
            "those of a Gaussian around each fit."
        )
    if post.verdict.alternatives:
        return _ask_for(post)
    if TIME in post.verdict.reason:
        return "Give it more time (--max-seconds). What was not sampled has the widths of a fit."
    if COLOUR in post.verdict.reason or HANGS in post.verdict.reason:
        return (
            "Use the strong components. Weak ones, and the widths, depend on the noise being as assumed: compare with "
            "another colour (--noise ar, power_law, local; in Python: noise=…)."
        )
    return (
        "Read the reason. More time (--max-seconds) or more draws often settle it; if they do not, treat the widths "
        "and p(K | x) with caution."
    )


def _ask_for(post: Facts) -> str:
    """What to do where slowly changing components may stand in for tones."""
    named = [one for one in post.verdict.alternatives if one.kind in CLASSES]
    if not named:
        return (
            "Do not count the tones that are named: their amplitude or phase changes, so the stated errors of the "
            "frequency are too small. Cut the series to a stretch in which they are steady."
        )
    classes = ",".join(dict.fromkeys(["tone", *(one.kind for one in named)]))
    flag, key = f"--classes {classes}", f'"classes": "{classes}"'
    if len(post.window_rows) > 1 and post.has_data:  # several classes are looked for in one window
        reach = BESIDE * post.resolution
        low, high = (
            f"{edge:.6g}" for edge in (min(named[0].places) - reach, max(named[0].places) + reach)
        )
        flag, key = f"{flag} --band={low}:{high}", f'"frequency": ({low}, {high}), {key}'
    return (
        f"Ask for what is named ({flag}; in Python: prior={{{key}, …}}). Until then, do not count the tones that are "
        "named, and do not use their errors."
    )


def _repair(post: Result) -> list[str]:
    """What of a misfit can be used, and what to change so that the model can explain the data."""
    verdict, prior = post.verdict, post.prior
    first = "Do not use the numbers below."
    if verdict.grade == "components":
        first = f"Use what stands: {verdict.survives}."
    failed = [check for check in verdict.checks if broken(check, verdict)]
    ranked = _ranked(post, failed)
    if prior is not None and float(post.k_probs[prior.k_max :].sum()) > 0.5:
        ranked = ["more tones", *(key for key in ranked if key != "bounds")]
    if prior is not None and post.has_data and data_warnings(post.observation, prior):
        ranked.insert(1, "trend")
    chosen = list(dict.fromkeys(ranked))[:MOST_REMEDIES]
    if verdict.alternatives:
        first = f"{first} {_ask_for(post)}"
    return [first, *(f"{REMEDIES[key][0].upper()}{REMEDIES[key][1:]}." for key in chosen)]


def _ranked(post: Result, failed: list[Check]) -> list[str]:
    """Keys of `REMEDIES`, the one for the most deviant test first; without those that treat what others cause."""
    order = list(REMEDIES)
    found: dict[str, tuple[float, int]] = {}
    for check in failed:
        key = _remedy(check, post, failed)
        rank = (check.p_value if check.p_value > TOO_SMALL else 0.0, order.index(key or order[0]))
        if key:
            found[key] = min(rank, found.get(key, rank))
    causes = [rank for key, rank in found.items() if key in CAUSES]
    for key in EFFECTS:  # steadiness and shape are tested as if samples were independent
        if causes and key in found and not found[key][0] < min(causes)[0]:
            del found[key]
    return sorted(found, key=lambda key: found[key])


def _remedy(check: Check, post: Result, failed: list[Check]) -> str:
    """What to do about one failed test, given the others: a key of `REMEDIES`, empty where there is none."""
    kind, key = _kind_name(check), kind_of(check).remedy
    names = {_kind_name(one) for one in failed}
    more_in_band = any(
        one.name == "level" and one.size is not None and one.size > 1 for one in failed
    )
    if kind == "peak in the band" and _is_sideband(check, post):
        return "sidebands"
    if kind == "level" and more_in_band:
        return "bounds"
    if kind == "kurtosis":  # a strong line makes it negative, a loud stretch a little positive
        size = 0.0 if check.size is None else check.size
        loud = size < OUTLIERS and "steadiness" in names
        return "" if size < 0 else "cut" if loud else key
    if key == "colour" and more_in_band:  # the colour is that of what is left in the band
        return ""
    if key in ("colour", "local") and "peak outside the band" in names:
        key = "outside"  # what a line outside the band does to the spectrum as a whole
    assumed = "white" if post.noise is None else post.noise.name
    return "other colour" if key in ("colour", "local") and assumed != "white" else key


def _kind_name(check: Check) -> str:
    """The name of a test without its channel."""
    return check.name.split(" (")[0]


def _is_sideband(check: Check, post: Result) -> bool:
    """Whether a peak that is left belongs to a much stronger component close by."""
    standing = post.verdict.standing
    if check.frequency is None or check.size is None or standing is None or not post.resolution:
        return False
    places = np.sort(post.waveform.place_of(post.centres(post.k_map)))
    if not len(places) == len(standing.heights) > 0:
        return False
    distance = np.abs(places - check.frequency)
    # Both in units of the noise: P/σ² of the peak is half the square of its amplitude over its error.
    tones = np.array(standing.heights) * np.array(standing.inflation)
    near = (distance < SIDEBAND_BINS * post.resolution) & (distance > 0)
    return bool((near & (math.sqrt(2 * check.size) < SIDEBAND_SHARE * tones)).any())
