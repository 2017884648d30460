"""Hot loops of searches: native functions that Python calls as machine code."""

from lowtide.native.frozen import Array, FloatArray, Record
from lowtide.search.kernels.kernel import Kernel, in_python, kernel

__all__ = ["Array", "FloatArray", "Kernel", "Record", "in_python", "kernel"]
