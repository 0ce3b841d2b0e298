"""What every room stands on; nothing here knows of signals.

- `arrays`, `numeric`: one formula for NumPy and torch; elementary functions for inner loops.
- `fields`: settings as frozen dataclasses, checked when they are made and read from nested dictionaries.
- `files`: files that appear whole or not at all.
- `store`: results that a later run goes on from.
- `seeds`: independent streams of random numbers from one seed.
- `devices`, `progress`, `packages`: where to compute, how far a job is, and optional packages.
- `later`: functions of later rooms that an earlier room offers as methods.
- `version`: the version of the package.
"""
