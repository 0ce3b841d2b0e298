"""Study `elbo`: the evidence lower bound of proposition 4.1 with exact evidences.

- `bound`: the bound of one signal, its terms and what its gap consists of.
- `study`: many signals, the table and the picture.
"""
