"""What a verdict says and what to do about it, in words; `docs/verdict.md` has more of them."""

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


KINDS = {
    "peak in the band": Kind(
        "highest peak that is left in the band",
        "see whether the bounds of the amplitude or the smallest separation exclude a tone that is there",
    ),
    "peak outside the band": Kind(
        "highest peak elsewhere", "widen the band, or filter the series before"
    ),
    "level": Kind(
        "power that is left in the band, against that outside",
        "see whether the bounds of the amplitude or the smallest separation exclude a tone that is there",
    ),
    "colour": Kind("whether the noise outside the band is white", "take a band with even noise"),
    "low frequencies": Kind(
        "power at the lowest frequencies",
        "remove offset and trend (--detrend 1), or take a higher band",
    ),
    "steadiness": Kind("power over time, in parts of the series", "cut to the steady part"),
    "kurtosis": Kind("tails of the noise", "look for outliers and glitches"),
    "skewness": Kind("symmetry of the noise", "look for outliers and glitches"),
    "repeats": Kind(
        "samples of exactly the same value",
        "look for gaps that were filled and for clipping; take another stretch",
    ),
    "constant": Kind("whether the data vary at all", "read another column or channel (--column)"),
    "rounding": Kind(
        "whether anything but rounding is left", "state the noise level, if it is known (--sigma)"
    ),
    "streams": Kind(
        "noise of the short stream, against the long one's",
        "state the noise level of each stream (--sigma and --sigma-short; in Python: Stream.sigma)",
    ),
    "stated level": Kind(
        "scatter of the residual, against the noise level that was stated",
        "correct the stated noise level (--sigma, --sigma-short), or give bounds of it instead",
    ),
}
"""Every kind of test by the beginning of its name."""


def kind_of(check: Check) -> Kind:
    """The kind of a check; without words if it is of another version."""
    return KINDS.get(check.name.split(" (")[0], Kind("", ""))


def broken(check: Check, verdict: Verdict) -> bool:
    """Whether a check spoke against the result."""
    limit = FALSE_ALARM / len(verdict.checks)
    return check.p_value < limit or check.words in verdict.reason


def remedies(post: Posterior) -> list[str]:
    """What to do about a posterior's verdict, each as a sentence."""
    verdict = post.verdict
    if verdict.status == "exact":
        likely = float(post.k_probs.max())
        if likely < 0.95:
            return ["Use it, and report p(K | x) with it: the number of components is not certain."]
        return [
            "Use it." if post.k_map else "Use it: the upper limits say what may still be there."
        ]
    if verdict.status == "approximate":
        if AMORTIZED in verdict.reason:
            return [
                "Run the exact step too: leave out --no-refine (in Python: post.refine()). Until then this is the "
                "network's calibrated guess."
            ]
        if post.method == "classical":
            return [
                "Run the exact step: slotflow infer (in Python: post.refine()). Until then widths and p(K | x) are "
                "those of a Gaussian around each fit."
            ]
        return [
            "Read the reason. More time (--max-seconds) or more draws often settle it; otherwise take the widths and "
            "p(K | x) with care."
        ]
    found = ["Do not use the numbers below."]
    if post.has_data and post.prior is not None and data_warnings(post.observation, post.prior):
        found.append("Remove offset and trend first (--detrend 1), and see what is left.")
    if post.prior is not None and float(post.k_probs[post.prior.k_max :].sum()) > 0.5:
        found.append("Raise the largest K of the prior, or analyse the band in parts.")
    failed = [kind_of(check).remedy for check in verdict.checks if broken(check, verdict)]
    return found + [f"{text[0].upper()}{text[1:]}." for text in dict.fromkeys(failed) if text]
