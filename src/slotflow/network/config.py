"""Configuration: frozen dataclasses, checked on construction, read from YAML presets."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from slotflow.core.fields import check, from_dict, plain
from slotflow.core.presets import preset_names
from slotflow.data.sampling import Grid
from slotflow.network.architecture import EncoderConfig, FamilyConfig, FlowConfig, ZoomConfig
from slotflow.signal.mixture import PriorMixture
from slotflow.signal.prior import Prior
from slotflow.signal.waveforms import TONE, Classes

__all__ = [
    "Config",
    "EncoderConfig",
    "FamilyConfig",
    "FlowConfig",
    "LossConfig",
    "ModelConfig",
    "TrainConfig",
    "ZoomConfig",
    "preset_names",
]


@dataclass(frozen=True)
class ModelConfig:
    """Everything needed to build a SlotFlow network."""

    name: str
    """Name of the preset or of the user's model."""
    long: Grid
    """Sampling of the long stream."""
    short: Grid
    """Sampling of the short stream."""
    prior: Prior = field(default_factory=Prior)
    """The prior the network is trained under."""
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    """Encoder and classifier."""
    flow: FlowConfig = field(default_factory=FlowConfig)
    """Flow and target."""
    zoom: ZoomConfig | None = None
    """Spectral encoder and zooming slots instead of the paper's parts; `encoder` is not used then."""
    family: FamilyConfig | None = None
    """Time–frequency tokens and slots of several classes; neither `encoder` nor `short` is used then."""
    gain: tuple[float, float] = (5.0, 40.0)
    """Bounds of ρ where the prior has several classes (paper, section 3.7): amplitudes follow from it, see
    `slotflow.signal.simulation_classes`."""

    def __post_init__(self) -> None:
        nyquist = 0.5 / self.long.dt
        check(
            self.prior.frequency[1] <= nyquist,
            f"a band below the long stream's Nyquist frequency of {nyquist:g} Hz",
            self.prior.frequency,
        )
        classes = self.prior.waveform if isinstance(self.prior.waveform, Classes) else None
        check(
            self.prior.waveform == TONE or (classes is not None and self.zoom is None),
            "a prior of tones, or of several classes for the paper's parts",
            self.prior.waveform,
        )
        if self.family is not None:
            self._check_family(self.family)
            return
        if self.zoom is not None:
            width = (self.prior.frequency[1] - self.prior.frequency[0]) * self.long.duration
            check(
                width < self.zoom.bins + 1,
                f"a band of at most {self.zoom.bins} bins of 1/T (narrow prior.frequency or shorten long)",
                f"{width:.6g} bins",
            )
            return
        if classes is not None:
            self._check_classes(classes)
            return
        check(
            self.prior.k_min >= 1, "k_min >= 1 (this architecture has no K = 0)", self.prior.k_min
        )

    def _check_family(self, sizes: FamilyConfig) -> None:
        """Refuses sizes and a prior that do not go together."""
        check(isinstance(self.prior.waveform, Classes), "classes", self.prior.waveform)
        check(self.long.duration == 1.0, "a record of the length 1", self.long.duration)
        low, high = self.prior.frequency
        check(low == -high, "a band around 0", self.prior.frequency)
        view = 2 * high + 2 * sizes.margin
        check(view % 2 == 0 and view < self.long.n, "a view of an even number of bins", view)
        check(0 < self.gain[0] < self.gain[1], "gain with 0 < low < high", self.gain)
        for name in ("segments", "zoom", "coarse"):
            check(
                self.long.n % getattr(sizes, name) == 0,
                f"{name} that divide the number of samples",
                getattr(sizes, name),
            )

    def _check_classes(self, classes: Classes) -> None:
        """Refuses classes that do not fit the prior or the sampling."""
        check(self.flow.target == "circle", "the circle's target, which any class has", self.flow)
        check(self.prior.sigma[0] > 0, "sigma above 0, which gains refer to", self.prior.sigma)
        check(0 < self.gain[0] < self.gain[1], "gain with 0 < low < high", self.gain)
        for member in classes.members.values():
            for low, high in member.occupied(self.prior.frequency, self.long.duration):
                check(
                    low >= 0 and high <= self.long.nyquist,
                    f"components between 0 and the Nyquist frequency of {self.long.nyquist:g} Hz (narrow "
                    "prior.frequency or the waveform's ranges)",
                    f"{member.text} at {low:.6g} to {high:.6g} Hz",
                )


COUNT_TERMS = ("count", "ce")
"""The loss terms of the final count of components, in preset zoom and in the paper's; they set the scale."""
WEIGHTED_TERMS = ("flow", "noise", "classes", "first_count", "heat", "offset", "rounds")
"""The loss terms whose weights a config can set."""


@dataclass(frozen=True)
class LossConfig:
    """Weights of the loss terms and the curriculum."""

    flow: float = 1.0
    """λ_flow."""
    noise: float = 0.1
    """λ_noise; used where the encoder estimates σ."""
    classes: float = 1.0
    """λ_class; 1 makes it and the count's term the log-likelihood of the numbers of each class."""
    first_count: float = 0.5
    """Weight of the encoder's own count, beside 1 for the count after the slots (preset zoom)."""
    heat: float = 0.1
    """Weight of the heat map's cross-entropy, summed over bins."""
    offset: float = 5.0
    """Weight of the squared error of its offsets, in bins²."""
    rounds: float = 0.1
    """Weight of the estimates of each round."""
    ordered: float = 0.0
    """Share of training, from its beginning, in which slot k takes the k-th tone in the order of frequency instead of
    the matched one: no costs of pairs are needed then (preset paper). Validation always matches."""
    curriculum: tuple[float, float] | None = None
    """Shares of training between which slots move from the true to the predicted K; None keeps the true K."""

    def __post_init__(self) -> None:
        for name in WEIGHTED_TERMS:
            check(getattr(self, name) >= 0, f"{name} >= 0", getattr(self, name))
        check(0 <= self.ordered <= 1, "0 <= ordered <= 1", self.ordered)
        if self.curriculum is not None:
            a, b = self.curriculum
            check(0 <= a < b, "a curriculum (start, end) with 0 <= start < end", self.curriculum)

    def weight(self, term: str) -> float:
        """Weight of a loss term; that of the final count is 1."""
        if term in COUNT_TERMS:
            return 1.0
        if term not in WEIGHTED_TERMS:
            raise ValueError(
                f"expected a loss term of {(*COUNT_TERMS, *WEIGHTED_TERMS)}, received {term!r}; give every term a "
                "weight in LossConfig."
            )
        weight: float = getattr(self, term)
        return weight


SCHEDULES = ("plateau", "cosine", "constant")
OPTIMIZERS = ("adam", "adamw", "muon")


@dataclass(frozen=True)
class TrainConfig:
    """Training (paper, section 3.6, and what it leaves open)."""

    seed: int = 0
    """Seed of the weights and of every simulated batch."""
    batch_size: int = 128
    """Signals per step over all processes together."""
    steps_per_epoch: int = 62_500
    """Steps between validations; 62,500 × 128 = the paper's 8 million signals."""
    max_epochs: int = 300
    """Largest number of epochs."""
    validation_signals: int = 10_000
    """Signals of the fixed validation set, rounded up to whole batches."""
    optimizer: str = "adam"
    """"adam", "adamw" or "muon" (orthogonal steps for matrices, adamw for the rest: `slotflow.train.muon`)."""
    learning_rate: float = 1e-4
    """Peak learning rate."""
    matrix_learning_rate: float = 0.02
    """Peak learning rate of matrices; muon only."""
    weight_decay: float = 0.0
    """Decoupled weight decay; adamw and muon."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Decay rates of the optimizer's moments."""
    schedule: str = "plateau"
    """"plateau" (ReduceLROnPlateau), "cosine" (over the steps or minutes given) or "constant"."""
    cycles: int = 1
    """Cycles of the cosine, with warm restarts between them; the network is validated at the end of each."""
    cycle_growth: float = 3.0
    """Length of a cycle over that of the one before it."""
    plateau_factor: float = 0.5
    """Factor on the learning rate at a plateau."""
    plateau_patience: int = 6
    """Epochs without improvement before the learning rate falls."""
    min_learning_rate: float = 1e-6
    """Floor of the learning rate."""
    early_stopping: int = 20
    """Epochs without improvement before training ends; 0 for never."""
    warmup_steps: int = 0
    """Steps of linear warm-up."""
    ema: float = 0.0
    """Decay of the exponential moving average of the weights, which is what is kept; 0 for no average."""
    clip_norm: float = 0.0
    """Largest norm of the gradient; 0 for no bound."""
    bfloat16: bool = False
    """Whether encoder and coupling networks compute in bfloat16; spline and loss stay float32."""
    compile: bool = False
    """Whether torch.compile is applied to the encoder."""
    short_dropped: float = 0.0
    """Share of the steps whose signals have no short stream."""
    short_varied: float = 0.0
    """Share of the steps whose short stream has another length and place."""
    gaps: float = 0.0
    """Share of the steps whose signals have no short stream and miss up to half of the long one."""
    log_steps: int = 50
    """Steps between two lines of the metrics file."""
    checkpoint_minutes: float = 5.0
    """Minutes between checkpoints; one is written after each epoch as well."""

    def __post_init__(self) -> None:
        for name in (
            "batch_size",
            "steps_per_epoch",
            "max_epochs",
            "validation_signals",
            "log_steps",
            "cycles",
        ):
            check(getattr(self, name) >= 1, f"{name} >= 1", getattr(self, name))
        check(self.optimizer in OPTIMIZERS, f"an optimizer of {OPTIMIZERS}", self.optimizer)
        check(self.schedule in SCHEDULES, f"a schedule of {SCHEDULES}", self.schedule)
        check(
            0 <= self.min_learning_rate <= self.learning_rate,
            "0 <= min_learning_rate <= learning_rate",
            (self.min_learning_rate, self.learning_rate),
        )
        check(self.cycle_growth > 0, "cycle_growth > 0", self.cycle_growth)
        check(self.matrix_learning_rate > 0, "matrix_learning_rate > 0", self.matrix_learning_rate)
        check(0 < self.plateau_factor < 1, "0 < plateau_factor < 1", self.plateau_factor)
        check(0 <= self.ema < 1, "0 <= ema < 1", self.ema)
        check(0 <= self.gaps <= 1, "0 <= gaps <= 1", self.gaps)
        check(all(0 <= b < 1 for b in self.betas), "betas with 0 <= beta < 1", self.betas)
        for name in (
            "weight_decay",
            "warmup_steps",
            "clip_norm",
            "early_stopping",
            "seed",
            "plateau_patience",
            "checkpoint_minutes",
        ):
            check(getattr(self, name) >= 0, f"{name} >= 0", getattr(self, name))


@dataclass(frozen=True)
class Config:
    """A preset: the model, its loss and its training."""

    model: ModelConfig
    loss: LossConfig = field(default_factory=LossConfig)
    mixture: PriorMixture | None = None
    """Priors that training signals are drawn under, around the model's; None for the model's own alone."""
    train: TrainConfig = field(default_factory=TrainConfig)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Config:
        """Builds a config from nested dictionaries; unknown keys are errors."""
        return from_dict(cls, data)

    @classmethod
    def from_yaml(cls, path: str | Path) -> Config:
        """Reads a config from a YAML file."""
        try:
            data = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        except yaml.YAMLError as error:
            raise ValueError(f"{path} is not valid YAML: {error}") from error
        return cls.from_dict(data)

    @classmethod
    def from_preset(cls, name: str) -> Config:
        """Reads one of the presets in the package."""
        if name not in preset_names():
            raise ValueError(f"expected a preset of {preset_names()}, received {name!r}.")
        with resources.as_file(resources.files("slotflow") / "presets" / f"{name}.yaml") as path:
            return cls.from_yaml(path)

    def to_dict(self) -> dict[str, Any]:
        """The config as nested dictionaries of plain values, ready for JSON or YAML."""
        values: dict[str, Any] = plain(dataclasses.asdict(self))
        return values
