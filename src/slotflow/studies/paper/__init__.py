"""The paper's results from this software, our value beside the paper's.

- `settings`: sizes, seed, method, names of the results; `request`: from what a user asks for to results.
- `bench`: the network, and test sets that are analysed once; `exact_step`: sets behind the exact step.
- `pooled`: the paper's network on batches of test signals.
- `noise_pathway`: what the network's own estimate of the noise level is worth.
- `training_curve`: our training of that network beside the paper's.
- `contents`: every table and figure of the paper, and what stands beside it here; `verdicts`: whether it held, by the
  records of results and studies.
- `result`: what a result consists of; `registry`: all of them, in the order of the page.
- `runner`: makes results and keeps them in `files`; `words`, `markdown`, `html`: the page that shows them.
- One module or folder for each result, named as on the command line.
"""
