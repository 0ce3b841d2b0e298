r"""The networks whose training sets are counted, their signals, and the loss that they are to reach.

**In small.** Some hundred trainings are affordable only with networks and signals that are smaller than the published
ones. The record is 120 s long instead of 300 s, with 768 and 128 samples instead of 3,000 and 5,120. The band of 0.5 Hz
has 60 bins 1/T instead of 150, and tones keep the same distance of three bins. The noise reaches
σ = 1.5 √(768/3000) ≈ 0.75, so that the bounds on A, φ and f T are those of the paper's data. Networks have the parts of
presets `paper` and `zoom` with fewer layers and channels, and ten slots whatever the K of their signals.

**K.** Appendix B.3 does not say whether its K is the number of tones of every signal or the largest one. Here every
signal of a training has exactly K tones, so that both readings of the theorem's K_max agree; the count is then learned
within a few steps.

**Loss.** As in the paper, "the sum of classification and flow losses". For `paper` it is to fall below 0. The flow loss
of `zoom` is in units of the joint bound, where no density can be much better than the standard normal one of three
coordinates, whose entropy is

.. math:: H = \tfrac32 \ln(2 π e) ≈ 4.26 .

What counts for it is the loss above H: about the divergence per tone from a Gaussian posterior, the ε of theorem 4.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from slotflow.data.sampling import Grid
from slotflow.network.config import Config
from slotflow.signal.waveforms import TONE

__all__ = ["LEARNERS", "Learner", "learner_config"]

LONG, SHORT = Grid(768, 0.15625), Grid(128, 0.03125)
"""120 s at 6.4 Hz and 4 s at 32 Hz."""
SEPARATION = 3 / LONG.duration
"""Least distance of two frequencies, three bins [Hz]."""
LARGEST_SIGMA = 0.75
K_MAX = 10
"""Slots of all networks."""
NORMAL_ENTROPY = 0.5 * TONE.coordinates * math.log(2 * math.pi * math.e)
"""H, of a standard normal density of a tone's coordinates [nat]."""


@dataclass(frozen=True)
class Learner:
    """One kind of network."""

    preset: str
    """The preset that it is made of."""
    small: Callable[[Config], Config]
    """Its config with fewer layers and channels."""
    classification: str
    """Name of the loss term that counts K; the flow's is "flow"."""
    floor: float
    """What is subtracted from the loss."""
    target: float
    """Loss for which the least training set is looked for."""
    lines: tuple[float, ...]
    """Further losses that the picture marks."""
    steps: int
    """Steps of every training in full size."""
    words: str
    """What its loss is, for tables and pictures."""
    scored: bool = False
    """Whether −ln q(A, φ, f | x) is measured as well: where the loss is that of a degenerate density."""


def _small_paper(config: Config) -> Config:
    model = config.model
    encoder = replace(model.encoder, channels=(16, 32, 32), heads=2, context=64)
    flow = replace(model.flow, layers=4, hidden=64, bins=12)
    return replace(config, model=replace(model, encoder=encoder, flow=flow))


def _small_zoom(config: Config) -> Config:
    model = config.model
    assert model.zoom is not None
    zoom = replace(
        model.zoom,
        bins=60,
        stem=32,
        width=64,
        layers=2,
        heads=4,
        slot_width=64,
        slot_layers=1,
        rounds=1,
    )
    flow = replace(model.flow, layers=2, kinds=("marginal", "affine"), hidden=32)
    return replace(config, model=replace(model, zoom=zoom, flow=flow), mixture=None)


LEARNERS = {
    "paper": Learner(
        preset="paper",
        small=_small_paper,
        classification="ce",
        floor=0.0,
        target=0.0,
        lines=(-1.0, -1.5, -2.0),
        steps=600,
        words="classification + flow [nat]",
        scored=True,
    ),
    "zoom": Learner(
        preset="zoom",
        small=_small_zoom,
        classification="count",
        floor=NORMAL_ENTROPY,
        target=0.1,
        lines=(0.2, 0.05),
        steps=300,
        words="classification + flow − H [nat]",
    ),
}
"""The networks by name; target and lines of `paper` are those of figures 19 and 18."""


def learner_config(learner: Learner, steps: int, batch: int) -> Config:
    """The config of all trainings of a network.

    In single trials of 300 steps of 64 signals with four tones, `paper` ended at a loss of 0.53, 0.09 and −0.13 with
    rates of 0.002, 0.004 and 0.008; `zoom`, after 60 steps, 0.95 and 0.44 above H with 0.002 and 0.005.

    Args:
        learner: The network.
        steps: Steps of a training, over which the learning rate falls.
        batch: Signals of a step.
    """
    preset = Config.from_preset(learner.preset)
    prior = replace(
        preset.model.prior,
        k_min=1,
        k_max=K_MAX,
        min_separation=SEPARATION,
        sigma=(0.0, LARGEST_SIGMA),
    )
    train = replace(
        preset.train,
        batch_size=batch,
        optimizer="adamw",
        learning_rate=5e-3,
        weight_decay=0.01,
        schedule="cosine",
        warmup_steps=steps // 10,
        ema=0.99,
        clip_norm=1.0,
        bfloat16=False,
        compile=False,
    )
    model = replace(preset.model, long=LONG, short=SHORT, prior=prior)
    return learner.small(replace(preset, model=model, train=train))
