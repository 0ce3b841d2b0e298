"""The networks: from signals to q(K | x) and a density for each component, in one pass.

- `model`: `SlotFlow`, the class that users see; `build` says which network belongs to a config or a file.
- `zoom/`: the default network, for any even sampling and band. `paper/`: the paper's, for one sampling and one prior.
- `config`, `architecture`: presets and the sizes of the networks' parts, as frozen dataclasses.
- `flow`: the conditional coupling flow. `matching`: the Hungarian assignment of slots to components.
- `cardinality`: logits of K to q(K | x) under any prior over K. `objective`: loss terms, weighted in one place.
- `checkpoint`: model files and training checkpoints. `cards`, `write_card`: what is known of a set of weights.
- `options`: the keywords of the call of inference.
"""
