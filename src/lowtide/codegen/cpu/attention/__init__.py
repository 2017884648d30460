"""Kernels of attention: scores of a block of rows stay in scratch."""
