"""Hot loops in a small subset of Python, compiled with LLVM on first use."""

from lowtide.search.kernels.kernel import Kernel, in_python, kernel
from lowtide.search.kernels.records import Array, FloatArray, KernelError, Record

__all__ = ["Array", "FloatArray", "Kernel", "KernelError", "Record", "in_python", "kernel"]
