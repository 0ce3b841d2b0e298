"""The package as a stranger gets it: a wheel in a clean environment, and imports without the optional parts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterable
from contextlib import suppress
from email import message_from_string
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from training_helpers import ENVIRONMENT, PATIENCE, python, tiny, write_config

from slotflow import __version__
from slotflow.network.config import Config

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


def run(*command: object, cwd: Path) -> str:
    """Runs a command in a clean environment and returns what it prints."""
    result = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
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
    shutil.copytree(ROOT / "weights", folder / "weights")  # published beside the package, not in it
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    run(sys.executable, "-m", "build", "--wheel", folder, cwd=folder)
    (file,) = (folder / "dist").glob("*.whl")
    return file


def required(
    requirements: Iterable[str],
    extras: Iterable[str] = (),
    found: dict[str, Distribution] | None = None,
) -> dict[str, Distribution]:
    """What is installed here of some requirements (of a package with extras), of what those require, and so on."""
    found = {} if found is None else found
    for one in map(Requirement, requirements):
        if one.marker and not any(one.marker.evaluate({"extra": e}) for e in ("", *extras)):
            continue
        key = f"{one.name}[{','.join(sorted(one.extras))}]"
        if key not in found:
            with suppress(PackageNotFoundError):  # pip will name it
                found[key] = distribution(one.name)
                required(found[key].requires or (), one.extras, found)
    return found


def test_what_is_required() -> None:
    """What torch and xarray stand on, and nothing that only an extra needs."""

    def names(*requirements: str) -> set[str]:
        return {one.metadata["Name"] for one in required(requirements).values()}

    found = names("torch>=2", "xarray", "pytest; extra == 'dev'", "no-such-package")
    assert {"torch", "xarray", "pandas", "sympy", "mpmath", "packaging"} <= found
    assert not {"pytest", "hypothesis", "h5netcdf"} & found
    assert "h5netcdf" in names("xarray[io]")


def python_of(environment: Path) -> Path:
    """The interpreter of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")


def pip(environment: Path, *words: object) -> str:
    """Calls pip for a virtual environment that has none."""
    command = (sys.executable, "-m", "pip", "--python", python_of(environment), *words)
    return run(*command, cwd=environment)


@pytest.fixture
def environment(wheel: Path, tmp_path: Path) -> Path:
    """A new virtual environment in which the wheel is installed.

    What the wheel requires is linked from the environment of the tests instead of being fetched and unpacked again;
    nothing else is within reach, and pip confirms that nothing is missing.
    """
    folder = tmp_path / "environment"
    venv.create(folder)
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(python_of(folder), "-c", where, cwd=folder).strip())
    with zipfile.ZipFile(wheel) as archive:
        text = archive.read(f"slotflow-{__version__}.dist-info/METADATA").decode()
    for one in required(message_from_string(text).get_all("Requires-Dist", [])).values():
        for name in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
            if not (packages / name).exists():
                (packages / name).symlink_to(Path(one.locate_file(name)).resolve())
    pip(folder, "install", "--quiet", "--no-compile", "--no-index", "--no-deps", wheel)
    pip(folder, "check")
    return folder


def test_wheel_contents(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        entries = archive.read(f"slotflow-{__version__}.dist-info/entry_points.txt").decode()
    expected = ["py.typed", "presets/debug.yaml", "presets/paper.yaml", "weights/debug.safetensors"]
    assert {f"slotflow/{name}" for name in expected} <= names
    published = {path.name for path in (ROOT / "weights").glob("paper.*")}
    assert (
        "paper.yaml" in published
    )  # the recipe, and the weights with their card where they are there
    assert not {f"slotflow/weights/{name}" for name in published} & names
    sources = [*(ROOT / "src").rglob("*.py"), *(ROOT / "src").rglob("templates/*")]
    assert {str(path.relative_to(ROOT / "src")) for path in sources} <= names
    assert {name.split("/")[0] for name in names} == {
        "slotflow",
        f"slotflow-{__version__}.dist-info",
    }
    assert "slotflow = slotflow.__main__:main" in entries


@pytest.mark.slow
def test_wheel_in_a_clean_environment(environment: Path, tmp_path: Path) -> None:
    """Installed, not editable; run in a folder that knows nothing of the repository."""
    python_there, away = python_of(environment), tmp_path / "away"
    away.mkdir()
    found = json.loads(run(python_there, "-c", USE, cwd=away))
    assert Path(found["file"]).resolve().is_relative_to(environment.resolve())
    assert not [path for path in found["path"] if (away / path).resolve().is_relative_to(ROOT)]
    assert found["version"] == __version__
    assert found["sum"] == pytest.approx(1.0)
    assert found["shape"] == [200, found["k_map"], 3]
    assert found["rows"] == found["k_map"] >= 1
    assert found["finite"]
    assert __version__ in run(python_there.with_name("slotflow"), "--version", cwd=away)

    (link,) = environment.rglob("zuko-*.dist-info")  # the control: one that is missing is noticed
    link.unlink()
    with pytest.raises(AssertionError, match=r"slotflow .* requires zuko, which is not installed"):
        pip(environment, "check")


OPTIONAL = (
    "matplotlib",
    "corner",
    "jinja2",
    "pandas",
    "xarray",
    "h5netcdf",
    "h5py",
    "rich",
    "typer",
)

BARE = f"""
import sys

for name in {OPTIONAL!r}:
    sys.modules[name] = None  # importing it raises ImportError

import slotflow
from slotflow.network.config import Config
from slotflow.train.loop import train

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


BARE_COMMAND = f"""
import runpy, sys

for name in {(*OPTIONAL, "pydantic")!r}:
    sys.modules[name] = None
runpy.run_module("slotflow.train", run_name="__main__", alter_sys=True)
"""


def test_the_training_command_of_bare_machines(debug_config: Config, tmp_path: Path) -> None:
    file = write_config(tiny(debug_config, max_epochs=1), tmp_path / "config.yaml")
    out = tmp_path / "run"
    result = python("-c", BARE_COMMAND, "--config", file, "--out", out, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout == f"{out / 'model.safetensors'}\n"
    again = python("-c", BARE_COMMAND, "--config", file, "--out", out, cwd=tmp_path)
    assert again.returncode == 1 and "already holds a checkpoint" in again.stderr
    nothing = python("-c", BARE_COMMAND, "--out", out, cwd=tmp_path)
    assert nothing.returncode == 2 and "received neither" in nothing.stderr
    missing = python("-c", BARE_COMMAND, "--resume", "--out", tmp_path / "none", cwd=tmp_path)
    assert missing.returncode == 1 and "none" in missing.stderr
    assert "Traceback" not in again.stderr + nothing.stderr + missing.stderr


def test_import_is_light() -> None:
    """`import slotflow` leaves plots, tables and the command line alone."""
    code = f"import slotflow, sys; print([m for m in {OPTIONAL!r} if m in sys.modules])"
    result = python("-c", code)
    assert result.stdout == "[]\n", result.stdout + result.stderr


def test_citation_names_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__
