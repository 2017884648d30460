"""XLA's analyses: aliases, dataflow, orderings, live ranges."""
