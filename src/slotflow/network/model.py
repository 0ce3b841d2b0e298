"""The network as its user sees it: building and loading, and the call of inference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, Unpack, overload

import torch
from torch import nn

from slotflow.core.devices import check_device
from slotflow.core.later import later
from slotflow.core.presets import DEFAULT
from slotflow.data.observation import Observation, as_list
from slotflow.data.sampling import Grid
from slotflow.network.checkpoint import save_model
from slotflow.network.config import Config, ModelConfig
from slotflow.network.options import InferOptions, KPrior
from slotflow.posterior.many import Posteriors
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

__all__ = ["DEFAULT", "SlotFlow", "pretrained_names", "with_method"]


class SlotFlow(nn.Module):
    """Amortized trans-dimensional inference: x to q(K | x) and one posterior per slot.

    SlotFlow(config) gives the network that the config asks for, a PaperSlotFlow (the paper's parts) or a ZoomSlotFlow,
    as pathlib.Path gives the path of the platform.

    Args:
        config: What to build.
    """

    def __new__(cls, config: ModelConfig | None = None) -> SlotFlow:
        """Chooses the class; copying and unpickling name it and come without a config."""
        if cls is SlotFlow and config is not None:
            cls = later("network_class")(config)
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
        model: SlotFlow = later("load_pretrained")(source)
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
        save_model(path, self.state_dict(), self.config, facts or {}, half)

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
        self, observation: Observation, *, refine: bool = ..., **options: Unpack[InferOptions]
    ) -> Posterior: ...

    @overload
    def infer(
        self,
        observation: Iterable[Observation],
        *,
        refine: bool = ...,
        **options: Unpack[InferOptions],
    ) -> Posteriors: ...

    def infer(
        self,
        observation: Observation | Iterable[Observation],
        *,
        refine: bool = True,
        **options: Unpack[InferOptions],
    ) -> Posterior | Posteriors:
        """Posterior of one observation, or `Posteriors` of a sequence.

        The network answers first, in milliseconds; the likelihood then checks and corrects the answer. The result is
        the exact joint posterior with its evidence, and with a verdict that says how far to trust it.

        Nothing needs to be stated beforehand. What is not stated is assumed: everything that the data can show, or the
        one stretch of the spectrum that holds all tones; bounds of amplitude and noise that contain what the data show;
        no minimum separation, and any number of tones from 0 on. Offsets, and slopes that stand out, are taken out or
        marginalized. The noise is white if the data allow it, and otherwise coloured or local to the band.
        `post.prior`, `post.assumed` and `post.noise` say what was assumed. A band that is wider than the network's
        window, or that holds more tones than the network can count, is analysed in windows.

        Data may be uneven, complex, of any number of channels, and have an error for each sample. The network then
        proposes from a series that is made of them, or the peaks of the spectrum do; `post.proposed_by` says who did.

        Example::

            post = model.infer(observation)
            print(post.verdict, post.k_probs, post.assumed)
            post = model.infer(observation, prior={"frequency": (11, 14)})  # the rest from the data
            post = model.infer(observation, prior=Prior(frequency=(11, 14), amplitude=(0.5, 5), sigma=(0, 5)))
            fast = model.infer(observation, method="network")  # without the exact step

        Args:
            observation: What was measured. `zoom` takes any data, other models those of their training.
            refine: False is another way to say method="network".
            **options: Further keywords.

                - method: "exact" (default); "network", the network's answer alone, whose verdict is "approximate"; or
                  without the network "classical" (matching pursuit and Laplace's approximation), "rjmcmc"
                  (reversible-jump MCMC by Eryn) or "smc" (tempered sequential Monte Carlo).
                - prior: What is known beforehand, in the data's units: a Prior, or some of its fields in a mapping.
                  The network need not know the prior: where it does not (a log-uniform amplitude; for `paper` and
                  `debug`, any prior but that of their training), its answer under the nearest one that it knows is the
                  place to start from, and the network alone is refused. Models that know the prior of their training
                  alone assume that one where nothing is stated.
                - k_prior: Prior over K to use instead of the prior's: k_max + 1 numbers, index = K, or a mapping from
                  K to a number.
                - draws: Weighted draws of each K, at least 100; 2000 by default. A K below 5 % may have a quarter.
                - noise: "auto" (default), "white", "local" (the band alone counts, with a level of its own), or what
                  `slotflow.noise` builds, such as ar(2), power_law() or psd(...).
                - outliers: None, or "clip": samples far outside of what the tones leave are dropped and counted.
                - trend: Order of the polynomial that is marginalized, −1 (none) to 3; by default an offset, and a slope
                  where one stands out.
                - max_seconds: Time budget of the exact step of each observation, 10 by default, or of all windows of a
                  band; a verdict says if it was too short.
                - seed: Of everything random. An observation's answer is the same alone and among others: the numbers
                  agree to seven digits, because the rounding of the network depends on what it computes together.
                - device: Moves the model there first; it stays there. Batches of the exact step run there too; signals
                  that are answered one by one run on the CPU.
                - dtype: torch.float32 or torch.float64, likewise.
                - threads: CPU threads to use during the call; by default torch's, in the exact step of plain data one.
                - processes: Processes that answer, beside this one, those of many signals that cannot be answered in a
                  batch, where the system can copy processes; by default none on a CPU, and beside a GPU one per core.
                - batch_size: Observations that go through the network together; by default 32, on a GPU 4096.
                - sampler: Further arguments of a classical method, such as {"options": ...} of
                  `slotflow.baselines.rjmcmc.rjmcmc` or `slotflow.baselines.smc.smc`.
        """
        if isinstance(observation, Observation):
            return next(iter(self.infer_each([observation], refine=refine, **options)))
        return self._infer_many(observation, with_method(refine, options))

    def infer_each(
        self,
        observations: Iterable[Observation],
        *,
        refine: bool = True,
        **options: Unpack[InferOptions],
    ) -> Iterator[Posterior]:
        """The posteriors of `infer` one after another, each as soon as it is ready: for long lists and progress bars.

        Args:
            observations: What was measured; all of them are checked before the first answer.
            refine: As in `infer`.
            **options: The other keywords of `infer`.
        """
        options = with_method(refine, options)
        found: Iterator[Posterior] = later("infer")(self, as_list(observations), **options)
        return found

    def _infer_many(self, observations: Iterable[Observation], options: InferOptions) -> Posteriors:
        """The posteriors of many observations; a network that answers batches as arrays hands these over."""
        return Posteriors(self.infer_each(observations, **options))

    def infer_band(
        self,
        observation: Observation,
        prior: Prior,
        *,
        refine: bool = True,
        **options: Any,
    ) -> Posterior:
        """Posterior of a band of any width in overlapping windows, as `infer` finds it where one window is not enough.

        Args:
            observation: What was measured.
            prior: The prior; its band may have any width, and its p(K) is that of each window, K = 0 among them.
            refine: As in `infer`.
            **options: The other keywords of `infer`; a time budget is that of one window.
        """
        found: Posterior = later("infer_band")(self, observation, prior, refine=refine, **options)
        return found

    @property
    def widest_band(self) -> float | None:
        """Widest band in bins of 1/T that the network analyses at once; None if it knows one band and prior alone."""
        return None

    def _start(self, prior: Prior, grid: Grid, refine: bool) -> Prior:
        """The prior under which the network answers, given the stated one; refuses one that it cannot start from.

        Args:
            prior: The stated prior.
            grid: Sampling of the long stream.
            refine: Whether the exact step, which answers under the stated prior, will follow.
        """
        raise NotImplementedError

    def _check(self, obs: Observation, prior: Prior) -> None:
        """Refuses an observation that this model cannot analyse under a prior."""
        raise NotImplementedError

    def _infer_batch(
        self,
        chunk: list[Observation],
        priors: list[Prior],
        k_prior: KPrior | None,
    ) -> list[Posterior]:
        """Posteriors of observations that `_check` let pass, under the prior of each."""
        raise NotImplementedError

    def _move(self, device: str | torch.device | None, dtype: torch.dtype | None) -> SlotFlow:
        if dtype is not None and dtype not in (torch.float32, torch.float64):
            raise ValueError(f"expected dtype torch.float32 or torch.float64, received {dtype}.")
        check_device(device)
        if device is not None or dtype is not None:
            self.to(device=device, dtype=dtype)
        return self


def with_method(refine: bool, options: InferOptions) -> InferOptions:
    """The keywords of `infer` with the method that `refine` stands for."""
    if refine:
        return options
    if options.get("method", "network") != "network":
        raise ValueError(
            f"refine=False asks for the network's answer alone, received method = {options['method']!r}; drop one."
        )
    return options | {"method": "network"}


def pretrained_names() -> list[str]:
    """Names of the weights in the package."""
    folder = resources.files("slotflow") / "weights"
    suffix = ".safetensors"
    return sorted(p.name[: -len(suffix)] for p in folder.iterdir() if p.name.endswith(suffix))
