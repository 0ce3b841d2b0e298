"""Pictures: one colour-blind-safe style, figures that need no window, files that appear whole.

Every function builds a :class:`matplotlib.figure.Figure` of its own. ``pyplot`` is never imported,
so neither the user's backend nor their style is touched, and nothing has to be closed.
"""

from slotflow.plots.posterior import plot_posterior
from slotflow.plots.style import save_figure
from slotflow.plots.training import plot_training

__all__ = ["plot_posterior", "plot_training", "save_figure"]
