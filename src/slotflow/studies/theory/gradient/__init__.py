"""Study `gradient`: what the phase weight does to gradients of real weights (lemma 4.1).

- `norms`: gradients of the flow loss with respect to the phase and to the weights, for any phase weight.
- `study`: trainings that differ in their phase weight alone, the table and the picture.
"""
