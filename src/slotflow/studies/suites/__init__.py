"""Suites: fresh test signals, analysed and measured, every measure beside its target.

- `sizes`: what a suite can be asked for; `sets`: the sets of test signals; `signals`: signals of given components.
- `analyser`: what a model must offer; `results`: the loop that analyses a set in batches.
- `model`, `model_rows`: the suite of a network and the rows of its report.
- `rivals`: the classical estimator on the same signals; `timing`: signals per second.
- `exact/`: the suite of the exact step, signal by signal over several processes.
"""
