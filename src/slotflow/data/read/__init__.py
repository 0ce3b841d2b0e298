"""Files as observations, in five steps.

- `formats/`: each format gives a `Table` (`tables`), named arrays that are read when they are asked for. A further
  format is one more file there.
- `choice`: the series and what belongs to it are chosen among the arrays by one set of rules, whatever the format
  (`names`); `clock` and `timeline` find its sampling instants, `timestamps` knows units of time, dates and headers.
- `series`: its signals as channels, without the numbers that stand for missing values (`marks`).
- `signals`: the signals of an open file, a few at a time.
- `files`: all of them at once, as `slotflow.io` and `Observation.read` give them.

What a caller may say about a file is stated once, in `options`. Nothing in a file is executed, no size in it is
believed, and everything that is assumed is noted.
"""
