"""Assembly of the network: encoder, count, slots and flow; loading; inference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import overload

import torch
from numpy.typing import ArrayLike
from torch import nn

from slotflow.cardinality import check_k_prior
from slotflow.config import Config, ModelConfig
from slotflow.devices import check_device
from slotflow.posterior import Posterior
from slotflow.priors import Prior
from slotflow.streams import Observation, as_list

__all__ = ["DEFAULT", "SlotFlow", "pretrained_names"]

DEFAULT = "zoom"
"""Name of the embedded weights that `from_pretrained()` loads."""


class SlotFlow(nn.Module):
    """Amortized trans-dimensional inference: x to q(K | x) and one posterior per slot.

    SlotFlow(config) gives the network that the config asks for, a PooledSlotFlow (the paper's parts) or a ZoomSlotFlow,
    as pathlib.Path gives the path of the platform.

    Args:
        config: What to build.
    """

    def __new__(cls, config: ModelConfig | None = None) -> SlotFlow:
        """Chooses the class; copying and unpickling name it and come without a config."""
        if cls is SlotFlow and config is not None:
            from slotflow.pooled import PooledSlotFlow
            from slotflow.zoom import ZoomSlotFlow

            cls = PooledSlotFlow if config.zoom is None else ZoomSlotFlow
        return super().__new__(cls)

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.config = config
        self.k_max = config.prior.k_max

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
            source: Name of embedded weights, a model file, or a training folder; None for the default. Weights whose
                content is not what their card says are refused.
            device: Where to put the network.
            dtype: torch.float32 (default) or torch.float64.
        """
        from slotflow.cards import load_embedded, load_verified

        name = str(source or DEFAULT)
        if name in pretrained_names():
            model = load_embedded(name)
        else:
            path = Path(name)
            model = load_verified(path / "model.safetensors" if path.is_dir() else path)
        return model._move(device, dtype).eval()

    def save(
        self,
        path: str | Path,
        facts: Mapping[str, object] | None = None,
        half: tuple[str, ...] = (),
    ) -> None:
        """Writes weights and config to one safetensors file, atomically.

        Args:
            path: File to write.
            facts: JSON-able facts about the training, shown by `slotflow info`.
            half: Modules or parameters, by name, that are stored in half precision.
        """
        from slotflow.checkpoint import save_model

        save_model(path, self, facts or {}, half)

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

    # ------------------------------------------------------------------ inference

    @overload
    def infer(
        self,
        observation: Observation,
        *,
        prior: Prior | None = ...,
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
        prior: Prior | None = ...,
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
        prior: Prior | None = None,
        k_prior: ArrayLike | Mapping[int, float] | None = None,
        device: str | torch.device | None = None,
        dtype: torch.dtype | None = None,
        threads: int | None = None,
        batch_size: int = 256,
    ) -> Posterior | list[Posterior]:
        """Posterior of one observation, or of each in a sequence.

        Args:
            observation: What was measured, sampled as the model expects.
            prior: What is known beforehand, in the data's units; None: the prior of the model's config. A model that
                is not told the prior (`paper`, `debug`) takes another p(K) only.
            k_prior: Prior over K to use instead of the prior's: k_max + 1 numbers, index = K, or a mapping from K to
                a number.
            device: Moves the model there first; it stays there.
            dtype: torch.float32 or torch.float64, likewise.
            threads: CPU threads to use during the call.
            batch_size: Observations that go through the network together.
        """
        if batch_size < 1:
            raise ValueError(f"infer expects batch_size >= 1, received {batch_size}.")
        prior = self.config.prior if prior is None else prior
        if k_prior is not None:
            check_k_prior(k_prior, self.config.prior)
        if isinstance(observation, Observation):
            return self.infer(
                [observation],
                prior=prior,
                k_prior=k_prior,
                device=device,
                dtype=dtype,
                threads=threads,
            )[0]
        observations = as_list(observation)
        for one in observations:
            self._check(one, prior)
        self._move(device, dtype)  # outside inference mode: the weights must stay trainable
        was_training = self.training
        self.eval()
        posteriors: list[Posterior] = []
        try:
            with _threads(threads), torch.inference_mode():
                for start in range(0, len(observations), batch_size):
                    chunk = observations[start : start + batch_size]
                    posteriors += self._infer_batch(chunk, prior, k_prior)
        finally:
            self.train(was_training)
        return posteriors

    def _check(self, obs: Observation, prior: Prior) -> None:
        """Refuses an observation that this model cannot analyse under a prior."""
        raise NotImplementedError

    def _infer_batch(
        self,
        chunk: list[Observation],
        prior: Prior,
        k_prior: ArrayLike | Mapping[int, float] | None,
    ) -> list[Posterior]:
        """Posteriors of observations that `_check` let pass."""
        raise NotImplementedError

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
