"""Asking for what the end of a product reads and writes, before a tile of its sums is multiplied.

A row of a tile is a short run of each array, far from the next one, so that processors do not see
what comes. The multiplications of the tile leave time for it.
"""

from __future__ import annotations

from typing import Final

from lowtide.codegen.arrays import Array, strides
from lowtide.codegen.cpu.contraction.behind import SAME, forms_behind
from lowtide.codegen.cpu.contraction.finishing import Epilogue
from lowtide.codegen.cpu.contraction.geometry import Geometry
from lowtide.codegen.cpu.contraction.prefetching import LINE, ask_to_write
from lowtide.codegen.elements.operands import bind
from lowtide.ir import Instruction, Opcode, Shape
from lowtide.llvm.function import Function, Integer

FAR_BYTES: Final = 256 << 10
"""Bytes of an array that comes from a second cache or beyond."""

_IN_ORDER: Final = (Opcode.RESHAPE, Opcode.BITCAST, Opcode.BROADCAST)
"""What keeps the order of elements on the way from a product to a result."""


def ask_for_finish(
    fn: Function,
    finish: Epilogue,
    shape: Geometry,
    batch: Integer,
    place: tuple[Integer, Integer],
    size: tuple[int, int],
) -> None:
    """Write what asks for the elements of results, and of arrays beside them, at a tile.

    `place` is its first row and column, `size` how many of each it has. Only arrays are asked for
    that lie as the product does.
    """
    if not finish.lies_as(shape):
        return
    row, column = place
    rows, columns = size
    first = fn.add(fn.mul(fn.add(fn.mul(batch, shape.m), row), shape.n), column)
    results, read = _arrays(fn, finish)
    for array in (*results, *read):
        nbytes = array.shape.element_type.nbytes
        there = fn.gep(array.pointer, fn.mul(first, nbytes))
        for number in range(rows):
            run = fn.gep(there, number * shape.n * nbytes)
            if array in results:
                ask_to_write(fn, run, columns * nbytes)
                continue
            for at in (*range(0, columns * nbytes, LINE), columns * nbytes - 1):
                fn.prefetch(fn.gep(run, at), 1)


def _arrays(fn: Function, finish: Epilogue) -> tuple[list[Array], list[Array]]:
    """The results of a kernel that lie as its product, and what is read beside the product."""
    dot, bound = finish.dot, bind(fn, finish.kernel)
    forms = forms_behind(dot)
    results = [
        array
        for x, array in zip(finish.results, bound.results, strict=True)
        if _lies_alike(array.shape, dot)
        and all(step.opcode in _IN_ORDER for step in forms.get(x, SAME) or ())
    ]
    if finish.kernel is dot:
        return results, []
    multiplied = _sources(dot)
    read = [
        array
        for parameter, array in bound.frame.arrays.items()
        if parameter not in multiplied and _lies_alike(array.shape, dot)
    ]
    return results, read


def _lies_alike(shape: Shape, dot: Instruction) -> bool:
    """Whether an array has the elements of a product one after the other, and lies far."""
    dense = dot.shape.element_count * shape.element_type.nbytes
    if shape.element_count != dot.shape.element_count or dense < FAR_BYTES:
        return False
    steps = [s for s, d in zip(strides(shape), shape.dimensions, strict=True) if d > 1]
    return steps == sorted(steps, reverse=True)


def _sources(dot: Instruction) -> set[Instruction]:
    """What the operands of a product are made of in its computation."""
    found: set[Instruction] = set()
    stack = list(dot.operands)
    while stack:
        x = stack.pop()
        if x not in found:
            found.add(x)
            stack += x.operands
    return found
