"""Posterior widths against the number of components (5.1.6, figure 9)."""
