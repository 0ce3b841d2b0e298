"""Section 5.1.6: two sources 0.01 Hz apart. `two_sources` makes the signals, `maps` measures, `plot` draws."""
