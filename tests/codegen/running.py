"""Running one kernel by itself: no compiler and no runtime around it, units in any order."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from lowtide.codegen.kernel import KernelPlan
from lowtide.ir.literal import Array
from lowtide.llvm.function import module_text
from lowtide.llvm.library import Library
from lowtide.llvm.machine import KernelCompiler
from lowtide.llvm.target import Target

SIGNATURE = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_int64] * 3)
FILL = 0xFF
"""Bytes around operands and in scratch: as numbers they are NaN, which no sum loses."""
GUARD = 256


def guarded(array: Array) -> tuple[Array, Array]:
    """A copy aligned to its elements only, and the bytes around it."""
    size = array.dtype.itemsize
    room = np.full(array.nbytes + 2 * GUARD + 64 + size, FILL, np.uint8)
    start = GUARD + -(room.ctypes.data + GUARD) % 64 + size
    found = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found, room


@lru_cache(maxsize=64)
def object_code(text: str, target: Target) -> bytes:
    """Machine code, which tests of other values have from the same text."""
    return KernelCompiler(target).object_code(text)


class Kernel:
    """A plan as machine code of this process."""

    def __init__(self, plan: KernelPlan, target: Target) -> None:
        self.plan = plan
        code = plan.emit()
        self.text = module_text(code.functions, code.globals)
        self.phases = code.phases
        names = [x.function for x in code.phases]
        self.library = Library([object_code(self.text, target)], names, target)

    def __call__(self, arrays: Sequence[Array], step: int = 3) -> None:
        """Run on operands, then results; `step` pieces at once, last to first, by two threads."""
        buffers = (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])
        nbytes = self.plan.shared_bytes + 2 * self.plan.thread_bytes
        scratch, room = guarded(np.full(nbytes + 64, FILL, np.uint8))
        there = scratch.ctypes.data + -scratch.ctypes.data % 64
        for phase in self.phases:
            function = SIGNATURE(self.library[phase.function])
            for number, first in enumerate(reversed(range(0, phase.units, step))):
                last = min(first + step, phase.units)
                function(ctypes.addressof(buffers), there, first, last, number % 2)
        first = there - room.ctypes.data
        around = np.concatenate([room[:first], room[first + nbytes :]])
        assert (around == FILL).all(), "a kernel wrote beyond its scratch"
