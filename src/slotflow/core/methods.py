"""Names of the ways to find a posterior."""

from __future__ import annotations

__all__ = ["METHODS", "SAMPLERS"]

SAMPLERS = ("classical", "rjmcmc", "smc")
"""Methods that do not ask the network."""
METHODS = ("exact", "network", *SAMPLERS)
"""How a posterior may be found."""
