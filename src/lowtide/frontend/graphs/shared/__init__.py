"""What the ops of several frameworks are made of: NumPy's conventions on top of the builder."""
