"""The page of results: what it says, and how it looks in a browser, on a phone and on a desk."""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from browser_helpers import needs_browser, open_page
from matplotlib.text import Text
from reproduce_helpers import small_paper_network

from slotflow.network.publish import publish
from slotflow.show.plots.style import save_figure
from slotflow.studies.frame.registry import STUDIES
from slotflow.studies.frame.runner import run_study
from slotflow.studies.frame.settings import Settings as StudySettings
from slotflow.studies.frame.study import Setup
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.contents import CONTENTS, contents_table
from slotflow.studies.paper.files import collect, read_record, write_record
from slotflow.studies.paper.html import write_html
from slotflow.studies.paper.markdown import anchor, render_markdown
from slotflow.studies.paper.registry import RESULTS
from slotflow.studies.paper.runner import made_by
from slotflow.studies.paper.settings import Settings
from slotflow.studies.paper.verdicts import Claim, item_line
from slotflow.studies.paper.words import about, command
from slotflow.studies.row import Row, Target, tally, verdict

ROOT = Path(__file__).resolve().parents[1]
ODD = 'a <b> & "c" | d'
"""Text that would break a page which does not escape it."""
LONG = "without" + 30 * "break"
"""A word wider than a phone."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two results, one of them of two networks, with rows of every kind."""
    path = tmp_path_factory.mktemp("results")
    bench: Any = Bench(None, Settings(n=200))  # type: ignore[arg-type]
    data = RESULTS["dataset"].run(bench)
    rows = [
        Row("met", 1.0, "0.9", 0.1, target=Target(low=0.5, strict=True), met=True),
        Row("missed", 0.1, target=Target(low=0.5, strict=True), met=False, note=ODD),
        Row("open", 0.4, target=Target(low=0.5, strict=True), note="`code`"),
        Row(ODD, 2.0, "3%", form=".1%", note=LONG),
    ]
    for name, model in (("dataset", "zoom"), ("cardinality", "zoom"), ("cardinality", "paper")):
        result = RESULTS[name]
        place = path if model == "zoom" else path / model
        made = made_by(result, bench, {"name": model, "hash": "x"})
        facts = {"seconds": 125.0, "device": "cpu"}
        if model != "zoom":
            facts["source"] = f"runs/{model}"
        record = {
            "name": name,
            "made": made,
            "facts": facts,
            "rows": [row.to_dict() for row in rows],
            "data": {},
        }
        place.mkdir(exist_ok=True)
        (place / f"{name}.json").write_text(json.dumps(record), "utf-8")
        save_figure(RESULTS["dataset"].plot(data), place / f"{name}.png", dpi=110)
    write_html(path / "index.html", collect(path, list(RESULTS.values())))
    return path


@needs_browser
@pytest.mark.parametrize(("width", "dark"), [(390, False), (1280, True)])
def test_in_a_browser(folder: Path, width: int, dark: bool) -> None:
    with open_page(folder / "index.html", width, dark=dark) as page:
        assert page.errors == []
        sizes = page.evaluate("[...document.images].map(i => [i.naturalWidth, i.clientWidth])")
        assert len(sizes) == 3 and all(natural > 0 and shown > 0 for natural, shown in sizes)
        # Pictures scroll inside their frames on a phone; the page itself never does.
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.body.scrollWidth") <= width
        links = page.evaluate("[...document.querySelectorAll('nav a')].map(a => a.hash)")
        assert links == ["#dataset", "#cardinality"]
        assert page.evaluate(f"{json.dumps(links)}.every(x => document.querySelector(x))")
        cells = "[...document.querySelectorAll('#dataset .badge')]"
        assert page.evaluate(f"{cells}.map(b => b.textContent)") == ["✓ met", "✗ missed", "? open"]
        colours = page.evaluate(f"{cells}.map(b => getComputedStyle(b).color)")
        assert len(set(colours)) == 3
        assert page.evaluate("document.querySelectorAll('b, #dataset script').length") == 0
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (not dark)
        notes = page.evaluate(
            "[...document.querySelectorAll('#dataset td.note')].map(x => x.textContent)"
        )
        assert notes == ["", ODD, "code", LONG]


@needs_browser
def test_the_browser_sees_what_is_wrong(tmp_path: Path) -> None:
    """The control: a missing picture, an exception, an error and a page that is too wide are all seen."""
    path = tmp_path / "bad.html"
    path.write_text(
        '<!doctype html><meta name="viewport" content="width=device-width"><img src="none.png">'
        "<div style='width: 900px'>wide</div><script>console.error('so', 1); missing()</script>",
        "utf-8",
    )
    with open_page(path, 390) as page:
        assert page.evaluate("document.images[0].naturalWidth") == 0
        assert page.evaluate("document.documentElement.scrollWidth") > 390
        said = " / ".join(page.errors)
        assert "so 1" in said and "missing is not defined" in said and "ERR_FILE_NOT_FOUND" in said
        with pytest.raises(AssertionError, match="nothing"):
            page.evaluate("nothing.at.all")
        page.screenshot(tmp_path / "bad.png", whole=False)
    assert (tmp_path / "bad.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_outside_the_page_is_needed(folder: Path) -> None:
    text = (folder / "index.html").read_text("utf-8")
    assert not re.search(r"<script|@import|url\(", text)
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert sources and all(re.match(r"data:|#", source) for source in sources)


def test_markdown_says_the_same(folder: Path) -> None:
    groups = collect(folder, list(RESULTS.values()))
    page = render_markdown(groups, folder.parent / "results.md", {})
    assert (
        f"]({folder.name}/dataset.png)" in page
        and f"]({folder.name}/paper/cardinality.png)" in page
    )
    assert "### Network `zoom`" in page and "### Network `paper`" in page
    assert '| missed | 0.1 |  | > 0.5 | ✗ missed | a <b> & "c" \\| d |' in page
    assert "2 min 05 s on cpu. Targets: 1 met, 1 missed, 1 open." in page
    assert "**A quick look: n = 200, where the paper has 10,000.**" in page
    assert "slotflow reproduce --only cardinality --n 200 --model runs/paper" in page
    for link in re.findall(r"\]\(#([^)]*)\)", page):
        assert link in {
            re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-")
            for h in re.findall(r"^## (.*)$", page, re.M)
        }


def test_verdicts_and_commands() -> None:
    assert verdict(Row("a", 1.0).to_dict()) == ""
    assert verdict({"measure": "a"}) == ""  # a file of an older version
    assert verdict({"measure": "a", "target": "<= 1", "passed": False}) == "✗ missed"  # of 0.1
    assert tally([Row("a", 1.0).to_dict()]) == ""
    assert tally([Row("a", 1.0, target=Target(high=1), met=True).to_dict()] * 2) == "targets: 2 met"
    made = {"n": 50, "method": "network", "model": {"name": "paper"}, "device": "cuda"}
    words = "slotflow reproduce --only scaling --n 50 --method network --model paper --device cuda"
    assert command(RESULTS["scaling"], made) == words


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """docs/render.py as a module."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "docs"), *sys.path])
    spec = importlib.util.spec_from_file_location("render", ROOT / "docs" / "render.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_documentation_takes_results_over(
    folder: Path, render: ModuleType, tmp_path: Path
) -> None:
    target = tmp_path / "results"
    target.mkdir()
    for name in ("latent", "dataset"):
        (target / f"{name}.json").write_text("{}")
    render.take_over(folder, target)
    assert (target / "latent.json").read_text() == "{}"  # which the folder does not have
    (target / "latent.json").unlink()
    found = sorted(str(p.relative_to(target)) for p in target.rglob("*") if p.is_file())
    names = ("cardinality", "dataset", "paper/cardinality")
    assert found == sorted(f"{name}.{kind}" for name in names for kind in ("json", "png"))
    with pytest.raises(SystemExit, match="found none"):
        render.take_over(tmp_path / "nowhere", target)
    assert (target / "dataset.json").exists()


def test_the_page_of_results_is_up_to_date(render: ModuleType) -> None:
    """docs/results.md is what docs/results/ says, where there are any."""
    groups = collect(render.RESULTS_FOLDER, list(RESULTS.values()))
    if groups:
        text = render.RESULTS_PAGE.read_text("utf-8")
        studies = render.study_records(render.DATA)
        wanted = render_markdown(groups, render.RESULTS_PAGE, studies)
        assert text == wanted, "run python docs/render.py"


def test_files_of_results_have_few_lines(render: ModuleType, tmp_path: Path) -> None:
    """A line for each row and group of numbers, the same numbers as before, and those of the docs are written so."""
    record = {
        "name": "a",
        "made": {},
        "facts": {"b": "π"},
        "rows": [{"c": 1}, {}],
        "data": {"d": [1, 2]},
    }
    write_record(tmp_path / "a.json", record)
    text = (tmp_path / "a.json").read_text("utf-8")
    assert json.loads(text) == record == read_record(tmp_path / "a.json")
    assert text.splitlines()[4:7] == ['"rows": [', '{"c": 1},', "{}"] and '"d": [1, 2]\n' in text
    for path in render.RESULTS_FOLDER.rglob("*.json"):
        write_record(tmp_path / "again.json", json.loads(path.read_text("utf-8")))
        assert (tmp_path / "again.json").read_bytes() == path.read_bytes(), path


def test_powers_and_indices_of_pictures_are_set_as_maths(render: ModuleType) -> None:
    """No label of a result's picture shows the signs of mathematics; widths far from the bound are on a log scale."""
    scales = {}
    for record in (record for group in render.collected() for record in group):
        if record.result.name not in ("dataset", "scaling"):
            continue
        figure = record.result.plot(record.content["data"])
        words = [text.get_text() for text in figure.findobj(Text)]
        name = record.result.name, record.model
        assert any("$" in text for text in words) == (name[0] == "dataset")  # no power law
        assert not [text for text in words if set("^_") & set(re.sub(r"\$.*?\$", "", text))]
        scales[name] = figure.axes[-1].get_yscale()
    assert scales["scaling", "zoom"] == "linear" and scales["scaling", "paper"] == "log"


def test_the_comparison_follows_its_records(
    render: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A figure that a record does not hold cannot stand in the table."""
    tables = sys.modules[render.render_tables.__module__]
    for path in tables.DATA.glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    published = json.loads((tmp_path / "published.json").read_text("utf-8"))
    assert "authors' public weights" in published["source"]
    assert (
        "benchmarks/classical.py"
        in json.loads((tmp_path / "classical.json").read_text("utf-8"))["source"]
    )
    card = render.embedded_card(render.MODEL)
    before = dict(tables.render_tables(card))["comparison"]
    published |= {"nominal": {"signals": 77, "wrong": 3}, "mean_sd_of_f_mhz": {"1": 1.5, "10": 2.5}}
    (tmp_path / "published.json").write_text(json.dumps(published), "utf-8")
    monkeypatch.setattr(tables, "DATA", tmp_path)
    after = dict(tables.render_tables(card))["comparison"]
    assert "3 of 77" in after and "1.5 and 2.5 mHz" in after
    assert not {"3 of 77", "1.5 and 2.5 mHz"} & set(before.split(" | "))


# ---------------------------------------------------------------------- every table and figure of the paper


@pytest.fixture(scope="module")
def quick_studies(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Records of quick looks at studies that the documentation may not have measured."""
    setup = Setup(StudySettings(quick=True), tmp_path_factory.mktemp("studies"))
    return {name: run_study(STUDIES[name], setup) for name in ("depth", "sample_complexity")}


def lines_of(*arguments: Any) -> dict[str, list[str]]:
    """The lines of the list by the name of the table or figure."""
    return {line[0]: line for line in contents_table(*arguments)}


def test_every_table_and_figure_is_listed_in_the_papers_order() -> None:
    """Twenty figures and four tables; those without a result or a study say what stands there instead, and why."""
    names = [item.name for item in CONTENTS]
    assert [name for name in names if name.startswith("F")] == [f"Figure {i}" for i in range(1, 21)]
    assert [name for name in names if name.startswith("T")] == [f"Table {i}" for i in range(1, 5)]
    for item in CONTENTS:
        assert bool(item.claims) == bool(item.result)
        assert (
            item.result in RESULTS if item.result else item.studies or (item.beside and item.words)
        )
        for claims in item.studies:
            assert claims.study in STUDIES


def test_claims_are_about_rows_that_exist(render: ModuleType) -> None:
    """Every claim finds its row in the records of the documentation, so that none is left out in silence."""
    groups = {group[0].result.name: group for group in render.collected()}
    studies = render.study_records(render.DATA)
    for item in CONTENTS:
        for claim in item.claims:
            record = groups[item.result][0]
            rows = {row["measure"]: row for row in record.content["rows"]}
            assert claim.row(rows, record.model) is not None, (item.name, claim.measure)
        for claims in item.studies:
            for network in claims.patterns if claims.study in studies else ():
                assert claims.verdicts(studies[claims.study], network), (item.name, claims.study)


def test_nothing_that_is_judged_or_printed_in_the_paper_is_folded(render: ModuleType) -> None:
    """Of the page of results; what is claimed about a figure stays in sight even without the paper's value."""
    page = render.RESULTS_PAGE.read_text("utf-8")
    shown_part, folds = re.subn(r"<details.*?</details>", "", page, flags=re.S)
    assert folds > 3
    for record in (record for group in render.collected() for record in group):
        rows = {row["measure"]: row for row in record.rows}
        items = [item for item in CONTENTS if item.result == record.result.name]
        claimed = [claim.row(rows, record.model) for item in items for claim in item.claims]
        shown = [row for row in rows.values() if row.get("target") or row["paper"]]
        for row in (*shown, *(row for row in claimed if row is not None)):
            text = str(row["measure"]).replace("|", "\\|")
            assert f"\n| {text} | {row['text']} |" in shown_part


def test_links_to_studies_lead_to_headings(render: ModuleType) -> None:
    page = (ROOT / "docs" / "studies.md").read_text("utf-8")
    anchors = {anchor(heading.replace("`", "")) for heading in re.findall(r"^#+ (.*)$", page, re.M)}
    for claims in (claims for item in CONTENTS for claims in item.studies):
        assert claims.anchor in anchors, claims.anchor


def test_a_claim_is_judged_by_its_rows(render: ModuleType) -> None:
    """Held, in part, not held, and nothing to judge."""
    (group,) = (group for group in render.collected() if group[0].result.name == "cardinality")
    (item,) = (item for item in CONTENTS if item.name == "Figure 5")

    def verdict_of(*accuracies: float) -> str:
        rows = [Row(f"a{i}", value).to_dict() for i, value in enumerate(accuracies)]
        claims = tuple(Claim(row["measure"], Target(low=0.9985)) for row in rows)
        record = replace(group[0], content=group[0].content | {"rows": rows})
        return item_line(replace(item, claims=claims), {("cardinality", "zoom"): record}, {})[4]

    assert verdict_of(0.999) == verdict_of(0.999, 0.9985) == "held"
    assert verdict_of(0.99) == "not held" and verdict_of(0.99, 1.0) == "in part"
    assert verdict_of() == "–" and item_line(item, {}, {})[4:6] == ["–", "–"]
    line = lines_of([group], {})["Figure 5"]
    assert line[3] == "`cardinality`" and line[4] in ("held", "not held")
    (row,) = (row for row in group[0].content["rows"] if row["measure"] == "accuracy of K")
    assert f"{row['text']} (`zoom`)" in line[6]


def test_the_papers_protocol_decides_where_there_is_one() -> None:
    claim = Claim("sd", Target(high=1.0), by_slot=True)
    rows = {"sd": Row("sd", 0.5).to_dict(), "sd, slot by slot": Row("sd", 2.0).to_dict()}
    own = claim.row(rows, "paper")
    assert own is not None and own["value"] == 2.0
    ordered = claim.row({"sd": rows["sd"]}, "paper")
    assert ordered is not None and ordered["value"] == 0.5
    assert replace(claim, by_slot=False).row(rows, "paper") == rows["sd"]
    named = Claim("Equivariant, {network}: change", Target())
    assert named.row({"Equivariant, zoom: change": rows["sd"]}, "zoom") == rows["sd"]
    assert named.row({"Equivariant, zoom: change": rows["sd"]}, "paper") is None


def test_a_study_fills_its_lines_when_its_record_appears(quick_studies: dict[str, Any]) -> None:
    """Before, the list says that the measurement is missing; afterwards the verdict follows the flags of the rows."""
    before, after = lines_of([], {}), lines_of([], quick_studies)
    for name in ("Figure 14", "Figure 18", "Figure 19"):
        assert before[name][3] == "**not yet**" and before[name][4:6] == ["–", "–"]
        assert "its measurement is not" in before[name][6]
        assert after[name][3].startswith("[study") and after[name][5] != "–"
        assert "its measurement is not" not in after[name][6]
    assert after["Figure 14"][4] == "–"  # the ablations are about the paper's parts
    assert after["Figure 18"][4] != "–"
    rows = quick_studies["depth"]["rows"]
    asked = [row for row in rows if row["target"]]
    for met, words in ((True, "held"), (False, "not held"), (None, "open")):
        record = quick_studies["depth"] | {"rows": [row | {"met": met} for row in asked]}
        line = lines_of([], {"depth": record})["Figure 14"]
        assert line[5] == words
        assert f"depth: {len(asked) if met else 0} of {len(asked)} held" in line[6]
        assert ("open" in line[6]) == (met is None)
    mixed = [row | {"met": i == 0} for i, row in enumerate(asked)]
    line = lines_of([], {"depth": quick_studies["depth"] | {"rows": mixed}})["Figure 14"]
    assert line[5] == "in part"


def test_the_page_names_what_is_not_measured(folder: Path, quick_studies: dict[str, Any]) -> None:
    groups = collect(folder, list(RESULTS.values()))
    everything = dict.fromkeys(STUDIES, quick_studies["depth"])
    page = folder.parent / "results.md"
    assert "Not yet measured" not in render_markdown(groups, page, everything)
    del everything["leaderboard"]
    assert "Not yet measured is the study `leaderboard`." in render_markdown(
        groups, page, everything
    )
    del everything["depth"]
    words = "Not yet measured are the studies `depth` and `leaderboard`."
    assert words in render_markdown(groups, page, everything)


def test_a_training_is_described_by_what_its_weights_say(folder: Path) -> None:
    record = next(
        r for group in collect(folder, list(RESULTS.values())) for r in group if r.model == "paper"
    )
    training = {"signals": 12_345_678, "seconds": 5400.0, "device": "some GPU"}
    facts = record.content["facts"] | {"training": training}
    told = about(replace(record, content=record.content | {"facts": facts}))
    assert (
        "its training on 12,345,678 signals in 90 minutes of one some GPU, where the paper" in told
    )
    bare = record.content["facts"] | {"training": {}}
    assert "its training, where" in about(replace(record, content=record.content | {"facts": bare}))


def test_pages_of_the_papers_network_follow_its_card_and_the_records(
    render: ModuleType, quick_studies: dict[str, Any], tmp_path: Path
) -> None:
    module = sys.modules["paper_tables"]
    table = sys.modules["tables"].table
    studies = tmp_path / "docs" / "data" / "studies"
    studies.mkdir(parents=True)
    (tmp_path / "docs" / "results").symlink_to(render.RESULTS_FOLDER)
    before = dict(module.paper_tables(tmp_path, table))
    assert "not published yet" in before["paper_weights"]
    assert "Figure 14" in before["paper_tally"] and "`depth`" in before["paper_missing"]
    facts = {"seed": 1, "signals": 7654, "seconds": 5400.0, "device": "some GPU"}
    small_paper_network().save(
        tmp_path / "model.safetensors", facts | {"validation": {"k_accuracy": 0.5}}
    )
    publish(tmp_path / "model.safetensors", tmp_path / module.WEIGHTS)
    for name, record in quick_studies.items():
        write_record(studies / f"{name}.json", record)
    after = dict(module.paper_tables(tmp_path, table))
    assert "| training | 90 minutes of one some GPU |" in after["paper_weights"]
    assert "| signals, each seen once | 7,654 |" in after["paper_weights"]
    assert "--config weights/paper.yaml --minutes 90 --out" in after["paper_weights"]
    assert "Figure 14" not in after["paper_tally"] and "`depth`" not in after["paper_missing"]
    counted = [
        int(re.findall(r"measurements, (\d+) have", x["paper_tally"])[0]) for x in (before, after)
    ]
    assert counted[1] > counted[0]


def test_what_the_papers_network_reached_has_both_protocols(
    folder: Path, render: ModuleType
) -> None:
    module = sys.modules["paper_tables"]
    record = next(
        r for group in collect(folder, list(RESULTS.values())) for r in group if r.model == "paper"
    )
    name, measure = module.REACHED[0]
    assert record.result.name == name
    rows = [Row(measure, 0.25, "0.5"), Row(f"{measure}, slot by slot", 0.75)]
    changed = replace(record, content=record.content | {"rows": [row.to_dict() for row in rows]})
    assert list(module._reached([[changed]])) == [(measure, "0.5", "0.25", "0.75")]
    assert list(module._reached([[record]])) == []
