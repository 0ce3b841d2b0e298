"""Networks that are published in half precision beside the package, and the paper's network among them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from slotflow import Prior, SlotFlow, simulate
from slotflow.network.cards import Card, card_path
from slotflow.network.checkpoint import CheckpointError
from slotflow.network.config import Config
from slotflow.network.publish import LARGEST_FILE, main, publish

ROOT = Path(__file__).resolve().parents[1]
WEIGHTS = ROOT / "weights" / "paper.safetensors"
LARGEST_BYTES = 17_000_000
"""What was promised for the paper's network."""

needs_weights = pytest.mark.skipif(
    not WEIGHTS.is_file(),
    reason="weights/paper.safetensors is not in this checkout; train it with weights/paper.yaml (docs/model.md)",
)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    """The embedded network in small as a training folder."""
    SlotFlow.from_pretrained("debug").save(
        tmp_path / "model.safetensors",
        {"seed": 3, "signals": 7, "seconds": 90.0, "device": "some GPU"},
    )
    return tmp_path


def test_half_precision_is_near_and_half_as_large(trained: Path, tmp_path: Path) -> None:
    target = tmp_path / "published" / "small.safetensors"
    card = publish(trained, target, {"note": "a test"})
    assert (card.signals, card.seeds, card.gpu_minutes) == (7, [3], 1.5)
    assert card.training["precision"] == "float16" and card.training["note"] == "a test"
    full, half = SlotFlow.from_pretrained("debug"), SlotFlow.from_pretrained(target)
    assert half.dtype == torch.float32
    for (name, one), other in zip(full.named_parameters(), half.parameters(), strict=True):
        torch.testing.assert_close(other, one, rtol=2**-11, atol=2**-25, msg=name)
    sizes = [path.stat().st_size for path in (trained / "model.safetensors", target)]
    weights = 4 * full.n_parameters
    assert sizes[0] - sizes[1] == pytest.approx(weights / 2, rel=0.05)


def test_weights_that_were_changed_are_refused(trained: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.safetensors"
    publish(trained, target)
    other = SlotFlow.from_pretrained(target)
    with torch.no_grad():
        next(other.parameters()).add_(1.0)
    other.save(target)
    with pytest.raises(CheckpointError, match="the weights or their config were changed"):
        SlotFlow.from_pretrained(target)


def test_what_is_too_large_is_not_left_behind(trained: Path, tmp_path: Path) -> None:
    target = tmp_path / "small.safetensors"
    with pytest.raises(ValueError, match="at most 1,000 bytes in half precision, received"):
        publish(trained, target, largest=1000)
    assert not target.exists() and not card_path(target).exists()
    publish(trained, target)
    before = target.read_bytes()
    with pytest.raises(ValueError, match="at most 1,000 bytes"):
        publish(trained, target, largest=1000)
    assert target.read_bytes() == before  # and the card is still that of these weights
    SlotFlow.from_pretrained(target)


def test_the_command(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "small.safetensors"
    main([str(trained), str(target), "--fact", "gpu_minutes=2.5"])
    assert Card.load(card_path(target)).hash in capsys.readouterr().out
    assert Card.load(card_path(target)).gpu_minutes == 2.5
    with pytest.raises(SystemExit):
        main([str(tmp_path / "nothing"), str(target)])


def test_the_paper_network_fits_at_its_full_size(tmp_path: Path) -> None:
    """As weights/paper.yaml describes it, with its noise pathway."""
    network = SlotFlow(Config.from_yaml(WEIGHTS.with_suffix(".yaml")).model)
    network.save(tmp_path / "model.safetensors")
    publish(tmp_path, target := tmp_path / "paper.safetensors")
    assert target.stat().st_size <= LARGEST_FILE < LARGEST_BYTES
    sizes = Config.from_preset("paper").model
    assert network.config.flow.hidden == sizes.flow.hidden
    assert (network.config.prior, network.config.long) == (sizes.prior, sizes.long)


@needs_weights
def test_the_published_paper_network_is_what_its_card_says() -> None:
    network, card = SlotFlow.from_pretrained(WEIGHTS), Card.load(card_path(WEIGHTS))
    config = Config.from_yaml(WEIGHTS.with_suffix(".yaml")).model
    assert network.config == config
    assert card.parameters == network.n_parameters and card.signals > 0
    assert WEIGHTS.stat().st_size <= LARGEST_BYTES


@needs_weights
def test_the_published_paper_network_counts() -> None:
    """At least half of some quiet signals; it was trained to count nearly all of them, and guessing finds a tenth."""
    network = SlotFlow.from_pretrained(WEIGHTS)
    config = network.config
    prior = Prior.paper()
    signals = simulate(prior, 8, config.long, config.short, mode="physical", seed=5)
    found = [
        network.infer(signals.observation(i), prior=prior, method="network").k_map
        for i in range(len(signals.k))
    ]
    assert sum(k == int(true) for k, true in zip(found, signals.k, strict=True)) >= 4
