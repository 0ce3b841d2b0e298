"""The default network: it sees the band's spectrum and lets slots zoom in on the tones.

A pass goes through the modules in this order:

- `spectrum`: what the network sees, without a dimension left in it. `encoder`: tokens of it (`blocks`: its layers).
- `proposals`: where the slots start. `slots`: their refinement, in `rounds` and then joint steps; `numbers`: what a
  slot is told about itself.
- `recount`: q(K | x), corrected by what the slots found.
- `bound`: the flow of a slot in units of its Cramér–Rao bound.
- `batch`, `analysis`: components of many signals at once. `densities`: those of one signal, behind a Posterior.
- `model` puts the parts together, `loss` trains them.
"""
