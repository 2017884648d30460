"""Asking for memory ahead of reading it, where a matrix is read across its rows.

Each step reads a short run of another row. Processors follow runs, not what lies far apart, so the
lines of a later step are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lowtide.codegen.contraction.operands import Side, element_bytes
from lowtide.llvm.function import Function, Integer

AHEAD_BYTES: Final = 4096
"""How many bytes are read before what was asked for: about what comes in the time that a line
takes to arrive."""

LINE: Final = 64
"""Bytes that come at once."""


def ahead_of(
    fn: Function, side: Side, column: Integer, first: Integer, columns: int, *, beside: bool = False
) -> Callable[[Integer], None]:
    """Return what asks for the columns from `column` on of later steps, called with each step.

    Steps count the elements of k from `first` on. With `beside` the columns behind these of the
    same step are asked for. Nothing is asked for where the operand is not read as it lies, or does
    not lie along its columns.
    """
    along = None if side.view is None else side.view.single(side.roles.inner)
    across = None if side.view is None else side.view.single(side.roles.free)
    if along is None or across != 1:
        return lambda step: None
    size = element_bytes(side.type)
    steps = 0 if beside else max(1, AHEAD_BYTES // (columns * size))
    place = fn.add(column, columns) if beside else column
    start = fn.add(fn.mul(fn.add(first, steps), along), place)
    base = fn.gep(side.address(fn, "%batch"), fn.mul(start, size))
    fn.declare("declare void @llvm.prefetch.p0(ptr, i32 immarg, i32 immarg, i32 immarg)")

    def ask(step: Integer) -> None:
        there = fn.gep(base, fn.mul(step, along * size))
        for line in range(0, columns * size, LINE):
            fn.do(f"call void @llvm.prefetch.p0(ptr {fn.gep(there, line)}, i32 0, i32 3, i32 1)")

    return ask
