"""The network for several classes: time–frequency tokens, slots with class and shape, a flow for each class (`family`).

- `units`: the network's units and all classes' functions of time; `bounds`: what it is told of the prior.
- `mixtures`: training signals; `batches`: nested tuples of tensors.
- `view`: spectrum in segments, matched filters; `encoder`: tokens, heat maps, first count; `places`: where slots begin.
- `joint`: Gauss–Newton of all slots together; `hypotheses`: each slot as every class.
- `rounds`, `slots`: from places to slots; `closer`: those beside their component begin again.
- `recount`: the second look and count; `network` puts the parts together.
- `coordinates`: a slot's coordinates in units of its bound, in which its flow lives.
- `loss` trains it, `model` answers.
"""
