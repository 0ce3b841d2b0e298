r"""The posterior of a band that was analysed in windows: their cores' tones put together.

Each window w has a core, and its posterior is that of core and guard (`windows.py`). Only tones in the core are kept,
so that every tone belongs to one window. Given the neighbours' best fits, the windows' numbers of tones are taken as
independent, and that of the band is distributed as their convolution (`core_draws.py`). Independence fails where one
tone may lie on either side of a border, or where two windows disagree about the tones around it: the verdict then says
so and is "approximate".
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from slotflow.bands.core_draws import Array, CoreDraws, Window, inside, without
from slotflow.data.observation import Observation
from slotflow.posterior.posterior import Posterior
from slotflow.signal.likelihood import Statistics
from slotflow.signal.prior import Prior

if TYPE_CHECKING:
    from slotflow.posterior.verdict import Verdict

__all__ = ["BandPosterior"]

STRADDLES = 0.01
"""Share of draws with a tone on the other side of a border from which on the verdict mentions it."""
NOTHING = 1e-12
"""p(K | x) of numbers of tones above the largest one that is kept."""
NAMED = 3
"""Windows that a verdict names."""


class BandPosterior(Posterior):
    """Posterior of a band that was analysed in windows; it answers what any Posterior does, except `log_prob`.

    Args:
        observation: The data.
        prior: The stated prior.
        windows: The windows, in the order of their frequencies.
        coupled: Whether draws of different windows are coupled, as those of the exact step ask for.
    """

    slots: CoreDraws

    def __init__(
        self,
        observation: Observation,
        prior: Prior,
        windows: tuple[Window, ...],
        coupled: bool = True,
    ) -> None:
        width, gap = prior.frequency[1] - prior.frequency[0], prior.min_separation
        k_max = len(windows) * prior.k_max
        if gap > 0:
            k_max = min(k_max, math.ceil(width / gap))
        statistics = Statistics.from_observation(observation) if coupled else None
        slots = CoreDraws(windows, k_max, prior, statistics)
        slots.k_max = k_max = max(1, int(np.flatnonzero(slots.k_probs > NOTHING).max()))
        levels = [w.posterior.noise_std for w in windows]
        errors = [w.posterior.noise_std_error for w in windows]
        super().__init__(
            slots.k_probs,
            slots,
            observation,
            float(np.median(levels)),
            max((error for error in errors if error is not None), default=None),
            method=f"{windows[0].posterior.method}, {len(windows)} windows",
            prior=dataclasses.replace(prior, k_max=k_max, k_probs=None),
        )
        self.windows = windows
        self.window_verdicts = tuple(_one_of(w.posterior, len(windows)) for w in windows)
        """Verdicts of the windows at the false-alarm rate of the whole band, of which that of the band is made."""
        self._verdict = _verdict(windows, self.window_verdicts, observation.long.duration)

    def __repr__(self) -> str:
        text = f"k_map={self.k_map}, p={self.k_probs[self.k_map]:.3f}, {self.verdict.status}"
        return f"BandPosterior({len(self.windows)} windows, {text})"

    @property
    def verdict(self) -> Verdict:
        """The worst of the windows' verdicts, or a doubt about a border, and why."""
        return self._verdict

    def best_fit(self, k: int | None = None) -> Array:
        """(A, φ, f) of the windows' best fits in their cores, (k, 3).

        Args:
            k: k_map, as None is: each window fits its own most probable number of tones.
        """
        if k is not None and k != self.k_map:
            raise ValueError(
                f"expected k_map = {self.k_map} or None, received k = {k}: a wide band is fitted window by window; ask "
                "a window for other numbers of tones: post.windows[i].posterior.best_fit(k)."
            )
        return np.concatenate([inside(w.fit, w.core) for w in self.windows])

    def residual(self, k: int | None = None) -> list[Array]:
        """Each stream's data minus the best fit, over the stream's noise ratio, (N_s,).

        Args:
            k: As of `best_fit`.
        """
        rest = without(self.observation, self.best_fit(k))
        ratios = Statistics.from_observation(rest).ratios
        return [s.values / ratio for s, ratio in zip(rest.channels, ratios, strict=True)]

    def extra_variables(self, n: int, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """The windows' cores, counts and verdicts, for `to_dataset`."""
        edges = np.array([w.core for w in self.windows])
        words = [verdict.status for verdict in self.window_verdicts]
        variables = {
            "core_low": (("window",), edges[:, 0], {"units": "Hz"}),
            "core_high": (("window",), edges[:, 1], {"units": "Hz"}),
            "core_k_map": (("window",), np.array([p.argmax() for p in self.slots.counts])),
        }
        return variables, {"window_verdicts": ", ".join(words)}

    def log_prob(self, theta: Any) -> Array | float:
        """Refused: each window has a density of its own."""
        raise ValueError(
            "a band of several windows has no joint density; ask for one window's: post.windows[i].posterior.log_prob."
        )

    def refine(self, **options: Any) -> Any:
        """Refused: the exact step belongs to the windows."""
        raise ValueError(
            "the exact step of a wide band runs window by window; call infer_band with refine=True."
        )


def _verdict(
    windows: tuple[Window, ...], verdicts: tuple[Verdict, ...], duration: float
) -> Verdict:
    """The worst verdict of the windows; a doubt about a border makes an exact one approximate."""
    from slotflow.posterior.verdict import Verdict

    for status in ("misfit", "approximate"):
        found = [(w, v) for w, v in zip(windows, verdicts, strict=True) if v.status == status]
        if not found:
            continue
        checks = tuple(check for _, verdict in found for check in verdict.checks)
        if len(found) == len(windows) and len({verdict.reason for _, verdict in found}) == 1:
            return Verdict(status, found[0][1].reason, checks)
        parts = [
            f"{w.core[0]:.6g}–{w.core[1]:.6g} Hz: {verdict.reason}" for w, verdict in found[:NAMED]
        ]
        if len(found) > NAMED:
            parts.append(f"and {len(found) - NAMED} windows more")
        return Verdict(status, "; ".join(parts), checks)
    if doubt := _doubt(windows, duration):
        return Verdict("approximate", doubt)
    return Verdict("exact", f"each of {len(windows)} windows is exact")


def _one_of(post: Posterior, number: int) -> Verdict:
    """A window's verdict; a misfit that is none at the false-alarm rate of a whole band of so many is judged again."""
    from slotflow.posterior.verdict import FALSE_ALARM, judge

    verdict, orders = post.verdict, getattr(post, "orders", None)
    if verdict.status != "misfit" or orders is None:
        return verdict
    best = orders.results.get(post.k_map)
    if best is None or len(best.log_weights) == 0:
        return verdict
    return judge(
        verdict.checks,
        refined=True,
        ess=best.ess,
        pareto_k=best.pareto_k,
        k_error=orders.k_error,
        at_k_max=float(post.k_probs[post.k_max]),
        false_alarm=FALSE_ALARM / number,
    )


def _doubt(windows: tuple[Window, ...], duration: float) -> str:
    """Why the windows' counts are not independent; empty if nothing speaks against it."""
    for left, right in itertools.pairwise(windows):
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
            below = (post.sample(500)[..., 2] < border).sum(1)
            usual = np.bincount(below).max() / below.size
            if usual < 1 - STRADDLES:
                return (
                    f"a tone may lie on either side of the border between two windows at {border:.6g} Hz, so their "
                    "numbers of tones are not independent"
                )
    return ""
