"""Section 5.1.2 and appendix B.1: which slot takes which component, and what a change does to the others.

- `specialization`: many mixtures of ten, and one signal many times.
- `changes`: a component comes, goes or moves; do the others keep their slots?
"""
