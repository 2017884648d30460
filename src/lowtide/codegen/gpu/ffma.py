"""Products of matrices by multiplications and additions of single numbers, as f32 means f32.

A block brings tiles of both operands to shared memory; each thread adds up a square of the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from lowtide.codegen.elements.elements import Elements
from lowtide.codegen.elements.loops import multiplied
from lowtide.codegen.elements.parts import converted
from lowtide.codegen.elements.values import Element, Mask
from lowtide.codegen.gpu.kernel import GpuCode, GpuPlan
from lowtide.codegen.gpu.product import GpuProduct, TileKernel, TileSizes, lanes_of, product_of
from lowtide.codegen.gpu.threads import SharedArray, barrier
from lowtide.codegen.gpu.tiles import Made, OperandTile, pieces_of
from lowtide.codegen.indexing import Index
from lowtide.codegen.value import Value, register_type
from lowtide.ir import ElementType, Instruction
from lowtide.llvm.function import Function, Integer
from lowtide.llvm.target import Target

_SIDE: Final = 16
"""Threads along each side of a tile."""

_STEP: Final = 4
"""Numbers side by side that a thread takes from shared memory at once."""

_SMALL: Final = TileSizes(64, 64, 16, _SIDE * _SIDE, 2, 1)
_SIZES: Final = (
    TileSizes(128, 128, 8, _SIDE * _SIDE, 1, 1),
    TileSizes(256, 64, 16, _SIDE * _SIDE, 1, 1),
    TileSizes(64, 256, 16, _SIDE * _SIDE, 1, 1),
    _SMALL,
)

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
    sides = prod(product.layout.rows), prod(product.layout.columns)
    return min(sides) >= _LEAST_SIDE and product.count >= _LEAST_WORK


def _code(product: GpuProduct) -> GpuCode:
    writer = _FfmaWriter(product)
    writer.write()
    kernel = writer.kernel
    constants = [kernel.done(), *[x.array.definition for x in writer.tiles]]
    return GpuCode((kernel.fn,), (kernel.launch,), "\n".join([x for x in constants if x]))


class _FfmaWriter:
    def __init__(self, product: GpuProduct) -> None:
        self.product = product
        self.sizes = product.sizes_among(_SIZES if product.total.nbytes <= 4 else [_SMALL])
        self.kernel = TileKernel(product, self.sizes, lanes_of(product, _STEP))
        self.widths = (self.sizes.rows + _STEP, self.sizes.columns + _STEP)
        self.tiles = [self._tile(side, name) for side, name in enumerate(("left", "right"))]

    def _tile(self, side: int, name: str) -> OperandTile:
        total, width = self.product.total, self.widths[side]
        array = SharedArray(name, register_type(total), width * self.sizes.depth)
        pieces = pieces_of(self.product, side, self.sizes, total.nbytes)
        return OperandTile(self.kernel, side, pieces, array, (1, width))

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
            for tile in self.tiles:
                tile.bring(loop.index, self._made(tile.side))
            barrier(fn)
            sums = list(loop.values)
            for step in range(sizes.depth):
                sums = self._added(sums, step, down, across, counts)
            loop.next = sums
        self._finish(loop.results, down, across, counts)

    def _made(self, side: int) -> Made:
        """What writes elements of an operand in the type of the sums."""

        def made(elements: Elements, index: Index, mask: Mask | None) -> str:
            product, frame = self.product, self.kernel.bound.frame
            found = elements.all_at(product.hero.operands[side], index, frame, mask)
            value = converted(elements, found, product.total).values[0]
            return (elements.vectors.splat(value) if elements.lanes > value.lanes else value).name

        return made

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
        fn, tile = self.kernel.fn, self.tiles[side].array
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
