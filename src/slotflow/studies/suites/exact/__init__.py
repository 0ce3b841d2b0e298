"""The suite of the exact step, from signals to rows of a report.

- `parts`: what each part asks, and of which signals; `misfits`: data that tones do not explain.
- `tasks`: what a process does for one signal; `reference`: long independent sampling to compare with.
- `suite`: runs the tasks, keeps their records, and makes the report.
- `rows`, `coverage_rows`, `time_rows`: from records to rows; all targets stand in `coverage_rows`.
"""
