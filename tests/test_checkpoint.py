"""Model files and checkpoints: exact round trips, clear refusals, and files that no crash can break."""

from __future__ import annotations

import errno
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from training_helpers import same_tensors, tiny

import slotflow.network.checkpoint
from slotflow import SlotFlow, __version__
from slotflow.network.build import load_model
from slotflow.network.checkpoint import (
    FORMAT,
    CheckpointError,
    describe,
    flatten_optimizer,
    load_training,
    restore_optimizer,
    save_training,
)
from slotflow.network.config import Config
from slotflow.train.loop import train

PARTS = {
    "model": {"a.weight": torch.arange(6.0).reshape(2, 3).T, "b": torch.tensor([1, 2])},
    "rng": {"cpu": torch.arange(5, dtype=torch.uint8)},
    "optimizer": {"0.step": torch.tensor(3.0), "0.exp_avg": torch.zeros(0, 2)},
    "ema": {"a.weight": torch.full((3, 2), 0.1, dtype=torch.float64), "b": torch.tensor([True])},
}
STATE = {"step": 7, "best": float("inf"), "config": {"π": [0.1, None, "x"]}, "loss": 0.1 + 0.2}


@pytest.fixture(scope="module")
def model() -> SlotFlow:
    """An untrained network."""
    torch.manual_seed(3)
    return SlotFlow.from_preset("debug")


@pytest.fixture
def model_file(model: SlotFlow, tmp_path: Path) -> Path:
    """Its file."""
    model.save(tmp_path / "model.safetensors", {"steps": 5})
    return tmp_path / "model.safetensors"


def rewrite(path: Path, change: Callable[[dict[str, Any]], Any], drop: str = "") -> None:
    """Changes a file's header, and leaves one tensor out if asked to."""
    with safe_open(path, framework="pt") as file:
        header = json.loads(file.metadata()["slotflow"])
        tensors = {name: file.get_tensor(name) for name in file.keys() if name != drop}  # noqa: SIM118
    save_file(tensors, path, metadata={"slotflow": json.dumps(change(header))})


# --- Round trips --------------------------------------------------------------------------------


def test_model_round_trip(model: SlotFlow, model_file: Path) -> None:
    loaded = load_model(model_file)
    assert loaded.config == model.config
    assert same_tensors(loaded.state_dict(), model.state_dict())
    header = describe(model_file)
    assert (header["format"], header["version"]) == (FORMAT, __version__)
    assert (header["kind"], header["facts"]) == ("model", {"steps": 5})
    for source in (model_file, str(model_file), model_file.parent):
        assert same_tensors(SlotFlow.from_pretrained(source).state_dict(), model.state_dict())


def test_model_saves_itself(model: SlotFlow, tmp_path: Path) -> None:
    model.save(tmp_path / "new" / "folder" / "a.safetensors", {"note": "σ"})
    assert describe(tmp_path / "new" / "folder" / "a.safetensors")["facts"] == {"note": "σ"}


def test_training_round_trip(tmp_path: Path) -> None:
    save_training(tmp_path / "a.safetensors", PARTS, STATE)
    parts, state = load_training(tmp_path / "a.safetensors")
    assert parts.keys() == PARTS.keys()
    assert all(same_tensors(parts[part], dict(PARTS[part])) for part in PARTS)
    assert all(parts[part][n].dtype == t.dtype for part in PARTS for n, t in PARTS[part].items())
    assert {name: state[name] for name in STATE} == STATE


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW])
def test_optimizer_round_trip(kind: type[torch.optim.Adam], tmp_path: Path) -> None:
    """After loading, the next steps are the same to the last bit; without the moments they are not."""

    def weights() -> list[Tensor]:
        generator = torch.Generator().manual_seed(1)
        return [torch.randn(n, generator=generator).requires_grad_() for n in (3, 5)]

    def step(parameters: list[Tensor], optimizer: torch.optim.Optimizer, times: int) -> None:
        for _ in range(times):
            optimizer.zero_grad()
            torch.stack([(p**4).sum() for p in parameters]).sum().backward()
            optimizer.step()

    def resumed(with_moments: bool) -> list[Tensor]:
        tensors, groups = flatten_optimizer(first)
        save_training(tmp_path / "o.safetensors", {"optimizer": tensors}, {"groups": groups})
        parts, state = load_training(tmp_path / "o.safetensors")
        parameters = [p.detach().clone().requires_grad_() for p in a]
        second = kind(parameters, 0.5)
        restore_optimizer(second, parts["optimizer"] if with_moments else {}, state["groups"])
        assert second.param_groups[0]["lr"] == 0.01
        step(parameters, second, 2)
        return parameters

    a = weights()
    first = kind(a, 0.01, (0.8, 0.95))
    step(a, first, 3)
    other, without = resumed(True), resumed(False)
    step(a, first, 2)
    assert all(p.equal(q) for p, q in zip(a, other, strict=True))
    assert not any(p.equal(q) for p, q in zip(a, without, strict=True))


def test_model_of_a_checkpoint(debug_config: Config, tmp_path: Path) -> None:
    """A checkpoint can stand in for a model file: its averaged weights where there are any."""
    for ema, part in ((0.9, "ema"), (0.0, "model")):
        train(tiny(debug_config, ema=ema, max_epochs=1), tmp_path / part, quiet=True)
        path = tmp_path / part / "checkpoint.safetensors"
        assert same_tensors(load_model(path).state_dict(), load_training(path)[0][part])


# --- Half precision -----------------------------------------------------------------------------


def stored(path: Path) -> dict[str, Tensor]:
    """The tensors of a file, as they are in it."""
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def test_half_precision_on_file(model: SlotFlow, tmp_path: Path) -> None:
    """The named modules take half the bytes and come back as float32, rounded; all else is the same in every bit."""
    path, full = tmp_path / "half.safetensors", model.state_dict()
    model.save(path, {}, half=("encoder.frequency", "cardinality"))
    loaded = load_model(path).state_dict()
    assert {t.dtype for n, t in loaded.items() if full[n].is_floating_point()} == {torch.float32}
    assert {n: t.dtype for n, t in loaded.items()} == {n: t.dtype for n, t in full.items()}
    halved = {n for n in full if n.startswith(("encoder.frequency.", "cardinality."))}
    halved = {n for n in halved if full[n].is_floating_point()}
    assert {n for n, t in stored(path).items() if t.dtype == torch.float16} == halved
    assert halved and halved < set(full)
    for name, tensor in full.items():
        if name in halved:
            assert loaded[name].equal(tensor.half().float())
            assert torch.allclose(loaded[name], tensor, rtol=2**-11, atol=2**-25)
        else:
            assert loaded[name].equal(tensor)
    assert any(not loaded[name].equal(full[name]) for name in halved), "nothing was rounded"
    load_model(path).save(tmp_path / "again.safetensors", {}, ("encoder.frequency", "cardinality"))
    assert same_tensors(stored(tmp_path / "again.safetensors"), stored(path))
    model.save(tmp_path / "full.safetensors", {})
    saved = (tmp_path / "full.safetensors").stat().st_size - path.stat().st_size
    assert saved == pytest.approx(2 * sum(full[n].numel() for n in halved), abs=1000)


def test_half_precision_of_the_embedded_types(model: SlotFlow, model_file: Path) -> None:
    """bfloat16 on file is read as well, and a model that computes in float64 gets its own type."""
    tensors = {
        n: t.bfloat16() if t.is_floating_point() else t for n, t in stored(model_file).items()
    }
    with safe_open(model_file, framework="pt") as file:
        save_file(tensors, model_file, metadata=file.metadata())
    loaded = load_model(model_file)
    assert loaded.dtype == torch.float32
    assert all(t.equal(tensors[n].to(t.dtype)) for n, t in loaded.state_dict().items())
    assert SlotFlow.from_pretrained(model_file, dtype=torch.float64).dtype == torch.float64


def test_half_precision_refusals(model: SlotFlow, tmp_path: Path) -> None:
    path = tmp_path / "half.safetensors"
    for name in ("wings", "encod", "encoder."):
        with pytest.raises(
            ValueError, match=rf"half: expected a module .* received '{name}'.*'flow'"
        ):
            model.save(path, {}, half=(name,))
    loud = SlotFlow(model.config)
    with torch.no_grad():
        next(loud.encoder.parameters()).view(-1)[0] = 7e4
    with pytest.raises(
        ValueError, match=r"half: expected numbers up to 65504, received 70000 in 'encoder\."
    ):
        loud.save(path, {}, half=("encoder",))
    assert not path.exists()
    loud.save(path, {})


# --- Refusals -----------------------------------------------------------------------------------


class Bomb:
    """Writes a file when it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.marker,)


def check_refused(path: Path, words: str) -> None:
    """Every reader refuses the file with a CheckpointError that names it and holds the words."""
    for reader in (load_model, load_training, describe, SlotFlow.from_pretrained):
        with pytest.raises(CheckpointError, match=words) as caught:
            reader(path)
        assert str(path) in str(caught.value)
        assert isinstance(caught.value, ValueError)


def test_missing_file(tmp_path: Path) -> None:
    check_refused(tmp_path / "none.safetensors", "nothing there; check the path")
    with pytest.raises(CheckpointError, match="nothing there"):
        SlotFlow.from_pretrained(tmp_path)  # a folder without a model
    with pytest.raises(CheckpointError, match="name of embedded weights"):
        SlotFlow.from_pretrained("zooom")


@pytest.mark.parametrize(
    "content",
    [b"", b"x", b"time,value\n0.0,1.0\n" * 100, bytes(64), b"\xff" * 64, b"PK\x03\x04" + bytes(64)],
    ids=["empty", "byte", "text", "zeros", "ones", "zip"],
)
def test_foreign_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(content)
    check_refused(path, "truncated or of another kind")


def test_truncated_at_any_length(model_file: Path) -> None:
    whole = model_file.read_bytes()
    for cut in [*range(0, 200, 7), *range(200, len(whole), len(whole) // 40), len(whole) - 1]:
        model_file.write_bytes(whole[:cut])
        with pytest.raises(CheckpointError, match="truncated or of another kind"):
            load_model(model_file)
    check_refused(model_file, "truncated or of another kind")
    model_file.write_bytes(whole + b"more")
    check_refused(model_file, "truncated or of another kind")
    model_file.write_bytes(whole)
    load_model(model_file)


@pytest.mark.parametrize("writer", ["pickle", "torch"])
def test_pickles_are_refused_and_never_run(tmp_path: Path, writer: str) -> None:
    path, marker = tmp_path / "model.safetensors", tmp_path / "executed"
    if writer == "pickle":
        path.write_bytes(pickle.dumps(Bomb(marker)))
    else:
        torch.save({"bomb": Bomb(marker)}, path)
    check_refused(path, "truncated or of another kind")
    assert not marker.exists()
    if writer == "pickle":  # the control: the bomb works
        pickle.loads(path.read_bytes())
        assert marker.exists()


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_safetensors_of_someone_else(tmp_path: Path, metadata: dict[str, str] | None) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata=metadata)
    check_refused(path, "not one of slotflow's")


@pytest.mark.parametrize(
    "header",
    ["", "{", "[1]", "3", "{}", '{"format": "x"}', '{"format": 1}', '{"format": 1, "kind": "map"}'],
)
def test_damaged_header(tmp_path: Path, header: str) -> None:
    path = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(2)}, path, metadata={"slotflow": header})
    check_refused(path, "header is damaged")


def test_newer_format(model_file: Path) -> None:
    future = {"format": FORMAT + 1, "version": "9.9.0", "kind": "something new"}
    rewrite(model_file, lambda _: future)
    check_refused(model_file, rf"slotflow 9\.9\.0 in format {FORMAT + 1}.*upgrade slotflow")


def test_model_file_is_no_checkpoint(model_file: Path) -> None:
    with pytest.raises(CheckpointError, match=r"received a model file; resume from checkpoint\."):
        load_training(model_file)


def test_weights_that_do_not_fit(model: SlotFlow, model_file: Path) -> None:
    def widen(header: dict[str, Any]) -> dict[str, Any]:
        header["model"]["encoder"]["context"] *= 2
        return header

    name = next(iter(model.state_dict()))
    rewrite(model_file, lambda header: header, drop=name)
    with pytest.raises(CheckpointError, match="do not fit the model of the config") as caught:
        load_model(model_file)
    assert name in str(caught.value)
    model.save(model_file, {})
    rewrite(model_file, widen)
    with pytest.raises(CheckpointError, match="do not fit the model of the config"):
        load_model(model_file)


def test_config_of_an_unknown_kind(model_file: Path) -> None:
    """A config that this version cannot build is a refusal too, not a KeyError."""

    def rename(header: dict[str, Any]) -> dict[str, Any]:
        header["model"]["encoder"]["sparkle"] = True
        return header

    rewrite(model_file, rename)
    with pytest.raises(ValueError, match="unknown key 'sparkle'"):
        load_model(model_file)


# --- Atomic writing -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), RuntimeError("dead")],
    ids=["full", "ctrl-c", "error"],
)
@pytest.mark.parametrize("written", [True, False], ids=["half", "nothing"])
def test_failed_write_leaves_the_former_file(
    model: SlotFlow,
    model_file: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    written: bool,
) -> None:
    before = model_file.read_bytes()

    def half(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        if written:
            save_file(tensors, path, metadata)
            content = path.read_bytes()
            path.write_bytes(content[: len(content) // 2])
        raise error

    monkeypatch.setattr(slotflow.network.checkpoint, "save_file", half)
    with pytest.raises(type(error)):
        model.save(model_file, {"steps": 6})
    assert model_file.read_bytes() == before
    assert [p.name for p in model_file.parent.iterdir()] == [model_file.name]


def test_full_disk_during_training(
    debug_config: Config, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []

    def full(*arguments: Any, **options: Any) -> None:
        calls.append(1)
        if len(calls) > 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        save_file(*arguments, **options)

    monkeypatch.setattr(slotflow.network.checkpoint, "save_file", full)
    config = tiny(debug_config, checkpoint_minutes=0.0)
    with pytest.raises(OSError, match="No space left"):
        train(config, tmp_path, quiet=True)
    assert load_training(tmp_path / "checkpoint.safetensors")[1]["step"] == 3
    assert not list(tmp_path.glob(".*"))
    monkeypatch.setattr(slotflow.network.checkpoint, "save_file", save_file)  # room was made
    train(config, tmp_path, resume=True, quiet=True)


@pytest.mark.parametrize("change", ["missing", "unknown key", "no mapping"])
def test_header_with_a_foreign_config(model_file: Path, change: str) -> None:
    def spoil(header: dict[str, Any]) -> dict[str, Any]:
        if change == "missing":
            del header["model"]
        elif change == "unknown key":
            header["model"]["wings"] = 2
        else:
            header["model"] = 3
        return header

    rewrite(model_file, spoil)
    with pytest.raises(CheckpointError, match="its config cannot be read") as caught:
        load_model(model_file)
    assert str(model_file) in str(caught.value)
