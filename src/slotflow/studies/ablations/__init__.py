"""The paper's ablations (section 5.3) as studies: `slotflow study domain`, `phase_weight`, `depth`.

- `ablation`: variants that are trained side by side in rounds, their sizes, and what is kept of them.
- `errors`: what is measured of a trained network.
- `rows`, `pictures`: what tables and pictures of all three are made of.
- `domain` (5.3.1), `phase_weight` (5.3.2), `depth` (5.3.3): the variants, and what the paper says of them.

The trainings themselves are `slotflow.studies.trainings`.
"""
