"""Kernels for CPUs: vectors, tiles, threads."""
