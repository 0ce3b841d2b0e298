"""From the network's answer to the exact posterior p(K, Θ, σ | x).

- `refine`: the way in; `start`: who proposes; `refined`: the result.
- `target`: the density that sampling aims at, with σ integrated out.
- `modes`: maxima of the likelihood for each K; `classical`: the pursuit that finds tones without a network.
- `proposals/`: densities that can be drawn from, one file each, and how they are mixed.
- `importance`, `rounds`, `tempering`: weighted draws and evidence, in rounds that add up, or a path of temperatures
  where weights cannot be trusted.
- `search`: which K are looked at, and how; `orders`: what is known of each.
- `batch/`: the same for many signals at once, where they are clear enough for it.
"""
