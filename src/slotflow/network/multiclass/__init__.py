"""The paper's network for several classes of component (section 3.7; preset `multiclass`).

- `counts`: q(K, {c_k} | x), the class of each slot and from it how many components of each class there are.
- `target`: coordinates of a class's components, in its own dimension d_c.
- `model` puts the paper's encoder, the counts and a flow for each class together, `loss` trains them.
- `densities`: draws and densities of one class's components. `mixed`: those of all classes in one table.
- `posterior`: the answer, how many of each kind and where.

Matching is in `slotflow.network.matching` and `slotflow.network.matched`, which the network of one class shares.
"""
