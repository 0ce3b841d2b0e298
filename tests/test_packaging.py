"""The package as a stranger gets it: a wheel in a clean environment, and imports without the optional parts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from training_helpers import ENVIRONMENT, python, tiny, write_config

from slotflow import __version__
from slotflow.config import Config

ROOT = Path(__file__).resolve().parents[1]

USE = """
import json, sys
from pathlib import Path

import slotflow
from slotflow import SlotFlow, simulate

model = SlotFlow.from_pretrained()
c = model.config
sim = simulate(c.prior, 1, c.long, c.short, mode="physical", seed=1, k=1)
post = model.infer(sim.observation(0))
draws = post.sample(200)
json.dump(
    {
        "file": slotflow.__file__,
        "path": sys.path,
        "version": slotflow.__version__,
        "sum": float(post.k_probs.sum()),
        "k_map": post.k_map,
        "shape": draws.shape,
        "finite": bool((draws == draws).all()),
        "rows": len(post.summary()),
    },
    sys.stdout,
)
"""


def clean_environment() -> dict[str, str]:
    """This environment without the paths of this interpreter, with the pinned versions for pip."""
    hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    constraints = str(ROOT / "constraints.txt")
    pins = {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
    if index := os.environ.get("TORCH_INDEX"):  # make hands it on; see the Makefile
        others = os.environ.get("PIP_EXTRA_INDEX_URL", "")
        pins["PIP_EXTRA_INDEX_URL"] = f"{others} {index}".strip()
    return {name: value for name, value in ENVIRONMENT.items() if name not in hidden} | pins


def run(*command: object, cwd: Path, timeout: float = 60) -> str:
    """Runs a command in a clean environment and returns what it prints."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stdout}\n{result.stderr}"
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy of the sources so that no old build gets into it."""
    folder = tmp_path_factory.mktemp("build")
    shutil.copytree(
        ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    run(sys.executable, "-m", "build", "--wheel", folder, cwd=folder, timeout=300)
    (file,) = (folder / "dist").glob("*.whl")
    return file


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[Path]:
    """A new virtual environment; a gigabyte once torch is in it, so it is not kept for inspection."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    yield folder
    shutil.rmtree(folder)


def test_wheel_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entries = archive.read(f"slotflow-{__version__}.dist-info/entry_points.txt").decode()
    expected = ["py.typed", "presets/debug.yaml", "presets/paper.yaml", "weights/debug.safetensors"]
    assert {f"slotflow/{name}" for name in expected} <= names
    sources = (ROOT / "src").rglob("*.py")
    assert {str(path.relative_to(ROOT / "src")) for path in sources} <= names
    assert {name.split("/")[0] for name in names} == {
        "slotflow",
        f"slotflow-{__version__}.dist-info",
    }
    assert "slotflow = slotflow.cli:main" in entries


@pytest.mark.slow
def test_wheel_in_a_clean_environment(wheel: Path, environment: Path, tmp_path: Path) -> None:
    """Installed, not editable; run in a folder that knows nothing of the repository."""
    binaries = environment / ("Scripts" if os.name == "nt" else "bin")
    away = tmp_path / "away"
    away.mkdir()
    install = ["-m", "pip", "install", "--quiet", "--no-compile", wheel]
    run(binaries / "python", *install, cwd=away, timeout=900)
    found = json.loads(run(binaries / "python", "-c", USE, cwd=away, timeout=120))
    assert Path(found["file"]).resolve().is_relative_to(environment.resolve())
    assert not [path for path in found["path"] if (away / path).resolve().is_relative_to(ROOT)]
    assert found["version"] == __version__
    assert found["sum"] == pytest.approx(1.0)
    assert found["shape"] == [200, found["k_map"], 3]
    assert found["rows"] == found["k_map"] >= 1
    assert found["finite"]
    assert __version__ in run(binaries / "slotflow", "--version", cwd=away)


OPTIONAL = ("matplotlib", "corner", "pandas", "xarray", "h5netcdf", "h5py", "rich", "typer")

BARE = f"""
import sys

for name in {OPTIONAL!r}:
    sys.modules[name] = None  # importing it raises ImportError

import slotflow
from slotflow.config import Config
from slotflow.train import train

model = slotflow.SlotFlow.from_pretrained(train(Config.from_yaml(sys.argv[1]), sys.argv[2]))
c = model.config
observation = slotflow.simulate(c.prior, 1, c.long, c.short).observation(0)
print(model.infer(observation, refine=False).sample_joint(10)[0].shape)
for name in {OPTIONAL!r}:
    assert sys.modules[name] is None
try:
    import pandas
except ImportError:
    print("blocked")
"""


def test_training_and_inference_without_optional_packages(
    debug_config: Config, tmp_path: Path
) -> None:
    file = write_config(tiny(debug_config, max_epochs=1), tmp_path / "config.yaml")
    result = python("-c", BARE, file, tmp_path / "run", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.split("\n") == ["(10, 3, 3)", "blocked", ""]


def test_import_is_light() -> None:
    """`import slotflow` leaves plots, tables and the command line alone."""
    code = f"import slotflow, sys; print([m for m in {OPTIONAL!r} if m in sys.modules])"
    result = python("-c", code)
    assert result.stdout == "[]\n", result.stdout + result.stderr


def test_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
