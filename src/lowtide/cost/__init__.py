"""How long kernels and modules take, by the figures of a machine."""
