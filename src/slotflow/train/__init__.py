"""Training: signals are simulated on the fly, checkpoints hold everything, several processes can share a batch.

- `loop`: `train`, one function to read from top to bottom, and the validation.
- `state`: what is trained and how far, and the checkpoint of it. `folder`: what a run writes.
- `batches`: the signals of a step. `schedule`: learning rate and curriculum. `objectives`: the loss of a network.
- `muon`: an optimizer with orthogonal steps for matrices.
- `means`: averages of loss terms. `metrics`: the metrics file.
- `__main__`: ``python -m slotflow.train``, for machines without the packages of the command line.
- `processes`: several processes that train together, and the signals that stop them.
"""
