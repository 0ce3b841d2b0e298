"""How the default network grows with signals and parameters, and what its parts on the likelihood are worth.

- `variants`: sizes of `zoom`, and `zoom` with a part switched off.
- `annealing`: a training at a constant learning rate, with a branch that is annealed at each number of signals.
- `looks`: what is measured of a network.
- `study`: the rounds. `rows`, `pictures`, `words`: its table, its picture, and the sentences that our pages quote.
"""
