"""What the study measures of a network: right counts on the frontier, widths and errors on nominal signals.

The sets are those of `slotflow evaluate`: the frontier has 5 to 10 tones without a minimum separation in noise of σ 1
to 2, nominal signals are the paper's. Widths and errors are in units of the joint Cramér–Rao bound at the true K,
pooled over K (`slotflow.studies.measures.precision`), with errors by quantiles.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from slotflow.studies.frame.study import Data
from slotflow.studies.measures.parameters import SYMBOLS
from slotflow.studies.suites.analyser import Analyser
from slotflow.studies.suites.model_rows import precision_of_sets
from slotflow.studies.suites.results import run_set
from slotflow.studies.suites.sets import SETS
from slotflow.studies.suites.sizes import Sizes

__all__ = ["look_at"]


def look_at(network: Analyser, sizes: Sizes, seed: int, device: torch.device) -> Data:
    """Shares of right counts, widths and errors.

    Args:
        network: What to measure.
        sizes: Signals and draws; the frontier has all of the signals, the nominal set half of them.
        seed: Of the signals.
        device: Where the network is.
    """
    counted = run_set(
        network, replace(SETS["frontier"], tones=False), sizes, seed=seed, device=device
    )
    half = replace(sizes, n=max(1, sizes.n // 2))
    nominal = run_set(network, SETS["nominal"], half, seed=seed, device=device)
    found = precision_of_sets([nominal], None)
    none = (math.nan,) * len(SYMBOLS)
    width, error = (none, none) if found is None else (found.width, found.error)
    return {
        "frontier": float(counted.exact.double().mean()),
        "nominal": float(nominal.exact.double().mean()),
        "width": dict(zip(SYMBOLS, width, strict=True)),
        "error": dict(zip(SYMBOLS, error, strict=True)),
    }
