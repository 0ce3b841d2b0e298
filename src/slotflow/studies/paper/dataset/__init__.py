"""Section 5.1.1: how far apart the components of a signal are, and how loud; `gaps` has the law of the gaps."""
