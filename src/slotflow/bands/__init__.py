"""Bands wider than the network's window, or with more tones than it can count: windows around what a search finds.

- `windows`: whether a band needs them, and the posterior of a band in windows;
- `search`, `spectrum_fit`, `floor`, `found`: all tones of the band above a local noise floor;
- `level`: offsets and trends of what the tones leave;
- `crowds`, `pruning`, `lines`, `fisher`: tones that hide each other, tones that are not needed, pairs that are none;
- `layout`: where the windows lie, and what each is asked;
- `analysis`, `noise`: the windows one after the other, with noise of their own, within a time budget;
- `unexamined`: the search's answer for a window for which there is no time;
- `core_draws`, `coupling`: the windows' draws together, and how errors of their tones depend on each other;
- `posterior`: the result, a Posterior like any other.

`slotflow.infer` decides when a band is analysed in windows.
"""
