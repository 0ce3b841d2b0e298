"""Table 1: the properties of the methods, measured.

- `methods`: the methods; `measure`: amortization, p(K | x) in doubt, dependence between tones, scaling.
- `labels`: whether a density depends on the labels of the components.
- `table`: from measured values to verdicts, rows and a picture.
"""
