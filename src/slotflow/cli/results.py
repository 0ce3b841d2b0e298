"""The results of one signal of `slotflow infer`: as plain values, and in its files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slotflow.cli import output
from slotflow.cli.assumed import unlikely
from slotflow.cli.data import shown_name
from slotflow.cli.many import Answer
from slotflow.core.files import atomic_path
from slotflow.data.read.formats import STANDARD_INPUT
from slotflow.show.plots import plot_posterior, save_figure
from slotflow.show.report.report import write_report
from slotflow.show.wording import data_notes, data_warnings

if TYPE_CHECKING:
    import pandas as pd

    from slotflow.posterior.posterior import Posterior
    from slotflow.signal.prior import Prior

__all__ = ["Writer", "check_folder", "remove_leftovers", "result_record", "stems"]


def result_record(
    answer: Answer, writer: Writer, full: bool, asked: dict[str, object] | None = None
) -> dict[str, Any]:
    """A posterior as plain values, its files written.

    Args:
        answer: With a posterior.
        writer: Of its files.
        full: Whether to tell all that may be shown.
        asked: Settings that a report tells.
    """
    post, prior = answer.post, answer.prior
    assert post is not None and prior is not None
    summary = post.summary(n=writer.samples, seed=writer.seed)
    record: dict[str, Any] = {"file": str(answer.file), "signal": answer.signal}
    record |= output.posterior_record(post, summary, full)
    record["notes"] = data_notes(post.observation)
    record["warnings"] = data_warnings(post.observation, prior)
    if (doubt := unlikely(post.observation, prior)) is not None:
        record["warnings"].append(doubt)
    files = writer.write(answer, post, summary, prior)
    if writer.report is not None:
        files["report"] = str(writer.report)
        write_report(
            post,
            writer.report,
            source=shown_name(answer.file),
            settings=asked,
            warnings=answer.facts.get("warnings", []),
            seed=writer.seed,
        )
    if files:
        record["files"] = files
    return record


def stems(files: list[Path]) -> dict[Path, str]:
    """A name for each file, unlike those of the others."""
    stems = ["stdin" if file == Path(STANDARD_INPUT) else file.stem for file in files]
    if len(set(stems)) < len(stems):  # equal names in different folders
        stems = [f"{i:03d}-{stem}" for i, stem in enumerate(stems)]
    return dict(zip(files, stems, strict=True))


class Writer:
    """Writes the files of each signal.

    Args:
        out: Folder for them; None: none are written.
        samples: Draws to summarize and to write.
        seed: Of these draws.
        plot: Whether there is a picture too.
        stems: A name for each input file.
        counts: Signals in each.
        kept: Whether signals have files at all.
        report: Page of the one signal that there is; None: none is written.
    """

    def __init__(
        self,
        out: Path | None,
        samples: int,
        seed: int,
        plot: bool,
        stems: dict[Path, str],
        counts: dict[Path, int],
        kept: bool,
        report: Path | None = None,
    ) -> None:
        self.out, self.samples, self.seed, self.plot = out, samples, seed, plot
        self.stems, self.counts, self.kept, self.report = stems, counts, kept, report
        if out is not None:
            check_folder("--out", out)
        if report is not None:
            check_folder("--report", report.parent)

    def files(self, file: Path, signal: int) -> dict[str, Path]:
        """The files of a signal."""
        if self.out is None or not self.kept:
            return {}
        several = self.counts[file] > 1
        name = f"{self.stems[file]}-{signal:05d}" if several else self.stems[file]
        folder = self.out / name if sum(self.counts.values()) > 1 else self.out
        files = {"summary": folder / "summary.csv", "posterior": folder / "posterior.nc"}
        return files | ({"figure": folder / "posterior.png"} if self.plot else {})

    def written(self, file: Path, signal: int) -> bool:
        """Whether the files of a signal are there."""
        return all(path.is_file() for path in self.files(file, signal).values())

    def write(
        self, answer: Answer, post: Posterior, summary: pd.DataFrame, prior: Prior
    ) -> dict[str, str]:
        """Writes one signal's results, each file whole or not at all."""
        files = self.files(answer.file, answer.signal)
        for path in files.values():
            remove_leftovers(path)
        if files:
            with atomic_path(files["summary"]) as temporary:
                summary.to_csv(temporary)
            post.save(files["posterior"], n=self.samples, seed=self.seed)
        if "figure" in files:
            save_figure(plot_posterior(post, band=prior.frequency), files["figure"])
        return {name: str(path) for name, path in files.items()}


def check_folder(option: str, folder: Path) -> None:
    """Makes a folder, and refuses one that cannot be written to before anything is computed for it.

    Args:
        option: The option that names it, for the complaint.
        folder: The folder.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        reason = "" if os.access(folder, os.W_OK | os.X_OK) else "you may not write there"
    except OSError as error:
        reason = "there is a file of that name" if folder.exists() else str(error.strerror).lower()
    if reason:
        raise ValueError(
            f"{option}: expected a folder to write to, received {folder}: {reason}; choose another."
        )


def remove_leftovers(path: Path) -> None:
    """Removes what `atomic_path` leaves behind of a file if its process is killed while it writes."""
    digits = "[0-9a-f]" * 12
    for leftover in path.parent.glob(f".{path.stem}.{digits}{path.suffix}"):
        leftover.unlink(missing_ok=True)
