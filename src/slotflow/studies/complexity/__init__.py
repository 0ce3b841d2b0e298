"""The paper's experiment on sample complexity (appendix B.3) as a study: `slotflow study sample_complexity`.

- `learners`: the networks in small, their signals, the loss of each and the losses that it is to reach.
- `fixed_sets`: training sets of fixed size, their batches, and fresh signals.
- `members`: several networks that are trained at the same time. `trainings`: their steps, and the validation.
- `rounds`: what is measured in a round, and rounds put together.
- `least`: the least training set for a given loss, and how it grows with K.
- `rows`, `pictures`, `study`: the table beside the paper's numbers, the pictures, and the study itself.
"""
