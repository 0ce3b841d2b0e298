"""A waveform that is one file: quadratic chirps are answered, weighed, kept, drawn and named on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from slotflow import Observation, Posterior, Prior, SlotFlow
from slotflow.cli import app
from slotflow.core.arrays import Array
from slotflow.data.sampling import Grid
from slotflow.signal.simulation_classes import simulate_classes
from slotflow.waveforms import Chirp, QuadraticChirp

GRID = Grid(256, 1.0)
T = GRID.duration
DRIFT, CURVATURE = (-20 / T**2, 20 / T**2), (-120 / T**3, 120 / T**3)
BAND = (0.15, 0.25)


@pytest.fixture(scope="module")
def case() -> tuple[Observation, Array]:
    """Two quadratic chirps, (2, 5), in noise."""
    waveform = QuadraticChirp(drift=DRIFT, curvature=CURVATURE)
    prior = Prior(waveform=waveform, frequency=BAND, k_min=2, k_max=2, sigma=(1.0, 1.0))
    batch = simulate_classes(prior, 1, GRID, gain=(12.0, 18.0), seed=5)
    return batch.observation(0), batch.theta[0].numpy()


@pytest.fixture(scope="module")
def answer(case: tuple[Observation, Array]) -> Posterior:
    return answered(case[0], QuadraticChirp(drift=DRIFT, curvature=CURVATURE))


def answered(observation: Observation, waveform: Chirp, k_max: int = 3) -> Posterior:
    prior = {"waveform": waveform, "frequency": BAND, "k_max": k_max}
    return SlotFlow.from_pretrained().infer(observation, prior=prior, max_seconds=60)


def test_its_components_are_found(case: tuple[Observation, Array], answer: Posterior) -> None:
    """Number, every parameter within four standard deviations, an effective sample, and better odds than chirps."""
    assert answer.k_map == 2 and answer.k_probs[2] > 0.95 and answer.verdict.status == "exact"
    table = answer.summary()
    for name in ("amplitude", "frequency", "drift", "curvature"):
        true = answer.waveform.of(case[1], name)
        assert np.all(np.abs(table[f"{name}_median"] - true) < 4 * table[f"{name}_sd"]), name
    straight = answered(case[0], Chirp(drift=DRIFT), k_max=2)
    assert straight.log_evidence[2][0] < answer.log_evidence[2][0] - 10


def test_its_file_and_pictures(answer: Posterior, tmp_path: Path) -> None:
    answer.save(tmp_path / "post.nc")
    loaded = Posterior.load(tmp_path / "post.nc")
    assert loaded.waveform == answer.waveform
    assert "curvature_median" in loaded.summary()
    titles = [ax.get_title(loc="left") for ax in answer.plot("components").axes]
    assert any(title.startswith("Curvature") for title in titles)


def test_its_name_on_the_command_line(case: tuple[Observation, Array], tmp_path: Path) -> None:
    """Bounds that are left out follow from the record; a lone setting keeps the other suggestion."""
    file = tmp_path / "sweep.npy"
    np.save(file, case[0].long.values)
    flags = ["--dt", "1", "--band", "0.15:0.25", "--k-max", "3", "--max-seconds", "60", "--json"]
    chosen = f"quadratic(curvature={CURVATURE[0]}:{CURVATURE[1]})"
    result = CliRunner().invoke(app, ["infer", str(file), "--waveform", chosen, *flags])
    assert result.exit_code == 0, result.output
    record = json.loads(result.output)["signals"][0]
    assert record["waveform"].startswith(f"quadratic(drift={-30 / T**2}:{30 / T**2}")
    assert record["k_map"] == 2 and "curvature_median" in record["components"][0]
