"""Changes of a module that keep what it computes."""
