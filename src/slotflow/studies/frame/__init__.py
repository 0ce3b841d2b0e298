"""The frame of a study: a claim of the paper, measured in rounds, with a record, a table and a picture.

- `settings`: what a user may ask for, and the names of the studies. Nothing waits for torch.
- `study`: what a study consists of. `registry`: all of them.
- `runner`: runs the rounds of a study, goes on from those that were done before, and writes its files.

To add a study, write a module with a `Study`, and name it in `settings` and `registry`.
"""
