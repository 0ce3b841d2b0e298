"""Small signals of every noise and sampling: the likelihood written out is the one that the exact step uses."""

from __future__ import annotations

import numpy as np
import pytest

from slotflow.exact.target import Target
from slotflow.signal.likelihood.observed import likelihood_of
from slotflow.signal.noise.choice import choose_noise
from slotflow.studies.proof.nested import from_cube
from slotflow.studies.proof.noise_cases import NOISES, SAMPLINGS, Written, draw_case

REFUSED = {
    ("ar", "uneven"),
    ("psd", "uneven"),
}
"""Filters need even samples."""


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("noise", NOISES)
def test_the_likelihood_written_out(noise: str, sampling: str, seed: int) -> None:
    """Log-likelihoods of random tones, less that of no tone, under each node of the noise and under all of them."""
    rng = np.random.default_rng(seed)
    case = draw_case(noise, sampling, 2, rng)
    band = case.prior.frequency
    if (noise, sampling) in REFUSED:
        with pytest.raises(ValueError, match="even"):
            choose_noise(case.observation, case.stated, band)
        return
    model = choose_noise(case.observation, case.stated, band)
    likelihood = likelihood_of(case.observation, model, band)
    target, written = Target(likelihood, case.prior, 2), Written(case.observation, model, band)
    theta = from_cube(rng.random((20, 7)), case.prior, 2)[0]
    z = likelihood.to_z(theta)
    samples = case.observation.long.values
    rest = samples - written.model(theta)
    # Tones of the band lie in the span of local noise but for a small part.
    tolerance = 2e-3 if model.local else 1e-7
    for i, (matrix, _) in enumerate(written.nodes):
        energy = float((np.abs(samples @ matrix.T) ** 2).sum())
        expected = (np.abs(rest @ matrix.T) ** 2).sum(-1)
        assert np.abs(target.rss(z, i) - expected).max() < tolerance * energy
        assert np.abs(target.rss(z * 1.001, i) - expected).max() > 1e-4 * energy  # the control
        degrees = len(matrix) * (2 if case.observation.is_complex else 1)
        assert degrees == (likelihood, *likelihood.nodes)[i].n
    # Constants of the nodes may differ from ours by one number, which no Bayes factor knows.
    ours = [node.constant for node in target.nodes]
    theirs = [
        weight - log_det
        for (_, log_det), weight in zip(written.nodes, written.weights, strict=True)
    ]
    assert np.ptp(np.subtract(ours, theirs)) < 1e-6
