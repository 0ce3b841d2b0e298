"""A posterior that was read from a file: draws, p(K | x), verdict, evidence and data, without a network."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slotflow.core.arrays import Array
from slotflow.core.files import PathLike
from slotflow.data.observation import Observation
from slotflow.posterior.alternative import Alternative
from slotflow.posterior.assumed import Assumed
from slotflow.posterior.channels import read_observation
from slotflow.posterior.draws import Draws
from slotflow.posterior.facts import EmptyRegion, WindowRow
from slotflow.posterior.limits import CREDIBILITY, UpperLimit
from slotflow.posterior.noise import NoiseFacts
from slotflow.posterior.noise_file import read_noise
from slotflow.posterior.posterior import Posterior
from slotflow.posterior.standing import Standing
from slotflow.posterior.stored import read_dataset, stored_waveform
from slotflow.posterior.verdict import Check, Verdict
from slotflow.signal.noise.model import NoiseModel
from slotflow.signal.prior import Prior

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["LoadedPosterior", "load", "stored_evidence"]

CONTRACT_TABLES = ("k_probs", "log_evidence", "log_evidence_error")
"""Tables over K that are attributes of every posterior."""


class LoadedPosterior(Posterior):
    """The posterior of a file, whatever method wrote it.

    It answers from the file's draws: a K without any is refused, and densities are not known. `observation` is None
    where the file does not hold the data (`has_data` tells); set it to the data to plot or to refine.

    Args:
        found: Content of the file, as `stored.read_dataset` gives it.
    """

    slots: Draws

    def __init__(self, found: xr.Dataset) -> None:
        facts = found.attrs
        self.waveform = stored_waveform(facts)
        columns = [found[name].values for name in self.waveform.names]
        self._theta: Array = np.stack(columns, -1).astype(float)
        self._counts = np.asarray(found["k"].values).astype(np.int64)
        self._sigma = np.full(len(self._counts), np.nan)
        if "sigma" in found:
            self._sigma = np.asarray(found["sigma"].values, dtype=np.float64)
        k_probs = np.asarray(found["k_probs"].values, dtype=np.float64)
        rows = {int(k): self._counts == k for k in np.unique(self._counts)}
        draws = Draws(
            k_probs.size - 1,
            {k: self._theta[row, :k] for k, row in rows.items()},
            {k: self._sigma[row] for k, row in rows.items()},
        )
        error = float(found["noise_std"].attrs.get("standard_error", math.nan))
        super().__init__(
            k_probs,
            draws,
            cast(Observation, read_observation(found)),
            float(found["noise_std"]),
            error if math.isfinite(error) else None,
            str(facts.get("method", "unknown")),
            _prior(str(facts.get("prior", ""))),
        )
        if self.has_data:
            long = self.observation.long
            self.waveform = self.waveform.on(float(long.times[0]), long.mid_time)
        self.attributes = dict(facts)
        if assumed := str(facts.get("assumed", "")):
            self.assumed = Assumed.from_record(json.loads(assumed))
        if noise := str(facts.get("noise", "")):
            self.noise = NoiseFacts.from_record(json.loads(noise))
        self._noise_model = read_noise(found)
        self.proposed_by = str(facts.get("proposed_by", ""))
        self.log_evidence = stored_evidence(found)
        self.ess = float(facts["ess"]) if "ess" in facts else None
        self._limit = _limit(found)
        self.windows: dict[str, Array] = {
            str(name): np.asarray(value.values)
            for name, value in found.data_vars.items()
            if value.dims == ("window",)
        }
        """Of a band that was analysed in W windows: core_low and core_high in Hz, core_k_map, (W,) each; else empty."""
        self._tables = {
            str(name): (np.asarray(value.values), str(value.attrs.get("long_name", "")))
            for name, value in found.data_vars.items()
            if value.dims == ("k_value",) and name not in CONTRACT_TABLES
        }

    @property
    def noise_model(self) -> NoiseModel | None:
        """How the residual is whitened, as the file keeps it."""
        return self._noise_model

    @property
    def has_data(self) -> bool:
        """Whether the file holds the data."""
        return self.observation is not None

    @property
    def has_sigma(self) -> bool:
        """Whether the file holds draws of the noise level."""
        return bool(np.isfinite(self._sigma).any())

    @property
    def verdict(self) -> Verdict:
        """How far the result can be trusted, as it was judged when it was written."""
        checks = json.loads(str(self.attributes.get("verdict_checks", "[]")))
        stands = json.loads(str(self.attributes.get("verdict_standing", "null")))
        named = json.loads(str(self.attributes.get("verdict_alternatives", "[]")))
        return Verdict(
            str(self.attributes.get("verdict", "approximate")),
            str(self.attributes.get("verdict_reason", "the file does not say")),
            tuple(Check(**c) for c in checks),
            None if stands is None else Standing(*map(tuple, stands)),
            tuple(json.loads(str(self.attributes.get("verdict_unexamined", "[]")))),
            alternatives=tuple(
                Alternative(**one | {"places": tuple(one["places"])}) for one in named
            ),
        )

    @property
    def unit(self) -> str:
        """Unit of the data, empty if unknown."""
        return str(self.attributes.get("unit", ""))

    @property
    def t_ref(self) -> float:
        """The instant on the data's clock that phases refer to, in seconds."""
        return float(self.attributes.get("t_ref", 0.0))

    @property
    def resolution(self) -> float:
        """1/T of the long stream in Hz; 0 if the file does not tell."""
        return float(self.attributes.get("resolution", 0.0))

    @property
    def filled_samples(self) -> int:
        """How many samples of the data were filled in rather than measured."""
        return int(self.attributes.get("filled_samples", 0))

    @property
    def empty_regions(self) -> tuple[EmptyRegion, ...]:
        """Where nothing was found, as the file keeps it."""
        stored = json.loads(str(self.attributes.get("empty_regions", "[]")))
        return tuple(EmptyRegion(*map(float, region)) for region in stored)

    @property
    def window_rows(self) -> tuple[WindowRow, ...]:
        """The windows of a band, with their verdicts' words; the file does not keep their reasons."""
        if not self.windows:
            return ()
        words = str(self.attributes.get("window_verdicts", "")).split(", ")
        low, high, k = (self.windows[name] for name in ("core_low", "core_high", "core_k_map"))
        return tuple(
            WindowRow((float(a), float(b)), int(count), None, Verdict(status, ""))
            for a, b, count, status in zip(low, high, k, words, strict=True)
        )

    def kinds(self) -> list[tuple[str, float]]:
        """How many components of each class, in words, with the probability, as the file keeps it."""
        stored = json.loads(str(self.attributes.get("kinds", "[]")))
        return [(str(words), float(probability)) for words, probability in stored]

    def tables_by_k(self) -> Mapping[str, tuple[Array, str]]:
        """What the file holds for each K beside the evidence."""
        return self._tables

    def sample_joint(self, n: int, seed: int = 0) -> tuple[Array, NDArray[np.int64]]:
        """Draws (K, Θ) of the file: Θ, (n, K_max, P), NaN where there is no component, and K, (n,)."""
        rows = self._rows(n, seed)
        return self._theta[rows], self._counts[rows]

    def joint_sigma(self, n: int, seed: int = 0) -> Array:
        """Noise levels of the draws that `sample_joint` gives for the same seed, (n,); NaN if the file has none."""
        return self._sigma[self._rows(n, seed)]

    def upper_limit(
        self, frequency: ArrayLike | None = None, credibility: float = CREDIBILITY
    ) -> UpperLimit | None:
        """As for any posterior; from a file without data, the limits that it holds."""
        if self.has_data:
            return super().upper_limit(frequency, credibility)
        if self._limit is None or (frequency is None and credibility == self._limit.credibility):
            return self._limit
        raise ValueError(
            "expected a posterior that holds its data, received one from a file without them: its limits are known at "
            f"its own frequencies with the credibility {self._limit.credibility:g} only; ask for neither."
        )

    def _rows(self, n: int, seed: int) -> NDArray[np.int64]:
        """Which draws of the file to hand out, (n,)."""
        return self.rows_of(len(self._counts), n, seed)

    @staticmethod
    def rows_of(size: int, n: int, seed: int) -> NDArray[np.int64]:
        """Which of so many draws of a file to hand out, (n,): all in their order if as many are asked for."""
        if n != int(n) or n < 0:
            raise ValueError(f"sample_joint expects a whole number n >= 0 of draws, received {n}.")
        if n == size:
            return np.arange(size)
        if size == 0:
            raise ValueError("expected a file with draws, received one without any; write more.")
        return np.random.default_rng(seed).choice(size, n, replace=n > size)


def load(path: PathLike) -> LoadedPosterior:
    """Reads a posterior that `Posterior.save` wrote."""
    found = read_dataset(path)
    try:
        return LoadedPosterior(found)
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected the facts of a posterior, received some that contradict each other "
            f"({type(error).__name__}: {error}); write it again."
        ) from error


def _prior(text: str) -> Prior | None:
    """The prior of a file's attribute; None if it is empty."""
    if not text:
        return None
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in json.loads(text).items()
    }
    return Prior(**fields)


def _limit(found: xr.Dataset) -> UpperLimit | None:
    """The upper limits of a file, where it holds some."""
    if "upper_limit" not in found:
        return None
    facts = found["upper_limit"].attrs
    return UpperLimit(
        np.asarray(found["limit_frequency"].values, dtype=np.float64),
        np.asarray(found["upper_limit"].values, dtype=np.float64),
        float(facts["credibility"]),
        float(facts["k0_prob"]),
    )


def stored_evidence(found: xr.Dataset) -> Array | None:
    """Ln Z_K and its standard error, (..., K_max + 1, 2), where a file holds any; NaN for errors that it lacks."""
    if "log_evidence" not in found:
        return None
    value = np.asarray(found["log_evidence"].values, dtype=np.float64)
    errors = found.get("log_evidence_error")
    spread = np.full_like(value, np.nan) if errors is None else np.asarray(errors.values)
    return np.stack([value, spread], -1)
