"""The exact posterior of components that are no tones, or of several classes: how many of each kind, and where.

- `layout`: which components there are, K_c of each class, and their coordinates in one row.
- `evenly`: functions of time of many components.
- `straight`: coordinates in which the posterior is nearly Gaussian.
- `target`: the density p(Θ, x | K_1, …, K_C) of such a row.
- `fit`: Gauss–Newton to the maxima of the likelihood.
- `bank`: matched filters over frequencies and shapes, which propose components.
- `pencil`: tones and decays all at once, from the singular vectors of the data.
- `search`: maxima for all numbers of components of each class that matter.
- `newcomers`, `proposals`: a further component beside others, and rows of components to draw.
- `mixture`, `reached`, `sample`: importance sampling of each, which of them are drawn, and the evidences.
- `analysed`, `judged`, `posterior`: the result with its verdict and what it says of the noise.
"""
