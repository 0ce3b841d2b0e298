r"""How well a network's noise pathway (section 3.5, optional) knows the noise level of the test signals.

The pathway gives one number σ̂ for a signal and no width, so that what can be measured is its error. Beside it stands
what the long stream, which is all that the pathway sees, allows: N samples of white noise of known mean give σ to

.. math:: \mathrm{sd}(\hat σ) = \frac{σ}{\sqrt{2 N}} ,

and the root mean square of that over the signals is the least that an unbiased estimate can reach.
"""

from __future__ import annotations

import math

from slotflow.studies.paper.result import Data
from slotflow.studies.row import Row
from slotflow.studies.suites.results import SetResult
from slotflow.studies.suites.sets import GRIDS

__all__ = ["noise_error", "noise_rows"]


def noise_error(result: SetResult) -> Data | None:
    """Error of σ̂ over a set, its mean, and what the data allow; None where the network estimates no level."""
    if result.sigma_estimate is None:
        return None
    error = result.sigma_estimate.double() - result.sigma
    return {
        "signals": result.n,
        "rms": float(error.square().mean().sqrt()),
        "mean": float(error.mean()),
        "mean_se": float(error.std() / math.sqrt(result.n)),
        "spread": float(result.sigma.std()),
        "allowed": float((result.sigma.square().mean() / (2 * GRIDS[0].n)).sqrt()),
    }


def noise_rows(found: Data | None) -> list[Row]:
    """The error and the bias of the pathway, where there is one."""
    if found is None:
        return []
    return [
        Row(
            "noise pathway: root mean square error of σ",
            found["rms"],
            form=".4f",
            note=f"{found['signals']:,} signals; the long stream allows {found['allowed']:.4f}, and σ itself varies by "
            f"{found['spread']:.2f}. The paper gives no number",
        ),
        Row("noise pathway: mean error of σ", found["mean"], "", found["mean_se"], "+.4f"),
    ]
