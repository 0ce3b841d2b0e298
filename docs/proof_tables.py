"""The tables of docs/data-proof.md, from the records that the scripts in benchmarks/ wrote to docs/data/."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from family_tables import FAMILY_TABLES

__all__ = ["proof_tables"]

Record = Mapping[str, Any]
Lines = Iterator[Sequence[object]]


def proof_tables(
    folder: Path, table: Callable[[Sequence[str], Lines], str]
) -> Iterator[tuple[str, str]]:
    """Names of the tables and their Markdown; a table without a record says so.

    Args:
        folder: Of the records.
        table: Writes a header and rows as Markdown.
    """
    for name, (header, rows) in TABLES.items():
        path = folder / f"{name.replace('_', '-')}.json"
        if not path.exists():
            yield name, "Not measured yet."
            continue
        record = json.loads(path.read_text(encoding="utf-8"))
        machine = f", {record['machine']}" if "machine" in record else ""
        source = f"`{record['command']}`, slotflow {record['version']}{machine}."
        yield name, f"{table(header, rows(record))}\n\n{source}"


def _line_spectra(record: Record) -> Lines:
    """Chamfer distances and counts of each SNR."""
    names = list(next(iter(record["results"].values()))["chamfer"])
    for name in names:
        cells = []
        for one in record["results"].values():
            found = one["chamfer"][name]
            error = f" ± {found['error']:.2g}" if "error" in found else ""
            cells.append(f"{found['mean']:.3g}{error}")
        yield f"chamfer distance, {name}", *cells
    results = record["results"].values()
    yield "signals", *(one["signals"] for one in results)
    for key, prefix in (("count", ""), ("count, broad prior", "broad prior: ")):
        yield f"{prefix}wrong counts (expected)", *(_counts(one[key]) for one in results)
        yield f"{prefix}ECE (by chance, 95 %)", *(_ece(one[key]) for one in results)
    yield "wrong counts, MDL", *(f"{one['wrong_counts_mdl']:.3f}" for one in results)
    yield "seconds of a core, mean and most", *(_seconds(one) for one in results)


def _counts(one: Record) -> str:
    return f"{one['wrong_counts']:.3f} ({one['wrong_counts_expected']:.3f})"


def _ece(one: Record) -> str:
    return f"{one['ece']:.3f} ({one['ece_by_chance']['95 %']:.3f})"


def _seconds(one: Record) -> str:
    return f"{one['cpu_seconds']['mean']:.2g}, {one['cpu_seconds']['most']:.2g}"


def _red_noise(record: Record) -> Lines:
    """One row for each part and analysis."""
    for name, one in record["results"].items():
        coverage = one.get("coverage", {}).get("worst_deviation", {}).values()
        yield (
            name,
            one["bands"],
            f"{one['empty_bands_with_a_tone']} of {one['empty_bands']}",
            one["exact_with_a_tone_in_an_empty_band"],
            _counts(one),
            _ece(one),
            ", ".join(f"{value:+.3f}" for value in coverage) or "–",
            f"{100 * one['exact']:.1f} %",
            _seconds(one),
        )


def _evidence(record: Record) -> Lines:
    """One row for each noise and sampling."""
    for name, one in record["results"].items():
        if name == "all":
            within = f"{one['within']} of {one['signals']}"
            yield "all", within, f"rms of pulls {one['rms_pull']}", "", ""
        elif "refused" in one:
            yield name.replace("-", ", "), "refused", one["refused"], "", ""
        else:
            within = f"{one['within']} of {one['signals']}"
            pulls = ", ".join(f"{value:+.1f}" for value in one["pulls"])
            errors = f"{max(one['errors']):.2f}"
            yield name.replace("-", ", "), within, pulls, errors, max(one["nodes"])


def _evidence_family(record: Record) -> Lines:
    """One row for each kind of component."""
    for name, one in record["results"].items():
        within = f"{one['within']} of {one['signals']}"
        if name == "all":
            yield "all", within, f"rms of pulls {one['rms_pull']}", "", "", ""
            continue
        pulls = ", ".join(f"{value:+.1f}" for value in one["pulls"])
        gains, ess = one["log_bayes_factors"], one["ess"]
        spans = f"{min(gains):.0f} to {max(gains):.0f}", f"{min(ess):.2g} to {max(ess):.2g}"
        yield name.replace("-", ", "), within, pulls, f"{max(one['errors']):.2f}", *spans


def _multiclass(record: Record) -> Lines:
    """Counts, classes, then coverage of each class."""
    results = record["results"]
    counts = results["numbers of each class"]
    yield (
        f"numbers of every class right, {results['signals']} mixtures",
        f"{counts['counts_right']:.3f}",
    )
    yield "K right", f"{counts['k_right']:.3f}"
    words = f"{counts['ece']:.3f} (by chance {counts['ece_by_chance']:.3f})"
    yield "expected calibration error of the numbers", words
    for name in ("class right, K given", "class right, K given, all above 10"):
        yield name.replace("all above 10", "all gains above 10"), f"{results[name]:.3f}"
    (curves,) = (value for name, value in results.items() if name.startswith("coverage"))
    for name, worst in curves.items():
        shown = ", ".join(f"{n} {v:+.3f}" for n, v in worst.items() if n not in AROUND)
        yield (
            f"largest coverage minus level, {name}",
            f"{shown} (by chance {worst['by chance']:.3f})",
        )


def _times(record: Record) -> Lines:
    """One row for each kind of data."""
    for name, one in record["results"].items():
        seconds = f"{one['mean_seconds']:.3f}"
        ratio, target = f"{one['ratio_of_means']:.2f}", f"{one['target']:g}"
        yield name, seconds, ratio, f"{one['median_ratio']:.2f}", target, one["same_count_as_plain"]


def _proposers(record: Record) -> Lines:
    """One row for each part: counts, verdicts and median times of each way to an answer."""
    for part, one in record["results"].items():
        kind, size = part.split(", ")
        cells = [f"{size} tones, {kind.replace('_', ' ')}"]
        for name in ("unrefined", "network", "classical", "both", "windows"):
            found = one.get(name)
            if found is None:
                cells.append("–")
                continue
            exact = "" if name == "unrefined" else f", {found['exact']} `exact`"
            right = f"{found['k_right']} of {found['bands']}"
            cells.append(f"{right}{exact}, {found['median_seconds']:.2f} s")
        yield cells


def _stars(record: Record) -> Lines:
    """One row for each length of series and method."""
    for length in ("year", "month"):
        for method, both in record["results"].items():
            one = both[length]
            resolved = one["pulls_of_resolved"]
            yield (
                f"{length}, {'pre-whitening' if 'prewhitening' in method else 'slotflow'}",
                one["stars"],
                f"{one['found']} of {one['true']}",
                f"{one['recall']:.3f}",
                one["false"],
                one["right_count"],
                ", ".join(f"{value:.3g}" for value in resolved["rms"].values()),
                ", ".join(f"{value:.2f}" for value in resolved["half_width"].values()),
                one["cpu_seconds_each"],
            )


def _tides(record: Record) -> Lines:
    """One row for each main constituent at Honolulu, and one for the simulated years."""
    for name, one in record["results"]["honolulu"]["main"].items():
        theirs, ours = f"{one['utide']} ± {one['utide_sd']}", f"{one['A']} ± {one['sd']}"
        yield name, theirs, ours, f"{one['difference_in_joint_sds']:+.2f}", f"{one['f_pull']:+.2f}"
    years = record["results"]["simulated"]
    inside = ", ".join(f"{value:.3f}" for value in years["inside_95_A_phi_f"])
    pulls = ", ".join(f"{value:.2f}" for value in years["rms_pull_A_phi_f"])
    false = f"{years['false_per_year']:g} false a year"
    yield (
        f"{years['years']} simulated years",
        f"found: {years['main_found']:.0%}",
        false,
        (f"95 % intervals of A, φ, f hold {inside}"),
        f"rms pulls of A, φ, f {pulls} ± {years['standard_error']:.2f}",
    )


def _uneven(record: Record) -> Lines:
    """Counts, verdicts and pulls of each kind of series at odd times."""
    for kind, row in record["rows"].items():
        verdicts = ", ".join(f"{n} `{name}`" for name, n in row["verdicts"].items())
        pulls = "–" if row["rms_pull"] is None else " / ".join(f"{x:.2f}" for x in row["rms_pull"])
        median, most = row["cpu_seconds"]
        yield (
            kind,
            f"{row['right_k']} of {row['series']}",
            row["wrong_k_called_exact"],
            verdicts,
            f"{pulls} ({row['tones']})",
            f"{median:.1f}, {most:.1f}",
        )


RED_NOISE_COLUMNS = (
    "noise, analysis",
    "bands",
    "empty bands with a tone",
    "of these `exact`",
    "wrong counts (expected)",
    "ECE (by chance, 95 %)",
    "coverage − α at worst: A, φ, f",
    "`exact`",
    "seconds of a core, mean and most",
)

UNEVEN_COLUMNS = (
    "series",
    "right counts",
    "wrong counts called `exact`",
    "verdicts",
    "rms of pulls, A / f (tones)",
    "seconds of a core, median and most",
)

AROUND = ("components", "by chance")
"""What stands beside the deviations of a class's parameters."""

TABLES: dict[str, tuple[tuple[str, ...], Callable[[Record], Lines]]] = {
    **FAMILY_TABLES,
    "multiclass": (("measure", "value"), _multiclass),
    "line_spectra": (("", "0 dB", "10 dB", "20 dB", "30 dB", "50 dB"), _line_spectra),
    "line_spectra_loud": (("", "30 dB", "50 dB"), _line_spectra),
    "red_noise": (RED_NOISE_COLUMNS, _red_noise),
    "red_noise_short": (RED_NOISE_COLUMNS, _red_noise),
    "uneven": (UNEVEN_COLUMNS, _uneven),
    "uneven_before": (UNEVEN_COLUMNS, _uneven),
    "stars_scores": (
        (
            "light curves, method",
            "stars",
            "frequencies found, of all",
            "recall",
            "false",
            "stars with the right number",
            "resolved tones, rms of pulls: A, φ, f",
            "68 % of pulls within",
            "seconds of a core",
        ),
        _stars,
    ),
    "tides_scores": (
        ("constituent", "UTide, mm", "slotflow, mm", "difference, joint sd", "f − known, sd"),
        _tides,
    ),
    "evidence_general": (
        ("noise, sampling", "within 3 standard errors", "pulls", "largest error", "noise nodes"),
        _evidence,
    ),
    "proposers": (
        (
            "data",
            "network's own count",
            "exact, from the network",
            "exact, from the search",
            "exact, from both",
            "windows",
        ),
        _proposers,
    ),
    "evidence_family": (
        (
            "components, samples",
            "within 3 standard errors",
            "pulls",
            "largest error",
            "ln Z above no component",
            "ESS per draw",
        ),
        _evidence_family,
    ),
    "general_time": (
        ("data", "seconds", "ratio of means", "median ratio", "target", "same count as plain"),
        _times,
    ),
}
"""Header and rows of each table, by its name; its record's has hyphens."""
