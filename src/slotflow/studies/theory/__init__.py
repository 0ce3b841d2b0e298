"""The paper's theory (section 4, appendix A): closed formulas, and studies that check its statements on real networks.

Formulas, one module for each result; `formulas` puts what they give beside the paper's worked numbers:

- `regimes`: K_crit, and where the two terms of theorem 4.2 are equal.
- `sample_complexity`: the bound of theorem 4.2. `estimation`: the inequalities that it is put together from.
- `minimum_samples`: how the least training set grows with K (appendix B.3).
- `flow_error`: lemma 4.2. `depth`: proposition 4.3. `phase_weight`: proposition 4.2.
- `distinguishability`: definition 4.1.

Studies, run by `slotflow study NAME`: `formulas`, `elbo/` (proposition 4.1), `gradient/` (lemma 4.1) and
`distinguishable/` (section 4.4). Theorem 4.1, the symmetry under permutations, is `slotflow.posterior.tuples`.
"""
