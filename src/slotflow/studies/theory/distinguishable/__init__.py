"""Study `distinguishable`: down to which distance two tones can be told apart (paper, section 4.4).

- `pairs`: two tones at a given distance, and what networks and exact step make of them.
- `study`: the table and the picture.
"""
