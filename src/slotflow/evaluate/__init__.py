"""Evaluation: what a posterior should reach, and whether it does."""

from slotflow.evaluate.bounds import crb_covariance, crb_std, fisher_matrix

__all__ = ["crb_covariance", "crb_std", "fisher_matrix"]
