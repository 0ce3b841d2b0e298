"""The site builds without a warning and without the network, and every link and picture in it leads somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest
from test_readme import ROOT, blocks, commands, problem
from training_helpers import ENVIRONMENT, python

PAGES = sorted((ROOT / "docs").glob("*.md"))
NETWORKS = ROOT / "src/slotflow/network"
ROOTS = (ROOT, ROOT / "src/slotflow", NETWORKS / "zoom", NETWORKS / "family", ROOT / "docs/data")
"""Where the files lie that pages name."""
NOT_OURS = {"src/loss.py", "results/paper/", "config.yaml", "metrics.jsonl", "mine.yaml", "site/"}
"""Files of the paper's authors, and files and folders that a user makes or a command writes."""
LOADED = {("link", "href"), ("script", "src"), ("img", "src"), ("source", "src"), ("iframe", "src")}
"""What a browser fetches by itself when it shows a page."""


class Page(HTMLParser):
    """Links and anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collects what an element refers to and the names it can be referred to by."""
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name in ("href", "src"):
            if name in values and values.get("rel") not in ("canonical", "alternate"):
                self.links.append(values[name])
                if (tag, name) in LOADED:
                    self.loaded.append(values[name])


def broken(site: Path) -> list[str]:
    """Internal links that lead nowhere and anything that would be fetched from elsewhere, as 'page: target'."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name}: fetches {u}" for u in page.loaded if re.match(r"(https?:)?//", u)]
        if path.name == "404.html":  # its links are those of a site at a server's root
            continue
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            address, fragment = urldefrag(link)
            target = (path.parent / unquote(address)).resolve() if address else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{name}: {link}")
            elif fragment and target in pages and unquote(fragment) not in pages[target].anchors:
                found.append(f"{name}: {link} (no such anchor)")
    return found


@pytest.mark.slow
def test_the_site_builds_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    site = tmp_path / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)],
        cwd=ROOT,
        env=ENVIRONMENT | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING" not in done.stderr and "not included in the" not in done.stderr, done.stderr
    assert not broken(site)
    for page in PAGES:
        assert (site / f"{page.stem}.html").is_file(), page
    names = {path.name for path in site.rglob("*")}
    assert not {"render.py", "hooks.py", "zoom-metrics.jsonl"} & names  # scripts and data stay out
    method = (site / "method.html").read_text(encoding="utf-8")
    assert method.count('<svg role="img"') > 20 and ".. math::" not in method
    words = re.sub(r"<(code|pre|svg)\b.*?</\1>|<[^>]+>", "", method, flags=re.S)
    assert "====" not in words and "^{" not in words and "f<sub>hi</sub>" in method  # all are set
    reference = (site / "api.html").read_text(encoding="utf-8")
    for name in ("slotflow.SlotFlow.infer", "slotflow.Prior", "slotflow.Posterior.sample"):
        assert f'id="{name}"' in reference, name


def test_broken_links_are_found(tmp_path: Path) -> None:
    """The control: a missing page, picture and anchor, and a script from elsewhere."""
    good = '<h1 id="top"></h1><a href="b.html#top"></a><a href="https://example.org"></a>'
    (tmp_path / "b.html").write_text(good)
    assert broken(tmp_path) == []
    bad = '<a href="c.html"></a><img src="no.png"><a href="b.html#no"></a>'
    (tmp_path / "a.html").write_text(bad + '<script src="https://example.org/x.js"></script>')
    assert len(broken(tmp_path)) == 4


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_the_pages_exist(page: Path) -> None:
    """Programs, commands of slotflow, their options and targets of make."""
    text = re.sub(r"<<'END'\n.*?\nEND\n", "\n", page.read_text(encoding="utf-8"), flags=re.S)
    found = commands(
        re.sub(r"[ \t]#[^\n]*", "", text)
    )  # neither programs fed to python nor comments
    wrong = {" ".join(words): why for words in found if (why := problem(words))}
    assert not wrong


def missing_files(text: str) -> list[str]:
    """Modules and folders that a page names in code and that are not in the repository."""
    named = re.findall(r"`([\w./-]+(?:\.(?:py|yaml|json|jsonl|svg)|/))`", text)
    ours = [name for name in named if "NAME" not in name]  # where the reader puts a name
    return [name for name in ours if not any((root / name).exists() for root in ROOTS)]


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "README.md"], ids=lambda page: page.stem
)
def test_files_that_the_pages_name_exist(page: Path) -> None:
    """A module that has moved takes its mentions along."""
    wanted = set(missing_files(page.read_text(encoding="utf-8"))) - NOT_OURS
    assert not wanted


def test_a_file_that_is_not_there_is_noticed() -> None:
    """The control."""
    text = "`signal/prior.py` and `docs/render.py`, not `priors.py` and `encoders/`"
    assert missing_files(text) == ["priors.py", "encoders/"]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["priors", "training", "wide-bands"])
def test_python_of_the_pages_runs(name: str, tmp_path: Path) -> None:
    """The blocks of a page, one after another, print what the page says."""
    code = "\n".join(blocks((ROOT / f"docs/{name}.md").read_text(encoding="utf-8"), "python"))
    (tmp_path / "page.py").write_text(code, encoding="utf-8")
    done = python(tmp_path / "page.py", cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"# prints: (.*)", code)
    assert expected and not [line for line in expected if line not in done.stdout], done.stdout


def test_formulas_are_set_or_refused() -> None:
    """LaTeX that matplotlib writes differently is set; nonsense ends the build instead of leaving a hole."""
    code = "import sys; sys.path.insert(0, 'docs'); import hooks; print(hooks.svg(sys.argv[1])[:4])"
    for formula, expected in ((r"\tfrac12 \hatσ^2 \le \sqrt N", 0), (r"\nonsense{", 1)):
        done = subprocess.run(
            [sys.executable, "-c", code, formula],
            cwd=ROOT,
            env=ENVIRONMENT,
            capture_output=True,
            check=False,
        )
        assert done.returncode == expected, done.stderr
