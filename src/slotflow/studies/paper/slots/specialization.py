"""Which slot takes which component, over many mixtures of ten and over repeated inference of one.

How slots are matched, and what specialization and consistency mean, is in `slotflow.studies.measures.matching`; what
happens when a component comes, goes or moves, in `changes`. The paper matches by the slots' densities of all three
parameters; where slots have densities, the mixtures are matched in that way too, and rows say what it changes.

Slots of `zoom` start at peaks of the spectrum in the order of their frequencies (`slotflow.network.zoom.proposals`):
what the paper calls emergent is built in here. A slot that crosses another on the way, or misses its component, would
still show.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.stats import spearmanr

from slotflow.studies.measures.matching import assign, consistency, explained, match_matrix
from slotflow.studies.measures.parameters import WAVEFORM
from slotflow.studies.measures.tones import midpoint
from slotflow.studies.paper.bench import Bench
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.paper.slots.changes import change_rows, changes
from slotflow.studies.paper.slots.plot import PAPER_ENDS, QUANTILES, median_frequencies, plot
from slotflow.studies.row import Row, Target
from slotflow.studies.suites.analyser import PairedSlots, SlotsLike
from slotflow.studies.suites.results import matched_components
from slotflow.studies.suites.sets import NOMINAL, SignalSet, batches, default_batch, posterior_seed
from slotflow.studies.suites.signals import in_fresh_noise

__all__ = ["SLOTS"]

Array = NDArray[np.float64]

K = NOMINAL.k_max
MIXTURES = SignalSet(80, NOMINAL, k=K)
SINGLE = SignalSet(81, NOMINAL, k=K)
"""Where the one signal of the repeated inference comes from."""


@torch.no_grad()
def _run(bench: Bench) -> Data:
    """Many mixtures, then one signal many times."""
    frequency, amplitude, by_density = _mixtures(bench)
    number = np.broadcast_to(np.arange(K), frequency.shape)
    return {
        "mixtures": len(frequency),
        "frequency": np.quantile(frequency, QUANTILES, axis=0).T.tolist(),
        "amplitude": np.quantile(amplitude, QUANTILES, axis=0).T.tolist(),
        "explained_frequency": explained(frequency),
        "explained_amplitude": explained(amplitude),
        "explained_if_sorted": explained(np.sort(frequency, axis=1)),
        "explained_if_amplitude_sorted": explained(np.sort(amplitude, axis=1)),
        "rank_correlation_amplitude": float(spearmanr(number.ravel(), amplitude.ravel()).statistic),
        "repeated": _repeated(bench),
        "changes": changes(bench),
    } | _density_matching(frequency, by_density)


def _density_matching(frequency: Array, by_density: Array | None) -> Data:
    """What slots take when they are matched by their densities, (n, K), beside matching by frequency."""
    if by_density is None:
        return {}
    found = {
        "frequency": np.quantile(by_density, QUANTILES, axis=0).T.tolist(),
        "explained_frequency": explained(by_density),
        "same": float((by_density == frequency).mean()),
    }
    return {"by_density": found}


def _mixtures(bench: Bench) -> tuple[Array, Array, Array | None]:
    """Frequency and amplitude of the component that each slot takes, and its frequency by density, (n, K) each."""
    s = bench.settings
    batch = default_batch(bench.device, s.draws, K)
    frequency, amplitude, by_density = [], [], []
    for sim in batches(MIXTURES, s.tenth, batch, s.seed, bench.device):
        slots = bench.model.analyse(sim, NOMINAL).slots(sim.k)
        truth = sim.theta.cpu().numpy()
        chosen = assign(_medians(slots, s.draws, sim.seed), WAVEFORM.place_of(truth))
        taken = np.take_along_axis(truth, chosen[..., None], axis=1)
        frequency.append(WAVEFORM.place_of(taken))
        amplitude.append(WAVEFORM.of(taken, "amplitude"))
        if isinstance(slots, PairedSlots):
            component = matched_components(slots, sim).numpy()
            by_density.append(np.take_along_axis(WAVEFORM.place_of(truth), component, axis=1))
        bench.advance(len(sim.k))
    densities = np.concatenate(by_density) if by_density else None
    return np.concatenate(frequency), np.concatenate(amplitude), densities


def _medians(slots: SlotsLike, draws: int, seed: int) -> Array:
    """Median frequency of each slot, (B, K)."""
    places = WAVEFORM.place_of(slots.sample(draws, posterior_seed(seed)))
    medians: Array = midpoint(places).cpu().numpy()
    return medians


def _repeated(bench: Bench) -> Data:
    """One signal of K components: R draws of the posterior, and R fresh draws of the noise."""
    s = bench.settings
    (one,) = batches(SINGLE, 1, 1, s.seed, bench.device)
    truth = one.theta[0].cpu().numpy()
    place = WAVEFORM.place_of(truth)
    sample = (
        bench.model.analyse(one, NOMINAL).slots(one.k).sample(s.repeats, posterior_seed(one.seed))
    )
    drawn = WAVEFORM.place_of(sample[0]).cpu().numpy()  # (R, K)
    again = assign(drawn, np.broadcast_to(place, drawn.shape))
    bench.advance(1)

    theta, sigma = one.theta.expand(s.repeats, -1, -1), one.sigma.expand(s.repeats)
    noisy = in_fresh_noise(theta, sigma, one.seed + 1)
    slots = bench.model.analyse(noisy, NOMINAL).slots(noisy.k)
    medians = _medians(slots, s.draws, noisy.seed)
    fresh = assign(medians, np.broadcast_to(place, medians.shape))
    offset = medians - place[fresh]
    bench.advance(s.repeats)
    return {
        "runs": s.repeats,
        "sigma": float(one.sigma[0]),
        "truth": truth.tolist(),
        "draws": match_matrix(again).tolist(),
        "noise": match_matrix(fresh).tolist(),
        "slot_sd": drawn.std(0, ddof=1).tolist(),
        "largest_offset": float(np.abs(offset).max()),
    }


def _compare(data: Data) -> list[Row]:
    """Specialization and stability beside the paper's."""
    return [
        *_specialization_rows(data),
        *_density_rows(data.get("by_density")),
        *_stability_rows(data["repeated"]),
        *change_rows(data["changes"]),
    ]


def _specialization_rows(data: Data) -> list[Row]:
    """What the number of a slot says of its component."""
    median = median_frequencies(data)
    order = "emergent in the paper; slots of `zoom` start in the order of frequency, so that there it is built in"
    return [
        Row(
            "range of the slots' median frequencies [Hz]",
            max(median) - min(median),
            f"{PAPER_ENDS[1] - PAPER_ENDS[0]:.2f}",
            form=".3f",
            note=order,
        ),
        Row(
            "variance of f that the slot's number explains",
            data["explained_frequency"],
            form=".1%",
            note=f"{data['explained_if_sorted']:.1%} if slots were sorted by frequency; their numbers in the order of "
            f"their medians: {', '.join(str(slot + 1) for slot in np.argsort(median))}",
        ),
        Row(
            "variance of A that the slot's number explains",
            data["explained_amplitude"],
            form=".1%",
            note=f"{data['explained_if_amplitude_sorted']:.1%} if slots were sorted by amplitude",
        ),
        Row(
            "rank correlation of A with the slot's number",
            data["rank_correlation_amplitude"],
            form="+.2f",
        ),
    ]


def _density_rows(found: Data | None) -> list[Row]:
    """The same by the paper's matching, where the slots have densities."""
    if found is None:
        return []
    median = median_frequencies(found)
    return [
        Row(
            "range of the slots' median frequencies, matched by density [Hz]",
            max(median) - min(median),
            f"{PAPER_ENDS[1] - PAPER_ENDS[0]:.2f}",
            form=".3f",
            note="as the paper matches; all other rows match by frequency",
        ),
        Row(
            "variance of f that the slot's number explains, matched by density",
            found["explained_frequency"],
            form=".1%",
        ),
        Row(
            "slots that take the same component by density and by frequency",
            found["same"],
            form=".1%",
            note="the rest are slots that are sure of no component, or of one that another slot takes",
        ),
    ]


def _stability_rows(repeated: Data) -> list[Row]:
    """Whether a slot takes the same component again."""
    again = consistency(np.asarray(repeated["draws"]))
    widest = max(repeated["slot_sd"])
    return [
        Row(
            "consistency, repeated inference",
            again,
            "1.00",
            form=".3f",
            note="by the density, as in the paper, it is 1 with certainty; here each run is one draw",
            target=Target(low=0.995, words="≥ 0.995"),
            met=again >= 0.995,
        ),
        Row(
            "sd of a slot's frequency over runs, largest [Hz]",
            widest,
            "< 0.01",
            form=".2g",
            target=Target(high=0.01, strict=True),
            met=widest < 0.01,
        ),
        Row(
            "consistency, fresh noise",
            consistency(np.asarray(repeated["noise"])),
            form=".3f",
            note="the same components in other noise; the paper does not test it",
        ),
        Row(
            "fresh noise: slot's median off its component, largest [Hz]",
            repeated["largest_offset"],
            form=".2g",
            note="against 0.01 between neighbours at least",
        ),
    ]


SLOTS = Result(
    name="slots",
    title="Slots: specialization and stability",
    section="5.1.2, figure 4; B.1",
    caption="What each slot takes (boxes: quartiles, whiskers: 5 to 95 %), how often it takes the same component, and "
    "what happens to six components when a seventh comes, one goes or one moves, in the same noise. Slots stand in the "
    "order of their median frequency, as in the paper. The consistency is the share of slots with the same component "
    "over all pairs of runs; it does not say that a slot is near its component.",
    uses=("n", "draws", "repeats", "seed", "model"),
    work=lambda settings: 2 * settings.tenth + 1 + settings.repeats,
    run=_run,
    compare=_compare,
    plot=plot,
)
