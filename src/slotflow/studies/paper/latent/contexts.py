"""The slots' contexts: what the vector that conditions the flow says of a component, as pictures and as numbers.

The context of a slot is what its flow is conditioned on: y_k in `zoom` (`slots/zoom.py`), [g, e_k] in `paper`. Every
coordinate is brought to unit variance; constant ones are left out. As in the paper, t-SNE shows all slots of mixtures
of ten, and Isomap the slot of the lowest frequency alone.

Pictures in two dimensions can show structure that is not there. How much of f, A and φ the contexts carry is therefore
measured as well (`regression.py`), in all coordinates and in the plane of t-SNE.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.network.model import DEFAULT
from slotflow.network.zoom.batch import SlotBatch
from slotflow.studies.measures.matching import assign
from slotflow.studies.measures.parameters import (
    AMPLITUDE,
    PHASE,
    PLACE,
    SIZE,
    SYMBOLS,
    TABLE_ORDER,
    WAVEFORM,
)
from slotflow.studies.measures.regression import explained_by, linear, neighbours, standardised
from slotflow.studies.measures.tones import midpoint
from slotflow.studies.paper.bench import CPU_BATCH, Bench
from slotflow.studies.paper.latent.plot import plot
from slotflow.studies.paper.pooled import PooledSlots
from slotflow.studies.paper.result import Data, Result
from slotflow.studies.row import Row
from slotflow.studies.suites.analyser import SlotsLike
from slotflow.studies.suites.sets import NOMINAL, SignalSet, batches, posterior_seed

__all__ = ["LATENT", "contexts"]

Array = NDArray[np.float64]

K = NOMINAL.k_max
MIXTURES = SignalSet(83, NOMINAL, k=K)
FEWEST_MIXTURES = 60
"""Mixtures at least: a few slots make no picture."""
DRAWN_MIXTURES = 200
"""Mixtures whose slots t-SNE shows."""
PERPLEXITY = 30.0
ISOMAP_NEIGHBOURS = 10
"""Neighbours that Isomap joins."""


def contexts(slots: SlotsLike, k: int) -> Array:
    """The vectors that condition the flow of the first k slots of B signals, (B, k, d)."""
    if isinstance(slots, SlotBatch):
        vectors = slots.slots.y[:, :k]
    elif isinstance(slots, PooledSlots):
        vectors = slots.contexts().reshape(len(slots.k), k, -1)
    else:
        raise ValueError(
            f"expected slots of preset zoom or paper, received {type(slots).__name__}, whose context is not known."
        )
    found: Array = vectors.double().cpu().numpy()
    return found


@torch.no_grad()
def _run(bench: Bench) -> Data:
    """Contexts of mixtures of ten, their planes, and what they explain."""
    s = bench.settings
    vectors, parameters = [], []
    for sim in batches(MIXTURES, _mixtures(s.tenth), CPU_BATCH, s.seed, bench.device):
        slots = bench.model.analyse(sim, NOMINAL).slots(sim.k)
        frequency = WAVEFORM.place_of(slots.sample(s.draws, posterior_seed(sim.seed)))
        truth = sim.theta.cpu().numpy()
        chosen = assign(midpoint(frequency).cpu().numpy(), WAVEFORM.place_of(truth))
        vectors.append(contexts(slots, K))
        parameters.append(np.take_along_axis(truth, chosen[..., None], 1))
        bench.advance(len(sim.k))
    raw, theta = np.concatenate(vectors), np.concatenate(parameters)  # (n, K, d), (n, K, P)
    n = len(raw)
    points = standardised(raw.reshape(n * K, -1))
    signal, flat = np.repeat(np.arange(n), K), theta.reshape(n * K, SIZE)
    drawn = min(n, DRAWN_MIXTURES) * K
    plane = _tsne(points[:drawn], s.seed)
    order = WAVEFORM.place_of(theta).mean(0).argmin()
    lowest = points.reshape(n, K, -1)[:, order]
    chart = _isomap(standardised(lowest))
    return {
        "network": bench.network().config.name,
        "mixtures": n,
        "width": points.shape[1],
        "explained": {
            "all coordinates, neighbours": explained_by(points, flat, signal, neighbours),
            "all coordinates, linear": explained_by(points, flat, signal, linear),
            "plane of t-SNE, neighbours": explained_by(
                plane, flat[:drawn], signal[:drawn], neighbours
            ),
        },
        "explained_lowest": {
            "plane of Isomap, neighbours": explained_by(
                chart, theta[:, order], np.arange(n), neighbours
            ),
        },
        "tsne": {"at": plane.round(2).tolist(), "theta": flat[:drawn].round(5).tolist()},
        "isomap": {"at": chart.round(3).tolist(), "theta": theta[:, order].round(5).tolist()},
    }


def _mixtures(tenth: int) -> int:
    """Number of mixtures."""
    return max(FEWEST_MIXTURES, tenth)


def _tsne(points: Array, seed: int) -> Array:
    """Plane of t-SNE, (n, 2)."""
    manifold = _manifold()
    plane: Array = manifold.TSNE(
        perplexity=min(PERPLEXITY, (len(points) - 1) / 3), init="pca", random_state=seed % 2**32
    ).fit_transform(points)
    return plane.astype(np.float64)


def _isomap(points: Array) -> Array:
    """Plane of Isomap, (n, 2), scaled to unit variance along its first axis."""
    with (
        warnings.catch_warnings()
    ):  # it warns that it joins a graph in pieces at the nearest points
        warnings.simplefilter("ignore")
        plane: Array = _manifold().Isomap(n_neighbors=ISOMAP_NEIGHBOURS).fit_transform(points)
    return plane / max(float(plane[:, 0].std()), 1e-300)


def _manifold() -> Any:
    """scikit-learn's module of embeddings, or an error that says how to get it."""
    try:
        from sklearn import manifold
    except ImportError as error:
        raise ValueError(
            "expected scikit-learn for t-SNE and Isomap, which is not installed; pip install 'slotflow[reproduce]'."
        ) from error
    return manifold


def _compare(data: Data) -> list[Row]:
    """How much of each parameter the contexts explain."""
    claims = {PLACE: "clusters by f", AMPLITUDE: "varies smoothly", PHASE: "varies smoothly"}
    note = ""
    if data.get("network", DEFAULT) == DEFAULT:
        note = "`zoom` keeps f and c = A exp(iφ) beside the context, whose task is only what is not Gaussian"
    rows = []
    for where, shares in data["explained"].items():
        for i in TABLE_ORDER:
            first = where.startswith("all coordinates, neighbours")
            rows.append(
                Row(
                    f"R² of {SYMBOLS[i]}, {where}",
                    shares[i],
                    claims[i] if first else "",
                    form=".3f",
                    note=note if first and i == PLACE else "",
                )
            )
    for where, shares in data["explained_lowest"].items():
        for i in (AMPLITUDE, PHASE):
            rows.append(Row(f"R² of {SYMBOLS[i]}, lowest slot, {where}", shares[i], form=".3f"))
    return rows


LATENT = Result(
    name="latent",
    title="Latent space: contexts of the slots",
    section="B.2",
    caption="Contexts of the slots of mixtures of ten in the plane of t-SNE, and those of the slot of the lowest "
    "frequency in the plane of Isomap, coloured by the parameters of the component that the slot takes; and how much "
    "of each parameter they explain on signals that the regression has not seen.",
    uses=("n", "draws", "seed", "model"),
    work=lambda settings: _mixtures(settings.tenth),
    run=_run,
    compare=_compare,
    plot=plot,
    needs=("sklearn", "reproduce"),
)
