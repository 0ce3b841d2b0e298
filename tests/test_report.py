"""Reports: what they say of posteriors of every kind, and how they look in a browser, on a phone and on a desk."""

from __future__ import annotations

import inspect
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import yaml
from browser_helpers import needs_browser, open_page
from posterior_helpers import PRIOR, TONES, GaussianSlots, gaussian_posterior
from typer.testing import CliRunner

from slotflow import Observation, Posterior, Prior, Stream, __version__
from slotflow.bands.core_draws import Window
from slotflow.bands.posterior import BandPosterior
from slotflow.cli import app
from slotflow.posterior.loaded import LoadedPosterior
from slotflow.posterior.stored import read_dataset
from slotflow.posterior.verdict import AMORTIZED, Check, DrawQuality, Verdict, check_residual, judge
from slotflow.show.advice import FALSE_ALARM, KINDS, MEANING, kind_of, remedies
from slotflow.show.report.page import render
from slotflow.show.report.report import render_report, write_report
from slotflow.show.report.sections import CITATION
from slotflow.show.wording import chance, evidence_words, ratio_words
from slotflow.signal.likelihood import Statistics

ROOT = Path(__file__).resolve().parents[1]
ODD = '<script>alert(1)</script> & "it\'s" <img src=x onerror=alert(2)>'
"""Text that would run on a page which does not escape it."""
LONG = "without" + 30 * "break"
"""A word wider than a phone."""
TEN = np.stack([np.linspace(0.6, 1.4, 10), np.linspace(0, 6, 10), np.linspace(2.53, 2.97, 10)], -1)
COUNTS = (0, 1, 3, 10)


class Judged(Posterior):
    """A posterior with a verdict of our choice."""

    def __init__(self, base: Posterior, verdict: Verdict) -> None:
        self.__dict__.update(base.__dict__)
        self._verdict = verdict

    @property
    def verdict(self) -> Verdict:
        return self._verdict


class Reader(HTMLParser):
    """The elements of a page and the text of its paragraphs, cells and headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects an element."""
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        """Collects text."""
        self.text.append(data)


def posterior(k: int) -> Posterior:
    """A posterior whose most probable number of components is k."""
    probs = np.full(11, 0.1 / 10)
    probs[k] = 0.9
    return gaussian_posterior(probs.tolist(), tones=TEN, prior=Prior(k_min=0))


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Reports for K = 0, 1, 3 and 10."""
    folder = tmp_path_factory.mktemp("reports")
    found = {}
    for k in COUNTS:
        found[k] = folder / f"{k}.html"
        posterior(k).report(found[k], source=f"{LONG}-{k}.csv", settings={"exact step": "left out"})
    return found


@pytest.fixture
def no_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures, which take the time, are refused."""

    def refuse(*_: object, **__: object) -> None:
        raise ValueError("no <ink>")

    monkeypatch.setattr(Posterior, "plot", refuse)


# --- In a browser ----------------------------------------------------------------------------------


@needs_browser
@pytest.mark.parametrize("k", COUNTS)
def test_in_a_browser(pages: dict[int, Path], k: int) -> None:
    for width, dark in ((390, k == 3), (1280, k == 1)):
        with open_page(pages[k], width, dark=dark) as page:
            assert page.errors == []
            assert page.evaluate("document.documentElement.scrollWidth") == width
            assert page.evaluate("document.body.scrollWidth") <= width
            first = page.evaluate("document.body.firstElementChild.firstElementChild.textContent")
            assert first == "Verdict: approximate"
            sizes = page.evaluate("[...document.images].map(i => [i.naturalWidth, i.clientWidth])")
            # K, data, spectrum, residual; with components their marginals and correlations; a corner plot of few
            assert len(sizes) == 4 + 2 * (k > 0) + (0 < k <= 3)
            assert all(natural > 0 and shown > 0 for natural, shown in sizes)
            rows = "[...document.querySelectorAll('#components tbody tr')].map(r => r.textContent)"
            found = page.evaluate(rows)
            assert len(found) == k
            assert all(f"{f:.2f}"[:3] in row for f, row in zip(TEN[:k, 2], found, strict=True))
            limits = page.evaluate("document.querySelectorAll('.limit').length")
            assert limits == (k == 0)
            background = page.evaluate("getComputedStyle(document.body).backgroundColor")
            assert (background == "rgb(255, 255, 255)") == (not dark)


@needs_browser
def test_malicious_text_does_nothing_in_a_browser(tmp_path: Path) -> None:
    path = tmp_path / "odd.html"
    write_report(_odd(), path, source=ODD, settings={ODD: ODD}, warnings=[ODD])
    with open_page(path, 390) as page:
        assert page.errors == []
        assert page.evaluate("document.querySelectorAll('script, img[onerror]').length") == 0
        assert page.evaluate("document.title").endswith(ODD)
        assert page.evaluate("document.documentElement.scrollWidth") == 390


# --- What a page says --------------------------------------------------------------------------------


def test_nothing_outside_the_page_is_needed(pages: dict[int, Path]) -> None:
    for path in pages.values():
        text = path.read_text("utf-8")
        assert not re.search(r"<script|@import|url\(", text)
        sources = re.findall(r'(?:src|href)="([^"]*)"', text)
        assert len(sources) > 4 and all(source.startswith("data:") for source in sources)


def test_order_and_content(pages: dict[int, Path]) -> None:
    text = pages[3].read_text("utf-8")
    words = " ".join(Reader(text).text)
    head = ("Verdict:", "Why:", "What to do:", "3 components (probability 0.900)", "How many")
    places = [words.index(word) for word in head]
    assert places == sorted(places)
    assert re.findall("<h2>(.*?)</h2>", text) == [
        "How many",
        "Components",
        "Pictures",
        "Tests of the residual",
        "Prior and settings",
        "Data",
        "How to cite",
    ]
    for fact in (
        AMORTIZED, "K = 0 to 10, uniform", "2.5 to 3 Hz", "0.5 to 1.5", "512 samples × 0.1 s = 51.2 s",
        "128 samples", f"{LONG}-3.csv", "exact step", "left out", f"version {__version__}", "seed",
        "25.6 bins of 1/T", "not known", "arXiv:2511.23228",
    ):  # fmt: skip
        assert fact in words, fact


def test_the_same_posterior_gives_the_same_page() -> None:
    assert render_report(posterior(0)) == render_report(posterior(0))


def _odd() -> Posterior:
    """A posterior with malicious text wherever text comes from outside."""
    base = gaussian_posterior([0.0, 1.0, 0.0, 0.0])
    stream = base.observation.long
    odd = Stream(stream.values, stream.dt, unit=ODD, notes=(ODD,), filled=((3, 4),))
    base.observation = Observation(odd)
    base.method = ODD
    return Judged(base, Verdict("misfit", ODD, (Check(ODD, 0.0, ODD), Check("level", 1e-9, ODD))))


def test_text_is_escaped(no_pictures: None) -> None:
    text = render_report(_odd(), source=ODD, settings={ODD: ODD}, warnings=[ODD])
    page = Reader(text)
    assert "script" not in page.tags and not [a for a in page.attributes if a[0].startswith("on")]
    assert "".join(page.text).count(ODD) >= 10  # the words are all there, as words
    assert "<script" in ODD and "script" in Reader(ODD).tags  # the control


def test_verdicts_and_tests_in_words(no_pictures: None) -> None:
    checks = (
        Check("low frequencies", 1e-9, "the lowest frequencies hold 9.00 times the other noise"),
        Check("colour", 0.5, "the noise is not white (cumulative spectrum off by 0.010)"),
    )
    base = gaussian_posterior([0.0, 0.0, 0.9, 0.1])
    verdict = judge(checks, DrawQuality(1.0, 0.0))
    page = " ".join(Reader(render_report(Judged(base, verdict))).text)
    assert "Verdict:  misfit" in page and "Do not use the numbers" in page
    assert "--noise auto" in page and MEANING["misfit"] in page
    assert "fails" in page and "passes" in page and "1e-09" in page
    assert "the noise is not white" not in page  # it passed: its complaint would mislead
    assert "--no-refine" in remedies(base)[0]
    exact = Judged(base, judge(checks[1:], DrawQuality(1.0, 0.0)))
    assert "not certain" in remedies(exact)[0]
    exact.k_probs = np.array([0.0, 0.0, 1.0, 0.0])
    assert remedies(exact) == ["Use it."]
    short = Judged(base, Verdict("approximate", "the ESS per draw is 0.050, below 0.1"))
    assert "--max-seconds" in remedies(short)[0]
    short.method = "classical"  # more time or draws would not help
    assert "--max-seconds" not in remedies(short)[0] and "slotflow infer" in remedies(short)[0]
    full = Judged(base, verdict)
    assert "--k-max" not in " ".join(remedies(full))
    full.k_probs = np.array([0.0, 0.0, 0.0, 1.0])  # as many as the prior allows
    assert "--k-max" in remedies(full)[1] and "--trend" not in " ".join(remedies(full))
    full.observation = Observation(Stream(full.observation.long.values + 50, 0.1, trend=-1))
    assert "--trend 1" in remedies(full)[2] and len(remedies(full)) <= 4


def test_a_misfit_has_no_probability_in_its_headline(no_pictures: None) -> None:
    """A count that the data contradict is not called certain, and no probability is rounded to 1."""
    sure = gaussian_posterior([0.0, 0.0, 1.0, 0.0])
    answer = re.compile('<p class="answer">(.*?)</p>')
    for status, words in (
        ("exact", "2 components (probability &gt; 0.9999); noise"),
        ("misfit", "2 components at best, but the data are not explained; noise"),
    ):
        (found,) = answer.findall(render_report(Judged(sure, Verdict(status, "a reason"))))
        assert found.startswith(words)
    assert [chance(p) for p in (0.0, 4e-4, 6e-4, 0.5, 0.9994, 0.9996, 1.0)] == [
        *("< 0.001", "< 0.001", "0.001", "0.500", "0.999", "0.9996", "> 0.9999"),
    ]
    assert chance(0.996, 2) == "0.996"


def test_a_template_names_what_it_lacks() -> None:
    """A value that was forgotten is an error, not an empty place on the page."""
    from jinja2 import UndefinedError

    with pytest.raises(UndefinedError, match="head"):
        render("report.html", title="no head")


def test_every_test_has_words_and_the_rate_is_the_verdict_s(seed: int) -> None:
    rng = np.random.default_rng(seed)
    obs = Observation(
        Stream(rng.standard_normal(2000), 0.1), Stream(rng.standard_normal(1000), 0.01)
    )
    checks = check_residual(Statistics.from_observation(obs), np.zeros((0, 3)), (2.5, 3.0))
    assert len(checks) > 10
    assert all(kind_of(check) in KINDS.values() for check in checks)
    assert kind_of(Check("of a later version", 0.5, "")).looks_at == ""
    assert inspect.signature(judge).parameters["false_alarm"].default == FALSE_ALARM


def test_citation_is_that_of_the_repository() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    (paper,) = cited["references"]
    names = [f"{a['given-names']} {a['family-names']}" for a in paper["authors"]]
    for word in (*names, paper["title"], str(paper["year"]), paper["doi"]):
        assert word in CITATION["method"], word
    for word in (cited["title"], cited["authors"][0]["name"], cited["license"]):
        assert word in CITATION["software"], word
    assert cited["version"] == __version__


# --- Posteriors of all kinds ---------------------------------------------------------------------------


def test_of_a_file(tmp_path: Path) -> None:
    post = gaussian_posterior([0.0, 0.3, 0.7, 0.0])
    post.save(tmp_path / "p.nc")
    whole = render_report(Posterior.load(tmp_path / "p.nc"), source="p.nc")
    assert 'class="missing"' not in whole and "version that wrote the file" in whole
    bare = LoadedPosterior(read_dataset(tmp_path / "p.nc").drop_vars(["data_long", "data_short"]))
    page = render_report(bare)
    words = " ".join(Reader(page).text)
    assert "the file does not hold the data" in words and "post.observation" in words
    assert "Residual: missing" in words.replace("Residual:  ", "Residual: ")
    assert page.count("<img") == whole.count("<img") - 2
    assert "Component 2" in words


def test_filled_samples_of_a_file_without_data(tmp_path: Path, no_pictures: None) -> None:
    post = gaussian_posterior([0.0, 1.0, 0.0, 0.0])
    post.save(tmp_path / "p.nc")
    bare = LoadedPosterior(read_dataset(tmp_path / "p.nc").drop_vars(["data_long", "data_short"]))
    assert "But" not in render_report(bare)
    bare.attributes["filled_samples"] = 7
    assert "<strong>But</strong> 7 samples of the data were missing" in render_report(bare)


def test_of_a_file_without_draws(tmp_path: Path) -> None:
    gaussian_posterior([0.0, 1.0, 0.0, 0.0]).save(tmp_path / "p.nc", n=0)
    page = render_report(Posterior.load(tmp_path / "p.nc"))
    assert "Verdict: " in page
    assert "All pictures:" in page and page.count('class="missing"') == 2  # said once, not for each
    assert page.count("<img") == 1  # p(K | x) needs no draws
    assert page.count("the file holds no draws") == 2 and "visited" not in page


def test_evidence_in_words() -> None:
    """A small error is not called none, a limit is marked, and minus signs are no hyphens."""
    assert evidence_words(-5982.43, 0.021) == "−5982.43 ± 0.02"
    assert evidence_words(-5982.43, 0.0) == "−5982.43 (standard error < 0.01)"
    assert evidence_words(12.3, 0.006) == "12.30 ± 0.01"
    assert evidence_words(12.3, math.inf) == "12.30"
    assert evidence_words(12.3, math.nan) == "12.30 (approximate, without a standard error)"
    assert ratio_words(-12.0, -2.0, 0.1) == "−10.0" and ratio_words(-2.0, -2.0, 0.1) == "+0.0"
    assert ratio_words(-12.0, -2.0, math.inf) == "≲ −10.0"
    assert ratio_words(-12.0, -2.0, math.nan) == "−10.0"
    assert ratio_words(-math.inf, -2.0, 0.1) == ratio_words(-2.0, -math.inf, 0.1) == ""


def test_evidence_of_a_file(tmp_path: Path, no_pictures: None) -> None:
    post = gaussian_posterior([0.1, 0.9, 0.0, 0.0])
    post.save(tmp_path / "p.nc")
    read = Posterior.load(tmp_path / "p.nc")
    assert isinstance(read, LoadedPosterior) and "ln Z" not in render_report(read)
    read.log_evidence = np.array([[-32.0, 0.1], [-20.0, 1e-5], [-50.0, math.inf], [-math.inf, 0]])
    page = render_report(read)
    assert "ln Z = −20.00 (standard error &lt; 0.01)." in page
    assert ">−12.0<" in page and ">≲ −30.0<" in page


def test_of_a_wide_band(tmp_path: Path, no_pictures: None) -> None:
    base = gaussian_posterior([0.0, 0.0, 1.0, 0.0], sigma=0.1)
    other = gaussian_posterior([0.0, 1.0, 0.0, 0.0], sigma=0.1)
    other.slots = GaussianSlots(TONES[[2, 0, 1]])
    reason = "a tone too many"
    parts = (
        Window((2.5, 2.8), Judged(base, Verdict("exact", "fine")), TONES[:2], 0.05),
        Window((2.8, 3.0), Judged(other, Verdict("misfit", reason)), TONES[2:], 0.05),
    )
    post = BandPosterior(base.observation, PRIOR, parts)
    page = render_report(post)
    table = page[page.index("Windows of the band") :]
    words = " ".join(Reader(table).text)
    assert "2.5–2.8 Hz" in words and "2.8–3 Hz" in words and reason in words
    assert "K = 0 to 3 in each window" in words and page.count("Component ") == 3
    assert "misfit" in page[: page.index("Windows of the band")]
    post.save(tmp_path / "p.nc")
    page = render_report(Posterior.load(tmp_path / "p.nc"))
    table = page[page.index("Windows of the band") :]
    cells = [text.strip() for text in Reader(table[: table.index("</table>")]).text if text.strip()]
    assert cells[1:] == [
        *("K", "verdict"),
        *("2.5–2.8 Hz", "2", "exact"),
        *("2.8–3 Hz", "1", "misfit"),
    ]


def test_pictures_that_cannot_be_drawn_are_named(no_pictures: None) -> None:
    page = render_report(gaussian_posterior([0.0, 1.0, 0.0, 0.0]))
    assert "<img" not in page and page.count("no &lt;ink&gt;") == 7


# --- Files and commands --------------------------------------------------------------------------------


def test_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    post, path = gaussian_posterior([1.0, 0.0, 0.0, 0.0]), tmp_path / "new/folder/r.html"
    post.report(path)  # folders are made
    before = path.read_bytes()
    write = Path.write_text

    def full(self: Path, text: str, *args: object, **options: object) -> int:
        write(self, text[:100], "utf-8")
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(OSError, match="no space"):
        post.report(path, source="other")
    assert path.read_bytes() == before and [p.name for p in path.parent.iterdir()] == ["r.html"]


def test_names_that_are_refused(tmp_path: Path) -> None:
    post = gaussian_posterior([1.0, 0.0, 0.0, 0.0])
    (tmp_path / "folder.html").mkdir()
    for name, words in (("r.csv", "received '.csv'"), ("r", "no ending"), ("folder.html", "folder")):  # fmt: skip
        with pytest.raises(ValueError, match=words):
            post.report(tmp_path / name)
    post.report(tmp_path / "R.HTM", source="odd\udcff.csv")  # a name that is no Unicode
    assert "odd?.csv" in (tmp_path / "R.HTM").read_text("utf-8")


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text table with one tone."""
    path = tmp_path_factory.mktemp("series") / "a <b> & c.csv"
    t = 0.25 * np.arange(400)
    noise = np.random.default_rng(0).normal(scale=0.3, size=t.size)
    np.savetxt(path, 2 * np.cos(2 * np.pi * 0.8 * t + 1) + noise, "%.4f")
    return path


FLAGS = ("--dt", "0.25", "--band", "0.4:1.2", "--amplitude", "1:3")


def run(*args: object, code: int = 0) -> str:
    """Runs a command and gives what it printed."""
    result = CliRunner().invoke(app, [str(a) for a in args])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def test_commands_write_reports(series: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "infer.html", tmp_path / "classical.html"
    printed = run(
        "infer", series, *FLAGS, "--no-refine", "--report", first, "--seed", 3, "--json"
    )  # fmt: skip
    record = json.loads(printed)["signals"][0]
    assert record["files"] == {"report": str(first)} and record["k_map"] == 1
    printed = run("classical", series, *FLAGS, "--report", second, "--seed", 3)
    assert f"Written: {second}" in printed
    facts = ("a <b> & c.csv", "400 samples × 0.25 s", "0.4 to 1.2 Hz", "seed", " 3 ", "Component 1")
    for path, own in ((first, "slotflow:zoom"), (second, "Smallest BIC: K = 1")):
        words = " ".join(Reader(path.read_text("utf-8")).text)
        for fact in (*facts, own):
            assert fact in words, fact


def test_commands_refuse(series: Path, tmp_path: Path) -> None:
    several = tmp_path / "two.npz"
    np.savez(several, long=np.random.default_rng(0).normal(size=(2, 400)), dt=0.25)
    cases = (
        (("infer", series, *FLAGS, "--report", series), "end in .html or .htm"),
        (("classical", series, *FLAGS, "--report", tmp_path / "r.txt"), "end in .html or .htm"),
        (("infer", several, *FLAGS, "--report", tmp_path / "r.html"), "--report shows one signal"),
    )
    before = series.read_bytes()
    for args, words in cases:
        assert words in " ".join(run(*args, code=2).split())
    assert series.read_bytes() == before and not (tmp_path / "r.html").exists()
