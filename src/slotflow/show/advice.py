"""What a verdict says and what to do about it, in words; `docs/verdict.md` says more."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from slotflow.posterior.verdict import AMORTIZED, FALSE_ALARM, Check, Verdict
from slotflow.show.wording import data_warnings

if TYPE_CHECKING:
    from slotflow.posterior.posterior import Posterior

__all__ = ["MEANING", "Kind", "broken", "kind_of", "remedies"]

MEANING = {
    "exact": "The draws follow the posterior under the prior below, and what the best fit leaves of the data cannot be "
    "told from white noise.",
    "approximate": "The answer may be right, but it was not confirmed.",
    "misfit": "Tones within the prior below, plus white noise, do not explain the data.",
}
"""What each verdict says."""


class Kind(NamedTuple):
    """One kind of test of the residual."""

    looks_at: str
    """What is tested."""
    remedy: str
    """What to do if it fails."""


EXCLUDED_TONE = "check whether the bounds of the amplitude or the smallest separation exclude a tone that is there"

KINDS = {
    "peak in the band": Kind("the highest peak that is left in the band", EXCLUDED_TONE),
    "peak outside the band": Kind(
        "the highest peak outside the band", "widen the band, or filter the series first"
    ),
    "level": Kind(
        "the power that is left in the band, compared with the power outside", EXCLUDED_TONE
    ),
    "colour": Kind(
        "whether the noise outside the band is white", "choose a band in which the noise is even"
    ),
    "low frequencies": Kind(
        "the power at the lowest frequencies",
        "remove offset and trend (--detrend 1), or choose a higher band",
    ),
    "steadiness": Kind(
        "the power in different parts of the series", "cut the series to its steady part"
    ),
    "kurtosis": Kind("the tails of the noise", "look for outliers and glitches"),
    "skewness": Kind("the symmetry of the noise", "look for outliers and glitches"),
    "repeats": Kind(
        "samples that have exactly the same value",
        "look for gaps that were filled and for clipping; use another stretch of the series",
    ),
    "constant": Kind("whether the data vary at all", "read another column or channel (--column)"),
    "rounding": Kind(
        "whether anything more than rounding is left",
        "state the noise level, if it is known (--sigma)",
    ),
    "streams": Kind(
        "the noise of the short stream, compared with that of the long one",
        "state the noise level of each stream (--sigma and --sigma-short; in Python: Stream.sigma)",
    ),
    "stated level": Kind(
        "the scatter of the residual, compared with the stated noise level",
        "correct the stated noise level (--sigma, --sigma-short), or give bounds for it instead",
    ),
}
"""Every kind of test by the beginning of its name."""
SURE_OF_K = 0.95
"""p(K | x) from which on K can be reported alone."""


def kind_of(check: Check) -> Kind:
    """The kind of a check; one of another version, which is not known here, has no words."""
    return KINDS.get(check.name.split(" (")[0], Kind("", ""))


def broken(check: Check, verdict: Verdict) -> bool:
    """Whether a check speaks against the result."""
    limit = FALSE_ALARM / len(verdict.checks)
    return check.p_value < limit or check.words in verdict.reason


def remedies(post: Posterior) -> list[str]:
    """What to do about a posterior's verdict, each as a sentence."""
    status = post.verdict.status
    if status == "exact":
        return [_use(post)]
    if status == "approximate":
        return [_confirm(post)]
    return _repair(post)


def _use(post: Posterior) -> str:
    """How to use an exact result."""
    if float(post.k_probs.max()) < SURE_OF_K:
        return "Use it, and report p(K | x) with it: the number of components is not certain."
    return "Use it." if post.k_map else "Use it: the upper limits say what may still be there."


def _confirm(post: Posterior) -> str:
    """How to confirm an approximate result."""
    if AMORTIZED in post.verdict.reason:
        return (
            "Run the exact step too: leave out --no-refine (in Python: post.refine()). Until then this is the "
            "network's calibrated guess."
        )
    if post.method == "classical":
        return (
            "Run the exact step: slotflow infer (in Python: post.refine()). Until then the widths and p(K | x) are "
            "those of a Gaussian around each fit."
        )
    return (
        "Read the reason. More time (--max-seconds) or more draws often settle it; if they do not, treat the widths "
        "and p(K | x) with caution."
    )


def _repair(post: Posterior) -> list[str]:
    """What to change so that the model can explain the data."""
    found = ["Do not use the numbers below."]
    prior, verdict = post.prior, post.verdict
    if post.has_data and prior is not None and data_warnings(post.observation, prior):
        found.append("Remove offset and trend first (--detrend 1), and see what is left.")
    if prior is not None and float(post.k_probs[prior.k_max :].sum()) > 0.5:
        found.append("Raise the largest K of the prior, or analyse the band in parts.")
    failed = [kind_of(check).remedy for check in verdict.checks if broken(check, verdict)]
    return found + [f"{text[0].upper()}{text[1:]}." for text in dict.fromkeys(failed) if text]
