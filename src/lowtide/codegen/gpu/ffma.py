"""Products of matrices by multiplications and additions of single numbers, as f32 means f32.

A block brings tiles of both operands to shared memory; each thread adds up a square of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from lowtide.codegen.elements.loops import multiplied
from lowtide.codegen.elements.values import Element
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.threads import SharedArray, barrier
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

_SIDE: Final = 16
"""Threads along each side of a tile."""

_STEP: Final = 4
"""Numbers side by side that a thread takes from shared memory at once."""

_SMALL: Final = TileSizes(64, 64, 16, _SIDE * _SIDE, 2)
_LARGE: Final = TileSizes(128, 128, 8, _SIDE * _SIDE, 1)

_ENOUGH: Final = 128
"""Large tiles, at least, that are made rather than small ones: one for each multiprocessor."""

_LEAST_WORK: Final = 1 << 15
_LEAST_SIDE: Final = 8
"""Multiplications, and rows and columns, that are worth a tile."""

_TYPES: Final = frozenset(
    {ElementType.F32, ElementType.F64, ElementType.S32, ElementType.S64, ElementType.U32}
)
"""Types of sums that tiles have."""


def plan_ffma(instruction: Instruction, target: Target) -> GpuPlan | None:
    """Return how a product runs by tiles of single numbers, None where it is none or small."""
    product = product_of(instruction, target)
    if product is None or product.total not in _TYPES or not is_worth_tiles(product):
        return None
    return GpuPlan("ffma", lambda: _code(product))


def is_worth_tiles(product: GpuProduct) -> bool:
    """Whether a product has as many rows, columns and multiplications as tiles are made for."""
    rows, columns, depth = (
        prod(product.layout.rows),
        prod(product.layout.columns),
        prod(product.layout.depth),
    )
    work = prod(product.layout.batch) * rows * columns * depth
    return min(rows, columns) >= _LEAST_SIDE and work >= _LEAST_WORK


def _sizes_for(product: GpuProduct) -> TileSizes:
    if product.total.nbytes > 4:
        return _SMALL
    down = prod(product.layout.rows) // _LARGE.rows
    across = prod(product.layout.columns) // _LARGE.columns
    return _LARGE if down * across * prod(product.layout.batch) >= _ENOUGH else _SMALL


def _code(product: GpuProduct) -> GpuCode:
    writer = _FfmaWriter(product)
    writer.write()
    kernel = writer.kernel
    constants = [kernel.done(), *[x.definition for x in writer.tiles]]
    return GpuCode((kernel.fn,), (kernel.launch,), "\n".join([x for x in constants if x]))


class _FfmaWriter:
    def __init__(self, product: GpuProduct) -> None:
        self.product = product
        self.sizes = _sizes_for(product)
        self.kernel = TileKernel(product, self.sizes, lanes_of(product, _STEP))
        type_ = register_type(product.total)
        self.widths = (self.sizes.rows + _STEP, self.sizes.columns + _STEP)
        self.tiles = [
            SharedArray(name, type_, width * self.sizes.depth)
            for name, width in zip(("left", "right"), self.widths, strict=True)
        ]

    def write(self) -> None:
        """Write the kernel: the sums, then what is made of them."""
        kernel, sizes = self.kernel, self.sizes
        fn, elements = kernel.fn, kernel.elements
        down = fn.div(kernel.thread, _SIDE)
        across = fn.rem(kernel.thread, _SIDE)
        counts = sizes.rows // _SIDE, sizes.columns // _SIDE
        zero = Value(("0.0" if self.product.total.is_floating else "0",), self.product.total)
        carry = [(zero.llvm_type, zero.name)] * (counts[0] * counts[1])
        with elements.scopes.loop(0, prod(self.product.layout.depth), sizes.depth, carry) as loop:
            barrier(fn)
            for side in (0, 1):
                self._bring(side, loop.index)
            barrier(fn)
            sums = list(loop.values)
            for step in range(sizes.depth):
                sums = self._added(sums, step, down, across, counts)
            loop.next = sums
        self._finish(loop.results, down, across, counts)

    def _bring(self, side: int, depth: Integer) -> None:
        """Load a tile of an operand, each thread some of it: side by side as they lie in memory."""
        kernel, sizes, fn = self.kernel, self.sizes, self.kernel.fn
        width = sizes.rows if side == 0 else sizes.columns
        start = kernel.row if side == 0 else kernel.column
        deep_first = self.product.lies_along_depth(side)
        inner = sizes.depth if deep_first else width
        for place in kernel.places(side):
            first, second = fn.rem(place, inner), fn.div(place, inner)
            free, deep = (second, first) if deep_first else (first, second)
            name = kernel.summed(side, fn.add(start, free), fn.add(depth, deep))
            self.tiles[side].store(fn, fn.add(fn.mul(deep, self.widths[side]), free), name)

    def _added(
        self,
        sums: Sequence[str],
        step: int,
        down: Integer,
        across: Integer,
        counts: tuple[int, int],
    ) -> list[str]:
        """The sums of a thread after the products of one step along the depth."""
        kernel, total = self.kernel, self.product.total
        level = kernel.elements.scopes.level
        left = self._taken(0, step, down, counts[0])
        right = self._taken(1, step, across, counts[1])
        found = []
        for i, a in enumerate(left):
            for j, b in enumerate(right):
                x = Element((Value((a,), total),), level)
                y = Element((Value((b,), total),), level)
                before = Value((sums[i * counts[1] + j],), total)
                (after,) = multiplied(kernel.elements, before, x, y)
                found.append(after.name)
        return found

    def _taken(self, side: int, step: int, number: Integer, count: int) -> list[str]:
        """The numbers of a tile that a thread needs at a step, `_STEP` side by side."""
        fn, tile = self.kernel.fn, self.tiles[side]
        found = []
        for part in range(count // _STEP):
            place = fn.add(fn.mul(number, _STEP), step * self.widths[side] + part * _SIDE * _STEP)
            found += _lanes(fn, tile, place)
        return found

    def _finish(
        self, sums: Sequence[str], down: Integer, across: Integer, counts: tuple[int, int]
    ) -> None:
        kernel, fn = self.kernel, self.kernel.fn
        group = max(kernel.lanes, 1)
        for i in range(counts[0]):
            row = fn.add(kernel.row, fn.add(fn.mul(down, _STEP), _spread(i)))
            for j in range(0, counts[1], group):
                column = fn.add(kernel.column, fn.add(fn.mul(across, _STEP), _spread(j)))
                first = i * counts[1] + j
                kernel.finish(row, column, sums[first : first + group])


def _spread(number: int) -> int:
    """Where the numbers of a thread lie in the tile, behind its first ones."""
    return number // _STEP * _SIDE * _STEP + number % _STEP


def _lanes(fn: Function, tile: SharedArray, place: Integer) -> list[str]:
    """Numbers side by side in shared memory, loaded by 16 bytes at a time at most."""
    vector = f"<{_STEP} x {tile.type}>"
    whole = tile.load(fn, place, vector, 16)
    return [fn.op(f"extractelement {vector} {whole}, i64 {i}") for i in range(_STEP)]
