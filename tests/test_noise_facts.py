"""What results say of noise and proposers: in words, as records, in files."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from posterior_helpers import gaussian_posterior

from slotflow import Posterior
from slotflow.posterior.noise import Estimate, NoiseFacts, ShapeNode


def coloured() -> NoiseFacts:
    nodes = (ShapeNode((0.8, 1.0), 0.25), ShapeNode((0.9, 2.0), 0.75))
    return NoiseFacts(
        "ar(2)",
        Estimate(0.31, 0.02),
        Estimate(1.2345, 0.008),
        "the residual's lag-1 correlation is 0.73",
        ("a1", "a2"),
        nodes,
        (("A", 1.0), ("E", 2.0)),
    )


def test_shape_is_the_mean_over_nodes() -> None:
    shape = coloured().shape
    assert shape["a1"].mean == pytest.approx(0.875)
    assert shape["a2"].sd == pytest.approx(math.sqrt(0.25 * 0.75))


def test_words() -> None:
    words = str(coloured())
    assert words.startswith("ar(2), level 0.310 ± 0.020, 1.2345 ± 0.0080 in the band, a1 0.875")
    assert "E × 2" in words and words.endswith("(the residual's lag-1 correlation is 0.73)")
    known = NoiseFacts("white", Estimate(2.0, 0.0), Estimate(2.0, 0.0), known=True)
    assert str(known) == "white, level 2 (known)" and "white" in repr(known)


def test_files_keep_noise_and_proposer(tmp_path: Path) -> None:
    post = gaussian_posterior([0.2, 0.8])
    assert post.noise is None and post.proposed_by == ""
    post.noise, post.proposed_by = coloured(), "zoom and classical"
    post.save(tmp_path / "post.nc", n=10)
    read = Posterior.load(tmp_path / "post.nc")
    assert read.noise == coloured() and read.proposed_by == "zoom and classical"
    assert NoiseFacts.from_record(coloured().record()) == coloured()
