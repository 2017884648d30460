"""Times of kernels and modules, by the figures of a machine."""
