"""Fills the tables of README.md and docs/ from the model's card and docs/data/, and draws the pictures beside them.

    python docs/render.py                       # tables, docs/results.md, and every picture from its numbers
    python docs/render.py --results results/    # the same after taking over what `slotflow reproduce` wrote
    python docs/render.py --studies studies/    # the same after taking over what `slotflow study` wrote
    python docs/render.py --rows                # the same with new rows for the numbers of docs/results/ and of studies
    python docs/render.py --tables              # the same without drawing pictures
    python docs/render.py --check               # exit code 1 if a page is not what its numbers say

A table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``; nothing else of a page is touched, but for
docs/results.md, which comes from docs/results/ as a whole.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
from pathlib import Path

from cost_tables import PICTURE, cost_picture
from crowded import crowded
from diagram import draw_exact, draw_zoom
from paper_tables import PAPER_BATCH
from study_tables import STUDY_FOLDER, study_records
from tables import DATA, RESULTS_FOLDER, ROOT, render_tables

from slotflow.network.cards import embedded_card
from slotflow.studies.frame.registry import STUDIES
from slotflow.studies.measures.learning_curve import read_metrics
from slotflow.studies.paper.files import Record, collect, read_record, write_record
from slotflow.studies.paper.markdown import render_markdown
from slotflow.studies.paper.pictures import draw_result
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.training_curve import plot_curve

PAGES = (
    "README.md",
    "docs/method.md",
    "docs/model.md",
    "docs/exact.md",
    "docs/priors.md",
    "docs/reproduce.md",
    "docs/data-proof.md",
    "docs/family.md",
    "docs/waveforms.md",
    "docs/training.md",
    "docs/many-signals.md",
    "docs/performance.md",
    "docs/studies.md",
)
RESULTS_PAGE = ROOT / "docs" / "results.md"
MODEL = "zoom"
LARGEST_PICTURE = 250_000
"""Bytes above which a result's picture is given a palette."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Renders tables and pictures of the documentation."
    )
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if stale")
    parser.add_argument("--tables", action="store_true", help="leave the pictures as they are")
    parser.add_argument(
        "--rows", action="store_true", help="judge the numbers of results and studies again before"
    )
    parser.add_argument("--results", type=Path, help="folder that `slotflow reproduce` wrote")
    parser.add_argument("--studies", type=Path, help="folder that `slotflow study` wrote")
    arguments = parser.parse_args()
    check = arguments.check
    if arguments.results is not None and not check:
        take_over(arguments.results, RESULTS_FOLDER)
    if arguments.studies is not None and not check:
        take_over_studies(arguments.studies, DATA / STUDY_FOLDER)
    if arguments.rows and not check:
        judge_again()
    tables = dict(render_tables(embedded_card(MODEL)))
    pages = {ROOT / page: (ROOT / page).read_text(encoding="utf-8") for page in PAGES}
    wanted = {path: fill(text, tables) for path, text in pages.items()}
    if groups := collected():
        pages[RESULTS_PAGE] = (
            RESULTS_PAGE.read_text(encoding="utf-8") if RESULTS_PAGE.exists() else ""
        )
        wanted[RESULTS_PAGE] = render_markdown(groups, RESULTS_PAGE, study_records(DATA))
    stale = [path for path, text in pages.items() if wanted[path] != text]
    if check:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        print(f"stale: {names}; run python docs/render.py" if stale else "up to date")
        sys.exit(bool(stale))
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    if not arguments.tables:
        draw_pictures()


def collected() -> list[list[Record]]:
    """The results that docs/results/ holds."""
    return collect(RESULTS_FOLDER, list(RESULTS.values()))


def judge_again() -> None:
    """Makes the rows of docs/results/ again from the numbers beside them, as `slotflow reproduce` does."""
    for record in (record for group in collected() for record in group):
        rows = [row.to_dict() for row in record.result.compare(record.content["data"])]
        write_record(record.picture.with_suffix(".json"), record.content | {"rows": rows})
    for name, content in study_records(DATA).items():
        rows = [row.to_dict() for row in STUDIES[name].compare(content["data"])]
        write_record(DATA / STUDY_FOLDER / f"{name}.json", {**content, "rows": rows})


def take_over_studies(source: Path, folder: Path) -> None:
    """Copies the records of studies; a quick look is no measurement and is refused.

    Args:
        source: Folder that `slotflow study` wrote.
        folder: Where they go; those of other studies stay.
    """
    found = {name: read_record(source / f"{name}.json") for name in STUDIES}
    records = {name: record for name, record in found.items() if record is not None}
    quick = [name for name, record in records.items() if record["made"]["quick"]]
    if quick or not records:
        wrong = f"quick looks at {', '.join(quick)}" if quick else "none"
        sys.exit(f"{source}: expected records of `slotflow study` in full size, found {wrong}.")
    folder.mkdir(parents=True, exist_ok=True)
    for name, record in records.items():
        write_record(folder / f"{name}.json", record)


def take_over(source: Path, folder: Path) -> None:
    """Copies numbers and pictures of results, those of each network in a folder of its own.

    Args:
        source: Folder that `slotflow reproduce` wrote.
        folder: Where they go; other results, and those of other networks, stay.
    """
    groups = collect(source, list(RESULTS.values()))
    if not groups:
        sys.exit(f"{source}: expected results of `slotflow reproduce`, found none; check the path.")
    for record in (record for group in groups for record in group):
        for file in (record.picture, record.picture.with_suffix(".json")):
            target = folder / file.relative_to(source)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, target)


def fill(text: str, tables: dict[str, str]) -> str:
    """A page with its tables renewed."""

    def block(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in tables:
            raise ValueError(f"expected a table among {sorted(tables)}, received {name!r}.")
        return f"<!-- begin {name} -->\n{tables[name]}\n<!-- end {name} -->"

    return re.sub(r"<!-- begin (\w+) -->\n.*?<!-- end \1 -->", block, text, flags=re.DOTALL)


def draw_pictures() -> None:
    """Diagram, training curves, demo, and the pictures of results and studies from their numbers."""
    from slotflow import SlotFlow, simulate
    from slotflow.cli.demo import SEED
    from slotflow.show.plots import plot_posterior, plot_training, save_figure

    images = ROOT / "docs" / "images"
    (images / "zoom.svg").write_text(draw_zoom(), encoding="utf-8")
    (images / "exact.svg").write_text(draw_exact(), encoding="utf-8")
    for name in ("zoom", "paper", "debug"):
        curve = plot_training(ROOT / "docs" / "data" / f"{name}-metrics.jsonl", model=name)
        save_figure(curve, images / f"{name}-training.png", dpi=110)
    metrics = read_metrics(ROOT / "docs" / "data" / "paper-metrics.jsonl")
    save_figure(plot_curve(metrics, PAPER_BATCH), images / "paper-curve.png", dpi=110)
    model = SlotFlow.from_pretrained(MODEL)
    config = model.config
    sim = simulate(config.prior, 1, config.long, config.short, mode="physical", seed=SEED)
    post = model.infer(sim.observation(0), prior=config.prior)
    figure = plot_posterior(post, sim.components(0), band=config.prior.frequency)
    save_figure(figure, images / "demo.png", dpi=110)
    save_figure(crowded(), images / "crowded.png", dpi=110)
    if (curves := cost_picture(DATA)) is not None:
        save_figure(curves, images / PICTURE, dpi=110)
    for record in (record for group in collected() for record in group):
        drawn = draw_result(record.result, record.content["data"], record.model)
        save_figure(drawn, record.picture, dpi=110)
        make_small(record.picture)
    for name, content in study_records(DATA).items():
        save_figure(STUDIES[name].plot(content["data"]), images / f"study-{name}.png", dpi=110)


def make_small(picture: Path) -> None:
    """Gives a large picture a palette of 256 colours, which its lines and areas hardly need all of."""
    from PIL import Image

    if picture.stat().st_size > LARGEST_PICTURE:
        with Image.open(picture) as image:
            image.convert("RGB").quantize(256).save(picture, optimize=True)


if __name__ == "__main__":
    main()
