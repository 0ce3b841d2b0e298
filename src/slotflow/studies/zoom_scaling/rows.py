"""The table of the study `zoom_scaling`: each network at its numbers of signals, and what our pages say of the parts.

Differences are between means over the same seeds; their error is that of two independent means, which is too large
where a seed moves both alike. A difference counts beyond twice its error; from one seed, nothing can be said of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from slotflow.studies.frame.study import Data
from slotflow.studies.row import Row, Target
from slotflow.studies.zoom_scaling.variants import BASE, PARTS

__all__ = ["JOINT", "RELEASED", "WIDER", "compare", "smallest_and_largest", "without"]

RELEASED = "released"
"""What the embedded weights are called."""
WIDER = 1.05
"""Errors over the bound count as wider from this factor on."""
SAME_COUNTS = 0.02
"""Shares of right counts count as the same up to this difference."""
JOINT, RECOUNT = (f"{BASE}, {words}" for words in PARTS)


def without(name: str) -> str:
    """What a network lacks; empty if nothing."""
    return next((words for words in PARTS if name.endswith(words)), "")


def smallest_and_largest(data: Data) -> list[str]:
    """Trained networks with all their parts, by their number of parameters."""
    whole = [name for name in data if not without(name) and name != RELEASED]
    return sorted(whole, key=lambda name: data[name]["parameters"])


def compare(data: Data) -> list[Row]:
    """Points of every network, then the claims that the measured rounds can judge."""
    return [row for name in data for row in _points(name, data[name])] + list(_claims(data))


def _points(name: str, found: Data) -> Iterable[Row]:
    """Right counts and errors of a network at each number of signals."""
    seeds = found["seeds"]
    if name.startswith(RELEASED):
        trained = "one training; error over sets of fresh signals"
        if without(name):
            trained += "; trained with the part, which is switched off afterwards"
    else:
        trained = f"{seeds} seed{'s' * (seeds > 1)}"
    for i, signals in enumerate(found["signals"]):
        at = f"{name} ({found['parameters'] / 1e6:.1f} M parameters), {signals:,} signals"
        value, error = found["frontier"][i]
        note = f"{trained}; nominal {found['nominal'][i][0]:.4f}"
        yield Row(f"{at}: right counts, frontier", value, error=error, form=".3f", note=note)
    value, error = found["error"]["f"][-1]
    others = ", ".join(f"{s} {found['error'][s][-1][0]:.3f}" for s in ("A", "φ"))
    note = f"{others}; posterior sd of f {found['width']['f'][-1][0]:.3f}"
    measure = f"{at}: error of f over the bound, nominal"
    yield Row(measure, value, error=error, form=".3f", note=note)


def _claims(data: Data) -> Iterable[Row]:
    """What our pages say, as far as the networks for it were trained."""
    base = data.get(BASE)
    if base is None:
        return
    first, last = base["signals"][0], base["signals"][-1]
    at = f"{BASE}, at {last:,} signals"
    counts = "right counts on the frontier"
    if JOINT in data:
        yield from _wider(base, data[JOINT])
        brought = _difference(base["frontier"][-1], data[JOINT]["frontier"][-1])
        yield _claim(
            f"{counts} that the joint steps bring", brought, "learned", at, most=SAME_COUNTS
        )
    if RECOUNT in data:
        brought = _difference(base["frontier"][-1], data[RECOUNT]["frontier"][-1])
        yield _claim(f"{counts} that the second count brings", brought, "more", at)
    rise = _difference(base["frontier"][-1], base["frontier"][0])
    yield _claim(f"{counts}, gain from {first:,} to {last:,} signals", rise, "more", BASE)
    sizes = smallest_and_largest(data)
    if len(sizes) > 1:
        few, many = sizes[0], sizes[-1]
        rise = _difference(data[many]["frontier"][-1], data[few]["frontier"][-1])
        yield _claim(
            f"{counts}, gain from {few} to {many} parameters", rise, "more", f"at {last:,} signals"
        )


def _wider(base: Data, lacking: Data) -> Iterable[Row]:
    """Errors of f without joint steps over those with them, at each number of signals; the last one is judged."""
    shared = zip(base["signals"], lacking["error"]["f"], base["error"]["f"], strict=True)
    *before, last = (
        Row("error of f, without joint steps over with them", one[0] / other[0], form=".3f",
            error=_ratio_error(one, other), note=f"{BASE}, at {signals:,} signals")
        for signals, one, other in shared
    )  # fmt: skip
    yield from before
    target = Target(low=WIDER)
    yield replace(last, paper="widths owed to them", target=target, met=target.met(last.value))


def _ratio_error(
    one: tuple[float, float | None], other: tuple[float, float | None]
) -> float | None:
    """Standard error of the ratio of two means, None if one of them has none."""
    if one[1] is None or other[1] is None:
        return None
    return one[0] / other[0] * math.hypot(one[1] / one[0], other[1] / other[0])


def _claim(
    measure: str,
    difference: tuple[float, float | None],
    said: str,
    note: str,
    most: float | None = None,
) -> Row:
    """A difference that our pages make a statement about.

    Args:
        measure: What was measured.
        difference: Its value, and its standard error if there are several seeds.
        said: What our pages say of it.
        note: Where it was measured.
        most: Largest difference that counts as none; a difference above 0 is claimed if None.
    """
    value, error = difference
    spread = 2 * (error or 0.0)
    if most is None:
        target = Target(low=spread, strict=True, words="> 2 errors")
    else:
        target = Target(high=most + spread, words=f"<= {most:g}, give or take 2 errors")
    met = None if error is None else target.met(value)
    return Row(measure, value, said, error=error, form=".3f", note=note, target=target, met=met)


def _difference(
    one: tuple[float, float | None], other: tuple[float, float | None]
) -> tuple[float, float | None]:
    """Difference of two means with its standard error, None if one of them has none."""
    if one[1] is None or other[1] is None:
        return one[0] - other[0], None
    return one[0] - other[0], math.hypot(one[1], other[1])
