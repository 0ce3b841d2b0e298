"""What the study `zoom_scaling` found on the learned part, in the sentences that our pages quote."""

from __future__ import annotations

from slotflow.studies.frame.study import Data
from slotflow.studies.zoom_scaling.rows import RELEASED
from slotflow.studies.zoom_scaling.variants import BASE, PARTS

__all__ = ["learned_part"]


def learned_part(data: Data | None) -> str:
    """Errors and counts with and without each part; that nothing is known yet if there are no data.

    Args:
        data: What the study has put together, or None where it has not been run.
    """
    where = "the study [`zoom_scaling`](studies.md#scaling-of-zoom)"
    if data is None or BASE not in data:
        return f"This is not known yet; {where} will tell."
    base = data[BASE]
    trained = f"{base['parameters'] / 1e6:.1f} million parameters, {base['signals'][-1]:,} signals"
    sentences = [
        f"In {where} ({trained}, seeds: {base['seeds']}), the network has errors of f on nominal signals of "
        f"{_error(base)} times the bound and counts {_share(base)} of the frontier right"
    ]
    for words in PARTS:
        if (found := data.get(f"{BASE}, {words}")) is not None:
            sentences.append(f"trained {words}, {_error(found)} and {_share(found)}")
    text = "; ".join(sentences) + "."
    if (released := data.get(RELEASED)) is not None:
        text += f" The released weights: {_error(released)} and {_share(released)}"
        for words in PARTS:
            if (found := data.get(f"{RELEASED}, {words}")) is not None:
                text += (
                    f"; {words}, which they were trained with, {_error(found)} and {_share(found)}"
                )
        text += "."
    return text


def _error(found: Data) -> str:
    """Error of f over the bound at the last point."""
    value, error = found["error"]["f"][-1]
    return f"{value:.2f}" if error is None else f"{value:.2f} ± {error:.2f}"


def _share(found: Data) -> str:
    """Share of right counts on the frontier at the last point."""
    value, error = found["frontier"][-1]
    return f"{value:.3f}" if error is None else f"{value:.3f} ± {error:.3f}"
