"""Baselines: what an expert would use without a network."""

from slotflow.baselines.classical import Classical, classical

__all__ = ["Classical", "classical"]
