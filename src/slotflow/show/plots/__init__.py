"""Pictures: one colour-blind-safe style, figures that need no window, files that appear whole.

Every function builds a :class:`matplotlib.figure.Figure` of its own. ``pyplot`` is never imported (only the package
``corner`` does so, for corner plots), so neither the user's backend nor their style is touched, and nothing has to be
closed. `Posterior.plot` draws each picture of a posterior by its name (`family`).

- Whole pictures: `posterior` (the overview and its panels alone), `corner`, `correlation`, `residual`, `training`.
- Panels: `data`, `spectrum`, `counts`, `components`; they draw a `view` of a posterior.
- Parts: `axes` (names that do not collide), `units`, `colours`, `style`.
"""

from slotflow.show.plots.corner import plot_corner
from slotflow.show.plots.correlation import plot_correlation
from slotflow.show.plots.posterior import plot_posterior
from slotflow.show.plots.residual import plot_residual
from slotflow.show.plots.style import save_figure
from slotflow.show.plots.training import plot_training

__all__ = [
    "plot_corner",
    "plot_correlation",
    "plot_posterior",
    "plot_residual",
    "plot_training",
    "save_figure",
]
