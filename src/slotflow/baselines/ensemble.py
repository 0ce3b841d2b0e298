r"""Eryn's sampler with our likelihood, prior and moves: the machinery behind `rjmcmc.py`.

Eryn (Karnesis et al. 2023) runs walkers at several temperatures, at which the likelihood counts with a power β ≤ 1,
lets neighbouring temperatures exchange states, and changes K by births and deaths. It is used as its documentation
recommends: with a vectorized likelihood, a prior of all tones together and custom moves. Eryn's own births and deaths
choose places in a Python loop over walkers; ours choose the places of all walkers at once.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from slotflow.baselines.births import Births
from slotflow.baselines.chains import settled
from slotflow.baselines.eryn_compat import load_eryn
from slotflow.baselines.moves import Anew, FisherSteps, Jump, Mask, StatePrior
from slotflow.baselines.tabulated import Tabulated
from slotflow.core.arrays import Array
from slotflow.core.fields import plain
from slotflow.signal.prior import Prior

__all__ = ["ChainOptions", "Ensemble"]

BRANCH = "all_models_together"
"""Eryn's key for a prior of all tones together; its one branch has that name too, so that its files can be read."""
BLOCK = 20
"""Number of steps that Eryn makes at a time."""
TARGET_ACCEPTANCE = 0.3
"""Share of accepted proposals that the sizes of the steps are tuned to."""
FEWEST_PROPOSALS = 20
"""Number of proposals below which their share of accepted ones is ignored."""
WEIGHTS = {"one": 0.45, "all": 0.45, "anew": 0.1}
"""Probability of each move within the model after the tuning."""
TUNING_WEIGHTS = {"one": 0.3, "all": 0.3, "anew": 0.4}
"""Probability of each move within the model during the tuning."""


@dataclass(frozen=True)
class ChainOptions:
    """Sizes of the sampler, and when it stops."""

    walkers: int = 128
    """Walkers at each temperature."""
    temperatures: int = 4
    """Number of temperatures."""
    hottest: float = 10.0
    """The highest temperature."""
    repeats: int = 4
    """Moves within the model in each step."""
    tune: int = 40
    """Steps in which temperatures and step sizes adapt, at least; more where the likelihood has not settled yet."""
    effective: float = 1000.0
    """Effective draws of the most probable K with which the run ends."""
    max_steps: int = 20_000
    """Steps after which the run ends in any case."""
    max_seconds: float = math.inf
    """Time after which the run ends in any case."""

    def __post_init__(self) -> None:
        for name in ("walkers", "temperatures", "repeats", "tune", "max_steps"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"ChainOptions expects {name} >= 1, received {getattr(self, name)}."
                )
        if self.temperatures > 1 and not self.hottest > 1:
            raise ValueError(f"ChainOptions expects hottest > 1, received {self.hottest}.")


class Ensemble:
    """Walkers at several temperatures, and their chain.

    Args:
        table: The likelihood.
        prior: The prior.
        births: Density of tones that are born.
        sigma: Rough noise level.
        options: Sizes of the sampler.
        file: HDF file of the chain; None: it is kept in memory.
    """

    def __init__(
        self,
        table: Tabulated,
        prior: Prior,
        births: Births,
        sigma: float,
        options: ChainOptions,
        file: Path | None = None,
    ) -> None:
        self.table, self.log_prior = table, StatePrior(prior)
        self.options, self.file = options, file
        stated = plain(asdict(prior))
        del stated[
            "waveform"
        ]  # tones alone are sampled here, and files before there was another say nothing
        self.made = {"energy": table.energy, "prior": stated}
        self.made["births"] = type(births).__name__
        for name in ("walkers", "temperatures", "repeats", "hottest"):
            self.made[name] = getattr(options, name)
        self.steps_of: dict[str, FisherSteps | Anew] = {
            "one": FisherSteps(table, prior, sigma, every=False),
            "all": FisherSteps(table, prior, sigma, every=True),
            "anew": Anew(births),
        }
        self.jump = Jump(births, self.log_prior.k_min, self.log_prior.k_max)
        for steps in self.steps_of.values():
            steps.scale = np.ones(options.temperatures)
        self.idle = {name: np.zeros(options.temperatures) for name in self.steps_of}
        """Proposals of each move to states without a tone, (T,), which Eryn counts as accepted."""
        self.tuned = 0 if file is None else self._check(file)
        """Step at which the tuning ended; 0 during the tuning."""
        self.sampler, self.moves = self._build()
        if self.tuned:
            self._freeze()
        elif file is not None:
            self._remember(file)

    @property
    def steps(self) -> int:
        """Length of the chain."""
        return int(self.sampler.backend.iteration)

    def state(self, z: Array, places: Mask) -> Any:
        """Eryn's state of tones z, (T, W, L, Z), at places, (T, W, L)."""
        return load_eryn().State({BRANCH: z}, inds={BRANCH: places})

    def last(self) -> Any:
        """The chain's last state."""
        return self.sampler.get_last_sample()

    def advance(self, state: Any) -> Any:
        """Some more steps, the first ones tuned; the last state."""
        tuning = self.tuned == 0
        if tuning:
            self._forget_acceptance()
        for reached in self.sampler.sample(state, iterations=BLOCK // 4 if tuning else BLOCK):
            state = reached
        if tuning:
            self._tune()
        return state

    def chain(self) -> tuple[Array, Mask, Array]:
        """The cold walkers' tones, (n, W, L, Z), places, (n, W, L), and log-likelihood, (n, W)."""
        z: Array = self.sampler.get_chain(temp_index=0)[BRANCH]
        places: Mask = self.sampler.get_inds(temp_index=0)[BRANCH]
        log_likelihood: Array = self.sampler.get_log_like(temp_index=0)
        return z, places, log_likelihood

    def acceptance(self) -> dict[str, float]:
        """Share of each move's proposals that were accepted at temperature 1, since the tuning ended."""
        rates = {name: self._rate(name) for name in self.moves}
        return {
            name: float(rate[0]) if made[0] else math.nan for name, (rate, made) in rates.items()
        }

    def jumps(self) -> int:
        """Births and deaths that were accepted at all temperatures, since the tuning ended."""
        return int(self.moves["jump"].accepted.sum()) if "jump" in self.moves else 0

    def swaps(self) -> tuple[float, ...]:
        """Share of accepted exchanges between neighbouring temperatures, the coldest first."""
        if self.options.temperatures == 1:
            return ()
        return tuple(self.sampler.swap_acceptance_fraction.tolist())

    # ------------------------------------------------------------------ Eryn

    def _build(self) -> tuple[Any, dict[str, Any]]:
        """Eryn's sampler and its moves by name."""
        eryn = load_eryn()

        o, k_min, k_max = self.options, self.log_prior.k_min, self.log_prior.k_max
        moves: dict[str, Any] = {}
        for name in WEIGHTS:
            moves[name] = eryn.MHMove()
            moves[name].get_proposal = self._within(name)
        if k_min < k_max:
            moves["jump"] = eryn.ReversibleJumpMove(
                nleaves_max={BRANCH: k_max}, nleaves_min={BRANCH: k_min}
            )
            moves["jump"].get_proposal = self._between
        many = o.temperatures > 1
        sampler = eryn.EnsembleSampler(
            o.walkers,
            {BRANCH: self.table.waveform.coordinates},
            self.table,
            {BRANCH: SimpleNamespace(logpdf=self._logpdf, key_order="z")},
            provide_groups=True,
            vectorize=True,
            branch_names=[BRANCH],
            nleaves_max={BRANCH: k_max},
            nleaves_min={BRANCH: k_min},
            moves=[(moves[name], weight) for name, weight in TUNING_WEIGHTS.items()],
            rj_moves=moves.get("jump"),
            tempering_kwargs={
                "betas": np.geomspace(1, 1 / o.hottest, o.temperatures) if many else np.ones(1),
                "adaptive": o.temperatures > 2,
                "adaptation_time": 20,
                "adaptation_lag": 1000,
            },
            fill_zero_leaves_val=self.table.log_likelihood_of_none,
            num_repeats_in_model=o.repeats,
            track_moves=False,
            backend=None if self.file is None else str(self.file),
        )
        return sampler, moves

    def _logpdf(self, coords: dict[str, Array], inds: dict[str, Mask], **_: Any) -> Array:
        return self.log_prior(coords[BRANCH], inds[BRANCH])

    def _within(self, name: str) -> Any:
        """A move within the model as Eryn asks for it."""

        def propose(
            coords: dict[str, Array], rng: Any, branches_inds: dict[str, Mask], **_: Any
        ) -> tuple[dict[str, Array], Array]:
            betas = self.sampler.temperature_control.betas
            self.idle[name] += (~branches_inds[BRANCH].any(-1)).sum(-1)
            new, hastings = self.steps_of[name](coords[BRANCH], branches_inds[BRANCH], betas, rng)
            return {BRANCH: new}, hastings

        return propose

    def _between(
        self,
        coords: dict[str, Array],
        inds: dict[str, Mask],
        low: Any,
        high: Any,
        rng: Any,
        **_: Any,
    ) -> tuple[dict[str, Array], dict[str, Mask], Array]:
        """A birth or a death as Eryn asks for it."""
        new, places, factors = self.jump(coords[BRANCH], inds[BRANCH], rng)
        return {BRANCH: new}, {BRANCH: places}, factors

    # ------------------------------------------------------------------ tuning and its memory

    def _forget_acceptance(self) -> None:
        for move in self.moves.values():
            move.accepted, move.num_proposals = np.zeros_like(move.accepted), 0
        for idle in self.idle.values():
            idle[:] = 0

    def _rate(self, name: str) -> tuple[Array, Array]:
        """Share of a move's proposals that were accepted and their number, (T,) each, of states that it can change."""
        move, idle = self.moves[name], self.idle.get(name, np.zeros(self.options.temperatures))
        made = move.num_proposals * self.options.walkers - idle
        return (move.accepted.sum(1) - idle) / np.maximum(made, 1), made

    def _tune(self) -> None:
        """Adapts the step sizes to the acceptance since the last call, and ends the tuning when all has settled."""
        sound = True
        for name in ("one", "all"):
            steps, (rate, made) = self.steps_of[name], self._rate(name)
            rate = np.where(made < FEWEST_PROPOSALS, TARGET_ACCEPTANCE, rate)
            sound &= bool(0.5 * TARGET_ACCEPTANCE < rate[0] < 2 * TARGET_ACCEPTANCE)
            steps.scale = np.clip(
                steps.scale * np.exp(2.5 * (rate - TARGET_ACCEPTANCE)), 1e-3, 30.0
            )
        if self.steps < self.options.tune or self.steps % (BLOCK // 2):
            return
        ready = sound and settled(self.chain()[2])
        if ready or 2 * self.steps >= self.options.max_steps:
            self.tuned = self.steps
            self._freeze()

    def _freeze(self) -> None:
        """From here on nothing adapts, and acceptance is counted."""
        self.sampler.temperature_control.adaptive = False
        self.sampler.weights = np.array(list(WEIGHTS.values()))
        self._forget_acceptance()
        if self.file is not None:
            self._remember(self.file)

    def _remember(self, file: Path) -> None:
        """Writes how the chain is made, and the tuned sizes of the steps, into its file."""
        import h5py

        with h5py.File(file, "a") as out:
            out.attrs["slotflow"] = json.dumps(self.made)
            out.attrs["tuned"] = self.tuned
            for name in ("one", "all"):
                out.attrs[f"scale_{name}"] = self.steps_of[name].scale

    def _check(self, file: Path) -> int:
        """Refuses a file of another chain, takes the step sizes of this one from it, and says when they were tuned."""
        import h5py

        if not file.exists():
            return 0
        with h5py.File(file, "r") as found:
            before = found.attrs.get("slotflow", "nothing")
            if before != json.dumps(self.made):
                raise ValueError(
                    f"expected a chain of these data, this prior and these options in {file}, received another; "
                    f"choose another file. There: {before}; here: {json.dumps(self.made)}"
                )
            for name in ("one", "all"):
                self.steps_of[name].scale = np.asarray(found.attrs[f"scale_{name}"])
            return int(found.attrs["tuned"])
