"""One signal's components as the slot densities behind a Posterior, for each K when it is asked for."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from slotflow.core.seeds import signed
from slotflow.network.zoom.alike import draw_alike
from slotflow.network.zoom.analysis import Analysis
from slotflow.network.zoom.batch import SlotBatch

__all__ = ["ZoomSlotDensities"]


class ZoomSlotDensities:
    """One signal's slot densities for each K, computed when asked for.

    Args:
        analysis: What the network made of the signal, B = 1.
        k_max: Largest number of components.
    """

    def __init__(self, analysis: Analysis, k_max: int) -> None:
        self.analysis, self.k_max = analysis, k_max
        self._found: dict[int, SlotBatch] = {}

    def at(self, k: int) -> SlotBatch:
        """The slots of k components."""
        current = self.analysis.current()
        if current is not self.analysis:  # the model was moved or cast since
            self.analysis, self._found = current, {}
        if k not in self._found:
            self._found[k] = self.analysis.slots(torch.tensor([k]))
        return self._found[k]

    def sample(self, n: int, k: int, seed: int) -> NDArray[np.float64]:
        """Draws, (n, k, P)."""
        if n == 0 or k == 0:
            return np.zeros((n, k, SlotBatch.waveform.size))
        own = np.array([signed(seed)])
        draws: NDArray[np.float64] = (
            draw_alike(self.at(k), np.array([n]), own).squeeze(1).cpu().numpy()
        )
        return draws

    def log_prob(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Log density of component j under slot i, (n, k, P) to (n, k, k)."""
        n, k = theta.shape[:2]
        if n == 0 or k == 0:
            return np.zeros((n, k, k))
        batch = self.at(k)
        points = torch.as_tensor(np.ascontiguousarray(theta)).to(batch.slots.y.device)
        result: NDArray[np.float64] = batch.log_prob(points[:, None]).squeeze(1).cpu().numpy()
        return result

    def centres(self, k: int) -> NDArray[np.float64]:
        """The slots' own estimates, (k, P)."""
        if k == 0:
            return np.zeros((0, SlotBatch.waveform.size))
        centres: NDArray[np.float64] = self.at(k).centres()[0].cpu().numpy()
        return centres

    def constrained_fraction(self, k: int) -> float:
        """Share of raw draws outside the bounds."""
        return 0.0 if k == 0 else float(1 - self.at(k).mass().mean())
