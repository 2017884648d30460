"""Kernels of graphics processors: templates, and the generic forms that any instruction has."""
