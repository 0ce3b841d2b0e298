"""`slotflow study`: the frame of all studies, with small studies of known outcome, and a quick run of each real one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer
from matplotlib.figure import Figure
from typer.testing import CliRunner, Result

from slotflow.cli import Commands, study
from slotflow.studies.frame import runner
from slotflow.studies.frame.registry import STUDIES, find_study
from slotflow.studies.frame.runner import SHARED_CODE, run_study
from slotflow.studies.frame.settings import NAMES, Settings
from slotflow.studies.frame.study import Setup, Study
from slotflow.studies.paper.markdown import anchor
from slotflow.studies.row import Row, Target

ROOT = Path(__file__).resolve().parents[1]


def picture(_: Any) -> Figure:
    figure = Figure(figsize=(1, 1))
    figure.subplots()
    return figure


class Counting:
    """A study of four rounds that counts how often each is measured."""

    def __init__(self) -> None:
        self.measured: list[int] = []

    def measure(self, setup: Setup, number: int) -> dict[str, Any]:
        self.measured.append(number)
        return {"value": setup.settings.seed + number}

    def study(self) -> Study:
        return Study(
            name="counting",
            title="Counting",
            section="0",
            claim="Rounds are counted.",
            caption="Nothing.",
            code=("studies/frame",),
            rounds=lambda settings: 2 if settings.quick else 4,
            signals=lambda settings: 10,
            measure=self.measure,
            gather=lambda rounds: {"values": [r["value"] for r in rounds]},
            compare=lambda data: [
                Row("sum", sum(data["values"]), "6", target=Target(high=6), met=True)
            ],
            plot=picture,
        )


@pytest.fixture
def counting() -> Counting:
    return Counting()


def setup(folder: Path, **settings: Any) -> Setup:
    return Setup(Settings(**settings), folder)


# ---------------------------------------------------------------------- the frame


def test_a_study_leaves_record_picture_and_rounds(counting: Counting, tmp_path: Path) -> None:
    record = run_study(counting.study(), setup(tmp_path, seed=3))
    assert record == json.loads((tmp_path / "counting.json").read_text("utf-8"))
    assert (tmp_path / "counting.png").read_bytes().startswith(b"\x89PNG")
    assert record["data"] == {"values": [3, 4, 5, 6]} and counting.measured == [0, 1, 2, 3]
    facts = record["facts"]
    assert (facts["rounds"], facts["rounds_planned"], facts["signals"]) == (4, 4, 40)
    assert record["made"]["seed"] == 3 and not record["made"]["quick"]


def test_time_ends_between_rounds_and_a_later_run_goes_on(
    counting: Counting, tmp_path: Path
) -> None:
    first = run_study(counting.study(), setup(tmp_path, minutes=1e-9))
    assert first["facts"]["rounds"] == 1 and first["facts"]["rounds_planned"] == 4
    again = run_study(counting.study(), setup(tmp_path, minutes=1e-9), resume=True)
    assert again["facts"]["rounds"] == 2  # one that was there and one more
    whole = run_study(counting.study(), setup(tmp_path), resume=True)
    assert counting.measured == [0, 1, 2, 3] and whole["facts"]["rounds"] == 4
    alone = run_study(Counting().study(), setup(tmp_path / "alone"))
    assert alone["rows"] == whole["rows"] and alone["data"] == whole["data"]


def test_other_settings_weights_and_code_are_measured_anew(
    counting: Counting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_study(counting.study(), setup(tmp_path))
    for change in ({"seed": 1}, {"quick": True}):
        before = len(counting.measured)
        run_study(counting.study(), setup(tmp_path, **change), resume=True)
        assert len(counting.measured) > before
    with monkeypatch.context() as patch:
        patch.setattr(runner, "package_code", lambda rooms: "other code")
        before = len(counting.measured)
        run_study(counting.study(), setup(tmp_path), resume=True)
        assert len(counting.measured) == before + 4


def test_rounds_that_are_there_are_neither_lost_nor_expected(
    counting: Counting, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match="holds no rounds of the study 'counting'; leave --resume"):
        run_study(counting.study(), setup(tmp_path), resume=True)
    run_study(counting.study(), setup(tmp_path, minutes=1e-9))
    with pytest.raises(ValueError, match=r"already holds rounds .* add --resume"):
        run_study(counting.study(), setup(tmp_path))


def test_a_round_that_fails_leaves_those_before_it(counting: Counting, tmp_path: Path) -> None:
    def broken(setup: Setup, number: int) -> dict[str, Any]:
        if number == 2:
            raise KeyboardInterrupt
        return counting.measure(setup, number)

    with pytest.raises(KeyboardInterrupt):
        run_study(replace(counting.study(), measure=broken), setup(tmp_path))
    assert not (tmp_path / "counting.json").exists()
    run_study(counting.study(), setup(tmp_path), resume=True)
    assert counting.measured == [0, 1, 2, 3]


@pytest.mark.parametrize("wrong", [{"seed": -1}, {"seed": 2**28}, {"minutes": 0}, {"minutes": -1}])
def test_settings_refuse(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Settings(**wrong)


def test_every_study_is_named_and_its_code_is_there() -> None:
    package = Path(runner.__file__).parents[2]
    assert list(STUDIES) == list(NAMES)
    for name, one in STUDIES.items():
        assert one.name == name and find_study(name) is one
        for room in (*SHARED_CODE, *one.code):
            assert (package / room).is_dir() or (package / f"{room}.py").is_file(), room
        assert one.rounds(Settings(quick=True)) <= one.rounds(Settings())
    with pytest.raises(ValueError, match="expected one of formulas, elbo"):
        find_study("nothing")


# ---------------------------------------------------------------------- the command


@pytest.fixture
def call() -> Callable[..., Result]:
    app = typer.Typer(cls=Commands)
    app.command("study", help=study.HELP)(study.run)
    app.callback()(lambda: None)
    return lambda *args: CliRunner().invoke(app, ["study", *map(str, args)])


def test_the_list(call: Callable[..., Result]) -> None:
    shown = " ".join(call("list").output.split())
    assert all(name in shown for name in NAMES)
    assert json.loads(call("list", "--json").stdout) == NAMES
    assert [name for name, _ in study._complete("el")] == ["elbo"]
    assert ("list", "all studies") in study._complete("")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nothing",), "expected one of formulas, elbo, gradient, distinguishable, domain"),
        (("elbo", "--minutes", "0"), "expected minutes > 0"),
        (("elbo", "--resume"), "holds no rounds of the study 'elbo'"),
    ],
)
def test_the_command_refuses(
    arguments: tuple[str, ...], message: str, call: Callable[..., Result], tmp_path: Path
) -> None:
    result = call(*arguments, "--out", tmp_path / "out")
    assert result.exit_code == 2 and message in " ".join(result.output.split()), result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", list(NAMES))
def test_a_quick_look_at_every_study(
    name: str, call: Callable[..., Result], tmp_path: Path
) -> None:
    """Whole from the command to the picture; the same again is read, not measured."""
    result = call(name, "--quick", "--out", tmp_path, "--quiet", "--json")
    assert result.exit_code == 0, result.output
    shown = json.loads(result.stdout)
    record = json.loads((tmp_path / f"{name}.json").read_text("utf-8"))
    assert shown["rows"] == record["rows"] and record["made"]["quick"]
    assert record["rows"] == [row.to_dict() for row in STUDIES[name].compare(record["data"])]
    assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    again = call(name, "--quick", "--out", tmp_path, "--quiet", "--resume")
    assert again.exit_code == 0, again.output
    assert STUDIES[name].title in again.output and f"{name}.png" in again.output.replace("\n", "")
    assert record == json.loads((tmp_path / f"{name}.json").read_text("utf-8"))


# ---------------------------------------------------------------------- the page


@pytest.fixture
def render(monkeypatch: pytest.MonkeyPatch) -> Any:
    """docs/render.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    return import_module("render")


def test_the_documentation_takes_measurements_over_and_no_quick_looks(
    render: Any, tmp_path: Path
) -> None:
    source, target = tmp_path / "studies", tmp_path / "data" / "studies"
    one = STUDIES["formulas"]
    run_study(one, setup(source))
    render.take_over_studies(source, target)
    record = json.loads((target / "formulas.json").read_text("utf-8"))
    study_tables = import_module("study_tables").study_tables  # found where render was
    blocks = dict(study_tables(tmp_path / "data", lambda header, rows: str(list(rows))))
    assert list(blocks) == ["studies", *(f"study_{name}" for name in STUDIES)]
    overview = blocks.pop("studies")
    assert "6 of 14" in overview and overview.count("not yet measured") == len(STUDIES) - 1
    others = [block for name, block in blocks.items() if name != "study_formulas"]
    assert all("Not yet measured" in block and "images/" not in block for block in others)
    text = blocks["study_formulas"]
    assert one.claim in text and "images/study-formulas.png" in text
    assert "6 of 14 held." in text and "`slotflow study formulas`" in text
    shown, _, folded = text.partition("<details")
    for row in record["rows"]:
        compared = bool(row["target"] or row["paper"])
        assert (row["measure"] in shown) == compared and (row["measure"] in folded) != compared
    run_study(one, setup(tmp_path / "quick", quick=True))
    for wrong, message in ((tmp_path / "quick", "quick looks at formulas"), (tmp_path, "none")):
        with pytest.raises(SystemExit, match=message):
            render.take_over_studies(wrong, target)


def test_every_study_has_a_place_on_the_page_and_a_record_or_a_word_that_there_is_none() -> None:
    page = (ROOT / "docs" / "studies.md").read_text("utf-8")
    anchors = {anchor(heading) for heading in re.findall(r"^#+ (.*)$", page, re.M)}
    overview = page.partition("<!-- begin studies -->")[2].partition("<!-- end")[0]
    links = re.findall(r"^\| \[.*?\]\(#(.*?)\)", overview, re.M)
    assert len(links) == len(STUDIES) and set(links) <= anchors
    for name, one in STUDIES.items():
        block = page.partition(f"<!-- begin study_{name} -->")[2].partition("<!-- end")[0]
        assert one.claim in block, name
        path = ROOT / f"docs/data/studies/{name}.json"
        picture = ROOT / f"docs/images/study-{name}.png"
        assert path.is_file() == picture.is_file() == ("Not yet measured" not in block), name
        if path.is_file():
            record = json.loads(path.read_text("utf-8"))
            assert not record["made"]["quick"]
            assert record["rows"] == [row.to_dict() for row in one.compare(record["data"])], name


def test_rounds_in_several_processes_are_those_of_one(tmp_path: Path) -> None:
    study, settings = find_study("domain"), {"quick": True, "seed": 3}
    one = run_study(study, Setup(Settings(**settings), tmp_path / "one"))
    two = run_study(study, Setup(Settings(**settings, jobs=2), tmp_path / "two"))
    assert one["facts"]["rounds"] == two["facts"]["rounds"] == 3
    assert two["facts"]["jobs"] == 2
    assert one["rows"] == two["rows"]


def test_a_folder_that_cannot_be_made_is_answered_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    setup = Setup(Settings(quick=True), tmp_path / "file" / "studies")
    with pytest.raises(ValueError, match=r"expected a folder that can be made.*choose another"):
        run_study(find_study("formulas"), setup)
