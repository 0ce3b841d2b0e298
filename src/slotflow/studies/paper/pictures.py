"""The picture of a result, with the name of its network in it.

A picture is looked at without the page around it, and those of two networks have the same panels. The name stands above
the panels, so that none can be taken for another's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slotflow.show.plots.style import name_figure
from slotflow.studies.paper.result import Data, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_result"]


def draw_result(result: Result, data: Data, model: str) -> Figure:
    """Draws the numbers of a result and names the network that they belong to.

    Args:
        result: The result.
        data: Its numbers.
        model: Name of the network; does not matter where no network takes part.
    """
    figure = result.plot(data)
    if "model" in result.uses:
        name_figure(figure, f"Network {model}")
    return figure
