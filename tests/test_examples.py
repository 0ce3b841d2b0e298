"""The example scripts keep what they promise: verdicts, counts, values within their errors, a picture."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from slotflow import Posterior

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
FAR = 5.0
"""Standard deviations from the truth that no parameter of an example may exceed."""


def load(name: str) -> ModuleType:
    """One of the scripts as a module."""
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def deviations(post: Posterior, truth: np.ndarray, **columns: int) -> np.ndarray:
    """(median − truth) / sd of parameters in columns of the truth, components in the order of frequency, (K, ...).

    Without columns those of amplitude and frequency.
    """
    table, truth = post.summary().sort_values("frequency_median"), truth[np.argsort(truth[:, 2])]
    assert len(table) == len(truth), (len(table), len(truth))
    pulls = [
        (table[f"{name}_median"] - truth[:, i]) / table[f"{name}_sd"]
        for name, i in (columns or {"amplitude": 0, "frequency": 2}).items()
    ]
    return np.column_stack(pulls)


def is_picture(path: Path) -> bool:
    """Whether a file is a PNG of some content."""
    return path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n" and path.stat().st_size > 20_000


@pytest.mark.slow
def test_chord(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The attack is a misfit, the later stretch is not, and both beating pairs are found."""
    chord = load("chord")
    attack, steady, partials = chord.main(["--out", str(tmp_path / "chord.png")])
    assert attack.verdict.status == "misfit"
    assert steady.verdict.status == "exact" and steady.k_map == 6 and steady.k_probs[6] > 0.9
    loud = partials[(partials[:, 0] > 0.01) & (partials[:, 2] < 350)]
    gaps = np.diff(np.sort(loud[:, 2]))
    assert np.count_nonzero(gaps < 1.5 / chord.STRETCH) == 2  # the pairs
    assert np.abs(deviations(steady, loud)).max() < FAR
    assert "misfit" in (out := capsys.readouterr().out) and "exact" in out
    assert is_picture(tmp_path / "chord.png")


@pytest.mark.slow
def test_lightcurve(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Six modes in cycles per day, the triplet among them; with modes kept apart the verdict objects."""
    star = load("lightcurve")
    post = star.main(["--out", str(tmp_path / "star.png")])
    assert post.verdict.status == "exact" and post.k_map == len(star.MODES)
    assert np.abs(deviations(post, star.TRUTH)).max() < FAR
    assert post.observation.t_ref == pytest.approx(star.FIRST * star.DAY)
    assert "6.12" in (out := capsys.readouterr().out) and "BJD 2459000.5" in out
    assert is_picture(tmp_path / "star.png")

    star.write_light_curve(tmp_path / "star.csv", 0)
    apart = star.analyse(tmp_path / "star.csv", min_separation=3 / star.SPAN, max_seconds=1)
    assert apart.verdict.status == "misfit"


@pytest.mark.slow
def test_lisa(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight binaries at strains of 1e-21, and the same answer of the network whatever the unit is."""
    lisa = load("lisa")
    post = lisa.main(["--out", str(tmp_path / "lisa.png")])
    assert post.verdict.status == "exact" and post.k_map == len(lisa.TRUTH)
    assert np.abs(deviations(post, lisa.TRUTH)).max() < FAR
    assert post.noise_std == pytest.approx(lisa.NOISE, rel=0.01)
    assert "there are 8 binaries" in capsys.readouterr().out
    assert is_picture(tmp_path / "lisa.png")

    data = lisa.strain(0)
    small, large = (lisa.analyse(data, scale, refine=False) for scale in (1.0, 1e21))
    assert small.k_probs == pytest.approx(large.k_probs, abs=1e-4)
    draws = [post.sample(200, seed=1) for post in (small, large)]
    assert 1e21 * draws[0][..., 0] == pytest.approx(draws[1][..., 0], rel=1e-3)
    assert draws[0][..., 2] == pytest.approx(draws[1][..., 2], abs=0.01 * lisa.BIN)


@pytest.mark.slow
def test_nmr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Eight overlapping lines beside others a hundred times stronger, read from a spectrometer's folder."""
    pytest.importorskip("nmrglue")
    nmr = load("nmr")
    post = nmr.main(["--out", str(tmp_path / "nmr.png")])
    assert post.verdict.status == "exact" and post.k_map == len(nmr.LINES) and post.k_probs[8] > 0.9
    truth = nmr.true_lines(post.observation.long.t0)
    assert np.abs(deviations(post, truth)).max() < FAR
    assert np.abs(deviations(post, truth, rate=3)).max() < FAR
    assert "shift [ppm]" in capsys.readouterr().out
    assert is_picture(tmp_path / "nmr.png")


def test_results_of_other_programs_are_read(tmp_path: Path) -> None:
    """Frequencies and decays of a table as NMR-EsPy prints it, without the broadening of its lines."""
    header = "Osc. │a │ϕ (°) │f (Hz) │f (ppm) │η (s⁻¹) │∫"
    row = (
        "2    │33.191 ± 0.12 │-0.3 ± 2e-1 │6.6128e+2 ± 4.3e-3 │1.3222 ± 8e-6 │8.1158 ± 2.7e-2 │1.4"
    )
    (tmp_path / "result.txt").write_text(f"{header}\n─────┼──\n{row}\n\n", encoding="utf-8")
    nmr = load("nmr")
    found = nmr.published(tmp_path / "result.txt")
    assert found == pytest.approx(np.array([[661.28, 8.1158 - np.pi * nmr.BROADENING]]))


@pytest.mark.slow
def test_struck(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two strings less than a bin apart, each partial with its decay time."""
    struck = load("struck")
    post, truth = struck.main(["--out", str(tmp_path / "struck.png")])
    assert post.verdict.status == "exact" and post.k_map == len(truth) and post.k_probs[6] > 0.9
    assert np.diff(np.sort(truth[:, 2])).min() < 1 / struck.STRETCH
    assert np.abs(deviations(post, truth)).max() < FAR
    assert np.abs(deviations(post, truth, rate=3)).max() < FAR
    assert "decay time" in capsys.readouterr().out
    assert is_picture(tmp_path / "struck.png")


@pytest.mark.slow
def test_binaries(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Five binaries, of which three are known to drift, with the chirp mass in its interval; a tone may not."""
    binaries = load("binaries")
    post, truth = binaries.main(["--out", str(tmp_path / "binaries.png")]), binaries.truth()
    assert post.verdict.status == "exact" and post.k_map == len(truth) and post.k_probs[5] > 0.7
    assert np.abs(deviations(post, truth)).max() < FAR
    drifting = np.abs(binaries.BINARIES[:, 3]) > 1.5
    chirp = post.class_probs["chirp"].to_numpy()
    assert (chirp[drifting] > 0.99).all() and (chirp[~drifting] < 0.5).all()
    table = post.summary()[drifting]
    pulls = (table["drift_median"] - truth[drifting, 3]) / table["drift_sd"]
    assert np.abs(pulls).max() < FAR
    assert "it gives mass away" in capsys.readouterr().out
    assert is_picture(tmp_path / "binaries.png")


def test_chirp_mass() -> None:
    """At 6 mHz a chirp mass of one Sun makes the frequency rise by 4.13e-15 Hz/s: the formula, backwards."""
    binaries, f, mass = load("binaries"), 6e-3, 0.7
    drift = 96 / 5 * np.pi ** (8 / 3) * (binaries.SUN * mass) ** (5 / 3) * f ** (11 / 3)
    assert binaries.chirp_mass(drift, f) == pytest.approx(mass)
    assert binaries.chirp_mass(4.1337e-15, f) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.stem)
def test_examples_use_public_names(path: Path) -> None:
    """What a reader copies from an example stays where it is: only the package and its public doors are imported."""
    imports = re.findall(
        r"^\s*(?:from|import) (slotflow[\w.]*)", path.read_text("utf-8"), re.MULTILINE
    )
    assert imports and set(imports) <= {
        *("slotflow", "slotflow.io", "slotflow.plots", "slotflow.preprocess", "slotflow.waveforms"),
    }
    assert len(path.read_text("utf-8").splitlines()) < 150


def test_the_checks_can_fail() -> None:
    """The control: a truth that is off by a bin, and a file that is no picture, are noticed."""
    star = load("lightcurve")

    class Fake:
        """A posterior whose medians are the truth."""

        def summary(self) -> object:
            import pandas as pd

            return pd.DataFrame(
                {
                    "amplitude_median": star.TRUTH[:, 0],
                    "amplitude_sd": 1e-4,
                    "frequency_median": star.TRUTH[:, 2],
                    "frequency_sd": 1e-8,
                }
            )

    shifted = star.TRUTH + np.array([0, 0, 1 / (star.SPAN * star.DAY)])
    assert np.abs(deviations(Fake(), star.TRUTH)).max() == 0  # type: ignore[arg-type]
    assert np.abs(deviations(Fake(), shifted)).max() > FAR  # type: ignore[arg-type]
    assert not is_picture(EXAMPLES / "lisa.py")
