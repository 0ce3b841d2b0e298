"""What the study `zoom_scaling` found on the learned part, in the sentences that our pages quote."""

from __future__ import annotations

from slotflow.studies.frame.study import Data
from slotflow.studies.zoom_scaling.rows import JOINT, RELEASED, WIDER
from slotflow.studies.zoom_scaling.variants import BASE, PARTS

__all__ = ["learned_part"]

STILL_TOLD = (
    "What is taken away is the move: the bound at the slot's place is still computed from the likelihood, and the last "
    "look is still told how far a step would go."
)
"""What a network without joint steps has left of them."""


def learned_part(data: Data | None) -> str:
    """Errors and counts with and without each part; that nothing is known yet if there are no data.

    Args:
        data: What the study has put together, or None where it has not been run.
    """
    where = "the study [`zoom_scaling`](studies.md#scaling-of-zoom)"
    if data is None or BASE not in data:
        return f"This is not known yet; {where} will tell."
    base = data[BASE]
    trained = f"{base['parameters'] / 1e6:.1f} million parameters, seeds: {base['seeds']}"
    sentences = [
        f"In {where} ({trained}), after {base['signals'][-1]:,} signals, the network has errors of f on nominal "
        f"signals of {_error(base)} times the bound and counts {_share(base)} of the frontier right"
    ]
    for words in PARTS:
        if (found := data.get(f"{BASE}, {words}")) is not None:
            sentences.append(f"trained {words}, {_error(found)} and {_share(found)}")
    text = "; ".join(sentences) + "."
    if JOINT in data:
        text += f" {_dependence(base, data[JOINT])} {STILL_TOLD}"
    if (released := data.get(RELEASED)) is not None:
        text += f" The released weights: {_error(released)} and {_share(released)}"
        for words in PARTS:
            if (found := data.get(f"{RELEASED}, {words}")) is not None:
                text += (
                    f"; {words}, which they were trained with, {_error(found)} and {_share(found)}"
                )
        text += "."
    return text


def _dependence(base: Data, lacking: Data) -> str:
    """Whether the errors depend on the joint steps, at the last number of signals and at the first."""
    wider = lacking["error"]["f"][-1][0] >= WIDER * base["error"]["f"][-1][0]
    return (
        f"After so many signals the errors {'' if wider else 'hardly '}depend on whether the joint steps are made; "
        f"after {base['signals'][0]:,} they are {_error(base, 0)} with the steps and {_error(lacking, 0)} without."
    )


def _error(found: Data, point: int = -1) -> str:
    """Error of f over the bound, at the last point unless another is asked for."""
    return _written(*found["error"]["f"][point])


def _share(found: Data) -> str:
    """Share of right counts on the frontier at the last point."""
    return _written(*found["frontier"][-1])


def _written(value: float, error: float | None) -> str:
    """A value with its error, as tables write it."""
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.1g}"
