"""The exact step for many signals at once, in torch, on any device.

Signals of the most common kind (even series in white noise, tones that the prior keeps apart and the data show clearly)
are answered together; each of them by the same formulas as alone, with measured criteria for whether its answer counts.
What a batch cannot decide, the search of one signal does (`exact/search.py`).

- `fits`: the maxima of the likelihood, and which of them a single bent Gaussian describes.
- `near`: RSS around a maximum as a quadratic form, so that draws cost one matrix product.
- `bent`: the proposal (`proposals/collapsed.py`) for all signals.
- `draws`: candidates cut to the prior's support, weights, evidence and how far they can be trusted; `levels`: σ.
- `neighbours`: what one tone less and one tone more are worth at most.
- `changes`: whether tones drift, decay or are modulated; the residuals are tested in `posterior/whiteness/screen.py`.
- `group`: all of this for signals of the same K, and why a signal is not decided.
- `answers`: from the network's answers to posteriors, in chunks that fit into memory; `posteriors`: these as arrays.
"""
