"""Does one component that drifts, decays or is modulated explain the data better than steady tones?

- `scores`: tests of every tone for slow changes, from what the fit leaves of the data.
- `envelopes`: slowly changing tones.
- `slow`: their fits and evidences.
- `groups`: clusters of tones, and one changing component that resembles their sum.
- `trials`: such components instead of tones, and their odds.
- `alternatives`: what a verdict on tones should name.
"""
