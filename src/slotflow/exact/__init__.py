"""The likelihood of tones in white noise, in closed form, and what follows from it."""

from slotflow.exact.laplace import Laplace, fit, gauss_newton_step, linear_amplitudes
from slotflow.exact.likelihood import Statistics

__all__ = ["Laplace", "Statistics", "fit", "gauss_newton_step", "linear_amplitudes"]
