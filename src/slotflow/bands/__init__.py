"""Bands wider than the network's window, or with more tones than it can count: overlapping windows.

- `windows`: whether a band needs them, and the posterior of a band in windows;
- `search`: the tones of the whole band, found first by the classical pursuit;
- `layout`: how the band is cut, and what each window is asked;
- `core_draws`, `coupling`: the windows' draws together, and how errors of their tones depend on each other;
- `posterior`: the result, a Posterior like any other.

`slotflow.infer` decides when a band is analysed in windows.
"""
