"""Parts that the ops of several frameworks share: NumPy's conventions on top of the builder."""
