"""Assembly of the network: encoder, count, slots and flow; loading; inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import overload

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from slotflow.cardinality import CardinalityHead, check_k_prior, k_posterior
from slotflow.config import Config, Grid, ModelConfig
from slotflow.devices import check_device
from slotflow.encoders import Encoding, PooledEncoder
from slotflow.flow import ConditionalFlow
from slotflow.posterior import Posterior
from slotflow.slots.densities import FlowSlots
from slotflow.streams import Observation, Stream, as_list
from slotflow.target import CircleTarget

__all__ = ["DEFAULT", "SlotFlow", "pretrained_names"]

DEFAULT = "debug"
"""Name of the embedded weights that `from_pretrained()` loads."""


class SlotFlow(nn.Module):
    """Amortized trans-dimensional inference: x to q(K | x) and one posterior per slot.

    Args:
        config: What to build.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.k_max = config.prior.k_max
        self.encoder = PooledEncoder(config.encoder)
        self.cardinality = CardinalityHead(config.encoder, config.prior)
        self.target = CircleTarget.from_config(config.flow, config.prior)
        self.flow = ConditionalFlow(
            self.target.dim, config.encoder.context + self.k_max, config.flow
        )

    # ------------------------------------------------------------------ building and loading

    @classmethod
    def from_preset(cls, name: str) -> SlotFlow:
        """Builds an untrained network from one of the package's presets."""
        return cls(Config.from_preset(name).model)

    @classmethod
    def from_pretrained(
        cls,
        source: str | Path | None = None,
        *,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
    ) -> SlotFlow:
        """Loads a trained network, ready for inference.

        Args:
            source: Name of embedded weights, a model file, or a training folder; None for the default.
            device: Where to put the network.
            dtype: torch.float32 (default) or torch.float64.
        """
        from slotflow.checkpoint import load_model

        path = Path(source or DEFAULT)
        if str(source or DEFAULT) in pretrained_names():
            embedded = resources.files("slotflow") / "weights" / f"{source or DEFAULT}.safetensors"
            with resources.as_file(embedded) as file:
                model = load_model(file)
        else:
            model = load_model(path / "model.safetensors" if path.is_dir() else path)
        return model._move(device, dtype).eval()

    def save(self, path: str | Path, facts: Mapping[str, object] | None = None) -> None:
        """Writes weights and config to one safetensors file, atomically.

        Args:
            path: File to write.
            facts: JSON-able facts about the training, shown by `slotflow info`.
        """
        from slotflow.checkpoint import save_model

        save_model(path, self, facts or {})

    # ------------------------------------------------------------------ network

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the weights."""
        return next(self.parameters()).dtype

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return next(self.parameters()).device

    @property
    def n_parameters(self) -> int:
        """Number of trainable numbers."""
        return sum(p.numel() for p in self.parameters())

    def encode(self, long: Tensor, short: Tensor) -> tuple[Encoding, Tensor]:
        """Streams (B, N) and (B, M) to features and the logits of K, (B, k_max + 1)."""
        encoding = self.encoder(long, short)
        return encoding, self.cardinality(encoding.tokens)

    # ------------------------------------------------------------------ inference

    @overload
    def infer(
        self,
        observation: Observation,
        *,
        k_prior: ArrayLike | Mapping[int, float] | None = ...,
        device: str | torch.device | None = ...,
        dtype: torch.dtype | None = ...,
        threads: int | None = ...,
        batch_size: int = ...,
    ) -> Posterior: ...

    @overload
    def infer(
        self,
        observation: Sequence[Observation],
        *,
        k_prior: ArrayLike | Mapping[int, float] | None = ...,
        device: str | torch.device | None = ...,
        dtype: torch.dtype | None = ...,
        threads: int | None = ...,
        batch_size: int = ...,
    ) -> list[Posterior]: ...

    def infer(
        self,
        observation: Observation | Sequence[Observation],
        *,
        k_prior: ArrayLike | Mapping[int, float] | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        threads: int | None = None,
        batch_size: int = 256,
    ) -> Posterior | list[Posterior]:
        """Posterior of one observation, or of each in a sequence.

        Args:
            observation: What was measured, sampled as the model expects.
            k_prior: Prior over K to use instead of the one of training: k_max + 1 numbers, index = K, or a
                mapping from K to a number.
            device: Moves the model there first; it stays there.
            dtype: torch.float32 or torch.float64, likewise.
            threads: CPU threads to use during the call.
            batch_size: Observations that go through the network together.
        """
        if batch_size < 1:
            raise ValueError(f"infer expects batch_size >= 1, received {batch_size}.")
        if k_prior is not None:
            check_k_prior(k_prior, self.config.prior)
        if isinstance(observation, Observation):
            return self.infer(
                [observation], k_prior=k_prior, device=device, dtype=dtype, threads=threads
            )[0]
        observations = as_list(observation)
        for one in observations:
            self._check(one)
        self._move(device, dtype)  # outside inference mode: the weights must stay trainable
        was_training = self.training
        self.eval()
        posteriors: list[Posterior] = []
        try:
            with _threads(threads), torch.inference_mode():
                for start in range(0, len(observations), batch_size):
                    chunk = observations[start : start + batch_size]
                    posteriors += self._infer_batch(chunk, k_prior)
        finally:
            self.train(was_training)
        return posteriors

    def _infer_batch(
        self, chunk: list[Observation], k_prior: ArrayLike | Mapping[int, float] | None
    ) -> list[Posterior]:
        long = torch.as_tensor(np.stack([o.long.values for o in chunk]))
        short = torch.as_tensor(np.stack([o.short.values for o in chunk if o.short is not None]))
        long, short = long.to(self.device, self.dtype), short.to(self.device, self.dtype)
        encoding, logits = self.encode(long, short)
        probs = k_posterior(logits, self.config.prior, k_prior).cpu().numpy()
        if not np.isfinite(probs).all():
            first = chunk[int(np.argmin(np.isfinite(probs).all(axis=1)))]
            raise ValueError(
                f"expected data of the size of the training's (amplitudes {self.config.prior.amplitude}), "
                f"received values up to {np.abs(first.long.values).max():.3g}, which overflow; rescale them."
            )
        posteriors = []
        for i, obs in enumerate(chunk):
            slots = FlowSlots(self.flow, self.target, encoding.context[i], self.config.prior)
            if encoding.noise is None:
                noise, error = obs.noise_level(self.config.prior.frequency)
            else:
                noise, error = float(encoding.noise[i]), None
            posteriors.append(
                Posterior(probs[i], slots, obs, noise, error, method=f"slotflow:{self.config.name}")
            )
        return posteriors

    def _check(self, obs: Observation) -> None:
        """Refuses an observation that is not sampled as this model was trained."""
        _check_stream(obs.long, self.config.long, "long", self.config.name)
        if obs.short is None:
            grid = self.config.short
            raise ValueError(
                f"the model {self.config.name!r} needs a short stream of {grid.n} samples at "
                f"{grid.dt:.9g} s, received none; give short= and dt_short= "
                "(on the command line --short and --dt-short)."
            )
        _check_stream(obs.short, self.config.short, "short", self.config.name)

    def _move(self, device: str | torch.device | None, dtype: torch.dtype | None) -> SlotFlow:
        if dtype is not None and dtype not in (torch.float32, torch.float64):
            raise ValueError(f"expected dtype torch.float32 or torch.float64, received {dtype}.")
        check_device(device)
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)
        return self


def pretrained_names() -> list[str]:
    """Names of the weights in the package."""
    folder = resources.files("slotflow") / "weights"
    suffix = ".safetensors"
    return sorted(p.name[: -len(suffix)] for p in folder.iterdir() if p.name.endswith(suffix))


def _check_stream(stream: Stream, grid: Grid, name: str, model: str) -> None:
    if stream.n != grid.n:
        raise ValueError(
            f"the model {model!r} expects {grid.n} samples in the {name} stream, received {stream.n}; "
            "cut the series or use a model trained for its length."
        )
    if abs(stream.dt / grid.dt - 1) * grid.n > 1e-2:
        raise ValueError(
            f"the model {model!r} expects a step of {grid.dt:.9g} s in the {name} stream, received "
            f"{stream.dt:.9g} s; resample the series or use a model trained for its step."
        )
    if abs(stream.t0 - grid.t0) > 1e-3 * grid.dt:
        raise ValueError(
            f"the model {model!r} expects the {name} stream to start at t0 = {grid.t0:.9g} s, received "
            f"{stream.t0:.9g} s; shift the time axis so that phases refer to its zero."
        )


@contextmanager
def _threads(n: int | None) -> Iterator[None]:
    """Runs a block with n CPU threads."""
    if n is not None and n < 1:
        raise ValueError(f"expected threads >= 1, received {n}.")
    before = torch.get_num_threads()
    if n is not None:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
