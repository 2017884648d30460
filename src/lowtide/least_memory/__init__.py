"""Bound on the memory of every compilation of a program: docs/optimality.md has the definition."""

from lowtide.least_memory.bound import BindingMoment, LeastMemory, least_memory

__all__ = ["BindingMoment", "LeastMemory", "least_memory"]
