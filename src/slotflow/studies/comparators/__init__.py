"""Small versions of the methods that the paper's table 1 compares, trained on one task: `slotflow study leaderboard`.

- `interface`: what all of them answer. `orders`: sums over the orders of a set, counts from presences.
- `slots`: the paper's network. `saturated`: a masked autoregressive flow over (K, Θ), after CoSMIC.
- `equivariant`: a permutation-equivariant flow, after Set Flow. `sequential`: slots one after the other, after MONet.
- `presences`: posterior estimation at fixed K_max. `released`: the default network, with its own, larger budget.
- `training`: the same signals and steps for each. `scores`, `properties`: what is measured of a trained one.
- `leaderboard`: the study; `table`, `picture`: what it shows.

They are written for this comparison after the descriptions of the methods, with one encoder for all, and are not the
methods' own software.
"""
