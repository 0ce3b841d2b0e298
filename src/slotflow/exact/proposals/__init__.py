"""Proposals: normalized densities of K tones that can be drawn from, one file each.

- `gaussian`: a Gaussian and a mixture; `collapsed`: frequencies from a Gaussian, amplitudes from their conditional.
- `births`, `surface`, `growth`: a further tone anywhere in the band, alone or on the draws of one tone less.
- `splits`, `division`: a tone split in two, of the maximum or of any draw of one tone less.
- `ridge`, `clusters`, `cluster_fits`: pairs and triples in opposition, along the ridge of distance and amplitude.
- `edges`: tones that the data want beyond the prior's bounds.
- `assembly`: which of them a signal needs, and what each is worth.
"""
