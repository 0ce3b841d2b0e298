"""Model cards: a hash of the content alone, files that come back as they were, and weights refused without a match."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from training_helpers import same_tensors

import slotflow.network.build
import slotflow.network.cards
from slotflow import SlotFlow, __version__
from slotflow.network.build import load_embedded, load_verified
from slotflow.network.cards import (
    CARD_FORMAT,
    Card,
    card_path,
    content_hash,
    embedded_card,
    read_verified,
)
from slotflow.network.checkpoint import CheckpointError, read_model
from slotflow.network.model import pretrained_names
from slotflow.network.write_card import main, read_evaluation, write_card

TENSORS = {
    "b": torch.arange(6.0).reshape(2, 3),
    "a.weight": torch.tensor([1, 2], dtype=torch.int64),
    "empty": torch.zeros(0, 2),
    "scalar": torch.tensor(True),
    "half": torch.ones(3, dtype=torch.bfloat16),
}
CONFIG = {"name": "x", "sizes": [1, 2], "rate": 0.1, "π": None}
ROWS = [{"measure": "exact K", "value": 0.99, "target": ">= 0.9", "passed": True}]
FACTS = {"seed": 4, "steps": 5, "signals": 80, "seconds": 90.0, "device": "NVIDIA H200"}


@pytest.fixture(scope="module")
def model() -> SlotFlow:
    """An untrained network."""
    torch.manual_seed(3)
    return SlotFlow.from_preset("debug")


@pytest.fixture
def weights(model: SlotFlow, tmp_path: Path) -> Path:
    """Its file, with facts of a training that never was."""
    model.save(tmp_path / "model.safetensors", FACTS)
    return tmp_path / "model.safetensors"


def change_one_bit(path: Path) -> None:
    """Flips the lowest bit of the last tensor byte of a safetensors file."""
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


# --- The hash -----------------------------------------------------------------------------------


def test_hash_follows_its_definition() -> None:
    """Written out by hand for one tensor, with numbers whose bytes are known."""
    expected = hashlib.sha256(b'{"n":1}\n["w","float32",[2]]\n' + bytes.fromhex("0000803f000000c0"))
    assert (
        content_hash({"w": torch.tensor([1.0, -2.0])}, {"n": 1}) == f"sha256:{expected.hexdigest()}"
    )


def test_hash_does_not_depend_on_order_or_layout() -> None:
    expected = content_hash(TENSORS, CONFIG)
    turned = {n: t.T.contiguous().T if t.ndim == 2 else t for n, t in reversed(TENSORS.items())}
    assert not turned["b"].is_contiguous()
    assert content_hash(turned, dict(reversed(CONFIG.items()))) == expected
    trainable = {n: t.requires_grad_() if n == "b" else t for n, t in turned.items()}
    assert content_hash(trainable, CONFIG) == expected


@pytest.mark.parametrize(
    "change",
    [
        {"b": torch.arange(6.0).reshape(3, 2)},
        {"b": torch.arange(6.0).reshape(2, 3).nextafter(torch.tensor(9.0))},
        {"b": torch.arange(6.0).reshape(2, 3).view(torch.int32)},
        {"half": torch.ones(3, dtype=torch.bfloat16).view(torch.float16)},
        {"scalar": torch.tensor([True])},
        {"empty": torch.zeros(2, 0)},
        {"more": torch.zeros(0)},
        {"b": None, "c": torch.arange(6.0).reshape(2, 3)},
    ],
    ids=["shape", "last bit", "type", "half type", "dimension", "empty", "one more", "name"],
)
def test_hash_sees_every_change(change: dict[str, Tensor | None]) -> None:
    changed = {n: t for n, t in {**TENSORS, **change}.items() if t is not None}
    assert content_hash(changed, CONFIG) != content_hash(TENSORS, CONFIG)


@pytest.mark.parametrize("change", [{"rate": 0.1000001}, {"sizes": [2, 1]}, {"more": 0}])
def test_hash_sees_the_config(change: dict[str, Any]) -> None:
    assert content_hash(TENSORS, CONFIG | change) != content_hash(TENSORS, CONFIG)


def test_hash_survives_saving_again(weights: Path, tmp_path: Path) -> None:
    """Other facts, another header and another order in the file: the same model, and bytes that differ."""
    card = write_card(weights)
    again = tmp_path / "again.safetensors"
    load_verified(weights).save(again, {"note": "second"})
    read_verified(again, card)
    assert again.read_bytes() != weights.read_bytes()


def test_hash_of_half_precision_survives_saving_again(model: SlotFlow, tmp_path: Path) -> None:
    a, b = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    model.save(a, {}, half=("encoder",))
    card = write_card(a)
    load_verified(a).save(b, {}, half=("encoder",))
    read_verified(b, card)
    load_verified(a).save(b)  # the control: the same numbers, stored in full, are another content
    with pytest.raises(CheckpointError, match="content hash"):
        read_verified(b, card)


def test_hash_is_fast() -> None:
    """15 MB, the largest file that the package may hold, in less than 50 ms of a processor's time."""
    tensors = {f"layer.{i}": torch.zeros(1000, 50) for i in range(75)}
    times = []
    for _ in range(5):
        start = time.process_time()
        content_hash(tensors, CONFIG)
        times.append(time.process_time() - start)
    assert statistics.median(times) < 0.05


# --- The card -----------------------------------------------------------------------------------


def test_card_of_a_training(weights: Path, model: SlotFlow) -> None:
    card = write_card(weights, evaluation=ROWS)
    assert card_path(weights) == weights.with_name("model.json")
    assert Card.load(card_path(weights)) == card
    assert (card.name, card.version, card.parameters) == ("debug", __version__, model.n_parameters)
    assert (card.seeds, card.signals, card.gpu_minutes) == ([4], 80, 1.5)
    assert card.training == {"steps": 5, "seconds": 90.0, "device": "NVIDIA H200"}
    assert card.prior == card.config["prior"]
    assert (card.evaluation, card.format) == (ROWS, CARD_FORMAT)
    assert time.strptime(card.date, "%Y-%m-%d")
    assert [p.name for p in sorted(weights.parent.iterdir())] == ["model.json", weights.name]


def test_card_takes_facts_from_the_caller(weights: Path) -> None:
    facts = {
        "seeds": [1, 2],
        "signals": 7,
        "gpu_minutes": 3,
        "date": "2026-01-02",
        "prior": {"a": 1},
    }
    rows = [{"value": float("nan"), "levels": (1, 2)}]
    card = write_card(weights, facts | {"stages": "two"}, rows)
    assert {n: getattr(card, n) for n in facts} == facts
    assert card.training["stages"] == "two"
    assert card.evaluation == [{"value": None, "levels": [1, 2]}]
    assert Card.load(card_path(weights)) == card


def test_training_on_the_cpu_takes_no_gpu_minutes(model: SlotFlow, weights: Path) -> None:
    model.save(weights, FACTS | {"device": "cpu"})
    assert write_card(weights).gpu_minutes == 0


def test_failed_write_leaves_the_former_card(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = write_card(weights)
    before = card_path(weights).read_bytes()

    def full(*_: object, **__: object) -> int:
        raise OSError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_text", full)
        with pytest.raises(OSError, match="No space left"):
            dataclasses.replace(card, signals=1).save(card_path(weights))
    assert card_path(weights).read_bytes() == before
    assert len(list(weights.parent.iterdir())) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda d: d.pop("hash"), "'hash' is missing"),
        (lambda d: d.update(hash="sha256:12"), "64 hexadecimal digits"),
        (lambda d: d.update(signals="many"), "'signals': expected int, received 'many'"),
        (lambda d: d.update(signals=True), "'signals': expected int, received True"),
        (lambda d: d.update(evaluation=[3]), "expected rows with named values"),
        (lambda d: d.update(wings=2), "unknown entry 'wings'"),
        (lambda d: d.update(format=CARD_FORMAT + 1), "upgrade slotflow"),
    ],
)
def test_damaged_card(weights: Path, change: Callable[[dict[str, Any]], Any], words: str) -> None:
    write_card(weights)
    path = card_path(weights)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    for read in (lambda: Card.load(path), lambda: load_verified(weights)):
        with pytest.raises(CheckpointError, match=words) as caught:
            read()
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"3", b"\xff\xfe", b"[" * 100_000])
def test_foreign_file_in_the_place_of_the_card(weights: Path, content: bytes) -> None:
    card_path(weights).write_bytes(content)
    with pytest.raises(CheckpointError, match="move the file away"):
        load_verified(weights)


# --- Loading ------------------------------------------------------------------------------------


def test_weights_of_a_user_need_no_card(weights: Path, model: SlotFlow) -> None:
    assert same_tensors(load_verified(weights).state_dict(), model.state_dict())
    write_card(weights)
    assert same_tensors(load_verified(weights).state_dict(), model.state_dict())


def test_changed_weights_are_refused(weights: Path) -> None:
    card = write_card(weights)
    change_one_bit(weights)
    for refuse in (lambda path: read_verified(path, card), load_verified):
        with pytest.raises(CheckpointError, match=f"content hash {card.hash}, received") as caught:
            refuse(weights)
        tensors, header = read_model(weights)
        assert content_hash(tensors, header["model"]) in str(caught.value)
        assert "write a new card" in str(caught.value)
        assert str(weights) in str(caught.value)
    card_path(weights).unlink()
    load_verified(weights)  # the control: without the card nobody would notice


def test_changed_config_is_refused(weights: Path) -> None:
    """A prior that the weights were not trained under: the tensors alone would not tell."""
    card = write_card(weights)
    with safe_open(weights, framework="pt") as file:
        header = json.loads(file.metadata()["slotflow"])
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    header["model"]["prior"]["amplitude"] = [0.5, 1.6]
    save_file(tensors, weights, metadata={"slotflow": json.dumps(header)})
    with pytest.raises(CheckpointError, match=f"content hash {card.hash}"):
        load_verified(weights)


@pytest.mark.parametrize("name", pretrained_names())
def test_embedded_weights_match_their_card(name: str) -> None:
    card, network = embedded_card(name), load_embedded(name)
    assert (card.name, card.parameters) == (network.config.name, network.n_parameters)
    assert card.signals > 0


def test_embedded_weights_are_refused_without_a_match(
    weights: Path, model: SlotFlow, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (slotflow.network.build, slotflow.network.cards):
        monkeypatch.setattr(module, "embedded", lambda file: weights.parent / file)
    with pytest.raises(
        CheckpointError, match="expected a model card, found nothing there; install"
    ):
        load_embedded("model")
    write_card(weights)
    assert same_tensors(load_embedded("model").state_dict(), model.state_dict())
    change_one_bit(weights)
    with pytest.raises(CheckpointError, match="expected the weights that its card describes"):
        load_embedded("model")


def test_from_pretrained_checks_the_card(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file, a training folder and a name: the user's way in refuses what the card does not describe."""
    write_card(weights)
    for source in (weights, weights.parent):
        SlotFlow.from_pretrained(source)
    change_one_bit(weights)
    for source in (weights, weights.parent):
        with pytest.raises(CheckpointError, match="expected the weights that its card describes"):
            SlotFlow.from_pretrained(source)
    shutil.copy(weights, weights.with_name("debug.safetensors"))
    for module in (slotflow.network.build, slotflow.network.cards):
        monkeypatch.setattr(module, "embedded", lambda file: weights.parent / file)
    with pytest.raises(CheckpointError, match="expected a model card, found nothing there"):
        SlotFlow.from_pretrained("debug")
    shutil.copy(card_path(weights), weights.with_name("debug.json"))
    with pytest.raises(CheckpointError, match="expected the weights that its card describes"):
        SlotFlow.from_pretrained("debug")


# --- The maintainer's command -------------------------------------------------------------------


def test_command(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    report.write_text(json.dumps({"suite": "model", "rows": ROWS}))
    facts = ["--fact", "gpu_minutes=52.5", "--fact", "date=2026-01-02", "--fact", "seeds=[1, 2]"]
    main([str(weights), "--evaluation", str(report), *facts])
    card = Card.load(card_path(weights))
    assert (card.gpu_minutes, card.date, card.seeds) == (52.5, "2026-01-02", [1, 2])
    assert card.evaluation == ROWS
    assert f"{card.hash}, 1 rows" in capsys.readouterr().out


def test_command_refuses(weights: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        ([weights, "--fact", "seeds"], "expected KEY=VALUE, received 'seeds'"),
        ([weights, "--fact", "signals=many"], "'signals': expected int"),
        ([weights.with_name("absent.safetensors")], "found nothing there"),
        ([weights, "--evaluation", weights.with_name("absent.json")], "absent.json"),
    ]
    for arguments, words in cases:
        with pytest.raises(SystemExit):
            main([str(a) for a in arguments])
        assert words in " ".join(capsys.readouterr().err.split())
    assert not card_path(weights).exists()


def test_evaluation_report(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    for document in (ROWS, {"rows": ROWS}):
        path.write_text(json.dumps(document))
        assert read_evaluation(path) == ROWS
    for text in ("", "3", '{"lines": []}', "[1]"):
        path.write_text(text)
        with pytest.raises(ValueError, match=r"report\.json: expected .*slotflow evaluate --json"):
            read_evaluation(path)
