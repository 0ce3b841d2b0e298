"""The table of time and memory, beside the paper's.

**Exponent.** Slope of log t_K against log K (`scaling.py`), t_K being the geometric mean over signals of the time of
1,000 effective draws; its error comes from the scatter of log t between signals, so that it needs several.
"""

from __future__ import annotations

from slotflow.studies.measures.power_law import fit_exponent, follows_power_law
from slotflow.studies.paper.cost.methods import LABELS, SAMPLERS
from slotflow.studies.paper.result import Data
from slotflow.studies.row import Row

__all__ = ["compare", "exponent"]

PAPER = {
    "rjmcmc": ("3–6 hours", "~100 MB", "O(K² · N)"),
    "smc": ("0.5–2 hours", "~500 MB", "O(K · N)"),
    "network": ("13 ms", "5 KB", "O(K), parallel"),
}
"""Time, peak memory and scaling of the paper's table, K = 5."""
PAPER_FORWARD = {1: "13.47", 10: "13.60"}
"""The paper's milliseconds."""
LEAN = ("classical", "paper", "network", "exact")
"""Methods that compute with tensors, at least in part."""


def exponent(by_k: list[Data]) -> tuple[float, float | None] | None:
    """Slope of log t against log K and its error, where there are several signals; None with a single K."""
    if len(by_k) < 2:
        return None
    seconds = [entry["seconds"] for entry in by_k]
    errors = [entry["log_error"] for entry in by_k]
    known = None not in errors
    slope, error = fit_exponent(
        [entry["k"] for entry in by_k],
        seconds,
        [(e or 0.0) * t for e, t in zip(errors, seconds, strict=True)],
    )
    return slope, error if known else None


def _law_note(by_k: list[Data]) -> str:
    """What to add to an exponent where the times follow no power law; empty where they do."""
    if len(by_k) < 2:
        return ""
    counts, seconds = [entry["k"] for entry in by_k], [entry["seconds"] for entry in by_k]
    errors = [(entry["log_error"] or 0.0) * entry["seconds"] for entry in by_k]
    law = follows_power_law(counts, seconds, errors)
    return "" if law else "; an average, since these times follow no power law"


def compare(data: Data) -> list[Row]:
    """Times, memory and exponents beside the paper's."""
    k, methods = data["table_k"], data["methods"]
    rows = [*_forward(methods["network"]), *_drawn(data)]
    for name, found in methods.items():
        rows.append(_time(name, found, data))
    for name, found in methods.items():
        rows += _memory(name, found, k)
    for name, found in methods.items():
        fitted = exponent(found["by_k"])
        if fitted is not None:
            rows.append(_exponent(name, found, fitted))
    if "rjmcmc" in methods:
        rows += _ratios(methods, k)
    if data["skipped"]:
        note = "; ".join(f"{LABELS[name]}: {why}" for name, why in data["skipped"].items())
        rows.append(Row("methods left out", len(data["skipped"]), form="d", note=note))
    return rows


def _forward(found: Data) -> list[Row]:
    """The network without a draw, which is what the paper's 13 ms are."""
    rows = []
    for entry in found["forward"]:
        if entry["k"] in PAPER_FORWARD:
            rows.append(
                Row(
                    f"network, no draw, K = {entry['k']} [ms]",
                    1e3 * entry["seconds"],
                    PAPER_FORWARD[entry["k"]],
                    _error(entry, 1e3),
                    note="one thread here; the paper's on an Apple M2 Max",
                )
            )
    return rows


def _drawn(data: Data) -> list[Row]:
    """1,000 effective draws from K = 1 to 10, network and exact step."""
    rows = []
    for name in ("network", "exact"):
        for entry in data["methods"].get(name, {"by_k": []})["by_k"]:
            if entry["k"] in PAPER_FORWARD:
                rows.append(
                    Row(
                        f"{LABELS[name]}, {data['wanted']:,} effective draws, K = {entry['k']} [ms]",
                        1e3 * entry["seconds"],
                        error=_error(entry, 1e3),
                    )
                )
    return rows


def _time(name: str, found: Data, data: Data) -> Row:
    """Time to the same Monte-Carlo error at the table's K."""
    entry = _at(found["by_k"], data["table_k"])
    how = {
        "rjmcmc": f"cold start; {entry['effective']:,.0f} effective draws by autocorrelation, taken in proportion",
        "smc": f"{data['particles']:,} particles gave {entry['effective']:,.0f} effective draws by the scatter of "
        "islands; taken in proportion",
        "classical": "independent draws of Laplace's approximation",
        "paper": "8.06 M parameters, as the paper's text describes it; untrained, which costs the same; independent "
        "draws of each slot. The authors' public code draws through autoregressive layers, which takes far longer",
        "network": "independent draws. The paper's time is that of a forward pass without draws",
        "exact": f"weighted draws, {entry['effective'] / data['wanted']:.1%} of them effective",
    }[name]
    paper = PAPER[name][0] if name in PAPER else ""
    return Row(
        f"{LABELS[name]}: time of {data['wanted']:,} effective draws, K = {entry['k']} [s]",
        entry["seconds"],
        f"{paper} (K = 5)" if paper else "",
        _error(entry),
        note=f"{how}; {entry['signals']} signal{'s' if entry['signals'] > 1 else ''}",
    )


def _memory(name: str, found: Data, k: int) -> list[Row]:
    """Peak of the process and of Python's allocator."""
    before, peak = found["process_before"], found["process_peak"]
    claim = PAPER[name][1] if name in PAPER else ""
    seen = "does not see tensors" if name in LEAN else "sees NumPy's arrays"
    rows = [
        Row(
            f"{LABELS[name]}: process peak, K = {k} [MB]",
            peak / 1e6,
            "" if name == "network" else claim,
            form=".0f",
            note=f"{before / 1e6:.0f} MB of it before the first answer (modules, weights), {(peak - before) / 1e6:.0f} "
            "MB for the answer",
        ),
        Row(
            f"{LABELS[name]}: Python's allocator peak, K = {k} [KB]",
            found["python_peak"] / 1e3,
            form=",.0f",
            note=f"tracemalloc, which {seen}",
        ),
    ]
    if found["python_forward"] is not None:
        rows.append(
            Row(
                f"{LABELS[name]}, no draw: Python's allocator peak, K = {k} [KB]",
                found["python_forward"] / 1e3,
                claim,
                form=",.0f",
                note="the paper's 5 KB is what tracemalloc sees, too: torch allocates outside Python, and its tensors "
                "are in the process peak alone",
            )
        )
    return rows


def _exponent(name: str, found: Data, fitted: tuple[float, float | None]) -> Row:
    """Power of K that the time grows with."""
    counts = [entry["k"] for entry in found["by_k"]]
    claim = PAPER[name][2] if name in PAPER else ""
    note = f"fitted over K = {', '.join(str(k) for k in counts)}"
    if name in SAMPLERS:
        note += "; with every order below, as it costs a user"
    note += _law_note(found["by_k"])
    return Row(
        f"{LABELS[name]}: exponent of K in the time", fitted[0], claim, fitted[1], ".2f", note
    )


def _ratios(methods: Data, k: int) -> list[Row]:
    """How much sooner than RJMCMC."""
    slow = _at(methods["rjmcmc"]["by_k"], k)["seconds"]
    rows = []
    for name in (name for name in ("network", "exact") if name in methods):
        fast = _at(methods[name]["by_k"], k)["seconds"]
        rows.append(
            Row(
                f"RJMCMC over {LABELS[name]}: time, K = {k}",
                slow / fast,
                "10⁶" if name == "network" else "",
                form=",.0f",
                note="the same effective draws; RJMCMC with closed-form statistics and moves at the Fisher scale "
                "instead of hours" if name == "network" else "both exact",
            )
        )  # fmt: skip
    return rows


def _at(by_k: list[Data], k: int) -> Data:
    """The entry of one K."""
    return next(entry for entry in by_k if entry["k"] == k)


def _error(entry: Data, factor: float = 1.0) -> float | None:
    """Standard error of a time."""
    if entry["log_error"] is None:
        return None
    return float(factor * entry["seconds"] * entry["log_error"])
