"""Sizes of the networks' parts: frozen dataclasses, checked on construction."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from slotflow.core.fields import check

__all__ = ["EncoderConfig", "FamilyConfig", "FlowConfig", "ZoomConfig"]


DOMAINS = ("time-frequency", "time", "frequency")
"""What the encoder is given (paper, 5.3.1): spectrum of the long and samples of the short stream, samples, spectra."""
STARTS = ("torch", "local")
"""Initial weights of the encoder and the classifier: torch's own, or those of `slotflow.network.paper.start`."""


@dataclass(frozen=True)
class EncoderConfig:
    """The dual-stream encoder and the classifier (paper, sections 3.1 and 3.2)."""

    channels: tuple[int, ...] = (32, 64, 128)
    """Channels after each convolution; the last is the width of the tokens."""
    kernels: tuple[int, ...] = (8, 8, 5)
    """Kernel size of each convolution."""
    strides: tuple[int, ...] = (2, 2, 1)
    """Stride of each convolution."""
    heads: int = 4
    """Heads of each self-attention."""
    context: int = 256
    """Width of the global context g and of the classification embedding."""
    noise: bool = False
    """Whether a third pathway, like the frequency one, estimates σ."""
    domain: str = "time-frequency"
    """What the pathways are given: one of "time-frequency", "time" and "frequency"; the latter two are ablations."""
    start: str = "torch"
    """Initial weights: "torch", or "local", with which every token hears itself and g the data
    (`network/paper/start`). It changes how a training begins and nothing about what the network is."""

    def __post_init__(self) -> None:
        same = len(self.channels) == len(self.kernels) == len(self.strides) > 0
        check(same, "as many channels as kernels and strides", dataclasses.asdict(self))
        for name in ("channels", "kernels", "strides"):
            check(min(getattr(self, name)) >= 1, f"{name} >= 1", getattr(self, name))
        check(self.heads >= 1, "heads >= 1", self.heads)
        check(self.channels[-1] % self.heads == 0, "heads that divide the last channel", self.heads)
        check(self.context >= 1, "context >= 1", self.context)
        check(self.domain in DOMAINS, f"a domain of {DOMAINS}", self.domain)
        check(self.start in STARTS, f"a start of {STARTS}", self.start)


TARGETS = ("circle", "plane")
"""Coordinates of a tone: the paper's (A, cos φ, sin φ, f), or (A cos φ, A sin φ, f)."""
LAYER_KINDS = ("spline", "affine", "marginal")


@dataclass(frozen=True)
class FlowConfig:
    """The shared conditional flow and its target (paper, sections 3.4 and 3.5)."""

    layers: int = 8
    """Layers of the flow."""
    kinds: tuple[str, ...] = ("spline", "affine")
    """Kinds of layers, which take turns: "spline" and "affine" couplings, "marginal" splines of each coordinate."""
    hidden: int = 768
    """Width of each coupling layer's network."""
    hidden_layers: int = 2
    """Hidden layers of each coupling layer's network."""
    bins: int = 48
    """Bins of the rational-quadratic splines."""
    bound: float = 2.0
    """The splines act on [−bound, bound] and are the identity outside of it."""
    phase_weight: float = 2.0
    """w_φ, the factor on cos φ and sin φ in the flow's target."""
    frequency_weight: float = 3.0
    """w_f, the factor on the centred frequency in the flow's target."""
    radius_jitter: float = 0.0
    """Spread of ln(radius) that training gives the targets' circle; 0 is the paper's degenerate target."""
    target: str = "circle"
    """Coordinates of a tone: "circle", the paper's four, or "plane", three of them (`network/paper/plane`)."""

    def __post_init__(self) -> None:
        for name in ("layers", "hidden", "hidden_layers"):
            check(getattr(self, name) >= 1, f"{name} >= 1", getattr(self, name))
        check(self.bins >= 2, "bins >= 2", self.bins)
        known = bool(self.kinds) and set(self.kinds) <= set(LAYER_KINDS)
        check(known, f"kinds of layers among {LAYER_KINDS}", self.kinds)
        check(self.radius_jitter >= 0, "radius_jitter >= 0", self.radius_jitter)
        check(self.target in TARGETS, f"a target of {TARGETS}", self.target)
        check(
            self.target == "circle" or self.radius_jitter == 0,
            "radius_jitter 0, since a plane has no radius besides A",
            self.radius_jitter,
        )
        for name in ("bound", "phase_weight", "frequency_weight"):
            check(getattr(self, name) > 0, f"{name} > 0", getattr(self, name))


@dataclass(frozen=True)
class ZoomConfig:
    """The spectral encoder and the slots that look closer (`network/zoom`)."""

    bins: int = 150
    """Widest band in bins 1/T of the long stream."""
    margin: int = 20
    """Bins that the network sees on either side of the band."""
    stem: int = 96
    """Channels of the convolutions over half-bins."""
    width: int = 192
    """Width of the tokens."""
    layers: int = 6
    """Blocks of the encoder."""
    heads: int = 6
    """Heads of its self-attention."""
    slot_width: int = 128
    """Width of the slots' memory."""
    slot_layers: int = 2
    """Blocks of each round."""
    slot_heads: int = 4
    """Heads of the slots' self-attention."""
    window: int = 10
    """Half-bins that a slot sees on either side."""
    rounds: int = 2
    """Rounds that move the slots before the joint steps."""
    zoom: bool = True
    """Whether slots see the spectrum around themselves; False is an ablation."""
    subtract: bool = True
    """Whether the other slots are subtracted there; False is an ablation."""
    canonical: bool = True
    """Whether what a slot sees is divided by its own amplitude; False is an ablation."""
    joint: bool = True
    """Whether the joint steps move the estimate; False is an ablation."""
    recount: bool = True
    """Whether the slots correct q(K | x); False is an ablation."""

    def __post_init__(self) -> None:
        for name in (
            "bins",
            "stem",
            "width",
            "layers",
            "heads",
            "slot_width",
            "slot_layers",
            "slot_heads",
            "window",
        ):
            check(getattr(self, name) >= 1, f"{name} >= 1", getattr(self, name))
        for name in ("margin", "rounds"):
            check(getattr(self, name) >= 0, f"{name} >= 0", getattr(self, name))
        check(self.view_bins % 10 == 0, "bins + 2 margin that is a multiple of ten", self.view_bins)
        check(
            self.width % 8 == self.width % self.heads == 0,
            "heads that divide the width",
            self.heads,
        )
        check(
            self.slot_width % self.slot_heads == 0,
            "slot_heads that divide the slot_width",
            self.slot_heads,
        )

    @property
    def view_bins(self) -> int:
        """Bins that the network sees: the widest band and a margin on both sides."""
        return self.bins + 2 * self.margin


@dataclass(frozen=True)
class FamilyConfig:
    """The network for several classes with time–frequency tokens (`network/family`)."""

    margin: int = 20
    """Bins that the network sees on either side of the widest band."""
    segments: int = 8
    """Segments of the record whose spectra are shown one by one."""
    groups: int = 14
    """Matched filters of a class that are shown; where a class has more, the best of each group of neighbours is."""
    stem: int = 128
    """Channels after the first convolution over half-bins."""
    width: int = 192
    """Width of the tokens."""
    layers: int = 6
    """Blocks of the encoder."""
    second_layers: int = 3
    """Blocks of the encoder of the residual."""
    heads: int = 6
    """Heads of their self-attention."""
    slot_width: int = 128
    """Width of the slots' memory."""
    slot_layers: int = 2
    """Blocks of each round."""
    slot_heads: int = 4
    """Heads of the slots' self-attention."""
    zoom: int = 32
    """Segments of a slot's demodulated record."""
    coarse: int = 64
    """Instants of the coarse record on which a slot is tried as every class."""
    steps: int = 3
    """Joint Gauss–Newton steps after each round that moves the slots."""
    varied: float = 0.4
    """Share of the training signals whose prior is narrower than the model's own."""
    narrowest: float = 0.15
    """Narrowest band of these, as a share of the widest."""
    loudest: float = 10.0
    """Factor by which their largest gain may exceed the model's."""
    level_error: float = 0.02
    """Relative error of the noise level that training signals are given in units of."""

    def __post_init__(self) -> None:
        for name in (
            "segments",
            "groups",
            "stem",
            "width",
            "layers",
            "second_layers",
            "heads",
            "slot_width",
            "slot_layers",
            "slot_heads",
            "zoom",
            "coarse",
            "steps",
        ):
            check(getattr(self, name) >= 1, f"{name} >= 1", getattr(self, name))
        check(self.margin >= 0, "margin >= 0", self.margin)
        check(self.width % self.heads == 0, "heads that divide the width", self.heads)
        check(
            self.slot_width % self.slot_heads == 0,
            "slot_heads that divide the slot_width",
            self.slot_heads,
        )
        check(0 <= self.varied <= 1, "0 <= varied <= 1", self.varied)
        check(0 < self.narrowest <= 1, "0 < narrowest <= 1", self.narrowest)
        check(self.loudest >= 1, "loudest >= 1", self.loudest)
        check(self.level_error >= 0, "level_error >= 0", self.level_error)
