"""Section 5.2, table 3: time and memory of each method.

- `methods`: the methods, each asked for the same number of effective draws.
- `measure`: runs each method in a process of its own, which is `worker`.
- `table`, `plot`: the rows beside the paper's, and the picture.
"""
