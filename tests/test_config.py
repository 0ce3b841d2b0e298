"""Presets parse, round-trip and build; whatever does not fit is named."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from slotflow import Grid, Observation, SlotFlow
from slotflow.network.config import (
    Config,
    EncoderConfig,
    FlowConfig,
    LossConfig,
    ModelConfig,
    TrainConfig,
    preset_names,
)

MISFIT = object()
"""A value of no type that a config knows."""


def leaves(data: dict[str, Any], prefix: str = "") -> list[str]:
    """Dotted paths of everything in a nested dictionary that is not a dictionary."""
    paths = []
    for key, value in data.items():
        path = f"{prefix}{key}"
        paths += leaves(value, f"{path}.") if isinstance(value, dict) else [path]
    return paths


def changed(path: str, value: Any) -> dict[str, Any]:
    """The debug preset's dictionary with one value replaced."""
    data = copy.deepcopy(Config.from_preset("debug").to_dict())
    *folders, key = path.split(".")
    inner = data
    for folder in folders:
        inner = inner[folder]
    inner[key] = value
    return data


def removed(path: str) -> dict[str, Any]:
    """The debug preset's dictionary without one key."""
    data = changed(path, None)
    *folders, key = path.split(".")
    inner = data
    for folder in folders:
        inner = inner[folder]
    del inner[key]
    return data


# ---------------------------------------------------------------------- presets


def test_presets_exist():
    assert {"debug", "paper"} <= set(preset_names())


@pytest.mark.parametrize("name", preset_names())
def test_preset_parses_and_round_trips(name: str, tmp_path: Path):
    config = Config.from_preset(name)
    assert config.model.name == name
    assert Config.from_dict(config.to_dict()) == config
    assert Config.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(config.to_dict()), encoding="utf-8")
    assert Config.from_yaml(path) == config
    assert Config.from_yaml(str(path)) == config


@pytest.mark.parametrize("name", preset_names())
def test_preset_builds(name: str):
    config = Config.from_preset(name).model
    model = SlotFlow.from_preset(name)
    assert model.config == config
    assert model.n_parameters > 0
    observation = Observation.from_arrays(*data(config.long), *data(config.short))
    if config.family is not None:  # reads complex data
        values, dt = data(config.long)
        observation = Observation.from_arrays(values=values + 1j * values[::-1], dt=dt)
    posterior = model.infer(observation, prior=model.config.prior, refine=False)
    assert posterior.k_probs.shape == (config.prior.k_max + 1,)
    likely = max(1, posterior.k_map)  # an untrained network may exclude others
    drawn = posterior.sample(2, k=likely)
    assert drawn.shape[:2] == (2, likely) and np.isfinite(drawn).all()


def data(grid: Grid) -> tuple[np.ndarray, float]:
    """A series that is not zero, and its step."""
    return np.cos(0.4 * np.arange(grid.n)), grid.dt


def test_paper_preset_is_the_papers():
    config = Config.from_preset("paper")
    model = config.model
    assert (model.long.n, model.long.dt, model.short.n, model.short.dt) == (
        3000,
        0.1,
        5120,
        1 / 512,
    )
    assert model.long.duration == pytest.approx(300) and model.short.duration == 10
    assert (model.prior.k_min, model.prior.k_max) == (1, 10)
    assert model.prior.frequency == (2.5, 3.0) and model.prior.min_separation == 0.01
    assert model.prior.amplitude == (0.5, 1.5) and model.prior.sigma == (0.0, 1.5)
    assert model.encoder.channels == (32, 64, 128) and model.encoder.heads == 4
    assert (model.flow.layers, model.flow.bins, model.flow.bound) == (8, 48, 2.0)
    assert (model.flow.hidden, model.encoder.context) == (768, 256)
    assert (model.flow.phase_weight, model.flow.frequency_weight) == (2.0, 3.0)
    assert (config.train.learning_rate, config.train.batch_size) == (1e-4, 128)
    assert config.train.schedule == "plateau"


def test_configs_are_frozen():
    config = Config.from_preset("debug")
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.model.name = "other"  # type: ignore[misc]


def test_grid():
    grid = Grid(4, 0.5, t0=10.0)
    assert grid.duration == 2.0
    np.testing.assert_array_equal(grid.times, [10.0, 10.5, 11.0, 11.5])


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize("name", ["nonsense", "", "../debug", "debug.yaml"])
def test_unknown_preset_is_named(name: str):
    with pytest.raises(ValueError, match=r"expected a preset of .*debug.*received") as error:
        Config.from_preset(name)
    assert repr(name) in str(error.value)


@pytest.mark.parametrize(
    "folder", ["", "model.", "model.long.", "model.prior.", "model.flow.", "loss.", "train."]
)
def test_unknown_key_is_named(folder: str):
    with pytest.raises(ValueError, match="unknown key 'colour'") as error:
        Config.from_dict(changed(f"{folder}colour", 1))
    assert folder.rstrip(".") in str(error.value)


def test_unknown_keys_of_mixed_types_are_named():
    with pytest.raises(ValueError, match="unknown key 3"):
        Config.from_dict({**changed("loss", {}), 3: 1, "colour": 2})


@pytest.mark.parametrize(
    "path", ["model", "model.name", "model.long", "model.short", "model.long.n", "model.short.dt"]
)
def test_missing_key_is_named(path: str):
    folder, _, key = path.rpartition(".")
    with pytest.raises(ValueError, match=f"the key '{key}' is missing") as error:
        Config.from_dict(removed(path))
    assert folder in str(error.value)


def test_optional_keys_may_be_missing():
    data = {"model": {"name": "x", "long": {"n": 64, "dt": 0.1}, "short": {"n": 32, "dt": 0.01}}}
    config = Config.from_dict(data)
    assert config.train == TrainConfig() and config.loss == LossConfig()
    assert config.model.flow == FlowConfig() and config.model.encoder == EncoderConfig()


@pytest.mark.parametrize("path", leaves(Config.from_preset("debug").to_dict()))
def test_wrong_type_is_named(path: str):
    with pytest.raises(ValueError, match=f"^{path}: expected") as error:
        Config.from_dict(changed(path, MISFIT))
    assert "received" in str(error.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.long.n", 512.0),  # an integer is meant
        ("model.long.n", True),
        ("model.long.dt", False),
        ("model.long.dt", "0.1"),
        ("train.learning_rate", "1e-4"),  # how YAML reads 1e-4 without a decimal point
        ("train.compile", 1),
        ("model.name", 7),
        ("model.long.n", None),
        ("model.prior.frequency", 2.5),
        ("model.prior.frequency", [2.5]),
        ("model.prior.frequency", [2.5, 2.8, 3.0]),
        ("model.prior.frequency", [2.5, "3.0"]),
        ("model.prior.k_probs", [0.5, "half", 0.5]),
        ("model.encoder.channels", [16, 32.5, 32]),
        ("loss.curriculum", [0.1]),
        ("model", [1, 2]),
        ("model.prior", None),
        ("train", "fast"),
    ],
)
def test_near_misses_of_type_are_named(path: str, value: Any):
    with pytest.raises(ValueError, match=f"^{path}: expected .*received"):
        Config.from_dict(changed(path, value))


def test_integers_serve_as_floats():
    config = Config.from_dict(changed("model.long.t0", 3))
    assert config.model.long.t0 == 3.0 and isinstance(config.model.long.t0, float)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("model.long.n", 0, "n >= 1"),
        ("model.short.n", -3, "n >= 1"),
        ("model.long.dt", 0.0, "dt > 0"),
        ("model.long.dt", -0.1, "dt > 0"),
        ("model.short.dt", NAN, "dt > 0"),
        ("model.short.dt", INF, "dt > 0"),
        ("model.long.t0", NAN, "t0"),
        ("model.long.t0", INF, "t0"),
        ("model.prior.k_min", -1, "k_min"),
        ("model.prior.k_min", 4, "k_min"),
        ("model.prior.k_max", 0, "k_max"),
        ("model.prior.k_probs", [0.5, 0.5], "k_probs"),
        ("model.prior.amplitude", [1.5, 0.5], "amplitude"),
        ("model.prior.frequency", [3.0, 3.0], "frequency"),
        ("model.prior.sigma", [-1.0, 1.0], "sigma"),
        ("model.prior.min_separation", -0.01, "min_separation"),
        ("model.prior.min_separation", 0.25, "do not fit"),
        ("model.prior.amplitude_law", "normal", "amplitude_law"),
        ("model.encoder.channels", [16, 32], "channels"),
        ("model.encoder.channels", [16, 0, 32], "channels >= 1"),
        ("model.encoder.kernels", [8, 8, 0], "kernels >= 1"),
        ("model.encoder.strides", [2, -2, 1], "strides >= 1"),
        ("model.encoder.heads", 0, "heads"),
        ("model.encoder.heads", 3, "heads"),
        ("model.encoder.context", 0, "context"),
        ("model.encoder.domain", "wavelet", "a domain of"),
        ("model.encoder.start", "warm", "a start of"),
        ("model.flow.target", "sphere", "a target of"),
        ("model.flow.target", "plane", "radius_jitter 0"),
        ("model.flow.layers", 0, "layers"),
        ("model.flow.hidden", 0, "hidden"),
        ("model.flow.hidden_layers", 0, "hidden_layers"),
        ("model.flow.bins", 1, "bins"),
        ("model.flow.bound", 0.0, "bound"),
        ("model.flow.bound", NAN, "bound"),
        ("model.flow.phase_weight", 0.0, "phase_weight"),
        ("model.flow.frequency_weight", -3.0, "frequency_weight"),
        ("loss.flow", -1.0, "flow"),
        ("loss.noise", -1.0, "noise"),
        ("loss.noise", NAN, "noise"),
        ("loss.ordered", 1.5, "ordered"),
        ("loss.ordered", NAN, "ordered"),
        ("loss.curriculum", [0.5, 0.5], "curriculum"),
        ("loss.curriculum", [-0.1, 0.5], "curriculum"),
        ("train.seed", -1, "seed"),
        ("train.batch_size", 0, "batch_size"),
        ("train.steps_per_epoch", 0, "steps_per_epoch"),
        ("train.max_epochs", 0, "max_epochs"),
        ("train.validation_signals", 0, "validation_signals"),
        ("train.log_steps", 0, "log_steps"),
        ("train.optimizer", "sgd", "optimizer"),
        ("train.schedule", "linear", "schedule"),
        ("train.learning_rate", -1.0, "learning_rate"),
        ("train.learning_rate", NAN, "learning_rate"),
        ("train.min_learning_rate", 1.0, "min_learning_rate"),
        ("train.weight_decay", -0.1, "weight_decay"),
        ("train.betas", [0.9, 1.0], "betas"),
        ("train.betas", [-0.9, 0.99], "betas"),
        ("train.plateau_factor", 1.0, "plateau_factor"),
        ("train.plateau_patience", -1, "plateau_patience"),
        ("train.early_stopping", -1, "early_stopping"),
        ("train.warmup_steps", -1, "warmup_steps"),
        ("train.ema", 1.0, "ema"),
        ("train.clip_norm", -1.0, "clip_norm"),
        ("train.checkpoint_minutes", -1.0, "checkpoint_minutes"),
    ],
)
def test_invalid_value_is_named(path: str, value: Any, named: str):
    with pytest.raises(ValueError) as error:
        Config.from_dict(changed(path, value))
    message = str(error.value)
    assert message.startswith(path.rpartition(".")[0] + ": "), message
    assert named in message


def test_band_above_nyquist_is_refused():
    with pytest.raises(ValueError, match=r"Nyquist frequency of 2\.5 Hz"):
        Config.from_dict(changed("model.long.dt", 0.2))


def test_zero_components_are_refused_by_the_papers_architecture():
    with pytest.raises(ValueError, match="k_min >= 1"):
        Config.from_dict(changed("model.prior.k_min", 0))


def test_checks_hold_without_a_file():
    with pytest.raises(ValueError, match="n >= 1, received 0"):
        Grid(0, 0.1)
    with pytest.raises(ValueError, match="Nyquist"):
        ModelConfig("x", Grid(8, 1.0), Grid(8, 0.1))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected a mapping, received NoneType"),
        ("- 1\n- 2\n", "expected a mapping, received list"),
        ("model: {name: [", "not valid YAML"),
        ("model: !!python/object/apply:os.getcwd []\n", "not valid YAML"),
    ],
)
def test_bad_yaml_is_a_value_error(text: str, message: str, tmp_path: Path):
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        Config.from_yaml(path)


def test_missing_file_is_an_os_error(tmp_path: Path):
    with pytest.raises(FileNotFoundError):
        Config.from_yaml(tmp_path / "none.yaml")
