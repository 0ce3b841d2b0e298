"""Studies: what a posterior should reach, whether it does, and the paper's results from this software.

- `row`: one line of any table: a value, its error, its target and whether it is met, and how it was measured.
- `report`: all rows of an evaluation, with the details behind them.
- `answers`: exact answers of a network, and the hash of its weights.
- `slots`: slots of the paper's network and their components; `trainings`: networks trained side by side.
- `tasks`: many independent signals over several processes, with records that a later run goes on from.
- `measures/`: from draws and truths to numbers (coverage, exact counts, widths over the bound, distances, memory).
- `suites/`: the sets of test signals, the suite of a model and, in `exact/`, the suite of the exact step.
- `paper/`: the tables and figures of the paper, a module or a folder for each, and the page that shows them.
- `frame/`: what a study of a claim consists of and how it is run; `theory/`: the paper's formulas, studies of them;
  `ablations/`: studies of trainings that differ in one choice of the paper's; `complexity/`: in the size of their set;
  `comparators/`: other methods.
"""
