"""From observations to posteriors: the network on many of them at once, then the likelihood on each.

The network answers a batch in one pass. Unless only that is wanted, every answer is then refined on its own
(`slotflow.exact.refine`) and handed out as soon as it is ready. The network may answer under another prior than the
stated one, as a place to start from (`SlotFlow._start`); the exact step answers under the stated one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch

from slotflow.data.observation import Observation
from slotflow.network.cardinality import check_k_prior, under_k_prior
from slotflow.network.options import KPrior
from slotflow.posterior.posterior import Posterior
from slotflow.signal.prior import Prior

if TYPE_CHECKING:
    from slotflow.network.model import SlotFlow

__all__ = ["posteriors"]


def posteriors(
    model: SlotFlow,
    observations: list[Observation],
    *,
    refine: bool = True,
    prior: Prior | None = None,
    k_prior: KPrior | None = None,
    draws: int = 2000,
    max_seconds: float = 10.0,
    seed: int = 0,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    threads: int | None = None,
    batch_size: int = 256,
) -> Iterator[Posterior]:
    """Checks everything that was asked at once, and gives the posteriors one by one."""
    if batch_size < 1:
        raise ValueError(f"infer expects batch_size >= 1, received {batch_size}.")
    if threads is not None and threads < 1:
        raise ValueError(f"expected threads >= 1, received {threads}.")
    if refine:
        from slotflow.exact.refine import check_budget

        check_budget(draws, max_seconds)
    own = model.config.prior
    prior = own if prior is None else prior
    if k_prior is not None:
        check_k_prior(k_prior, own)
    starts = [model._start(prior, one.long.grid, refine) for one in observations]
    for one, start in zip(observations, starts, strict=True):
        model._check(one, start)
    model._move(device, dtype)  # outside inference mode: the weights must stay trainable

    def answers() -> Iterator[Posterior]:
        stated = under_k_prior(prior, k_prior, own)
        for first in range(0, len(observations), batch_size):
            chunk = observations[first : first + batch_size]
            priors = starts[first : first + batch_size]
            for post in _amortized(model, chunk, priors, k_prior, threads):
                if refine:
                    with _threads(threads):
                        post = post.refine(
                            prior=stated, draws=draws, seed=seed, max_seconds=max_seconds
                        )
                yield post

    return answers()


def _amortized(
    model: SlotFlow,
    chunk: list[Observation],
    priors: list[Prior],
    k_prior: KPrior | None,
    threads: int | None,
) -> list[Posterior]:
    """The network's answers; the model's mode is left as it was."""
    was_training = model.training
    if was_training:  # a walk through all modules, which takes its time
        model.eval()
    try:
        with _threads(threads), torch.inference_mode():
            return model._infer_batch(chunk, priors, k_prior)
    finally:
        if was_training:
            model.train()


@contextmanager
def _threads(n: int | None) -> Iterator[None]:
    """Runs a block with n CPU threads."""
    before = torch.get_num_threads()
    if n is not None:
        torch.set_num_threads(n)
    try:
        yield
    finally:
        torch.set_num_threads(before)
