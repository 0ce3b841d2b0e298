"""The paper's network (presets `paper` and `debug`), section by section.

- `encoder`: the dual-stream encoder (3.1, 3.3). `counter`: the classifier of K (3.2).
- `onehot`: slot contexts, the global context with a slot's number (3.3).
- `target`: the flow's four coordinates of a tone (3.4, 3.5); the flow itself is `slotflow.network.flow`.
- `plane`: three coordinates in their place, which have a density; an ablation (5.3.2).
- `densities`: draws and densities of one signal's components, behind a Posterior.
- `model` puts the parts together, `loss` trains them (3.5).
"""
