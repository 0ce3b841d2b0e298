"""The tables of docs/family.md about the network for several classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

__all__ = ["FAMILY_TABLES"]

Record = Mapping[str, Any]
Lines = Iterator[Sequence[object]]


def _family_network(record: Record) -> Lines:
    """Counts, classes, then errors and coverage of each class."""
    law = record["results"]["law"]
    k, classes = law["K"], law["classes"]
    yield "K right", f"{k['right']:.4f}", "≥ 0.93"
    chance = f"(by chance {k['ece by chance']:.4f})"
    yield "expected calibration error of K", f"{k['ece']:.4f} {chance}", "≤ 0.02"
    yield "class right above a gain of 10, K given", f"{classes['above 10']:.4f}", "≥ 0.97"
    targets = dict(zip(law["error over the bound"], ("1.05", "1.08", "1.08"), strict=False))
    limits = law["error over the bound from the truth"]
    for name, errors in law["error over the bound"].items():
        shown = ", ".join(
            f"{n} {v:.3f} ({limits[name][n]:.3f})" for n, v in errors.items() if n != "wrong place"
        )
        words = f"robust error over the joint bound, {name} (of a fit from the truth)"
        yield words, shown, f"≤ {targets[name]}"
    for name, worst in law["coverage minus level"].items():
        shown = ", ".join(f"{n} {v:+.3f}" for n, v in worst.items() if n != "by chance")
        chance = f"(by chance {worst['by chance']:.3f})"
        yield f"largest coverage minus level, {name}", f"{shown} {chance}", "±0.02"
    lost = (f"{n} {errors['wrong place']:.3f}" for n, errors in law["error over the bound"].items())
    yield "components more than five bounds away", ", ".join(lost), ""
    yield "time of all signals", f"{law['seconds']:g} s on {law['device']}", ""


def _family_same(record: Record) -> Lines:
    """The network alone beside the search."""
    same = record["results"]["same"]
    search = same["search"]
    size = f"{same['k_right']['of']} signals"
    both = " and ".join(_shared(one["k_right"]) for one in (same, search))
    yield f"K right: network alone and search with evidence, {size}", both, "ahead"
    alone = same["right_of_one_alone"]
    yield "right in one of them alone, both", f"{alone['network']} and {alone['search']}", ""
    both = " and ".join(_shared(one["counts_of_each_class_right"]) for one in (same, search))
    yield "numbers of each class right, both", both, ""
    both = " and ".join(f"{one['cpu_seconds']['median']:g}" for one in (same, search))
    yield "median CPU seconds of a signal on one core, both", both, ""


def _family_exact(record: Record) -> Lines:
    """The exact step behind the network."""
    exact = record["results"]["exact"]
    ess, z = exact["ess"], exact["log_z"]
    yield f"K right, {exact['k_right']['of']} signals", _shared(exact["k_right"]), ""
    yield "ESS for each draw, median (least)", f"{ess['median']:g} ({ess['least']:g})", "≥ 0.8"
    yield "share `exact`", _shared(exact["exact"]), "≥ 0.9"
    within = f"{z['within']} of {z['compared']}"
    words = "ln Z within 3 standard errors of a longer run without the network, K > 0"
    yield words, within, "all"
    away = ", ".join(f"{value:+.2f}" for value in z["outside"].values()) or "none"
    yield "differences of ln Z beyond that", away, ""
    yield "median CPU seconds of a signal", f"{exact['cpu_seconds']['median']:g}", ""


def _shared(one: Mapping[str, float]) -> str:
    """A share with its standard error."""
    return f"{one['share']:.3f} ± {one['error']:.3f}"


def _family_tones(record: Record) -> Lines:
    """One row for each set."""
    for name, one in record["results"].items():
        wrong = (str(one["wrong"][label]) for label in ("family", "zoom", "zoom, both streams"))
        above = f"{one['above_zoom_in_10000']:+g} (≤ {one['target']:g})"
        yield name, str(one["signals"]), *wrong, above


FAMILY_TABLES: dict[str, tuple[tuple[str, ...], Callable[[Record], Lines]]] = {
    "family_network": (("measure", "value", "target"), _family_network),
    "family_same": (("measure", "value", "target"), _family_same),
    "family_exact": (("measure", "value", "target"), _family_exact),
    "family_tones": (
        (
            "set",
            "signals",
            "wrong counts of `family`",
            "of `zoom`, same stream",
            "of `zoom`, both streams",
            "`family` above `zoom` in 10,000 (target)",
        ),
        _family_tones,
    ),
}
"""Header and rows of each table, by its name."""
