"""Where a plan of XLA's loses memory, compared with our own plan of the same module."""
