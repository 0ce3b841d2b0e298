"""What was measured: series of samples, when they were taken, and how they come from files.

- `channel`: one series with its unit, noise level and notes; `sampling`: its instants.
- `observation`: the channels in which the same signals were measured.
- `read/`: files of every format, as observations.
- `gaps`: even steps of time stamps, and missing samples.
- `trend`: offsets and trends, measured and removed; `slow_tone`: what only looks like a slope; `noise_level`: the noise
  from a spectrum.
- `preprocess`: a first look at a series, and the band in which something is.

Nothing in here knows what a signal looks like; that begins in `signal`.
"""
