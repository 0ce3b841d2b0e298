"""The result: p(K, Θ | x) as every method answers it, and what is made of it.

- `tuples`: the densities of components behind a posterior; `draws`: draws of each K as such densities.
- `facts`, `contract`: what every result knows and answers; `posterior`: the class that users hold.
- `matching`, `alignment`: which component of one draw is which of another.
- `summaries`, `export`, `birth`: tables, other programs' formats, proposals for Eryn.
- `file`, `stored`, `loaded`: writing a posterior, reading it with every check, and what was read.
- `residual`, `whiteness`, `verdict`: what a fit leaves, tests of it, and how far to trust a result.
- `assumed`: what was assumed beforehand, and why; `many`: the posteriors of many observations, with arrays over them.
- `limits`: upper limits where there may be no component; `sampled`: the answers of Monte-Carlo samplers.
"""
