"""Measures: from posterior draws and true components to numbers. No module here runs a model.

- `parameters`: names, columns and angles of the components; the only place that says that they are tones.
- `tones`: median, standard deviation and level of the truth among the draws of each component.
- `calibration`: coverage of central intervals; `cardinality`: exact counts, confusion and calibration of p(K | x).
- `precision`: widths and errors in units of the Cramér–Rao bound; `correlation`: of weighted draws.
- `catalogue`: components that were found, missed and invented; `matching`: which slot takes which component.
- `distances`: Wasserstein distances of marginals; `regression`: what a vector explains of a component.
- `power_law`: exponents of K, where there is one; `memory`: peak memory of one call; `means`: over rounds, with errors.
"""
