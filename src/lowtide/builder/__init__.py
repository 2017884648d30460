"""Building modules in Python, as XlaBuilder does in C++."""

from lowtide.builder.builder import Builder
from lowtide.builder.values import BuildError, Op, SubComputation, Value

__all__ = ["BuildError", "Builder", "Op", "SubComputation", "Value"]
