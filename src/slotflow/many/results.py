"""The results of one signal: as plain values, and in its files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from slotflow.core.files import atomic_path
from slotflow.core.units import FrequencyUnit
from slotflow.data.read.formats import STANDARD_INPUT
from slotflow.data.read.formats import file_name as shown_name
from slotflow.many.found import Found
from slotflow.many.plan import Answer
from slotflow.many.records import assumed_record, facts_record, method_record, posterior_record
from slotflow.posterior.batched import Batched, Rows
from slotflow.posterior.batched_tables import plain_tables
from slotflow.posterior.display import display_unit, epoch_of
from slotflow.posterior.gathered import Gathered
from slotflow.posterior.limits import LIKELY
from slotflow.posterior.plain_table import PlainTable
from slotflow.posterior.summaries import in_unit, with_combinations
from slotflow.posterior.summaries import summary as summarize
from slotflow.posterior.verdict import unlikely_amplitude
from slotflow.show.plots import plot_posterior, save_figure
from slotflow.show.report.report import write_report
from slotflow.show.wording import data_notes, data_warnings
from slotflow.signal.waveforms import TONE

if TYPE_CHECKING:
    import pandas as pd

    from slotflow.posterior.many import Posteriors
    from slotflow.posterior.posterior import Posterior
    from slotflow.signal.prior import Prior

__all__ = [
    "Wanted",
    "Writer",
    "found_in",
    "remove_leftovers",
    "result_record",
    "stems",
]


MOST_TABLED, FEWEST_TABLED = 50_000, 500
"""Draws of all components together that a table rests on at most, and draws of each at least."""


@dataclass(frozen=True)
class Wanted:
    """What is written of each signal, and in which units."""

    out: Path | None = None
    """The folder of the results; None if nothing is written."""
    plot: bool = False
    """Whether each signal gets a picture."""
    report: Path | None = None
    """The page of a single signal."""
    frequency_unit: str | None = None
    """Unit of frequencies in tables and pictures; None for the one that goes with the data."""
    phase_at: str = "auto"
    """Instant that phases refer to."""


def result_record(
    answer: Answer, writer: Writer, full: bool, asked: dict[str, object] | None = None
) -> dict[str, Any]:
    """A result as plain values, its files written.

    Args:
        answer: With what was found.
        writer: Of its files.
        full: Whether to tell all that may be shown.
        asked: Settings that a report tells.
    """
    found, shown = answer.found, writer.results
    assert found is not None and found.facts.assumed is not None
    facts, assumed = found.facts, found.facts.assumed
    observation, prior = facts.observation, assumed.prior
    summary = PlainTable.of(table_of(found.post, writer)) if found.table is None else found.table
    record: dict[str, Any] = {"file": str(answer.file), "signal": answer.signal}
    record["signals_in_file"] = answer.in_file
    if full:
        record |= posterior_record(found.post, summary.frame(), shown.frequency_unit)
    else:
        record |= facts_record(facts, summary, shown.frequency_unit)
    record |= method_record(facts)
    record["assumed"] = assumed_record(facts)
    record["notes"] = data_notes(observation)
    record["warnings"] = data_warnings(observation, prior)
    if doubt := unlikely_amplitude(observation, prior):
        advice = "state bounds in the data's units with --amplitude LOW:HIGH."
        record["warnings"].append(f"{doubt}; {advice}")
    files = writer.write(answer, found, summary, prior)
    if shown.report is not None:
        files["report"] = str(shown.report)
        write_report(
            found.post,
            shown.report,
            source=shown_name(answer.file),
            settings={
                **(asked or {}),
                **({"run": "; ".join(record["run"])} if "run" in record else {}),
            },
            warnings=list(assumed.warnings),
            seed=writer.seed,
            frequency_unit=shown.frequency_unit,
            phase_at=shown.phase_at,
        )
    if files:
        record["files"] = files
    return record


def table_of(post: Posterior, writer: Writer) -> pd.DataFrame:
    """The table of components of one signal, frequencies in Hz."""
    epoch = epoch_of(post, writer.results.phase_at)
    draws = int(writer.draws(np.array([post.k_map]))[0])
    return with_combinations(summarize(post, post.k_map, draws, writer.seed, epoch), post)


def found_in(posts: Posteriors, writer: Writer) -> list[Found]:
    """What was found of signals that were answered together, with tables of components that are made together."""
    found: dict[int, Found] = {}
    for part, rows, places in _alike(posts):
        facts = part.facts(rows)
        epoch = epoch_of(facts[0], writer.results.phase_at)
        draws = writer.draws(part.k_probs[rows].argmax(1))
        limited = part.k_probs[rows, 0] > LIKELY
        for n in np.unique(draws).tolist():
            some = np.flatnonzero(draws == n)
            tables = plain_tables(part, rows[some], n, writer.seed, epoch)
            for i, table in zip(some.tolist(), tables, strict=True):
                place = int(places[i])
                limit = posts[place].upper_limit() if limited[i] else None
                if limit is not None:
                    table.words["upper_limit"] = limit.record()
                found[place] = Found(facts[i], partial(posts.__getitem__, place), table)
    return [found.get(i) or Found.of(posts[i]) for i in range(len(posts))]


def _alike(posts: Posteriors) -> Iterator[tuple[Batched, Rows, Rows]]:
    """Batches with their rows and places; tones of single signals that are sampled alike are gathered to some."""
    single: dict[object, list[int]] = {}
    for part, rows, places in posts.batches():
        if isinstance(part, Batched):
            yield part, rows, places
        elif part.waveform == TONE and part.observation.long.is_even and not part.window_rows:
            long = part.observation.long
            key = (part.k_max, long.grid, part.t_ref, long.time_unit, long.notes)
            single.setdefault(key, []).append(int(places[0]))
    for own in single.values():
        yield Gathered([posts[i] for i in own]), np.arange(len(own)), np.array(own)


def stems(files: list[Path]) -> dict[Path, str]:
    """A name for each file, unlike those of the others."""
    stems = ["stdin" if file == Path(STANDARD_INPUT) else file.stem for file in files]
    if len(set(stems)) < len(stems):  # equal names in different folders
        stems = [f"{i:03d}-{stem}" for i, stem in enumerate(stems)]
    return dict(zip(files, stems, strict=True))


@dataclass(frozen=True)
class Writer:
    """Writes the files of each signal.

    Args:
        results: What is to be written, and where.
        samples: Draws to summarize and to write.
        seed: Of these draws.
        stems: A name for each input file.
        counts: Signals in each.
        kept: Whether signals have files at all.
    """

    results: Wanted
    samples: int
    seed: int
    stems: dict[Path, str] = field(default_factory=dict)
    counts: dict[Path, int] = field(default_factory=dict)
    kept: bool = True

    def draws(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many draws the tables of signals with so many components rest on, same shape."""
        room = np.maximum(MOST_TABLED // np.maximum(counts, 1), FEWEST_TABLED)
        found: NDArray[np.int64] = np.minimum(self.samples, room)
        return found

    def of(self, stems: dict[Path, str], counts: dict[Path, int], kept: bool) -> Writer:
        """The same for files whose names and numbers of signals are known."""
        return replace(self, stems=stems, counts=counts, kept=kept)

    def files(self, file: Path, signal: int) -> dict[str, Path]:
        """The files of a signal."""
        out = self.results.out
        if out is None or not self.kept:
            return {}
        several = self.counts[file] > 1
        name = f"{self.stems[file]}-{signal:05d}" if several else self.stems[file]
        folder = out / name if sum(self.counts.values()) > 1 else out
        files = {"summary": folder / "summary.csv", "posterior": folder / "posterior.nc"}
        return files | ({"figure": folder / "posterior.png"} if self.results.plot else {})

    def written(self, file: Path, signal: int) -> bool:
        """Whether the files of a signal are there."""
        return all(path.is_file() for path in self.files(file, signal).values())

    def write(
        self, answer: Answer, found: Found, summary: PlainTable, prior: Prior
    ) -> dict[str, str]:
        """Writes one signal's results, each file whole or not at all."""
        files = self.files(answer.file, answer.signal)
        for path in files.values():
            remove_leftovers(path)
        if files:
            post = found.post
            table = in_unit(summary.frame(), self._unit(post), post.waveform)
            with atomic_path(files["summary"]) as temporary:
                table.to_csv(temporary)
            post.save(files["posterior"], n=self.samples, seed=self.seed)
        if "figure" in files:
            look: dict[str, Any] = {
                "frequency_unit": self.results.frequency_unit,
                "phase_at": self.results.phase_at,
            }
            save_figure(plot_posterior(found.post, band=prior.frequency, **look), files["figure"])
        return {name: str(path) for name, path in files.items()}

    def _unit(self, post: Posterior) -> FrequencyUnit:
        """The unit of the frequencies in a signal's table."""
        return display_unit(post, self.results.frequency_unit)


def remove_leftovers(path: Path) -> None:
    """Removes what `atomic_path` leaves behind of a file if its process is killed while it writes."""
    digits = "[0-9a-f]" * 12
    for leftover in path.parent.glob(f".{path.stem}.{digits}{path.suffix}"):
        leftover.unlink(missing_ok=True)
