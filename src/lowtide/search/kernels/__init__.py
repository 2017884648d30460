"""Hot loops in a small subset of Python, compiled with LLVM on first use."""

from lowtide.search.kernels.kernel import (
    Array,
    FloatArray,
    Kernel,
    KernelError,
    in_python,
    kernel,
)

__all__ = ["Array", "FloatArray", "Kernel", "KernelError", "in_python", "kernel"]
