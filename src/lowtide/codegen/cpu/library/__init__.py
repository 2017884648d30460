"""Kernels of the operations that work on whole arrays: sorting, scattering, transforms, solving."""
